"""The real daemon on disks that fill up or take their time, and with a clock that is behind."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.broker import Mosquitto, until
from tests.support.daemon import (
    NODE,
    SITE,
    TOPICS,
    Consumer,
    Daemon,
    Installation,
    Told,
    journaled,
    verified,
)
from tests.support.disks import MB, fill, free_bytes, small_disk
from tests.support.simulated_table import SimulatedTable, playing

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.journal.writer import Writer, chain_start
from dollyd.daemon.keys.signing import load_signer
from dollyd.wire.stamp import NS_PER_S, Stamp

SLOW_S = 1.2
"""What the slow disk takes for an fsync."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as mounted:
        yield mounted


def move_journal(installation: Installation, disk: Path, settings: str) -> None:
    """Have the journal on another disk."""
    old, installation.journal = installation.journal, disk / "journal.db"
    installation.reconfigure(f'path = "{old}"', f'path = "{installation.journal}"\n{settings}')


def incidents(records: list[Told]) -> list[str]:
    return [record.body["what"] for record in records if record.kind == "incident"]


def captures(installation: Installation, records: list[Told]) -> list[bool]:
    """Whether the raw capture of each result is kept."""
    journal = Journal.open(installation.journal, read_only=True)
    try:
        return [journal.capture(r.chain, r.seq) is not None for r in records if r.kind == "result"]
    finally:
        journal.close()


async def test_b48_a_low_disk_stops_captures_then_new_rounds_and_lets_play_go_on(
    disk: Path, installation: Installation, table: SimulatedTable, consumer: Consumer
) -> None:
    move_journal(installation, disk, "low_mb = 30\nfloor_mb = 20")
    with Daemon(installation) as daemon:
        await daemon.started()
        await playing(table, consumer)

        filler = fill(disk, 25 * MB)
        await until(lambda: "captures-stopped" in incidents(consumer.records), 10)
        seen = len(consumer.of("result"))
        await until(lambda: len(consumer.of("result")) >= seen + 2, 20)  # they are played on
        assert not captures(installation, consumer.records)[-1]

        filler.unlink()
        filler = fill(disk, 15 * MB)
        await until(lambda: "play-halted" in incidents(consumer.records), 10)
        await until(lambda: consumer.latest(TOPICS.state("r1")).get("blocked") == "disk-full")
        await until(lambda: consumer.latest(TOPICS.state("r1"))["phase"] == "waiting", 10)
        halted_at, games = len(consumer.records), len(table.completed)
        await until(lambda: len(table.completed) >= games + 2, 20)
        assert len(consumer.of("round")) == len(consumer.of("result", "void")), (
            "the round was played to its end"
        )
        assert [r.kind for r in consumer.records[halted_at:]] == []
        assert len(daemon.logged("disk_full")) == 1

        daemon.kill()  # what a restart does not know it is told anew
        daemon.start()
        await daemon.started()
        await until(lambda: incidents(consumer.records).count("play-halted") == 2, 10)
        rounds = len(consumer.of("round"))
        games = len(table.completed)
        await until(lambda: len(table.completed) >= games + 1, 20)

        filler.unlink()
        await until(lambda: "play-resumed" in incidents(consumer.records), 10)
        resumed_at = len(consumer.records)
        assert len(consumer.of("round")) == rounds
        gaps = [r.body for r in consumer.of("gap") if r.body["cause"] == "no-round-open"]
        assert sum(gap["count"] for gap in gaps) >= 1
        await until(lambda: "result" in [r.kind for r in consumer.records[resumed_at:]], 20)
        await until(lambda: consumer.latest(TOPICS.state("r1"))["blocked"] == "")
        assert captures(installation, consumer.records)[-1]
        assert await daemon.stop() == 0
    verified(installation)


