"""Crash soak: `python -m tools.crash_soak`. Real daemon, real ports, real broker, and `kill -9` for both.

Simulated wheels and odds boxes play on while daemon and broker are killed at random moments and started
again. Afterwards the truth of the wheels is held against the journal: no wrong number, no round with two
ends, and every game that came to its end is a result, or the journal says why not:

    result               its round has a result, with the number that fell
    void: RULE           its round was unresolved by this rule (mostly `restart-in-mid-round`), then void
    gap: no round open   named in a `gap` record: joined in mid-game, or the table was blocked
    gap: daemon down     it ended between the last record before a kill and the `gap` record after it
    port not open        it ended before the daemon, just started, had opened the port

A subscriber that drops repeats by chain and `seq` must have heard every record of the journal, in order.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from random import Random

from tests.support.broker import Mosquitto, listening, until
from tests.support.daemon import Consumer, Daemon, Installation, Told, finals_by_round, journaled, verified
from tests.support.simulated_table import SimulatedTable

from dollyd.simulators.ss2.options import PlayedGame

TABLES = ("r1", "r2", "r3", "r4")
QUICK_AGAIN = 0.15
"""Chance that a restarted daemon is killed while it comes up."""
BROKER = "autosave_interval 5\nmax_queued_messages 0\n"
"""The subscriber must find all that was sent while it was away; what a full queue drops is not our theme."""
RUN_S = 3600.0
NEAR_NS = 3_000_000_000
SETTLE_S = 60.0


class SoakError(Exception):
    """A promise was broken; the text says which."""


def check(condition: bool, promise: str) -> None:
    """Raise `SoakError` naming the broken promise."""
    if not condition:
        raise SoakError(promise)


# --- the run -------------------------------------------------------------------------------------


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


class Soak:
    """Everything that runs, and what is done to it."""

    def __init__(self, arguments: argparse.Namespace, directory: Path, broker: Mosquitto) -> None:
        self.games: int = arguments.games
        self.random = Random(arguments.seed)
        self.broker = broker
        self.installation = Installation(directory, broker.address, TABLES)
        self.daemon = Daemon(self.installation)
        self.tables = [Watched(directory, name, arguments.seed) for name in TABLES]
        self.daemon_kills = self.broker_kills = 0

    @property
    def played(self) -> int:
        """Games that really came to their end."""
        return sum(len(table.completed) for table in self.tables)

    async def run(self, daemon_kills: int, broker_kills: int, consumer: Consumer) -> None:
        """Play and kill, then let things come to rest, with the daemon stopped in good order."""
        await self.daemon.started()
        await until(lambda: all(consumer.status("odds", table.name) == "ready" for table in self.tables), 20)
        for table in self.tables:
            table.play()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._kill_daemons(daemon_kills))
            tasks.create_task(self._kill_brokers(broker_kills))
            tasks.create_task(self._play_until(self.games))
        quiet_ns = self.tables[0].now_ns
        await until(
            lambda: all(self._results_since(consumer, t.name, quiet_ns) > 0 for t in self.tables), SETTLE_S
        )
        for table in self.tables:
            table.end_play()
        await until(lambda: not any(self._undecided(consumer, table.name) for table in self.tables), SETTLE_S)
        await until(lambda: len(consumer.records) == len(journaled(self.installation)), SETTLE_S)
        check(await self.daemon.stop() == 0, "the daemon stops with exit code 0")
        await until(lambda: len(consumer.records) == len(journaled(self.installation)), SETTLE_S)

    def _results_since(self, consumer: Consumer, table: str, mono_ns: int) -> int:
        return sum(r.table == table and r.time["monotonic_ns"] > mono_ns for r in consumer.of("result"))

    def _undecided(self, consumer: Consumer, table: str) -> bool:
        """Whether the last round is between "no more bets" and its end."""
        kinds = ("round", "bets-closed", "result", "void")
        return [r.kind for r in consumer.of(*kinds) if r.table == table][-1:] == ["bets-closed"]

    async def _play_until(self, games: int) -> None:
        await until(lambda: self.played >= games, RUN_S)

    def _moments(self, count: int) -> list[int]:
        """When to strike, in games played."""
        return sorted(self.random.randrange(1, self.games) for _ in range(count))

    async def _kill_daemons(self, count: int) -> None:
        for moment in self._moments(count):
            await self._play_until(moment)
            if self.daemon_kills >= count:
                return
            await asyncio.sleep(self.random.uniform(0, 0.5))
            await self._kill_daemon(self.random.uniform(0, 0.5))
            while self.daemon_kills < count and self.random.random() < QUICK_AGAIN:
                await asyncio.sleep(self.random.uniform(0, 0.8))
                await self._kill_daemon(0)
            await self.daemon.started()

    async def _kill_daemon(self, down_s: float) -> None:
        check(
            self.daemon.running, "the daemon ends only when it is killed:\n" + "\n".join(self.daemon.log[-9:])
        )
        self.daemon.kill()
        self.daemon_kills += 1
        await asyncio.sleep(down_s)
        self.daemon.start()

    async def _kill_brokers(self, count: int) -> None:
        for moment in self._moments(count):
            await self._play_until(moment)
            self.broker.kill()
            self.broker_kills += 1
            await asyncio.sleep(self.random.uniform(0, 1))
            await asyncio.to_thread(self.broker.start)
            await asyncio.sleep(self.random.uniform(0, 1))


# --- the truth against the journal ---------------------------------------------------------------


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


def judge(soak: Soak, consumer: Consumer) -> Counter[str]:
    """Everything that must hold at the end. Raises `SoakError` or AssertionError."""
    journal = journaled(soak.installation)
    reasons: Counter[str] = Counter()
    for table in soak.tables:
        own = [record for record in journal if record.table == table.name]
        heard = [record.envelope for record in consumer.records if record.table == table.name]
        check(heard == [record.envelope for record in own], f"{table.name}: subscriber and journal are equal")
        check_odds(table, own)
        reasons += explain(table, own)
    doubled = [where for where, kinds in finals_by_round(journal).items() if len(kinds) > 1]
    check(not doubled, f"a round has one end, but {doubled} have two")
    verified(soak.installation)
    return reasons


# --- the command ---------------------------------------------------------------------------------


async def soak(arguments: argparse.Namespace) -> int:
    """One run; prints the figures and gives the exit code."""
    began_s = time.monotonic()
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dollyd-soak-")))
        broker = stack.enter_context(Mosquitto(BROKER, persistence=True))
        listener = await stack.enter_async_context(listening(broker, "dolly/#"))
        broker.save()  # the subscriber's session is to outlive the first kill
        run = Soak(arguments, directory, broker)
        for table in run.tables:
            await stack.enter_async_context(table)
        stack.enter_context(run.daemon)
        consumer = Consumer(listener)
        failure = ""
        reasons: Counter[str] = Counter()
        try:
            await run.run(arguments.daemon_kills, arguments.broker_kills, consumer)
            reasons = judge(run, consumer)
        except* (SoakError, AssertionError) as group:
            failure = str(first_of(group))
        print_figures(arguments, run, consumer, reasons, time.monotonic() - began_s)
    print(f"NOT GOOD: {failure}" if failure else "good")
    return 1 if failure else 0


def first_of(error: BaseException) -> BaseException:
    """The first error that is no group."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def print_figures(
    arguments: argparse.Namespace, run: Soak, consumer: Consumer, reasons: Counter[str], took_s: float
) -> None:
    """What was done, and what became of the games."""
    print(f"seed {arguments.seed}: {took_s:.0f} s, {len(run.tables)} tables")
    print(f"  daemon killed {run.daemon_kills} times, broker killed {run.broker_kills} times")
    print(f"  {len(consumer.records)} records heard once, {consumer.repeats} repeats dropped")
    print(f"  {run.played} games played:")
    for reason, count in reasons.most_common():
        print(f"  {count:6}  {reason}")


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description="Kill daemon and broker at random, then prove that nothing broke."
    )
    parser.add_argument("--games", type=int, default=2000)
    parser.add_argument("--daemon-kills", type=int, default=50)
    parser.add_argument("--broker-kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    logging.getLogger("mqtt").setLevel(logging.CRITICAL)  # the listener's broken lines are what we make
    return asyncio.run(soak(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
