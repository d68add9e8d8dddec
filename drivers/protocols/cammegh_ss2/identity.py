"""Which SlingShot 2 this is: what is asked of it while it is closed, and what follows from its answers.

A line of this interface has no checksum, so an answer that is not that of the table's wheel is a doubt at
first: the question is put once more, and only a second such answer, or none, makes it the wrong device. What
another console's question brings to light is taken as it is, and asked when the wheel is closed. A question
that stays without an answer is put again when the wheel is closed after its next games. Sections are those of
the device document, part 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_ANSWERS = {"V": "V", "T Z": "T z", "T G": "T g", "O": "O"}
"""The questions, in order, and the key of the reply to each (section 7)."""
_TELLS = {
    "V": ("firmware", "banner"),
    "T Z": ("pockets",),
    "T G": ("game_modes",),
    "O": ("mode", "status_output"),
}
"""What the answer to each question tells."""
_ROUNDS_MAX = 3
"""So often is a question without an answer put on one connection; old firmware knows not all of them."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What is known, asked and doubted of the wheel; a frozen value."""

    known: tuple[tuple[str, str], ...] = ()
    doubted: tuple[str, ...] = ()
    """Keys of which the answer was not that of the bound wheel; they are being asked again."""
    wrong: tuple[str, ...] = ()
    """Keys that are not those of the bound wheel; a right answer takes them away."""
    to_ask: tuple[str, ...] = tuple(_ANSWERS)
    """Questions for the time in which the wheel is closed, in order."""
    asked_at_ns: int = -1
    """When the first of them was put, -1 = not yet."""
    unanswered: tuple[str, ...] = ()
    rounds: int = 1

    @property
    def asking(self) -> bool:
        """An answer is awaited."""
        return self.asked_at_ns >= 0

    @property
    def suspect(self) -> tuple[str, ...]:
        """Keys that speak against this wheel: with one of them no game counts."""
        return tuple(sorted({*self.wrong, *self.doubted}))

    def anew(self) -> Identity:
        """On a new connection all is asked again; what speaks against the wheel is not forgotten."""
        return Identity(wrong=self.suspect)

    def asked(self, at_ns: int) -> Identity:
        """The first question was put."""
        return replace(self, asked_at_ns=at_ns)

    def replied(self, key: str, told: bool) -> Identity:
        """A reply came, and `told` something; if it is the answer awaited, that may have to be put again."""
        if not self.asking or _ANSWERS[self.to_ask[0]] != key:
            return self
        if not told:
            return replace(self, asked_at_ns=-1, rounds=self.rounds + 1) if self._again else self.given_up()
        settled = not set(_TELLS[self.to_ask[0]]) & set(self.doubted)
        return replace(self, to_ask=self.to_ask[1:] if settled else self.to_ask, asked_at_ns=-1)

    def given_up(self) -> Identity:
        """No answer came; a doubt stands."""
        return replace(
            self,
            to_ask=self.to_ask[1:],
            asked_at_ns=-1,
            unanswered=(*self.unanswered, self.to_ask[0]),
            doubted=(),
            wrong=self.suspect,
        )

    def played(self) -> Identity:
        """A game began: what stayed without an answer is asked when the wheel is closed again."""
        if not self.unanswered or not self._again:
            return self
        again = tuple(question for question in self.unanswered if question not in self.to_ask)
        return replace(self, to_ask=self.to_ask + again, unanswered=(), rounds=self.rounds + 1)

    @property
    def _again(self) -> bool:
        return self.rounds < _ROUNDS_MAX

    def told(self, key: str, value: str, wanted: str) -> Identity:
        """The wheel said this of itself; a value in doubt is not yet known."""
        asked = self.asking and key in _TELLS[self.to_ask[0]]
        if value != wanted and asked and key not in self.suspect:
            return replace(self, doubted=(*self.doubted, key))
        doubted, wrong, to_ask = set(self.doubted) - {key}, set(self.wrong) - {key}, self.to_ask
        if value != wanted:
            wrong.add(key)
            if not asked and key not in self.wrong:
                to_ask += tuple(q for q, keys in _TELLS.items() if key in keys and q not in to_ask)
        known = tuple(sorted((dict(self.known) | {key: value}).items()))
        return replace(
            self, known=known, doubted=tuple(sorted(doubted)), wrong=tuple(sorted(wrong)), to_ask=to_ask
        )

    def question(self) -> bytes:
        """The line that puts the first question; nothing where there is none."""
        return b"*%s\r\n" % self.to_ask[0].encode("ascii") if self.to_ask else b""
