from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from tests.support.broker import until

from dollyd.daemon.health.health import (
    ClockHealth,
    DeviceHealth,
    JournalHealth,
    LoopHealth,
    MemoryHealth,
    NodeHealth,
    WriterHealth,
)
from dollyd.daemon.health.metrics import MetricsFile, openmetrics
from dollyd.daemon.journal.durations import Durations
from dollyd.daemon.link.publisher_stats import PublisherStats
from dollyd.wire.stamp import NS_PER_MS

HEALTH = NodeHealth(
    time="2026-03-01T20:00:00.000000000Z",
    clock=ClockHealth(synchronised=True, error_bound_us=1500, steps=2, last_step_ms=-1000, went_back=0),
    loop=LoopHealth(lag_ms=3, lag_max_ms=41),
    memory=MemoryHealth(resident_kib=40_000, peak_kib=41_000),
    writer=WriterHealth(
        depth=1,
        oldest_ms=250,
        commits=3,
        commit_last_us=900,
        commit_max_us=7000,
        commit_sum_us=9000,
        commits_within_ms={"1": 1, "10": 3, "inf": 3},
    ),
    journal=JournalHealth(
        entries=12_345_678, bytes=9_876_543_210, wal_bytes=4096, captures_bytes=0, disk_free_bytes=2**45
    ),
    publisher=PublisherStats(
        connected=True,
        broker="b:1883",
        session_present=True,
        cursor=5,
        queue=2,
        waiting_ms=70,
        links=3,
        publishes=9,
        repeats=1,
        last_error="closed",
        lost={"closed": 2, "refused": 7},
        retained_coalesced=4,
        denied_why={"t": "2000 bytes: no"},
        denials=2,
        denied=["dolly/v1/house/r2/state"],
    ),
    devices={"r1/wheel": DeviceHealth(status="ready", rejects={'odd"one\\': 5}, link={"sends_dropped": 1})},
    certificates={"cert_file": -3},
    services={"inbox": {"taken": 8, "refused": {"too-long": 2}, "last_error": "closed", "connected": True}},
    drops={"captures_pruned": 6},
)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What a scraper reads; its parser refuses what the format forbids."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # it has no types
        for sample in family.samples
    }


def test_a_scraper_reads_every_figure() -> None:
    read = samples(openmetrics(HEALTH))
    assert read["dollyd_journal_bytes", ()] == 9_876_543_210
    assert read["dollyd_publisher_denied", ()] == 1
    assert read["dollyd_disk_free_bytes", ()] == 2**45
    assert read["dollyd_clock_error_bound_seconds", ()] == 0.0015
    assert read["dollyd_clock_steps_total", ()] == 2
    assert read["dollyd_commit_seconds_bucket", (("le", "0.01"),)] == 3
    assert read["dollyd_commit_seconds_sum", ()] == 0.009
    assert read["dollyd_publisher_connected", ()] == 1
    assert read["dollyd_publisher_lost_total", (("cause", "refused"),)] == 7
    wheel = (("device", "wheel"), ("rule", 'odd"one\\'), ("table", "r1"))
    assert read["dollyd_device_rejects_total", wheel] == 5
    assert read["dollyd_certificate_days_left", (("file", "cert_file"),)] == -3
    assert read["dollyd_service", (("name", "refused.too-long"), ("service", "inbox"))] == 2
    assert read["dollyd_service", (("name", "connected"), ("service", "inbox"))] == 1
    assert read["dollyd_drops_total", (("what", "captures_pruned"),)] == 6


def test_an_unknown_error_bound_is_left_out() -> None:
    clock = msgspec.structs.replace(HEALTH.clock, error_bound_us=-1)
    read = samples(openmetrics(msgspec.structs.replace(HEALTH, clock=clock)))
    assert ("dollyd_clock_error_bound_seconds", ()) not in read


def test_durations_are_counted_in_their_buckets() -> None:
    durations = Durations()
    for duration_ns in (NS_PER_MS, NS_PER_MS + 1, 3 * NS_PER_MS, 10_000 * NS_PER_MS):
        durations.note(duration_ns)
    assert durations.buckets[:3] == [1, 1, 1]
    assert durations.buckets[-1] == 1
    assert (durations.count, durations.max_us, durations.last_us) == (4, 10_000_000, 10_000_000)


async def test_the_file_is_replaced_whole_and_a_failure_told_once(tmp_path: Path) -> None:
    path = tmp_path / "not-yet" / "dollyd.prom"
    metrics = MetricsFile(path)
    task = asyncio.create_task(metrics.run())
    with capture_logs() as logs:
        for failures in (1, 2):
            metrics.offer(HEALTH)
            await until(lambda: metrics.failures == failures)  # noqa: B023  awaited in the same turn
        path.parent.mkdir()
        metrics.offer(HEALTH)
        await until(path.exists)
    task.cancel()
    await asyncio.wait({task})
    assert path.read_text() == openmetrics(HEALTH)
    assert [entry.name for entry in path.parent.iterdir()] == ["dollyd.prom"]
    assert [log["event"] for log in logs] == ["metrics_not_written"]
