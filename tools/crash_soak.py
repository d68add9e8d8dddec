"""Crash soak: `python -m tools.crash_soak`. Real daemon, real ports, real broker, and `kill -9` for both.

Simulated wheels and odds boxes play on while daemon and broker are killed at random moments and started
again. Afterwards the truth of the wheels is held against the journal: no wrong number, no round with two
ends, and every game that came to its end is a result, or the journal says why not (see `tools.truth`).
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
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import psutil
from tests.support.broker import Mosquitto, listening, until
from tests.support.daemon import Consumer, Daemon, Installation, finals_by_round, journaled, verified
from tools.truth import SoakError, Watched, check, check_odds, explain

TABLES = ("r1", "r2", "r3", "r4")
QUICK_AGAIN = 0.15
"""Chance that a restarted daemon is killed while it comes up."""
BROKER = "autosave_interval 5\nmax_queued_messages 0\n"
"""The subscriber must find all that was sent while it was away; what a full queue drops is not our theme."""
UNPLUGGED_CPU = 0.02
UNPLUGGED_LINES = 3
BACK_S = 3.0
"""2 s to `ready` (design section 10), and what a busy machine may add."""
RUN_S = 3600.0
SETTLE_S = 60.0


# --- the run -------------------------------------------------------------------------------------


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
        self.unplugged_cpu = self.unplugged_lines = 0.0

    @property
    def played(self) -> int:
        """Games that really came to their end."""
        return sum(len(table.completed) for table in self.tables)

    async def run(self, daemon_kills: int, broker_kills: int, unplugged_s: float, consumer: Consumer) -> None:
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
        if unplugged_s:
            await self._unplug(unplugged_s, consumer)
        await until(lambda: len(consumer.records) == len(journaled(self.installation)), SETTLE_S)
        check(await self.daemon.stop() == 0, "the daemon stops with exit code 0")
        await until(lambda: len(consumer.records) == len(journaled(self.installation)), SETTLE_S)

    async def _unplug(self, seconds: float, consumer: Consumer) -> None:
        """Without any device the daemon rests: little CPU, few log lines, and quickly back (B1)."""
        process, lines = psutil.Process(self.daemon.pid), len(self.daemon.log)
        for table in self.tables:
            table.unplug()
        began_s, used_s = time.monotonic(), sum(process.cpu_times()[:2])
        await asyncio.sleep(seconds)
        self.unplugged_cpu = (sum(process.cpu_times()[:2]) - used_s) / (time.monotonic() - began_s)
        self.unplugged_lines = sum("device_" in line for line in self.daemon.log[lines:]) / 2 / len(TABLES)
        check(self.unplugged_cpu < UNPLUGGED_CPU, f"unplugged: {self.unplugged_cpu:.1%} CPU is little")
        check(self.unplugged_lines <= UNPLUGGED_LINES, f"unplugged: {self.unplugged_lines} lines are few")
        for table in self.tables:
            table.plug()
        await until(lambda: all(consumer.status("odds", name) == "ready" for name in TABLES), BACK_S)

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


# --- the judgement -------------------------------------------------------------------------------


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
            await run.run(arguments.daemon_kills, arguments.broker_kills, arguments.unplugged_s, consumer)
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
    print(f"  without devices: {run.unplugged_cpu:.2%} CPU, {run.unplugged_lines:.1f} log lines a device")
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
    parser.add_argument("--unplugged-s", type=float, default=60, help="0: leave that part out")
    parser.add_argument("--seed", type=int, default=1)
    logging.getLogger("mqtt").setLevel(logging.CRITICAL)  # the listener's broken lines are what we make
    return asyncio.run(soak(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
