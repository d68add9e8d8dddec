"""What must hold between the journal, an outside listener and the wheels. Pure: everything is handed in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

Record: TypeAlias = Mapping[str, Any]
"""A record's payload."""
FINAL = ("result", "void")
NEAR_S = 60.0
"""A game and a record of it are no further apart; a wheel's counter does not come again so soon."""


@dataclass(frozen=True, slots=True)
class Played:
    """A game as it really was; `number` is empty where the ball did not come to rest. Times: UTC, seconds."""

    counter: int
    number: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which the machine heard its wheels for certain. UTC, seconds."""

    since_s: float
    until_s: float


def lost(journal: Iterable[bytes], heard: Iterable[bytes]) -> list[str]:
    """Envelopes that left the machine and are not in its journal, byte for byte."""
    kept = set(journal)
    return [f"heard, not in the journal: {envelope[:60]!r}" for envelope in heard if envelope not in kept]


def doubled(records: Iterable[Record]) -> list[str]:
    """Rounds with two final records."""
    return [
        f"{_name(told)} has {len(finals)} final records"
        for told in _rounds(records)
        if len(finals := [one for one in told if one["kind"] in FINAL]) > 1
    ]


def interrupted(records: Sequence[Record]) -> list[Sequence[Record]]:
    """The rounds that a power cut ended: their records, when something else was written after it."""
    last_boot = records[-1]["time"]["boot"] if records else ""
    return [
        told
        for told in _rounds(records)
        if told[0]["time"]["boot"] != last_boot and not _settled_in(told, told[0]["time"]["boot"])
    ]


def wrongly_ended(records: Sequence[Record]) -> list[str]:
    """Interrupted rounds that are anything else than unresolved, and void afterwards."""
    wrong = []
    for told in interrupted(records):
        kinds = [one["kind"] for one in told]
        if "unresolved" not in kinds or "result" in kinds:
            wrong.append(f"{_name(told)} was interrupted, and is {' > '.join(kinds)}")
    return wrong


def untrue(records: Iterable[Record], played: Mapping[str, Sequence[Played]]) -> list[str]:
    """Results that are not what the wheel of the table played; of a table without one nothing is said."""
    wrong = []
    for one in records:
        if one["kind"] != "result" or one["table"] not in played:
            continue
        number = one["body"]["outcome"]["pocket"]
        game = _game(one["body"]["evidence"]["game_ref"], utc_s(one), played[one["table"]])
        if game is None or game.number != number:
            fell = "no such game" if game is None else f"it fell into {game.number or 'nothing'}"
            wrong.append(f"{one['table']} round {one['round']}: {number}, but {fell}")
    return wrong


def unexplained(
    records: Sequence[Record], played: Mapping[str, Sequence[Played]], windows: Iterable[Window]
) -> list[str]:
    """Games played to their end while the machine heard the wheel, of which the journal tells nothing."""
    told: dict[str, set[float]] = defaultdict(set)
    for one in records:
        body = one["body"]
        for ref in (body.get("game_ref"), *body.get("games", ())) if one["kind"] in ("round", "gap") else ():
            game = _game(ref, utc_s(one), played.get(one["table"], ())) if ref else None
            if game is not None:
                told[one["table"]].add(game.start_s)
    windows = tuple(windows)
    return [
        f"{table}: game {game.counter} ({game.number}) is in no record"
        for table, games in played.items()
        for game in games
        if game.number and game.start_s not in told[table]
        if any(window.since_s <= game.start_s and game.end_s <= window.until_s for window in windows)
    ]


def utc_s(record: Record) -> float:
    """When it was written."""
    text, _, fraction = str(record["time"]["utc"]).removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{text}+00:00").timestamp() + float(f"0.{fraction or 0}")


def _game(ref: str, at_s: float, games: Sequence[Played]) -> Played | None:
    """The game that `wheel/SESSION/COUNTER#ATTEMPT` means, told of at a time."""
    counter = int(ref.rsplit("/", 1)[1].split("#", 1)[0])
    near = [game for game in games if game.counter == counter and _apart_s(game, at_s) < NEAR_S]
    return min(near, key=lambda game: _apart_s(game, at_s), default=None)


def _apart_s(game: Played, at_s: float) -> float:
    return max(game.start_s - at_s, at_s - game.end_s, 0.0)


def _rounds(records: Iterable[Record]) -> list[list[Record]]:
    rounds: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for one in records:
        if one["round"] and one["kind"] in ("round", "bets-closed", "unresolved", *FINAL):
            rounds[one["chain"], one["round"]].append(one)
    return list(rounds.values())


def _settled_in(told: Sequence[Record], boot: str) -> bool:
    return any(one["kind"] in (*FINAL, "unresolved") and one["time"]["boot"] == boot for one in told)


def _name(told: Sequence[Record]) -> str:
    return f"{told[0]['table']} round {told[0]['round']}"
