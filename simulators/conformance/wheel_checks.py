"""Checks of wheels, ball detectors and money wheels: clauses 6 to 8."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from dollyd.simulators.conformance.findings import Tally
from dollyd.simulators.conformance.forms import whole_mask
from dollyd.simulators.conformance.limits import (
    SLACK_NS,
)
from dollyd.simulators.conformance.record import Line, Record
from dollyd.simulators.conformance.seen import (
    Game,
    longest_run,
    number_of,
    ours,
    whole_games,
)
from dollyd.simulators.layouts import american, european
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

_ON_PIN = 0x04


def no_early_number(record: Record) -> Tally:
    """6.1: the field after `game` stays empty."""
    tally = Tally()
    for line in record.of("STA"):
        early = line.field(2)
        tally.look(line, f"a number, {early!r}, in the heartbeat" if early else "")
    return tally


def counted_from_one(record: Record) -> Tally:
    """6.2, 7.2: `n` of laps and turns."""
    tally = Tally()
    for game in whole_games(record):
        for name in ("LAP", "REV"):
            for right, line in enumerate(game.of(name), 1):
                n = number_of(line.field(2))
                tally.look(line, "" if n == right else f"n is {line.field(2)!r}, {right} is right")
    return tally


def times_told(record: Record) -> Tally:
    """6.2, 7.2, 8.2: `ms` is what really passed since the event before, within 10 % over a whole game."""
    tally = Tally()
    for game in whole_games(record):
        for name, place in (("LAP", 3), ("REV", 3), ("PASS", 3)):
            events = game.of(name)
            if len(events) < 3:
                continue
            real_ns = events[-1].at_ns - events[0].at_ns
            told_ns = sum(int(line.field(place) or 0) for line in events[1:]) * NS_PER_MS
            off = abs(told_ns - real_ns) > real_ns // 10 + SLACK_NS
            why = f"{told_ns / NS_PER_S:.1f} s in all were told, {real_ns / NS_PER_S:.1f} s have passed"
            tally.look(events[-1], why if off else "")
    return tally


def laps_total(place: int) -> Callable[[Record], Tally]:
    """6.3, 7.3: the laps in `RES` are the `LAP` events of the game, where there are any."""

    def check(record: Record) -> Tally:
        tally = Tally()
        for game in whole_games(record):
            laps = len(game.of("LAP"))
            if game.result is not None and (laps or record.talker == "BD"):
                told = number_of(game.result.field(place))
                wrong = told is not None and told != laps
                tally.look(game.result, f"{told} laps, but {laps} events LAP" if wrong else "")
        return tally

    return check


def laps_at_drop(record: Record) -> Tally:
    """7.2: the laps in `DROP` are the `LAP` events of the game."""
    tally = Tally()
    for game in whole_games(record):
        for line in game.of("DROP"):
            laps = len(game.of("LAP"))
            wrong = number_of(line.field(2)) not in {None, laps}
            tally.look(line, f"{line.field(2)} laps, but {laps} events LAP" if wrong else "")
    return tally


def laps_shown(place: int) -> Callable[[Record], Tally]:
    """6.1, 7.1: the laps in `STA` are the `LAP` events so far, within the one that is being told."""

    def check(record: Record) -> Tally:
        tally = Tally()
        for game in whole_games(record):
            laps = game.of("LAP")
            for line in game.heartbeats if laps else ():
                so_far = sum(lap.at_ns <= line.at_ns for lap in laps)
                shown = number_of(line.field(place))
                off = line.field(0) in "34" and shown is not None and abs(shown - so_far) > 1
                tally.look(line, f"{shown} laps, but {so_far} events LAP" if off else "")
        return tally

    return check


def one_direction(record: Record) -> Tally:
    """7.3: `STA`, `DROP` and `RES` of a run tell one direction of the ball."""
    tally = Tally()
    for game in whole_games(record):
        if game.result is None:
            continue
        told = [line.field(3) for line in game.of("DROP")]
        told += [line.field(3) for line in game.heartbeats if line.field(0) in "35"]
        others = sorted({text for text in told if text} - {game.result.field(2)})
        why = f"direction {game.result.field(2)}, but {others[0]} was told before" if others else ""
        tally.look(game.result, why if game.result.field(2) else "")
    return tally


def pockets(record: Record) -> Tally:
    """6.3: a pocket has one number, that of the layout; a boule wheel names its pocket."""
    tally = Tally()
    orders = [european(), american()]
    boule = any(line.field(1) == "BOULE" for line in record.of("HEL"))
    numbers: dict[str, str] = {}
    for one in ours(record):
        number, pocket = one.first.field(1), one.first.field(6)
        if boule and not pocket:
            tally.look(one.first, "no pocket, which a boule wheel must give")
            continue
        other = numbers.setdefault(pocket, number) if pocket and number else number
        why = f"pocket {pocket} is {number} now and was {other} before"
        if other == number and pocket and not boule:
            orders = [order for order in orders if _has(order, pocket, number)]
            other = number if orders else ""
            why = f"pocket {pocket} is {number}: no layout from the reference mark on is so"
        tally.look(one.first, why if other != number else "")
    return tally


def _has(order: tuple[str, ...], pocket: str, number: str) -> bool:
    index = number_of(pocket)
    return index is not None and index < len(order) and order[index] == number


def heartbeat_sector(record: Record) -> Tally:
    """8.1: `STA` names the sector of the last pass, and always one in state 2."""
    tally = Tally()
    for stretch in record.stretches():
        sector = ""
        for line in stretch:
            if line.clause:
                sector = ""
            elif line.message == "EVT":
                sector = line.field(2)
            elif line.message == "STA" and line.field(0) == "2" and not line.field(2):
                tally.look(line, "no sector in state 2")
            elif line.message == "STA" and sector and line.field(2):
                wrong = line.field(2) != sector
                tally.look(line, f"sector {line.field(2)}, the last pass was {sector}" if wrong else "")
    return tally


def neighbours(record: Record) -> Tally:
    """8.2: each pass brings the next sector or the one before; N is the highest that was heard of."""
    tally = Tally()
    count = _sectors(record)
    for game in whole_games(record):
        for before, after in pairwise(game.of("PASS")):
            step = (int(after.field(2)) - int(before.field(2))) % count
            why = f"sector {after.field(2)} after {before.field(2)}, of {count}"
            tally.look(after, "" if step in {1, count - 1} else why)
    return tally


def money_result(record: Record) -> Tally:
    """8.3: the sector of the last pass, the direction and the turns of the longest way."""
    tally = Tally()
    count = _sectors(record)
    for game in whole_games(record):
        passes = game.of("PASS")
        if game.result is not None and len(passes) > 1:
            tally.look(game.result, _money_trouble(game, game.result, passes, count))
    return tally


def _money_trouble(game: Game, result: Line, passes: list[Line], count: int) -> str:
    sector, direction, turns, flags = (result.field(place) for place in (1, 2, 3, 4))
    last = passes[-1].field(2)
    if not sector and not (whole_mask(flags) or 0) & _ON_PIN:
        return "no sector, and no flag 04"
    if sector and sector != last:
        return f"sector {sector}, the last pass was {last}"
    stood = next((line.field(2) for line in game.heartbeats if line.field(2)), "")
    way = [int(text) for text in (stood, *(line.field(2) for line in passes)) if text]
    if any((after - before) % count not in {1, count - 1} for before, after in pairwise(way)):
        return ""  # 8.2 tells of it
    run, forward = longest_run(way, count)
    if direction and direction != str(forward):
        return f"direction {direction}, but the sectors passed in direction {forward}"
    told = number_of(turns)
    # Within one sector, and the hundredth that the total is rounded by.
    off = told is not None and abs(told * count - run * 100) > 100 + count
    return f"{turns} hundredths of a turn, but {run} of {count} sectors passed" if off else ""


def _sectors(record: Record) -> int:
    told = [number_of(line.field(2)) or 0 for line in record.of("STA", "EVT")]
    return max([2, *told])
