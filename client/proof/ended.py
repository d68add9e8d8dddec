"""The rounds of a chain that have ended, as far as they are remembered, and what a correction must say."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from dollyd.client.proof.told import Told, memory_of
from dollyd.daemon.core.games.spec import Memory
from dollyd.wire.record import FINAL_KINDS, Kind

ROUNDS_KEPT = 100_000
"""Rounds remembered, the newest ones: two hundred bytes each."""
LOOKED_BACK = 256
"""Rounds among which the result before a corrected one is looked for: there may be voids between."""
NOT_COMPARED = "the correction was not held against the round that it corrects, whose records are from before"


class Ended(Struct, array_like=True, frozen=True, gc=False):
    """How a round ended, as it counts now."""

    seq: int
    """Its newest final record or correction."""
    kind: str
    finding: bytes
    played: bytes
    stakes: bytes
    """Empty where they are not known."""
    memory: str


class EndedRounds:
    """Takes final records and corrections in order, and holds each correction against what was there."""

    def __init__(self, *, whole: bool = True, rounds_kept: int = ROUNDS_KEPT) -> None:
        self.stakes = b""
        """Limits of the session, by its digest; empty while that is not known."""
        self._whole = whole
        self._rounds_kept = rounds_kept
        self._rounds: dict[int, Ended] = {}
        self._same: dict[bytes, bytes] = {}
        """Digests met, each kept once: most rounds end as another one did."""

    def end(self, number: int, seq: int, told: Told) -> None:
        """A round ended by its final record."""
        stakes = told.stakes or self.stakes
        self._keep(number, Ended(seq, told.kind, told.finding, told.played, stakes, told.memory))

    def correct(self, number: int, seq: int, told: Told) -> tuple[str, bool]:
        """Take a correction; gives what is wrong, and whether there was something to hold it against."""
        ended = self._rounds.get(number)
        why = _why_not(told) or (_difference(told, ended) if ended is not None else "")
        stakes = ended.stakes if ended is not None else told.stakes
        self._keep(number, Ended(seq, told.kind, told.finding, told.played, stakes, told.memory))
        return why, ended is not None

    def memory_before(self, number: int) -> Memory | None:
        """What the game remembered when a round began, by the last result before it; None where not known."""
        oldest = next(iter(self._rounds), number)
        for before in range(number - 1, max(number - 1 - LOOKED_BACK, oldest - 1, 0), -1):
            ended = self._rounds.get(before)
            if ended is None:
                return None
            if ended.kind == Kind.RESULT:
                return memory_of(ended.memory)
        return () if self._whole and oldest == 1 else None

    def lose(self) -> None:
        """Records are missing: what they said of rounds, sessions and corrections is not known."""
        self.stakes, self._whole = b"", False
        self._rounds.clear()

    def newest(self, count: int) -> dict[int, Ended]:
        """The last rounds."""
        numbers = list(self._rounds)[-count:]
        return {number: self._rounds[number] for number in numbers}

    def resume(self, rounds: dict[int, Ended]) -> None:
        """Go on with rounds that `newest` gave before."""
        for number, ended in sorted(rounds.items()):
            self._keep(number, ended)

    def _keep(self, number: int, ended: Ended) -> None:
        known = self._same
        if len(known) > self._rounds_kept:
            known.clear()
        same = {
            name: known.setdefault(value, value)
            for name in ("finding", "played", "stakes")
            if (value := getattr(ended, name))
        }
        self._rounds[number] = msgspec.structs.replace(ended, **same)
        if len(self._rounds) > self._rounds_kept:
            del self._rounds[next(iter(self._rounds))]


def _why_not(told: Told) -> str:
    """What is wrong with a correction by itself."""
    if told.kind not in FINAL_KINDS or told.before_kind not in FINAL_KINDS:
        return "it names neither a result nor a void"
    element = "outcome" if told.kind == told.before_kind else "verdict"
    if told.element != element:
        return f"its element is {told.element!r}, not {element!r}"
    if told.kind == told.before_kind == Kind.VOID:
        return "the round is void already"
    return ""


def _difference(told: Told, ended: Ended) -> str:
    """Where a correction does not say what the chain says of the round."""
    if told.corrects != ended.seq:
        return f"it corrects record {told.corrects}; the round ended with record {ended.seq}"
    if told.before != ended.finding:
        return f"what it takes away is not what record {ended.seq} says"
    if told.played != ended.played:
        return "its setting, gaming date or odds are not those of the round"
    if ended.stakes and told.stakes != ended.stakes:
        return "its stakes are not those of the round"
    return ""
