"""What the lines of a record add up to: sentences that wait for an acknowledgement, and games."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from dollyd.simulators.conformance.limits import SOON_NS
from dollyd.simulators.conformance.record import Line, Record
from dollyd.simulators.tlp import SEQ_MODULUS

GAMES = 10_000


@dataclass(slots=True)
class Announced:
    """A `RES`, or the `EVT` of a console, and its repetitions within one stretch."""

    first: Line
    name: str
    """What an acknowledgement names."""
    until_ns: int
    """The end of the stretch, or a newer `RES` in its place."""
    again: list[Line] = field(default_factory=list)
    acked_ns: int | None = None
    disturbed_ns: int | None = None
    """When the host acknowledged something else instead."""

    def heard_after(self, at_ns: int) -> list[Line]:
        """Repetitions that cannot have been on their way at that time: to cross on the line is no fault."""
        return [line for line in self.again if line.at_ns > at_ns + SOON_NS]

    @property
    def waits_until_ns(self) -> int:
        """Until when it must be repeated."""
        return min(self.until_ns, self.acked_ns if self.acked_ns is not None else self.until_ns)


def announced(record: Record) -> list[Announced]:
    """Everything that waits for an acknowledgement, in the order in which it was first heard."""
    found: list[Announced] = []
    message, place = ("EVT", 1) if record.talker == "CN" else ("RES", 0)
    for stretch in record.stretches():
        last = stretch[-1]
        end_ns = record.end_ns if last is record.lines[-1] else last.at_ns
        here: dict[tuple[int, str], Announced] = {}
        newest: Announced | None = None
        for line in stretch:
            if line.message != message:
                continue
            key = (line.seq, line.field(place))
            if key in here:
                here[key].again.append(line)
                continue
            if newest is not None and message == "RES":
                newest.until_ns = line.at_ns
            newest = here[key] = Announced(line, line.field(place), end_ns)
            found.append(newest)
    for one in found:
        _acknowledged(record, one)
    return found


def _acknowledged(record: Record, one: Announced) -> None:
    seq = one.first.seq
    for what in ("ACK", "wrong-ack"):
        times = [
            said.at_ns
            for said in record.told(what, one.first.at_ns)
            if said.sentence is not None
            and said.sentence.seq == seq
            and (what == "wrong-ack" or said.sentence.fields == (one.name,))
        ]
        if what == "ACK":
            one.acked_ns = times[0] if times else None
        else:
            one.disturbed_ns = times[0] if times else None


def ours(record: Record) -> list[Announced]:
    """Those that were not left over from before the test, or from before the power went."""
    known: set[bytes] = set()
    kept: list[Announced] = []
    moved_ns = next((line.at_ns for line in record.of("STA") if line.field(0) == "3"), None)
    asked = {said.sentence.fields[0] for said in record.told("DRW") if said.sentence is not None}
    for one in announced(record):
        match record.talker:
            case "CN":
                new = True
            case "OD":
                new = one.name in asked
            case _:
                new = moved_ns is not None and one.first.at_ns >= moved_ns
        if new and one.first.raw not in known:
            kept.append(one)
        known.add(one.first.raw)
    return kept


@dataclass(slots=True)
class Game:
    """One game of the device, seen from its beginning within one stretch."""

    number: str
    heartbeats: list[Line]
    events: list[Line] = field(default_factory=list)
    result: Line | None = None
    whole: bool = True
    """Nothing was lost between its beginning and its result."""
    followed: bool = False
    """Another game has begun after it."""

    @property
    def states(self) -> str:
        """The states in order."""
        return "".join(line.field(0) for line in self.heartbeats)

    def of(self, name: str) -> list[Line]:
        """Its events of one name."""
        return [line for line in self.events if line.field(1) == name]


def games(record: Record) -> list[Game]:
    """All games that were seen from their beginning on."""
    found: list[Game] = []
    for stretch in record.stretches():
        here: Game | None = None
        newest, state = -1, ""
        for line in stretch:
            if line.sentence is None:
                if here is not None and here.result is None:
                    here.whole = False
                continue
            number = line.field(1 if line.message == "STA" else 0)
            ahead = (line.seq - newest) % SEQ_MODULUS if newest >= 0 else 1
            stray = line.message == "RES" and (here is None or number != here.number)  # its number is old
            if ahead == 1 or (ahead < SEQ_MODULUS // 2 and not stray):
                newest = line.seq
                if here is not None and here.result is None and ahead > 1:
                    here.whole = False
            if _begins(record.talker, line, state) and (here is None or number != here.number):
                if here is not None:
                    here.followed = True
                here = Game(number, [])
                found.append(here)
            state = line.field(0) if line.message == "STA" else state
            if here is None or number != here.number:
                continue
            if line.message == "STA":
                here.heartbeats.append(line)
            elif line.message == "EVT" and here.result is None and ahead:
                here.events.append(line)
            elif line.message == "RES" and here.result is None:
                here.result = line
    return found


def whole_games(record: Record) -> list[Game]:
    """Those of which nothing was lost."""
    return [game for game in games(record) if game.whole]


def _begins(talker: str, line: Line, state: str) -> bool:
    """A game begins with state 2; that of a ball detector with state 3 or its first lap (7.1)."""
    if talker != "BD":
        return line.message == "STA" and line.field(0) == "2"
    return state in {"2", "5"} and (line.message == "EVT" or (line.message, line.field(0)) == ("STA", "3"))


def number_of(text: str) -> int | None:
    """A whole number, None where it is not known."""
    return int(text) if text.isdecimal() else None


def next_game(number: str) -> str:
    """The number after this one (3.6)."""
    return f"{(int(number) + 1) % GAMES:04}"


def longest_run(sectors: list[int], count: int) -> tuple[int, int]:
    """The longest way of a money wheel in one direction: how many sectors, and in which direction."""
    best = (0, 0)
    run, direction = 0, 0
    for before, after in pairwise(sectors):
        now = 0 if (after - before) % count == 1 else 1
        run, direction = (run + 1 if now == direction else 1), now
        best = max(best, (run, direction), key=lambda way: way[0])
    return best
