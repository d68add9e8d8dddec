"""Endure: `python -m tools.endure`. An evening of ten tables in which everything happens.

Real daemon, ports, broker and readers; the troubles of `troubles.TROUBLES` come at random times, seeded.
After each one every table plays again by itself within the trouble's bound, and it is told once. Afterwards
every result is the number that fell, every game that came to its end is a result or the journal says why
not, and who reads has every record of every journal, once and in order.
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
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random

import pytest
from tests.support.broker import Mosquitto, free_port, until
from tests.support.postgres import Postgres, pooled
from tests.support.site_broker import Authority
from tools.endure.course import Course, table_of
from tools.endure.house import (
    PERIODS_MS,
    TABLES,
    Archive,
    Certificates,
    Scene,
    SecureBroker,
    Supervised,
    TenTables,
)
from tools.endure.troubles import TROUBLES
from tools.soak.house import PlayedTable
from tools.soak.judge import Journaled, judge_play, read_journal, verify
from tools.soak.line import FaultyLine
from tools.soak.processes import Consumer
from tools.truth import SoakError, check

LOOK_S = 1.0
SETTLE_S = 180.0


async def set_up(stack: AsyncExitStack, directory: Path, seed: int) -> Scene:
    """Everything, plugged in and not started; the stack takes it down."""
    broker = stack.enter_context(SecureBroker(free_port()))
    elsewhere = stack.enter_context(Mosquitto())
    certificates = Certificates(Authority(broker.directory))
    broker.set_up()
    broker.start()
    node_line = await stack.enter_async_context(FaultyLine(broker, broker.secure_port))
    second_line = await stack.enter_async_context(FaultyLine(broker))
    house = TenTables(directory, f"127.0.0.1:{node_line.port}", broker.directory)
    tables = [
        await stack.enter_async_context(PlayedTable(directory, name, driver, variant, seed, PERIODS_MS))
        for name, (driver, variant) in TABLES.items()
    ]
    node = Supervised(house)
    stack.push(node.__exit__)
    accepts = ["--accept-chains"]
    consumer = Consumer(house, broker.address, options=accepts)
    second_at = (f"127.0.0.1:{second_line.port}", elsewhere.address)
    second = Consumer(house, *second_at, name="second", options=accepts)
    for reader in (consumer, second):
        stack.callback(reader.close)
    archive, database = None, ""
    with suppress(pytest.skip.Exception):
        server = stack.enter_context(Postgres())
        database = server.new_database()
        archive = Archive(house, broker.address, stack.enter_context(pooled(server, database)))
        stack.callback(archive.close)
    return Scene(
        house, node, broker, node_line, second_line, certificates, consumer, second, tables, archive, database
    )


def impossible(scene: Scene) -> dict[str, str]:
    """What cannot happen here, and why."""
    left_out = {}
    if not scene.node.clock.environment:
        left_out |= dict.fromkeys(("F7", "F9", "N6"), "there is no C compiler (for clock.c)")
    if scene.archive is None:
        left_out["N11"] = "there is no PostgreSQL, or no PgBouncer"
    return left_out


async def evening(scene: Scene, course: Course) -> None:
    """Play and make trouble, then let things come to rest, with the daemon stopped in good order."""
    scene.node.start()
    for reader in (scene.consumer, scene.second, scene.archive):
        if reader is not None:
            reader.start()
    await scene.node.started()
    await until(lambda: all(table.heard for table in scene.tables), SETTLE_S)
    for table in scene.tables:
        table.play()
    watching = asyncio.create_task(watch(scene))
    going = asyncio.create_task(course.run())
    try:
        await asyncio.wait((watching, going), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (watching, going):
            task.cancel()
        ends = await asyncio.gather(watching, going, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end
    now_ns = time.monotonic_ns()
    for reader in (scene.consumer, scene.second):
        await until(lambda one=reader: one.played_after(now_ns) == TABLES.keys(), SETTLE_S)  # type: ignore[misc]
    for table in scene.tables:
        table.end_play()
    names = list(TABLES)
    await until(lambda: not any(scene.consumer.phase(name) == "bets-closed" for name in names), SETTLE_S)
    check(await scene.node.stop() == 0, "the daemon stops with exit code 0")


async def watch(scene: Scene) -> None:
    """The readers end only when they are made to."""
    while True:
        await asyncio.sleep(LOOK_S)
        scene.consumer.check_alive()
        scene.second.check_alive()
        if scene.archive is not None:
            scene.archive.check_alive()


async def judge(scene: Scene, journaled: Journaled) -> Counter[str]:
    """What became of the games. Raises `SoakError` naming the promise that is broken."""
    total = sum(journaled.kinds.values())
    for reader in (scene.consumer, scene.second):
        with suppress(AssertionError):
            await until(lambda one=reader: one.records() >= total, SETTLE_S)  # type: ignore[misc]
    reasons = judge_play(journaled, scene.tables, scene.consumer)
    judge_play(journaled, scene.tables, scene.second)
    for journal in scene.house.journals:
        verify(journal, scene.house.jwks)
    log = scene.node.since(0)
    check(not any("taken-over" in line for line in log), "no broken line is called a takeover")
    bugs = [line for line in log if "Traceback" in line and "event=driver_error" not in line]
    check(not bugs, f"nothing of ours raises: {bugs[:1]}")
    return reasons


async def endure(arguments: argparse.Namespace, directory: Path) -> str:
    """One evening; prints the table, and gives what is not good."""
    failure, reasons, journaled = "", Counter[str](), Journaled()
    this = asyncio.current_task()
    if this is not None:  # whoever ends us ends our children too
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, this.cancel)
    async with AsyncExitStack() as stack:
        scene = await set_up(stack, directory, arguments.seed)
        left_out = impossible(scene)
        if arguments.only:
            left_out |= {one.number: "not asked for" for one in TROUBLES if one.number not in arguments.only}
        course = Course(scene, arguments.seed, arguments.minutes * 60, left_out)
        began_s = time.monotonic()
        try:
            await evening(scene, course)
            journaled = read_journal(*scene.house.journals)
            reasons = await judge(scene, journaled)
        except* (SoakError, AssertionError) as group:
            failure = str(first_of(group)) or "it did not come true in time"
        seconds = time.monotonic() - began_s
        print(table_of(course.accounts, left_out))
        print(f"{scene.played} games at {len(scene.tables)} tables in {seconds:.0f} s,", end=" ")
        print(f"{sum(journaled.kinds.values())} records, each once and in order at two consumers")
        for reason, number in reasons.most_common():
            print(f"  {number:6}  {reason}")
        (directory / "broker.log").write_text(scene.broker.log)
    return failure


def first_of(error: BaseException) -> BaseException:
    """The first error that is no group."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="An evening of ten tables in which everything happens.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None, help="what happens when; random unless given")
    parser.add_argument("--only", nargs="+", metavar="NUMBER", help="none but these, e.g. F5 N3")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = Random().randrange(100_000)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # broken lines are what we make
    directory = Path(tempfile.mkdtemp(prefix="dollyd-endure-"))
    print(f"seed {arguments.seed}, {arguments.minutes:g} minutes", flush=True)
    try:
        failure = asyncio.run(endure(arguments, directory))
    except (KeyboardInterrupt, asyncio.CancelledError):
        shutil.rmtree(directory)
        print("stopped before its end")
        return 1
    if failure:
        again = f"--minutes {arguments.minutes:g} --seed {arguments.seed}"
        print(f'NOT GOOD: {failure}\nThe same again: make endure ARGS="{again}"\nIts files: {directory}')
        return 1
    shutil.rmtree(directory)
    print("good")
    return 0


if __name__ == "__main__":
    sys.exit(main())
