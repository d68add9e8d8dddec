"""A dice camera that speaks TLP/1 (talker `DC`), and the dice that it looks at.

    camera: $DCSTA,seq,state,game,n,flags                                     every period
    camera: $DCRES,seq,game,n,face,...,confidence,...,flags,image             every period until acknowledged

State 2 dice at rest in cup or hand, 3 moving, 5 read. The dice belong to a `DiceTable`, not to the camera:
two cameras that share one see the same throws, each with its own eyes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from dollyd.simulators.faults import Switchboard
from dollyd.simulators.tlp_device import TlpDevice, TlpOptions

FLAG_COCKED, FLAG_STACKED, FLAG_COUNT, FLAG_MOVING = 0x01, 0x02, 0x04, 0x08
FLAG_COVERED, FLAG_FROZEN, FLAG_FOREIGN, FLAG_NOT_SHAKEN = 0x10, 0x20, 0x40, 0x80
FLAG_OUTSIDE, FLAG_APART = 0x100, 0x200
_LOOK_S = 0.2
_STABLE_S = 0.3
"""Equal pictures for so long before the camera believes them."""
_APART_S = 1.2
_LOW_CONFIDENCE = (0.20, 0.55)
_THROWS = {
    "dice-cocked": FLAG_COCKED,
    "dice-stacked": FLAG_STACKED,
    "dice-one-missing": FLAG_COUNT,
    "dice-foreign": FLAG_FOREIGN,
    "dice-not-shaken": FLAG_NOT_SHAKEN,
    "dice-outside": FLAG_OUTSIDE,
    "dice-apart": FLAG_APART,
}
"""Faults of a throw: every camera sees them."""
_UNREADABLE = FLAG_COCKED | FLAG_STACKED | FLAG_COUNT
"""With one of these flags one die, `odd_die`, has no face."""


@dataclass(frozen=True, slots=True)
class Throw:
    """One throw as it really was. `flags`: what is wrong with it, by the masks of protocol 9.3."""

    faces: tuple[int, ...]
    rests_s: tuple[float, ...]
    """Nominal seconds from the release until each die lies still."""
    flags: int
    odd_die: int
    """Index of the die that is cocked, stacked, missing, outside or late."""
    start_ns: int


class DiceTable:
    """The dice and whoever throws them. `script` are the faces of the first throws."""

    def __init__(
        self, dice: int, rng: Random, *, attended: bool = True, script: Iterable[tuple[int, ...]] = ()
    ) -> None:
        self.dice = dice
        self.throws: list[Throw] = []
        self._rng = rng
        self._attended = attended
        self._boards: list[Switchboard] = []
        self._due_ns: int | None = None
        self._script: deque[tuple[int, ...]] = deque()
        for faces in script:
            self.will_show(faces)

    def will_show(self, faces: tuple[int, ...]) -> None:
        """Script a throw to come; ValueError where these dice cannot show it."""
        if len(faces) != self.dice or not all(1 <= face <= 6 for face in faces):
            raise ValueError(f"{self.dice} dice cannot show {faces}; give {self.dice} faces of 1 to 6")
        self._script.append(faces)

    def watched_by(self, faults: Switchboard) -> None:
        """Faults of a throw may be set on any camera that looks at it."""
        self._boards.append(faults)

    def look(self, index: int, now_ns: int, second_ns: int, *, asked: bool) -> Throw | None:
        """The throw number `index` once it is made. The first look makes its thrower get ready."""
        if index == len(self.throws):
            if self._due_ns is None:
                self._due_ns = now_ns + round(self._rng.uniform(6.0, 10.0) * second_ns)
            if asked or (self._attended and now_ns >= self._due_ns):
                self._due_ns = None
                self.throws.append(self._throw(now_ns))
        return self.throws[index] if index < len(self.throws) else None

    def _throw(self, now_ns: int) -> Throw:
        rng = self._rng
        faces = self._script.popleft() if self._script else tuple(rng.randint(1, 6) for _ in range(self.dice))
        rests = [rng.uniform(0.9, 2.2) for _ in range(self.dice)]
        odd = rng.randrange(self.dice)
        flags = 0
        for board in self._boards:
            if fault := board.take(*_THROWS):
                flags |= _THROWS[fault]
        if flags & FLAG_APART:
            rests[odd] += _APART_S
        return Throw(faces, tuple(rests), flags, odd, now_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiceCameraOptions(TlpOptions):
    """One camera; the number of dice is that of its table."""

    model: str = "DC2"
    serial: str = "DC000002"


@dataclass(slots=True)
class SeenThrow:
    """What really lay there, and what this camera's result said of it."""

    game: str
    faces: tuple[int, ...]
    """As the dice really lie."""
    read: tuple[str, ...] = ()
    """As the camera said; empty texts where it read nothing."""
    outcome: str = "aborted"
    """`completed`: a result was sent."""
    flags: int = 0
    """Of throw and camera together."""
    start_ns: int = 0
    end_ns: int = 0
    boot: int = 0


