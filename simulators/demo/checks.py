"""What must have been seen of the roulette table for its demo to be a success: one literal table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dollyd.simulators.demo.evidence import PROOFS, Expectation, Record, Seen, lacking
from dollyd.simulators.demo.roulette import Game

Games: TypeAlias = tuple[Game, ...]


def _both_tables(seen: Seen[Games]) -> str:
    drawn = {record["body"]["odds"]["table"] for record in seen.records("result")}
    return lacking("result with odds table", {1, 2} - drawn)


def _relaunch(seen: Seen[Games]) -> str:
    tried_again = {r["round"] for r in seen.records("incident") if r["body"]["what"] == "relaunch"}
    if not tried_again:
        return "no incident `relaunch`"
    return "" if tried_again & _rounds(seen.records("result")) else "that round had no result"


def _device_fault(seen: Seen[Games]) -> str:
    rules = {record["body"]["rule"] for record in seen.records("void")}
    return lacking("void by rule", {"device-fault"} - rules)


def _unresolved(seen: Seen[Games]) -> str:
    lost = _rounds(r for r in seen.records("unresolved") if r["body"]["rule"] == "device-lost")
    if not lost:
        return "no round is unresolved by rule `device-lost`"
    closed = _rounds(r for r in seen.records("void") if r["body"]["rule"] == "unrecoverable")
    return lacking("void by rule `unrecoverable` of round", lost - closed)


def _play_went_on(seen: Seen[Games]) -> str:
    closed = [r["seq"] for r in seen.records("void") if r["body"]["rule"] == "unrecoverable"]
    back = [
        r["seq"]
        for r in seen.records("incident")
        if r["body"]["what"] == "device-back" and r["body"].get("device") == "wheel"
    ]
    if not back:
        return "no incident `device-back` of the wheel"
    later = [r["seq"] for r in seen.records("result") if closed and r["seq"] > closed[0]]
    return "" if later else "no result after the void"


def _outage(seen: Seen[Games]) -> str:
    played = {g.counter for g in seen.games if g.pocket and g.wheel_heard and not g.broker_up}
    if not played:
        return "the wheel finished no game while the broker was down"
    told = {_counter(record["body"]["evidence"]["game_ref"]) for record in seen.records("result")}
    # A game that a stalled computer spoilt is unresolved, broker or not: `_truth` wants that record.
    return "" if played & told else lacking("result of the wheel's game", played)


def _truth(seen: Seen[Games]) -> str:
    """Every game finished while the wheel was heard: its result, or a record that says why there is none."""
    results = {_counter(r["body"]["evidence"]["game_ref"]): r for r in seen.records("result")}
    explained = {
        _counter(r["body"]["evidence"]["game_ref"])
        for kind in ("void", "unresolved")
        for r in seen.records(kind)
    }
    explained |= {_counter(game) for r in seen.records("gap") for game in r["body"]["games"]}
    for game in seen.games:
        result = results.get(game.counter)
        if not game.pocket or not game.wheel_heard:
            continue
        if result is None and game.counter not in explained:
            return f"the wheel's game {game.counter} ({game.pocket}) is in no record"
        if result is not None and result["body"]["outcome"]["pocket"] != game.pocket:
            said = result["body"]["outcome"]["pocket"]
            return f"game {game.counter} fell into {game.pocket}, round {result['round']} says {said}"
    return "" if results else "no game has a result"


EXPECTATIONS: tuple[Expectation[Games], ...] = (
    ("results with odds table 1 and with odds table 2", _both_tables),
    ("a failed launch was told, tried again, and gave a result", _relaunch),
    ("a spin that the wheel gave up is void, by a written rule", _device_fault),
    ("a pulled cable left its round unresolved, and the rule closed it", _unresolved),
    ("the wheel came back and play went on", _play_went_on),
    ("results of games played while the broker was dead arrived", _outage),
    ("every game that the wheel finished has its number, or a record says why not", _truth),
    *PROOFS,
)


def _rounds(records: Iterable[Record]) -> set[int]:
    return {record["round"] for record in records}


def _counter(game_ref: str) -> int:
    """The wheel's counter in e.g. `wheel/1795978376230/012#2`."""
    return int(game_ref.rsplit("/", 1)[-1].split("#", 1)[0])
