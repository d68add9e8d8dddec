"""Checks of games, and of what is repeated until it is acknowledged: clauses 3.3, 3.6, 4.1, 4.2 and 5."""

from __future__ import annotations

import re
from itertools import pairwise
from statistics import median

from dollyd.simulators.conformance.findings import Tally
from dollyd.simulators.conformance.forms import mask_of
from dollyd.simulators.conformance.limits import (
    LATE_NS,
    LEAST_NS,
    MOST_NS,
    PERIOD_NS,
    SOON_NS,
    STALE_NS,
    UNASKED_NS,
)
from dollyd.simulators.conformance.record import Line, Record
from dollyd.simulators.conformance.seen import (
    announced,
    games,
    next_game,
    ours,
)
from dollyd.wire.stamp import NS_PER_MS

_STEPS = {"12", "16", "23", "26", "34", "36", "45", "46", "51", "52", "56", "61", "62"}
"""From one state to the next; states that a kind does not have are told by 2.5."""
_MOVING = 0x08


def repeated(record: Record) -> Tally:
    """3.3, 11.1: every 0.5 s until it is acknowledged."""
    tally = Tally()
    for one in announced(record):
        until_ns = min(one.waits_until_ns, one.disturbed_ns or one.waits_until_ns)
        times = [one.first.at_ns, *(line.at_ns for line in one.again if line.at_ns <= until_ns)]
        if until_ns - one.first.at_ns < LATE_NS:
            continue
        waits = [
            after - before
            for before, after in pairwise(times)
            # What the host asks for may come besides, and so sooner, but never later.
            if after - before > MOST_NS or not _asked_for(record, before, after)
        ]
        usual_ns = median(waits) if waits else PERIOD_NS
        if len(times) == 1 or until_ns - times[-1] >= LATE_NS:
            tally.look(one.first, "not repeated, though it was not acknowledged")
        else:
            wrong = not LEAST_NS <= usual_ns <= MOST_NS
            tally.look(one.first, f"repeated every {usual_ns / NS_PER_MS:.0f} ms" if wrong else "")
    return tally


def _asked_for(record: Record, before_ns: int, after_ns: int) -> bool:
    """Whether the host has said anything between two repetitions, or just before them."""
    return any(before_ns - SOON_NS <= said.at_ns <= after_ns for said in record.said)


def silent_once_acknowledged(record: Record) -> Tally:
    """3.3, 11.1: and not after that, unless a draw is asked for once more."""
    tally = Tally()
    for one in announced(record):
        if one.acked_ns is None or one.until_ns - one.acked_ns < UNASKED_NS:
            continue
        draws = [
            said.at_ns
            for said in record.told("DRW", one.acked_ns)
            if said.sentence is not None and said.sentence.fields[0] == one.name
        ]
        until_ns = min(draws, default=one.until_ns)
        after = [line for line in one.heard_after(one.acked_ns) if line.at_ns < until_ns]
        tally.seen += 1
        for line in after[:1]:
            tally.look(line, f"repeated after its ACK at {record.clock(one.acked_ns)}")
    return tally


def result_once(record: Record) -> Tally:
    """3.3: one `RES` a game; a repetition is no new sentence."""
    tally = Tally()
    begins = [line.at_ns for line in record.of("STA") if line.field(0) == "2"]
    for before, after in pairwise(ours(record)):
        again = (
            before.name == after.name
            and not _still_moving(before.first)
            and not any(before.first.at_ns < at_ns < after.first.at_ns for at_ns in begins)
        )
        tally.look(after.first, "a second RES for this game, with another number" if again else "")
    return tally


