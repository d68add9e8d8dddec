"""Memory over a day without a broker: the journal is the queue, nothing grows but the file."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import psutil
from tests.support.broker import free_port
from tests.support.daemon import NODE, TOPICS, Installation
from tools.bench.report import Figure, at_most
from tools.bench.throughput import Pipe, Source, engine_rate, soon

from dollyd.daemon.link.from_settings import mqtt_settings
from dollyd.daemon.link.publisher import Node, Publisher
from dollyd.daemon.settings.load import load
from dollyd.daemon.table.engine import NewRecord

GROWTH_TARGET_MB = 5.0
"""What caches and the allocator may take after the first tenth."""
ROUNDS = 100
LOOKS = 10
_AT_ONCE = 1000


def measure(hours: float) -> list[Figure]:
    """So many hours of 10 records a second, written as fast as the disk takes them."""
    return asyncio.run(_measure(int(hours * 3600 * 10)))


async def _measure(count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="dollyd-bench-") as name:
        installation = Installation(Path(name), f"127.0.0.1:{free_port()}", variant="C")
        _, records = engine_rate(installation, ROUNDS)
        loop = asyncio.get_running_loop()
        pipe = Pipe(installation, 1, installation.journal.name)
        settings = mqtt_settings(load(installation.config))
        publisher = Publisher(
            settings, TOPICS, Node(NODE, "bench", 1), Source(pipe.journal), pipe.clock, Random(1)
        )
        pipe.tell = lambda entries: soon(loop, publisher.notify, entries)
        publishing = asyncio.create_task(publisher.run())
        sizes = [await _write(pipe, records, count // LOOKS, turn) for turn in range(LOOKS)]
        queue = publisher.stats.queue
        publishing.cancel()
        await asyncio.wait({publishing})
        pipe.close()
        megabytes = sum(file.stat().st_size for file in installation.directory.glob("journal.db*")) / 1e6
    name = f"memory gained, {count:,} records without a broker"
    return [
        at_most(name, max(sizes[1:]) - sizes[0], GROWTH_TARGET_MB, "{:.1f} MB"),
        Figure("  in the queue, which is the journal", f"{queue:,} records, {megabytes:,.0f} MB"),
    ]


async def _write(pipe: Pipe, records: Sequence[NewRecord], count: int, turn: int) -> float:
    """Write so many records; gives the resident memory afterwards."""
    for first in range(0, count, _AT_ONCE):
        for number in range(first, min(first + _AT_ONCE, count)):
            played = turn * count + number
            record = records[played % len(records)]
            pipe.submit(played, record, played // len(records) * len(records))
        await asyncio.to_thread(pipe.wait, 1 + turn * count + min(first + _AT_ONCE, count))
    return float(psutil.Process().memory_info().rss) / 1e6