class DiceCamera(TlpDevice):
    """The model. Without a `table` of its own it gets two dice that nobody else looks at."""

    def __init__(
        self, options: DiceCameraOptions, rng: Random, now_ns: int, table: DiceTable | None = None
    ) -> None:
        super().__init__("DC", "DICE", options, rng, now_ns, "dice-camera", "tlp-game")
        self.played: list[SeenThrow] = []
        self.table = table or DiceTable(2, rng, attended=options.attended)
        self.table.watched_by(self.faults)
        self._next_throw = 0
        self._image = ""
        self._before: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._seen: SeenThrow | None = None
        self.power_on(now_ns)

    def status(self) -> tuple[str, ...]:
        """`state,game,n,flags`."""
        return str(self.state), self.game, str(self.table.dice), self.mask

    def life(self) -> Iterator[float]:
        """Closed, opened, then throw after throw."""
        self.state, self._next_throw = 6, len(self.table.throws)
        yield 2.0
        self.state = 1
        yield 1.0
        while True:
            yield from self._game()

    def abandon(self) -> None:
        """The throw under way is not read."""
        if self._seen is not None:
            self._record("aborted", ())

    def _game(self) -> Iterator[float]:
        self.count_up()
        self.state = 2
        self._start_asked = False
        while (throw := self._look()) is None:
            yield _LOOK_S
        self._next_throw += 1
        self.state = 3
        self._seen = SeenThrow(
            self.game, throw.faces, flags=throw.flags, start_ns=throw.start_ns, boot=self.boots
        )
        if self.faults.take("dice-stuck-moving"):
            yield 3600.0
        too_early = self.faults.take("dice-still-moving") is not None
        rest_s = max(throw.rests_s) + _STABLE_S - self.elapsed_s(throw.start_ns)
        yield max(0.0, 0.6 if too_early else rest_s)
        self._read(throw, FLAG_MOVING if too_early else 0)
        yield self.rng.uniform(4.0, 6.0)
        self.clear_flags()

    def _look(self) -> Throw | None:
        return self.table.look(self._next_throw, self.now_ns, self.second_ns, asked=self._start_asked)

    def _read(self, throw: Throw, flags: int) -> None:
        """The result: what the dice show, through the eyes of this camera."""
        flags |= throw.flags
        faces = [str(face) for face in throw.faces]
        confidences = [f"{self.rng.uniform(0.93, 0.99):.2f}" for _ in faces]
        if flags & _UNREADABLE:
            faces[throw.odd_die], confidences[throw.odd_die] = "", "0.00"
        image = f"{self.rng.getrandbits(32):08X}"
        flags, image = self._through_faults(faces, confidences, flags, image)
        self.state = 5
        if flags:
            self.raise_flag(flags, "THROW")
        count = str(self.table.dice + (1 if self.faults.take("dice-other-number") else 0))
        self.announce_result(count, *faces, *confidences, self.mask, image)
        self._before, self._image = (tuple(faces), tuple(confidences)), image
        if self._seen is not None:
            self._seen.flags |= flags
        self._record("completed", tuple(faces))

    def _through_faults(
        self, faces: list[str], confidences: list[str], flags: int, image: str
    ) -> tuple[int, str]:
        """What a fault makes of the reading, in place; gives flags and picture."""
        odd = self.rng.randrange(len(faces))
        match self.faults.take(*_READINGS):
            case "dice-unread":
                confidences[odd] = f"{self.rng.uniform(*_LOW_CONFIDENCE):.2f}"
            case "dice-misread":
                faces[odd] = self.rng.choice([face for face in "123456" if face != faces[odd]])
            case "dice-off-die":
                faces[odd] = "7"
            case "dice-covered":
                faces[odd], confidences[odd] = "", "0.00"
                flags |= FLAG_COVERED
            case "dice-empty":
                faces[:], confidences[:] = [""] * len(faces), [""] * len(faces)
            case "dice-frozen" | "dice-frozen-unseen" as fault:
                if self._image:
                    faces[:], confidences[:] = self._before
                    image = self._image
                flags |= FLAG_FROZEN if fault == "dice-frozen" else 0
            case _:
                pass
        return flags, image

    def _record(self, outcome: str, read: tuple[str, ...]) -> None:
        seen, self._seen = self._seen, None
        if seen is None:
            return
        seen.outcome, seen.read, seen.end_ns = outcome, read, self.now_ns
        self.played.append(seen)


_READINGS = (
    "dice-unread",
    "dice-misread",
    "dice-off-die",
    "dice-covered",
    "dice-empty",
    "dice-frozen",
    "dice-frozen-unseen",
)
"""Faults of one camera's reading."""