def result_at_rest(record: Record) -> Tally:
    """3.3: a `RES` comes in state 5, and no game reaches state 5 without one."""
    tally = Tally()
    beats = record.of("STA")
    for one in ours(record):
        game = one.name
        after = [line for line in beats if 0 <= line.at_ns - one.first.at_ns <= PERIOD_NS * 6 // 5]
        if after and after[0].field(1) == game and not _still_moving(one.first):
            moving = after[0].field(0) in {"2", "3", "4"}
            tally.look(one.first, f"a result in state {after[0].field(0)}" if moving else "")
    for seen in games(record):
        if seen.whole and seen.followed and "5" in seen.states and seen.result is None:
            tally.look(seen.heartbeats[-1], f"state 5, but no RES for game {seen.number}")
    return tally


def _still_moving(line: Line) -> bool:
    """A camera that has read too early says so, and reads again (9.4)."""
    if line.sentence is None or line.sentence.talker != "DC":
        return False
    return bool((mask_of("DC", line) or 0) & _MOVING)


def result_kept(record: Record) -> Tally:
    """3.3: the last `RES` goes on after a loss of power, byte for byte."""
    tally = Tally()
    for name, asked_ns in record.steps:
        results = [line for line in record.of("RES") if line.at_ns >= asked_ns]
        boots = [line for line in record.of("HEL") if line.at_ns > asked_ns]
        if name != "power" or not results or not boots or boots[-1].boot == results[0].boot:
            continue
        before = [line for line in results if line.boot < boots[-1].boot]
        after = [line for line in results if line.boot == boots[-1].boot]
        if before and after:
            tally.look(after[0], "" if after[0].raw == before[-1].raw else "not the RES from before")
        elif before and record.end_ns - boots[-1].at_ns > STALE_NS:
            tally.missing(record.end_ns, f"no RES of game {before[-1].field(0)} after the loss of power")
    return tally


def result_when_asked(record: Record) -> Tally:
    """4.1: `QRY` brings the `RES` that waits, at once."""
    tally = Tally()
    for one in announced(record):
        for said in record.told("QRY", one.first.at_ns + 1, one.waits_until_ns - SOON_NS):
            answered = any(0 <= line.at_ns - said.at_ns <= SOON_NS for line in one.again)
            tally.look(one.first, "" if answered else f"not sent for the QRY at {record.clock(said.at_ns)}")
    return tally


def only_the_right_acknowledgement(record: Record) -> Tally:
    """4.2: an `HCACK` with the right number but another game, or round, is none."""
    tally = Tally()
    for one in announced(record):
        wrong_ns = one.disturbed_ns
        if wrong_ns is None or one.waits_until_ns - wrong_ns < LATE_NS * 9 // 10:
            continue
        if any(line.at_ns <= wrong_ns for line in one.again):
            obeyed = not one.heard_after(wrong_ns - SOON_NS)
            tally.look(one.first, "not repeated after an ACK for something else" if obeyed else "")
    return tally


def game_numbers(record: Record) -> Tally:
    """3.6: +1 a game, and none is used twice."""
    tally = Tally()
    new = {one.first.raw for one in ours(record)}
    current = ""
    played: set[str] = set()
    # The game of a ball detector begins with the ball, all others with the bets (7.1).
    begin, under_way = ("3", {"5"}) if record.talker == "BD" else ("2", {"3", "4", "5"})
    for line in record.of("STA", "EVT", "RES"):
        game = line.field(1 if line.message == "STA" else 0)
        if not re.fullmatch(r"\d{4}", game) or (line.message == "RES" and line.raw not in new):
            continue
        new.discard(line.raw)  # its repetitions may come in the next game
        ahead = not current or game in {current, next_game(current)}
        reused = line.message == "STA" and line.field(0) == begin and game in played
        why = "" if ahead else f"the game before was {current}"
        tally.look(line, "a game number is used again" if reused else why)
        if line.message == "STA":
            current = game
            played |= {game} if line.field(0) in under_way else set()
    return tally


def way_of_a_game(record: Record) -> Tally:
    """5.1."""
    tally = Tally()
    steps = _STEPS if record.talker == "WH" else _STEPS | {"35"}
    unmoved = "126" if record.talker == "BD" else "16"
    for stretch in record.stretches():
        before: Line | None = None
        for line in stretch:
            if line.clause:
                before = None
            if line.message != "STA":
                continue
            if before is not None:
                tally.look(line, _step_trouble(before, line, steps, unmoved))
            before = line
    return tally


def _step_trouble(before: Line, after: Line, steps: set[str], unmoved: str) -> str:
    step = before.field(0) + after.field(0)
    same_game = before.field(1) == after.field(1)
    if step[0] == step[1]:
        return "" if same_game or step[0] in unmoved else f"another game in state {step[0]}"
    return "" if step in steps else f"state {step[0]} and then {step[1]}"
