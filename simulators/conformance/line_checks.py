"""Checks of sentences as such: clause 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dollyd.simulators.conformance.findings import Tally
from dollyd.simulators.conformance.forms import misfit
from dollyd.simulators.conformance.limits import (
    STALE_NS,
    UNASKED_NS,
)
from dollyd.simulators.conformance.record import Line, Record
from dollyd.simulators.conformance.seen import (
    ours,
)
from dollyd.simulators.tlp import SEQ_MODULUS

MESSAGES = {
    "WH": {"STA", "EVT", "RES"},
    "BD": {"STA", "EVT", "RES"},
    "MW": {"STA", "EVT", "RES"},
    "DC": {"STA", "RES"},
    "OD": {"STA", "RES"},
    "CN": {"STA", "EVT"},
}


def talker(record: Record) -> Tally:
    """2.1."""
    tally = Tally()
    known = MESSAGES[record.talker] | {"HEL", "FLT"}
    for line in record.lines:
        if line.sentence is not None:
            wrong = line.sentence.talker != record.talker or line.message not in known
            tally.look(line, "no message of this kind of device" if wrong else "")
        elif line.clause == "2.1":
            tally.look(line, line.trouble)
    return tally


def form_of_lines(clause: str) -> Callable[[Record], Tally]:
    """2.2 and 2.3: what the reader of the lines has found."""

    def check(record: Record) -> Tally:
        tally = Tally()
        for line in record.lines:
            if line.sentence is not None or line.clause == clause:
                tally.look(line, line.trouble if line.clause == clause else "")
        return tally

    return check


@dataclass(slots=True)
class _Numbers:
    """What a boot has shown so far of its numbering."""

    newest: Line | None = None
    announced: dict[int, bytes] = field(default_factory=dict)
    spoilt: int = 0
    """Lines since then that were no sentences: their numbers cannot be known."""

    def follows(self, line: Line) -> bool:
        """It has the next number, as far as can be known."""
        if self.newest is None or line.opening != self.newest.opening:
            return True
        return 1 <= (line.seq - self.newest.seq) % SEQ_MODULUS <= 1 + self.spoilt

    def take(self, line: Line, *, waits: bool) -> None:
        """A new sentence."""
        self.newest, self.spoilt = line, 0
        if waits:
            self.announced[line.seq] = line.raw


def numbering(record: Record) -> Tally:
    """2.4: +1 for each new sentence; a repetition keeps every byte. Old results keep their old numbers."""
    tally = Tally()
    new = {(one.first.boot, one.first.raw) for one in ours(record)}
    boots: dict[int, _Numbers] = {}
    events: set[bytes] = set()
    for line in record.lines:
        here = boots.setdefault(line.boot, _Numbers())
        if line.sentence is None:
            here.spoilt += 1
            if line.clause == "2.4":
                tally.look(line, line.trouble)
            continue
        waits = line.message == "RES" or (record.talker, line.message) == ("CN", "EVT")
        if line.message == "EVT" and not waits:
            if line.raw in events:
                continue  # 3.5 tells of it
            events.add(line.raw)
        if waits and line.seq in here.announced:
            changed = here.announced[line.seq] != line.raw
            tally.look(line, "a repetition with other bytes" if changed else "")
        elif here.follows(line) or not waits or (line.boot, line.raw) in new:
            before = -1 if here.newest is None else here.newest.seq
            tally.look(line, "" if here.follows(line) else f"the number before was {before}")
            here.take(line, waits=waits)
    return tally


def places(record: Record) -> Tally:
    """2.5."""
    tally = Tally()
    for line in record.of("STA", "EVT", "RES"):
        if line.sentence is not None and line.sentence.talker == record.talker:
            tally.look(line, misfit(record.talker, line.message, line.sentence.fields))
    return tally


def silent_on_bad_checksum(record: Record) -> Tally:
    """2.6: no `HEL` as the answer to a `QRY` with a wrong checksum."""
    tally = Tally()
    for said in record.told("wrong-crc"):
        answers = [line for line in record.of("HEL") if said.at_ns <= line.at_ns <= said.at_ns + UNASKED_NS]
        tally.seen += 1
        for line in answers[:1]:
            tally.look(line, "an answer to a sentence with a wrong checksum")
    return tally


def alive_after_rubbish(record: Record) -> Tally:
    """2.6: what is no sentence changes nothing."""
    tally = Tally()
    for said in record.told("rubbish"):
        lives = any(0 < line.at_ns - said.at_ns <= STALE_NS for line in record.of("STA"))
        if lives:
            tally.seen += 1
        elif record.end_ns > said.at_ns + STALE_NS:
            tally.missing(said.at_ns + STALE_NS, "silent since the host has sent rubbish")
    return tally
