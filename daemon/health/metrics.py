"""The node's health as OpenMetrics text, in a file for those who scrape.

The format is that of openmetrics.io (1.0), which node_exporter's textfile collector reads too. The file is
replaced as a whole: a reader sees the old or the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dollyd.daemon.health.health import NodeHealth
from dollyd.daemon.host.logger import Logger

_LOG = Logger(__name__)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def openmetrics(health: NodeHealth) -> str:
    """All figures of a node's health."""
    clock, writer, journal, publisher = health.clock, health.writer, health.journal, health.publisher
    return "".join(
        (
            _gauge("clock_synchronised", "1 where UTC is synchronised.", clock.synchronised),
            _gauge("clock_error_bound_seconds", "Largest error of UTC.", _s(clock.error_bound_us))
            if clock.error_bound_us >= 0
            else "",
            _counter("clock_steps", "Steps of UTC.", clock.steps),
            _counter("clock_went_back", "Times the monotonic clock went back.", clock.went_back),
            _gauge("loop_lag_seconds", "How late the loop was.", health.loop.lag_ms / 1000),
            _gauge("loop_lag_max_seconds", "The same at worst.", health.loop.lag_max_ms / 1000),
            _gauge("memory_resident_bytes", "Resident memory.", health.memory.resident_kib * 1024),
            _gauge("writer_depth", "Records not durable yet.", writer.depth),
            _gauge("writer_oldest_seconds", "Age of the oldest of them.", writer.oldest_ms / 1000),
            _commits(health),
            _gauge("journal_entries", "Records in the journal.", journal.entries),
            _gauge("journal_bytes", "Size of the journal.", journal.bytes),
            _gauge("journal_wal_bytes", "Size of its write-ahead log.", journal.wal_bytes),
            _gauge("journal_captures_bytes", "Size of the raw captures.", journal.captures_bytes),
            _gauge("disk_free_bytes", "Free space on the journal's disk.", journal.disk_free_bytes),
            _gauge("publisher_connected", "1 while there is a broker.", publisher.connected),
            _gauge("publisher_queue", "Records not acknowledged by a broker.", publisher.queue),
            _gauge("publisher_waiting_seconds", "Time without progress.", publisher.waiting_ms / 1000),
            _gauge("publisher_denied", "Topics that the broker denies.", len(publisher.denied)),
            _counter("publisher_links", "Connections made.", publisher.links),
            _counter("publisher_publishes", "Records sent.", publisher.publishes),
            _counter("publisher_repeats", "Of them, sent before.", publisher.repeats),
            _counters("publisher_lost", "Connections lost or not made.", "cause", publisher.lost),
            _gauges("certificate_days_left", "Days until it expires.", "file", health.certificates),
            _counters("drops", "What was thrown away.", "what", health.drops),
            _devices("device_rejects", "Frames not taken, by rule.", "rule", _rejects(health)),
            _devices("device_link", "What happened on the line.", "what", _links(health)),
            _family("service", "gauge", "Figures of services.", _services(health.services)),
            "# EOF\n",
        )
    )


class MetricsFile:
    """Keeps one file up to date, from a thread of its own: a slow disk delays nobody."""

    def __init__(self, path: Path) -> None:
        self.failures = 0
        self._path = path
        self._text = ""
        self._fresh = asyncio.Event()

    def offer(self, health: NodeHealth) -> None:
        """Have the file written soon; a newer health takes the place of one that waits."""
        self._text = openmetrics(health)
        self._fresh.set()

    async def run(self) -> None:
        """Write what is offered, until cancelled. A file that cannot be written is counted and told once."""
        failed = False
        while True:
            await self._fresh.wait()
            self._fresh.clear()
            try:
                await asyncio.to_thread(_replace, self._path, self._text)
            except OSError as error:
                self.failures += 1
                if not failed:
                    _LOG.error("metrics_not_written", file=str(self._path), detail=error.strerror)
                failed = True
            else:
                failed = False


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, "ascii", errors="backslashreplace")
    fresh.replace(path)


# --- families ------------------------------------------------------------------------------------

_Sample = tuple[str, Mapping[str, str], float]
"""Suffix of the family's name, labels, value."""


def _family(name: str, kind: str, text: str, samples: Iterable[_Sample]) -> str:
    """One metric family; empty where it has no sample."""
    lines = "".join(
        f"dollyd_{name}{suffix}{_labels(labels)} {_number(value)}\n" for suffix, labels, value in samples
    )
    return f"# TYPE dollyd_{name} {kind}\n# HELP dollyd_{name} {text}\n{lines}" if lines else ""


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _gauge(name: str, text: str, value: float) -> str:
    return _family(name, "gauge", text, [("", {}, value)])


def _counter(name: str, text: str, value: float) -> str:
    return _family(name, "counter", text, [("_total", {}, value)])


def _gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> str:
    return _family(name, "gauge", text, (("", {label: key}, value) for key, value in values.items()))


def _counters(name: str, text: str, label: str, values: Mapping[str, float]) -> str:
    return _family(name, "counter", text, (("_total", {label: key}, value) for key, value in values.items()))


def _commits(health: NodeHealth) -> str:
    writer = health.writer
    buckets: list[_Sample] = [
        ("_bucket", {"le": "+Inf" if bound == "inf" else str(int(bound) / 1000)}, count)
        for bound, count in writer.commits_within_ms.items()
    ]
    totals: list[_Sample] = [("_count", {}, writer.commits), ("_sum", {}, _s(writer.commit_sum_us))]
    return _family("commit_seconds", "histogram", "Durable commits, fsync included.", buckets + totals)


def _rejects(health: NodeHealth) -> Mapping[str, Mapping[str, int]]:
    return {name: device.rejects for name, device in health.devices.items()}


def _links(health: NodeHealth) -> Mapping[str, Mapping[str, int]]:
    return {name: device.link for name, device in health.devices.items()}


def _devices(name: str, text: str, label: str, counts: Mapping[str, Mapping[str, int]]) -> str:
    samples: list[_Sample] = []
    for device, values in counts.items():
        table, _, short = device.partition("/")
        for what, count in values.items():
            samples.append(("_total", {"table": table, "device": short, label: what}, count))
    return _family(name, "counter", text, samples)


def _services(services: Mapping[str, Mapping[str, Any]]) -> Iterator[_Sample]:
    for service, values in services.items():
        for name, value in _numbers(values):
            yield "", {"service": service, "name": name}, value


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a tree, by its path."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float):
            yield f"{prefix}{key}", value


def _number(value: float) -> str:
    """Integers as they are: `%g` would round them."""
    return str(int(value)) if isinstance(value, int) else repr(value)


def _s(micros: int) -> float:
    return micros / 1_000_000
