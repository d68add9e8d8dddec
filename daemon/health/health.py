"""The health of a node, as published: queues, journal, disk, clock, loop, memory, rejects, drops."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from dollyd.daemon.health.upkeep import Upkeep
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.log import lines_dropped
from dollyd.daemon.journal.audit import Audit, Auditor
from dollyd.daemon.journal.durations import BOUNDS_MS
from dollyd.daemon.journal.measured_journal import MeasuredJournal
from dollyd.daemon.journal.writer import Writer
from dollyd.daemon.link.certificates import CertificateWatch
from dollyd.daemon.link.publisher import Publisher
from dollyd.daemon.link.publisher_stats import PublisherStats
from dollyd.daemon.table.runner import TableRunner
from dollyd.wire.stamp import iso_utc

Snapshot: TypeAlias = Callable[[], Mapping[str, Any]]
"""What a service tells of itself: counters and gauges by name."""


class ClockHealth(Struct, frozen=True, kw_only=True):
    """How good UTC is, and what the clocks have done since the start."""

    synchronised: bool
    error_bound_us: int
    """-1: not known."""
    steps: int
    last_step_ms: int
    went_back: int
    """How often the kernel's monotonic clock went back."""


class LoopHealth(Struct, frozen=True, kw_only=True):
    """How late the event loop was at the last look, and at worst since the start."""

    lag_ms: int
    lag_max_ms: int


class MemoryHealth(Struct, frozen=True, kw_only=True):
    """Resident memory now and at worst."""

    resident_kib: int
    peak_kib: int


class WriterHealth(Struct, frozen=True, kw_only=True):
    """Records that are not durable yet, and what commits (fsync included) took."""

    depth: int
    oldest_ms: int
    commits: int
    commit_last_us: int
    commit_max_us: int
    commit_sum_us: int
    commits_within_ms: dict[str, int]
    """Commits that took at most so long, cumulative; `inf` is all of them."""


class JournalHealth(Struct, frozen=True, kw_only=True):
    """The journal and its disk."""

    entries: int
    bytes: int
    wal_bytes: int
    captures_bytes: int
    disk_free_bytes: int
    verified_time: str = ""
    """When the last verification of the whole journal began; empty: none is known."""
    verified_records: int = 0
    verified_problems: int = 0
    """What it found wrong, the first ones counted; 0: sound up to then."""


class DeviceHealth(Struct, frozen=True, kw_only=True):
    """One device: frames that were not taken, by rule, and its line."""

    status: str
    rejects: dict[str, int]
    link: dict[str, int]


class NodeHealth(Struct, frozen=True, kw_only=True):
    """Payload of `node/<node>/health`."""

    time: str
    clock: ClockHealth
    loop: LoopHealth
    memory: MemoryHealth
    writer: WriterHealth
    journal: JournalHealth
    publisher: PublisherStats
    devices: dict[str, DeviceHealth]
    """By `<table>/<device>`."""
    certificates: dict[str, int]
    """Days left, by the setting that names the file; negative: expired; missing: not readable."""
    services: dict[str, dict[str, Any]]
    """What answers to others: the inbox, replays, watermarks of consumers."""
    drops: dict[str, int]
    """Everything that was thrown away without a record of it, by what it was."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Everything whose health is told."""

    clock: Clock
    journal: MeasuredJournal
    writer: Writer
    publisher: Publisher
    upkeep: Upkeep
    certificates: CertificateWatch
    tables: Mapping[str, TableRunner]
    services: Mapping[str, Snapshot]
    auditor: Auditor


