"""The truth of simulated wheels against the journal.

Every game that came to its end is a result, or the journal says why not:

    result               its round has a result, with the number that fell
    void: RULE           its round was unresolved by this rule (mostly `restart-in-mid-round`), then void
    gap: no round open   named in a `gap` record: joined in mid-game, or the table was blocked
    gap: daemon down     it ended between the last record before a kill and the `gap` record after it
    port not open        it ended before the daemon, just started, had opened the port
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.support.daemon import Told
from tests.support.simulated_table import SimulatedTable

from dollyd.daemon.core.stamp import NS_PER_S
from dollyd.simulators.ss2.options import PlayedGame

NEAR_NS = 3 * NS_PER_S
"""Records so close to an unexplained game are told with it."""


class SoakError(Exception):
    """A promise was broken; the text says which."""


def check(condition: bool, promise: str) -> None:
    """Raise `SoakError` naming the broken promise."""
    if not condition:
        raise SoakError(promise)


class Watched(SimulatedTable):
    """A table that remembers when its wheel's port was open: the last word on what a daemon could hear."""

    def __init__(self, directory: Path, name: str, seed: int) -> None:
        super().__init__(directory, name, seed=seed)
        self.name = name
        self.absent_ns: list[int] = []
        """Times at which nobody had the port open."""
        self.wheel_device.observe = self._look

    def _look(self) -> None:
        if not self.wheel_port.host_is_there():
            self.absent_ns.append(self.now_ns)


def counter_of(game_ref: str) -> int:
    """The wheel's counter in `wheel/SESSION/COUNTER#ATTEMPT`."""
    return int(game_ref.rsplit("/", 1)[1].split("#", 1)[0])


def game_of(games: Sequence[PlayedGame], game_ref: str, before_ns: int) -> PlayedGame | None:
    """The latest game of that counter that began before a moment; counters come again after 256 games."""
    fitting = [g for g in games if g.counter == counter_of(game_ref) and g.start_ns <= before_ns]
    return max(fitting, key=lambda game: game.start_ns, default=None)


def explain(table: Watched, records: Sequence[Told]) -> Counter[str]:
    """Why each completed game of a table is, or is not, a result. Raises `SoakError`."""
    why: dict[int, str] = {}
    games = table.wheel.played
    for opened in (r for r in records if r.kind == "round"):
        game = game_of(games, opened.body["game_ref"], opened.time["monotonic_ns"])
        check(game is not None, f"{table.name}: round {opened.round} is of a game that was played")
        if game is not None:
            check(game.start_ns not in why, f"{table.name}: game {game.counter} has one round")
            why[game.start_ns] = _verdict(table.name, game, [r for r in records if r.round == opened.round])
    down_ns: list[tuple[int, int]] = []
    for before, record in pairwise(records):
        if record.kind != "gap":
            continue
        if record.body["cause"] == "daemon-down":
            down_ns.append((before.time["monotonic_ns"], record.time["monotonic_ns"]))
            continue
        check(len(record.body["games"]) == record.body["count"], f"{table.name}: short gaps name all games")
        for game_ref in record.body["games"]:
            game = game_of(games, game_ref, record.time["monotonic_ns"])
            if game is not None:
                why.setdefault(game.start_ns, "gap: no round open")
    return Counter(
        why.get(game.start_ns) or _unheard(table, game, down_ns, records) for game in table.completed
    )


def _verdict(table: str, game: PlayedGame, records: Sequence[Told]) -> str:
    result = next((record for record in records if record.kind == "result"), None)
    if result is None:
        rules = [record.body["rule"] for record in records if record.kind in ("unresolved", "void")]
        check(bool(rules) or game.outcome != "completed", f"{table}: round of game {game.counter} has an end")
        return f"void: {rules[0]}" if rules else "still open"
    number, pocket = result.body["outcome"]["pocket"], str(game.pocket).strip()
    check(number == pocket, f"{table}: round {result.round} is {number}, but the ball fell into {pocket}")
    return "result"


def _unheard(
    table: Watched, game: PlayedGame, down_ns: Sequence[tuple[int, int]], records: Sequence[Told]
) -> str:
    if any(since <= game.end_ns <= until_ns for since, until_ns in down_ns):
        return "gap: daemon down"
    not_open = any(game.start_ns <= at <= game.end_ns for at in table.absent_ns)
    near = [
        f"  {(r.time['monotonic_ns'] - game.end_ns) / 1e9:+.3f} s  {r.seq} {r.kind} {r.round}"
        for r in records
        if abs(r.time["monotonic_ns"] - game.end_ns) < NEAR_NS
    ]
    check(not_open, "\n".join([f"{table.name}: game {game.counter} is explained; around its end:", *near]))
    return "port not open"


def check_odds(table: Watched, records: Sequence[Told]) -> None:
    """Every odds table in a result is the one that the box drew."""
    drawn = {draw.nonce: draw.table for draw in table.box.drawn}
    for record in records:
        if record.kind == "result":
            odds = record.body["odds"]
            check(
                drawn.get(odds["nonce"]) == odds["table"],
                f"round {record.round} has the table that was drawn",
            )
