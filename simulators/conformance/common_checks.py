"""Checks of what every device says of itself: clauses 1, 3.1, 3.2, 3.4, 3.5 and 4.4."""

from __future__ import annotations

import re
from itertools import pairwise

from dollyd.simulators.conformance.findings import Tally
from dollyd.simulators.conformance.forms import mask_of
from dollyd.simulators.conformance.limits import (
    ANSWER_NS,
    LEAST_NS,
    MOST_NS,
    STALE_NS,
)
from dollyd.simulators.conformance.record import Line, Record
from dollyd.simulators.conformance.seen import (
    ours,
)
from dollyd.wire.stamp import NS_PER_MS

_LATE_HEARTBEATS = 20
"""One heartbeat in so many may be late: the host's own machine has other things to do too."""
KINDS = {
    "WH": {"WHEEL", "BOULE"},
    "BD": {"BALL"},
    "MW": {"MONEY"},
    "DC": {"DICE"},
    "OD": {"ODDS"},
    "CN": {"CONSOLE"},
}


def no_restart(record: Record) -> Tally:
    """1.3: the boot id stays, unless a person was asked to switch the device off."""
    tally = Tally()
    asked_ns = min((at_ns for name, at_ns in record.steps if name == "power"), default=None)
    for before, after in pairwise(record.of("HEL")):
        if after.opening > 1 or after.boot > before.boot:
            restarted = after.boot > before.boot and (asked_ns is None or after.at_ns < asked_ns)
            tally.look(after, "another boot id: the device has restarted" if restarted else "")
    return tally


def hello_when_asked(record: Record) -> Tally:
    """3.1, 4.1: within half a second of each `QRY`."""
    tally = Tally()
    hellos = record.of("HEL")
    for said in record.told("QRY"):
        limit_ns = said.at_ns + ANSWER_NS
        if any(said.at_ns <= line.at_ns <= limit_ns for line in hellos):
            tally.seen += 1
        elif record.lines and record.end_ns >= limit_ns:
            tally.missing(limit_ns, f"no HEL within 0.5 s of the QRY at {record.clock(said.at_ns)}")
    return tally


def hello_tells(record: Record) -> Tally:
    """3.1: what stands in it."""
    tally = Tally()
    first: tuple[str, ...] = ()
    for line in record.of("HEL"):
        fields = line.sentence.fields if line.sentence is not None else ()
        first = first or fields[:6]
        tally.look(line, _hello_trouble(record, fields, first))
    return tally


def _hello_trouble(record: Record, fields: tuple[str, ...], first: tuple[str, ...]) -> str:
    if len(fields) < 7:
        return f"{len(fields)} fields behind the sequence number, 7 are needed"
    version, kind, _, _, serial, _, boot = fields[:7]
    if version != "1":
        return f"version {version!r} of the protocol"
    if kind not in KINDS[record.talker]:
        return f"kind is {kind!r}, {' or '.join(sorted(KINDS[record.talker]))} is right for {record.talker}"
    if not serial:
        return "no serial number"
    if not 1 <= len(boot) <= 16:
        return f"boot id {boot!r}, 1 to 16 characters are needed"
    return "" if fields[:6] == first else "not the device that said HEL before"


def hello_at_boot(record: Record) -> Tally:
    """3.1: after the power was off, the first sentence is a `HEL` with another boot id."""
    tally = Tally()
    for name, asked_ns in record.steps:
        boots = [line for line in record.of("HEL") if line.at_ns > asked_ns]
        if name == "power":
            before = [line.boot for line in record.of("HEL") if line.at_ns <= asked_ns]
            for line in [line for line in boots if line.boot > max(before, default=0)][:1]:
                tally.look(line, "")
            if not tally.seen and boots:
                tally.look(boots[-1], "the boot id from before the loss of power")
    return tally


def heartbeat(record: Record) -> Tally:
    """3.2: every 0.5 s, 20 % more or less, or at once where the state changes; never missing three times."""
    tally = Tally()
    late: list[tuple[Line, int]] = []
    for stretch in record.stretches():
        beats = [line for line in stretch if line.message == "STA"]
        bad = [line.at_ns for line in stretch if line.clause]
        changed = False
        for before, after in pairwise(beats):
            wait_ns, changed_before = after.at_ns - before.at_ns, changed
            changed = before.field(0) != after.field(0)
            if any(before.at_ns <= at_ns <= after.at_ns for at_ns in bad):
                continue
            tally.seen += 1
            early = wait_ns < LEAST_NS and not changed and not changed_before
            if early or wait_ns > MOST_NS:
                late.append((after, wait_ns))
            if wait_ns >= STALE_NS:
                tally.look(after, f"{wait_ns / NS_PER_MS:.0f} ms after the one before")
    if len(late) > max(2, tally.seen // _LATE_HEARTBEATS):
        line, wait_ns = late[0]
        tally.look(line, f"{wait_ns / NS_PER_MS:.0f} ms after the one before, as {len(late)} others")
    if record.lines and not record.of("STA") and record.end_ns - record.opened_ns[0] > STALE_NS:
        tally.missing(record.end_ns, "no STA at all")
    return tally


def faults(record: Record) -> Tally:
    """3.4."""
    tally = Tally()
    for line in record.of("FLT"):
        fields = () if line.sentence is None else line.sentence.fields
        sound = (
            len(fields) > 2
            and re.fullmatch(r"(\d{4})?", fields[0])
            and re.fullmatch("[0-9A-F]{1,4}", fields[1])
        )
        tally.look(line, "" if sound else "not of the form FLT,seq,game,mask,text")
    return tally


def same_flags(record: Record) -> Tally:
    """3.4: the next `STA` carries the mask of the `FLT`."""
    tally = Tally()
    for stretch in record.stretches():
        told: int | None = None
        for line in stretch:
            if line.clause:
                told = None
            elif line.message == "FLT":
                told = mask_of(record.talker, line)
            elif line.message == "STA" and told is not None:
                differs = mask_of(record.talker, line) != told
                tally.look(line, f"FLT has told {told:02X}" if differs else "")
                told = None
    return tally


def events_once(record: Record) -> Tally:
    """3.5."""
    tally = Tally()
    known: set[tuple[int, bytes]] = set()
    for line in record.of("EVT"):
        tally.look(line, "an event is not repeated" if (line.boot, line.raw) in known else "")
        known.add((line.boot, line.raw))
    return tally


def nothing_else_needed(record: Record) -> Tally:
    """4.4: it worked, and the host said nothing but `QRY`, `ACK` and `DRW`."""
    return Tally(seen=sum(one.acked_ns is not None for one in ours(record)))
