"""Soak: `python -m tools.soak`. Real daemon, ports, broker and consumer, and a seeded matrix of faults.

Simulated wheels of eight tables play on while everything around them breaks (see `plan`). Afterwards

* the reference consumer has every record of every chain once and in order, as the journal has it;
* the journal verifies, no round has two ends, every number is the one that fell;
* every game that came to its end is a result, or the journal says why not (see `tools.truth`).

What is not good is told with its seed, and the files are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.support.broker import Mosquitto, until
from tests.support.disks import MB, small_disk
from tools.soak.house import BYTES_A_GAME, DISK_MB, TABLES, House, PlayedTable, count_journaled
from tools.soak.judge import Journaled, judge, read_journal
from tools.soak.line import FaultyLine
from tools.soak.plan import Fault, plan
from tools.soak.processes import Consumer, Node
from tools.soak.strikes import QUEUE, Scene, Striker
from tools.soak.unplugged import Rest, rest
from tools.truth import SoakError, check

BROKER = f"autosave_interval 5\nmax_queued_messages {QUEUE}\n"
SETTLE_S = 180.0
"""Without progress."""
LOOK_S = 1.0
"""Between two looks at whether node and consumer live."""
TELL_S = 60.0
"""Between two lines of progress."""
COUNT_S = 0.5
"""Between two counts of the journal."""


class Soak:
    """One run over a scene."""

    def __init__(self, arguments: argparse.Namespace, scene: Scene) -> None:
        self.games: int = arguments.games
        self.scene = scene
        self.striker = Striker(scene)
        self.plan = plan(arguments.seed, arguments.games)
        self.began_s = time.monotonic()
        self.games_a_s = 0.0
        self.rest: Rest | None = None

    async def run(self) -> None:
        """Play and strike, then let things come to rest, with the daemon stopped in good order."""
        scene = self.scene
        scene.consumer.start()
        await scene.node.started()
        await until(lambda: all(table.heard for table in scene.tables), SETTLE_S)
        self.began_s = time.monotonic()
        for table in scene.tables:
            table.play()
        watching = asyncio.create_task(self._watch())
        striking = asyncio.create_task(self._strike())
        try:
            await asyncio.wait((watching, striking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (watching, striking):
                task.cancel()
            ends = await asyncio.gather(watching, striking, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end
        self.games_a_s = scene.played / (time.monotonic() - self.began_s)
        await self._come_to_rest()

    async def _strike(self) -> None:
        await self.striker.carry_out(self.plan)
        await self.striker.played(self.games)

    async def _watch(self) -> None:
        """See that node and consumer live, how much memory they take, and tell how far it is."""
        scene, told_s = self.scene, time.monotonic()
        while True:
            await asyncio.sleep(LOOK_S)
            for child in (scene.node, scene.consumer):
                if not child.lock.locked():
                    child.check_alive()
                child.measure()
            if time.monotonic() - told_s > TELL_S:
                told_s = time.monotonic()
                rate = scene.played / (told_s - self.began_s)
                strikes = self.striker.struck.total()
                kept = scene.consumer.records()
                print(
                    f"  {scene.played} games, {rate:.1f} a second; {strikes} strikes; {kept} records kept",
                    flush=True,
                )

    async def _come_to_rest(self) -> None:
        scene, consumer = self.scene, self.scene.consumer
        await self._all_kept()
        n = consumer.last()
        await until(lambda: consumer.results_since(n) == set(TABLES), SETTLE_S)
        for table in scene.tables:
            table.end_play()
        await until(lambda: not any(consumer.phase(name) == "bets-closed" for name in TABLES), SETTLE_S)
        self.rest = await rest(scene, self.games)
        await self._all_kept()
        scene.node.check_alive()
        check(await scene.node.stop() == 0, "the daemon stops with exit code 0")
        await self._all_kept()

    async def _all_kept(self) -> None:
        """Wait until the consumer has what the journal has now, as long as it comes nearer."""
        consumer, kept, until_s = self.scene.consumer, -1, 0.0
        journaled = count_journaled(self.scene.house)
        while (now_kept := consumer.records()) < journaled:
            consumer.check_alive()
            if now_kept > kept:
                kept, until_s = now_kept, time.monotonic() + SETTLE_S
            check(time.monotonic() < until_s, "the consumer comes to have every record of the journal")
            await asyncio.sleep(COUNT_S)


# --- the command ---------------------------------------------------------------------------------


@contextmanager
def a_disk(mount_point: Path, size_mb: int) -> Iterator[Path | None]:
    """A disk for the journal, None where nobody may mount one."""
    try:
        mounted = small_disk(mount_point, size_mb)
        disk: Path | None = mounted.__enter__()
    except pytest.skip.Exception:
        yield None
        return
    try:
        yield disk
    finally:
        mounted.__exit__(None, None, None)


async def soak(arguments: argparse.Namespace, directory: Path) -> str:
    """One run; prints the figures, and gives what is not good."""
    failure = ""
    this = asyncio.current_task()
    if this is not None:  # whoever ends us ends our children too
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    async with AsyncExitStack() as stack:
        size_mb = DISK_MB + arguments.games * BYTES_A_GAME // MB
        disk = stack.enter_context(a_disk(directory / "disk", size_mb))
        broker = stack.enter_context(Mosquitto(BROKER, persistence=True))
        lines = [await stack.enter_async_context(FaultyLine(broker)) for _ in range(2)]
        addresses = [f"127.0.0.1:{line.port}" for line in lines]
        house = House(directory, addresses[0], disk)
        tables = [
            await stack.enter_async_context(PlayedTable(directory, name, driver, variant, arguments.seed))
            for name, (driver, variant) in TABLES.items()
        ]
        node = stack.enter_context(Node(house))
        consumer = Consumer(house, addresses[1])
        stack.callback(consumer.close)
        run = Soak(arguments, Scene(house, node, consumer, broker, lines[0], lines[1], tables, disk))
        journaled, reasons = Journaled(), Counter[str]()
        try:
            await run.run()
            journaled = read_journal(house.journal)
            reasons = judge(house, journaled, tables, consumer)
        except* (SoakError, AssertionError) as group:
            failure = str(first_of(group)) or "it did not come true in time"
        print_figures(run, journaled, reasons)
        if failure and disk is not None:
            shutil.copytree(disk, directory / "kept", ignore=shutil.ignore_patterns("filler"))
        (directory / "broker.log").write_text(broker.log)
        truth = {table.name: table.games for table in tables}
        (directory / "truth.json").write_bytes(msgspec.json.encode(truth))
    return failure


def first_of(error: BaseException) -> BaseException:
    """The first error that is no group."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def print_figures(run: Soak, journaled: Journaled, reasons: Counter[str]) -> None:
    """What was done, and what became of the games."""
    scene, striker = run.scene, run.striker
    seconds = time.monotonic() - run.began_s
    print(f"{scene.played} games over {len(scene.tables)} tables in {seconds:.0f} s, ", end="")
    print(f"{run.games_a_s:.1f} a second")
    for fault in Fault:
        said = f"left out: {striker.left_out[fault]}" if fault in striker.left_out else ""
        print(f"  {striker.struck[fault]:6}  {fault}{said and ': '}{said}")
    for outcome, count in sorted(striker.outcomes.items()):
        print(f"  {count:6}  {outcome}")
    overflows = scene.broker.log.count("Outgoing messages are being dropped")
    print(f"  {overflows:6}  times the broker's queue for a client was full")
    life = scene.consumer.life()
    print(f"{sum(journaled.kinds.values())} records, {scene.consumer.records()} kept by the consumer:")
    print(f"  {life['repeats']} repeats dropped, {life['requests']} replays asked for, ", end="")
    print(f"{life['gaps']} gaps raised, {life['links']} links in {scene.consumer.lives} lives")
    for name, child in (("daemon", scene.node), ("consumer", scene.consumer)):
        largest = max(child.rss_mb, default=0)
        print(f"  {name}: {child.lives} lives, {largest:.0f} MB at most")
    if run.rest is not None:
        print(f"  without devices: {run.rest.cpu:.2%} CPU, {run.rest.lines:.1f} log lines a device")
    print(f"{reasons.total()} games that came to their end:")
    for reason, count in reasons.most_common():
        print(f"  {count:6}  {reason}")


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description="Break everything around eight tables, then prove that nothing was lost or doubled."
    )
    parser.add_argument("--games", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # broken lines are what we make
    directory = Path(tempfile.mkdtemp(prefix="dollyd-soak-"))
    print(f"seed {arguments.seed}, {arguments.games} games", flush=True)
    try:
        failure = asyncio.run(soak(arguments, directory))
    except (KeyboardInterrupt, asyncio.CancelledError):
        failure = "stopped before its end"
    if failure:
        again = f"--games {arguments.games} --seed {arguments.seed}"
        print(f'NOT GOOD: {failure}\nThe same again: make soak ARGS="{again}"\nIts files: {directory}')
        return 1
    shutil.rmtree(directory)
    print("good: unexplained missing games 0, every record once and in order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
