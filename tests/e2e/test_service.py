"""The self-check in the life of a table, and evidence that no lost log line can take away."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.broker import Mosquitto, until
from tests.support.daemon import (
    TOPICS,
    Consumer,
    Daemon,
    Installation,
    finals_by_round,
    journaled,
    numbers,
    verified,
)
from tests.support.simulated_table import SimulatedTable, playing

PACKAGE = """
import dollyd.daemon.host.self_check as module
from pathlib import Path
module.SelfCheck.__init__.__defaults__ = (Path({path!r}),)
"""
FLOOD = """
import threading, time
import structlog
def complain():
    for number in range(20_000):
        structlog.get_logger().error("flood", number=number)
        time.sleep(0 if number % 100 else 0.01)
threading.Timer(1, complain).start()
"""


async def test_a_file_that_differs_lets_no_round_begin_until_it_is_mended(
    tmp_path: Path, installation: Installation, table: SimulatedTable, consumer: Consumer
) -> None:
    package = tmp_path / "installed"
    package.mkdir()
    (package / "MANIFEST.sha256").write_text("")
    with Daemon(installation, prelude=PACKAGE.format(path=str(package))) as daemon:
        await daemon.started()
        await playing(table, consumer, 1)
        (package / "added.py").touch()
        os.kill(daemon.pid, signal.SIGUSR1)
        await until(lambda: consumer.latest(TOPICS.state("r1"))["blocked"] == "self-check", 20)
        assert any("added.py" in line for line in daemon.logged("file_differs"))
        await until(lambda: consumer.latest(TOPICS.state("r1"))["phase"] == "waiting", 20)
        games = len(table.completed)
        await until(lambda: len(table.completed) > games + 1, 20)
        stood = len(consumer.of("round"))
        (package / "added.py").unlink()
        os.kill(daemon.pid, signal.SIGUSR1)
        await until(lambda: len(consumer.of("round")) > stood, 20)
        assert await daemon.stop() == 0
    checks = [record for record in journaled(installation) if record.kind == "self-check"]
    assert [(r.body["reason"], r.body["result"]) for r in checks] == [
        ("start", "good"),
        ("asked", "bad"),
        ("asked", "good"),
    ]
    bad, good = checks[1:]
    assert bad.body["differs"] == ["added added.py"]
    begun = [r.seq for r in journaled(installation) if r.kind == "round"]
    assert not [seq for seq in begun if bad.seq + 1 < seq < good.seq]
    verified(installation)


async def test_b42_20000_lines_of_errors_and_a_log_that_is_thrown_away_cost_no_record(
    broker: Mosquitto, installation: Installation, table: SimulatedTable, consumer: Consumer
) -> None:
    with Daemon(installation, prelude=FLOOD) as daemon:
        await daemon.started()
        await playing(table, consumer)
        log = installation.directory / "log"
        await until(lambda: b"number=19999" in log.read_bytes(), 30)
        played = len(consumer.of("result"))
        await until(lambda: len(consumer.of("result")) > played, 20)
        table.end_play()
        assert await daemon.stop() == 0
    log.unlink()
    records = journaled(installation)
    assert [record.envelope for record in records] == [record.envelope for record in consumer.records]
    fallen = iter(table.numbers)
    assert all(number in fallen for number in numbers(records))  # in their order
    opened = [record.round for record in records if record.kind == "round"]
    finals = finals_by_round(records)
    assert opened == list(range(1, len(opened) + 1))
    assert all(len(finals["r1", number]) == 1 for number in opened[:-1])
    assert len(numbers(records)) >= 2
    verified(installation)