def node_health(watched: Watched) -> NodeHealth:
    """How everything is now."""
    now = watched.clock.stamp()
    devices = _devices(watched.tables.values())
    publisher = watched.publisher.stats
    return NodeHealth(
        time=iso_utc(now.utc_ns),
        clock=_clock(watched.clock, watched.upkeep),
        loop=LoopHealth(lag_ms=watched.upkeep.loop_lag_ms, lag_max_ms=watched.upkeep.loop_lag_max_ms),
        memory=_memory(),
        writer=_writer(watched.writer, watched.journal, watched.writer.oldest_ms(now)),
        journal=_journal(watched.journal, watched.auditor.last),
        publisher=publisher,
        devices=devices,
        certificates=dict(watched.certificates.days_left),
        services={name: dict(snapshot()) for name, snapshot in watched.services.items()},
        drops={
            "captures_left_out": watched.journal.captures_left_out,
            "captures_pruned": watched.journal.captures_pruned,
            "log_lines": lines_dropped(),
            "device_sends": sum(device.link.get("sends_dropped", 0) for device in devices.values()),
            "records_pruned": watched.journal.records_pruned,
            "retained_coalesced": publisher.retained_coalesced,
        },
    )


def one_line(health: NodeHealth, reload_waits: Iterable[str], halted: str) -> str:
    """The same for a service manager's status, without what changes all the time."""
    ready = sum(device.status == "ready" for device in health.devices.values())
    parts = [f"{ready} of {len(health.devices)} devices ready"]
    parts.append("broker connected" if health.publisher.connected else "no broker")
    parts += [f"halted: {halted}"] if halted else []
    parts += [f"new configuration waits for the round of {name}" for name in reload_waits]
    return ", ".join(parts)


def memory_kib() -> int:
    """Resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() // 1024


def _memory() -> MemoryHealth:
    """The kernel counts the two in different ways, and the peak lags: it is never below what there is now."""
    resident_kib = memory_kib()
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return MemoryHealth(resident_kib=resident_kib, peak_kib=max(peak_kib, resident_kib))


def _clock(clock: Clock, upkeep: Upkeep) -> ClockHealth:
    quality = clock.quality()
    return ClockHealth(
        synchronised=quality.synchronised,
        error_bound_us=quality.error_bound_us,
        steps=upkeep.clock_steps,
        last_step_ms=upkeep.last_step_ms,
        went_back=getattr(clock, "went_back", 0),  # a clock of tests does not
    )


def _writer(writer: Writer, journal: MeasuredJournal, oldest_ms: int) -> WriterHealth:
    commits, within, total = journal.commits, {}, 0
    for bound, count in zip((*map(str, BOUNDS_MS), "inf"), tuple(commits.buckets), strict=True):
        total += count
        within[bound] = total
    return WriterHealth(
        depth=writer.depth,
        oldest_ms=oldest_ms,
        commits=total,
        commit_last_us=commits.last_us,
        commit_max_us=commits.max_us,
        commit_sum_us=commits.sum_us,
        commits_within_ms=within,
    )


def _journal(journal: MeasuredJournal, audit: Audit | None) -> JournalHealth:
    return JournalHealth(
        entries=journal.last_id,
        bytes=_size(journal.path),
        wal_bytes=_size(journal.path.with_name(f"{journal.path.name}-wal")),
        captures_bytes=journal.captures_bytes(),
        disk_free_bytes=_free(journal.path.parent),
        verified_time=audit.time if audit else "",
        verified_records=audit.records if audit else 0,
        verified_problems=len(audit.problems) if audit else 0,
    )


def _size(path: Path) -> int:
    """Bytes of a file, 0 where it cannot be seen: a figure ends nothing."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _free(folder: Path) -> int:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize


def _devices(tables: Iterable[TableRunner]) -> dict[str, DeviceHealth]:
    return {
        f"{table.name}/{name}": DeviceHealth(
            status=str(table.engine.status(name)),
            # Kinds of frames are told in capitals: how many of them came is no reject.
            rejects={what: count for what, count in protocol.counters.items() if not what[0].isupper()},
            link=dict(table.sessions[name].counters) if name in table.sessions else {},
        )
        for table in tables
        for name, protocol in table.engine.protocols.items()
    }