async def test_b48_a_disk_that_fills_in_a_commit_ends_the_daemon_and_costs_no_record(
    disk: Path, installation: Installation, table: SimulatedTable, consumer: Consumer
) -> None:
    move_journal(installation, disk, "low_mb = 0\nfloor_mb = 0")
    with Daemon(installation) as daemon:
        await daemon.started()
        await playing(table, consumer, 2)
        filler = fill(disk, 0)
        assert await daemon.ended() == 1
        assert daemon.logged("stopped_by_failure")
        assert free_bytes(disk) < 64_000
        heard = [r.envelope for r in consumer.records]
        daemon.start()
        assert await daemon.ended() == 1  # nothing can be written: systemd tries again and again
        filler.unlink()
        daemon.start()
        await daemon.started()
        results = len(consumer.of("result"))
        await until(lambda: len(consumer.of("result")) > results, 30)
        assert await daemon.stop() == 0
    kept = [r.envelope for r in journaled(installation)]
    assert kept[: len(heard)] == heard
    assert [r.envelope for r in consumer.records] == kept[: len(consumer.records)]
    verified(installation)


@contextmanager
def slow_disk(pid: int) -> Iterator[None]:
    """Every fsync of a running process takes `SLOW_S`."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: it makes the disk slow")
    delay = f"inject=fsync,fdatasync:delay_enter={int(SLOW_S * 1_000_000)}"
    command = [
        strace,
        "-f",
        "-q",
        "-o",
        "/dev/null",
        "-e",
        "trace=fsync,fdatasync",
        "-e",
        delay,
        "-p",
        str(pid),
    ]
    tracer = subprocess.Popen(command)
    try:
        yield
        assert tracer.poll() is None, "strace may not attach"
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(10)


async def test_b45_a_slow_disk_delays_records_and_no_device(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    await until(lambda: bool(consumer.latest(TOPICS.node_health(NODE))))
    with slow_disk(daemon.pid):
        lags_ms, commits_us = set[int](), set[int]()
        frames = consumer.latest(TOPICS.device("r1", "wheel"))["frames"]
        heard, end_s = len(consumer.records), time.monotonic() + 6
        while time.monotonic() < end_s:
            published = {r.envelope for r in consumer.records}  # before the journal is looked into
            assert published <= {r.envelope for r in journaled(installation)}
            health = consumer.latest(TOPICS.node_health(NODE))
            commits_us.add(health["writer"]["commit_last_us"])
            lags_ms.add(health["loop"]["lag_ms"])
            await asyncio.sleep(0.1)
        later = consumer.latest(TOPICS.device("r1", "wheel"))["frames"]
        assert sum(later.values()) > sum(frames.values()) + 100, "devices are read all the time"
        assert len(consumer.records) > heard, "records come, late"
        assert max(commits_us) > SLOW_S * 1_000_000, "the disk was slow"
        assert max(lags_ms) < SLOW_S * 1_000, "and the loop was not"
    assert await daemon.stop() == 0
    records = journaled(installation)
    results = [r for r in records if r.kind == "result"]
    assert len(results) >= 2
    assert not [r for r in records if r.kind == "unresolved"]
    verified(installation)


async def test_b50_a_start_with_a_clock_ten_minutes_behind_is_told_and_order_is_seq(
    broker: Mosquitto, installation: Installation, table: SimulatedTable, consumer: Consumer
) -> None:
    now = SystemClock().stamp()
    ahead = Stamp(now.mono_ns, now.utc_ns + 600 * NS_PER_S)
    signer = load_signer(installation.signing_key, config_file="", key="")
    journal = Journal.open(installation.journal)
    writer = Writer(
        journal,
        signer,
        site=SITE,
        node=NODE,
        clock=SystemClock(),
        on_written=lambda _: None,
        on_failure=lambda _: None,
    )
    writer.start_chain("r1", None)
    writer.submit(chain_start("r1", signer, ahead, None))
    writer.start()
    writer.close()
    journal.close()
    with Daemon(installation) as daemon:
        await daemon.started()
        await playing(table, consumer)
        assert await daemon.stop() == 0
    records = journaled(installation)
    assert [r.seq for r in records] == list(range(1, len(records) + 1))
    assert records[1].time["utc"] < records[0].time["utc"]
    (told,) = [r for r in records if r.kind == "incident" and r.body["what"] == "clock-behind-journal"]
    assert told.body["details"] == {"last_utc": records[0].time["utc"]}
    assert all("synchronised" in r.time for r in records)
    verified(installation)
