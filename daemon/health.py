"""The health of a node, as published: queues, journal, disk, clock, loop, memory, rejects."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dollyd.daemon.clock import Clock
from dollyd.daemon.core.stamp import iso_utc
from dollyd.daemon.journal import Journal
from dollyd.daemon.publisher import Publisher
from dollyd.daemon.table import TableRunner
from dollyd.daemon.writer import Writer


def memory_kib() -> int:
    """Resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() // 1024


def health(
    clock: Clock,
    journal: Journal,
    writer: Writer,
    publisher: Publisher,
    tables: Iterable[TableRunner],
    loop_lag_ms: int,
) -> bytes:
    """The payload of `node/<node>/health`."""
    now, quality, stats = clock.stamp(), clock.quality(), publisher.stats
    disk = os.statvfs(journal.path.parent)
    return msgspec.json.encode(
        {
            "time": iso_utc(now.utc_ns),
            "clock": {"synchronised": quality.synchronised, "error_bound_us": quality.error_bound_us},
            "writer": {"depth": writer.depth, "oldest_ms": writer.oldest_ms(now)},
            "journal": {
                "entries": journal.last_id,
                "bytes": journal.path.stat().st_size,
                "disk_free_bytes": disk.f_bavail * disk.f_frsize,
            },
            "publisher": {
                "connected": stats.connected,
                "broker": stats.broker,
                "cursor": stats.cursor,
                "queue": stats.queue,
                "waiting_ms": stats.waiting_ms,
                "links": stats.links,
                "publishes": stats.publishes,
                "repeats": stats.repeats,
                "last_error": stats.last_error,
            },
            "loop_lag_ms": loop_lag_ms,
            "memory_kib": memory_kib(),
            "rejected_frames": {
                f"{table.name}/{name}": {
                    what: count for what, count in protocol.counters.items() if not what[0].isupper()
                }
                for table in tables
                for name, protocol in table.engine.protocols.items()
            },
        }
    )
