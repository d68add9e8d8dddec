"""From the last byte on the line to the message at a QoS 1 subscriber, and what a daemon at rest costs.

The daemon and the bare bridge run side by side at one broker and take turns, so that whatever else the
machine does meets both.
"""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from tests.support.broker import Mosquitto
from tests.support.daemon import SITE, Daemon, Installation
from tests.support.pty_pair import PtyPair
from tests.support.wheel_lines import Game, status
from tools.bench.report import Figure, at_most, milliseconds, p99

from dollyd.wire.topics import Topics

RATIO_TARGET = 2.0
RSS_TARGET_MB = 80
IDLE_CPU_TARGET = 1.0
IDLE_S = 12
QUIET_S = 0.06
"""Longer than retained topics are held back: nothing else is under way when the line is written."""
WAIT_S = 5.0
MEMORY = Path("/dev/shm")  # noqa: S108  a file system in memory
BRIDGE = Path(__file__).with_name("bridge.py")


class Subscriber:
    """A QoS 1 subscriber that does nothing but look at the clock."""

    def __init__(self, broker: Mosquitto) -> None:
        self.heard: list[tuple[int, str]] = []
        """When, on which topic."""
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._on_message
        self._client.connect(broker.host, broker.port)
        self._client.subscribe("#", qos=1)
        socket = self._client.socket()
        if socket is None:
            raise RuntimeError("the broker closed the connection")
        self._socket = socket

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self.heard.append((time.perf_counter_ns(), message.topic))

    def listen(self, seconds: float, topic: str = "") -> int:
        """Listen for so long, or until something comes on `topic`: when it came, 0 for nothing."""
        end_s, seen = time.monotonic() + seconds, len(self.heard)
        while (left_s := end_s - time.monotonic()) > 0:
            if select.select([self._socket], [], [], left_s)[0]:
                self._client.loop_read()
            self._client.loop_misc()
            for at_ns, where in self.heard[seen:]:
                if where == topic:
                    return at_ns
            seen = len(self.heard)
        return 0

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()


@dataclass(slots=True)
class Side:
    """One of the two that are measured."""

    port: PtyPair
    topic: str
    took_ns: list[int] = field(default_factory=list)

    def play(self, game: Game, subscriber: Subscriber) -> None:
        """All of a game but its last line, then, after a pause, the line that makes the result."""
        self.send(*game.hurried(), game.pocket.rjust(2))
        subscriber.listen(QUIET_S)
        began_ns = self.send(game.line(5))
        came_ns = subscriber.listen(WAIT_S, self.topic)
        if came_ns == 0:
            raise RuntimeError(f"nothing came on {self.topic} within {WAIT_S} s")
        self.took_ns.append(came_ns - began_ns)

    def send(self, *lines: str) -> int:
        """Write lines; the time at which the last byte was handed over."""
        data = "".join(f"{line}\r\n" for line in lines).encode("ascii")
        began_ns = time.perf_counter_ns()
        self.port.send(data)
        return began_ns


@contextmanager
def bare_bridge(port: Path, broker: Mosquitto) -> Iterator[None]:
    """The bridge as a child."""
    command = [sys.executable, str(BRIDGE), str(port), broker.host, str(broker.port)]
    child = subprocess.Popen(command)
    try:
        yield
    finally:
        child.kill()
        child.wait()


def measure(games: int) -> list[Figure]:
    """Latency of daemon and bridge, their ratio; then memory and CPU of the daemon with an idle wheel.

    A second daemon has its journal in memory, where an fsync costs nothing: what remains is ours alone.
    """
    with ExitStack() as stack:
        broker = stack.enter_context(Mosquitto())
        on_disk, on_disk_daemon = _dollyd(stack, broker, "disk", None)
        in_memory, _ = _dollyd(stack, broker, "memory", MEMORY)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(PtyPair(directory / "bridge"))
        stack.enter_context(bare_bridge(port.port, broker))
        bridge = Side(port, "bridge/line")
        subscriber = Subscriber(broker)
        stack.callback(subscriber.close)
        disk = Disk(directory / "kept")
        _take_turns(games, (on_disk, in_memory, bridge), subscriber, disk)
        figures = _compare(on_disk, in_memory, bridge, disk)
        return [*figures, *_idle(on_disk_daemon, on_disk.port)]


def _dollyd(stack: ExitStack, broker: Mosquitto, site: str, where: Path | None) -> tuple[Side, Daemon]:
    """A daemon with one wheel, under a site and in a directory of its own."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dollyd-bench-", dir=where)))
    installation = Installation(directory, broker.address, variant="C", period_ms=500, silence_ms=2000)
    installation.reconfigure(f'site = "{SITE}"', f'site = "{site}"')
    port = stack.enter_context(PtyPair(directory / "r1-wheel"))
    daemon = stack.enter_context(Daemon(installation))
    asyncio.run(daemon.started())
    return Side(port, Topics(site).record("r1", "result")), daemon


def _take_turns(games: int, sides: Sequence[Side], subscriber: Subscriber, disk: Disk) -> None:
    """All are up once the bridge carries lines; the first games warm up."""
    for _ in range(50):
        for side in sides:
            side.send(status(6, 1, "8"))
        if subscriber.listen(0.1, "bridge/line"):
            break
    subscriber.listen(1.0)
    for side in sides:
        side.send(status(6, 1, "8"))
    game = Game(counter=1)
    for number in range(games):
        for side in sides:
            side.play(game, subscriber)
        disk.keep()
        game = game.next(str(number % 37))
    for side in sides:
        del side.took_ns[: games // 10]


class Disk:
    """What the disk takes to keep 16 kB, about a result with its capture."""

    def __init__(self, file: Path) -> None:
        self.took_ns: list[int] = []
        self._file = file

    def keep(self) -> None:
        """Append and wait for the disk."""
        with self._file.open("ab", buffering=0) as out:
            out.write(bytes(16_384))
            began_ns = time.perf_counter_ns()
            os.fdatasync(out.fileno())
            self.took_ns.append(time.perf_counter_ns() - began_ns)


def _compare(on_disk: Side, in_memory: Side, bridge: Side, disk: Disk) -> list[Figure]:
    bare_ns = median(bridge.took_ns)
    return [
        Figure("line to subscriber, bare bridge", milliseconds(bridge.took_ns)),
        Figure("line to subscriber, dollyd", milliseconds(on_disk.took_ns)),
        at_most("  ratio of the medians", median(on_disk.took_ns) / bare_ns, RATIO_TARGET, "{:.2f}"),
        Figure("  ratio of the p99", f"{p99(on_disk.took_ns) / p99(bridge.took_ns):.2f}"),
        Figure("  for comparison: one fdatasync of this disk", milliseconds(disk.took_ns)),
        Figure("line to subscriber, dollyd, journal in memory", milliseconds(in_memory.took_ns)),
        at_most("  ratio of the medians", median(in_memory.took_ns) / bare_ns, RATIO_TARGET, "{:.2f}"),
    ]


def _idle(daemon: Daemon, wheel: PtyPair) -> list[Figure]:
    process = psutil.Process(daemon.pid)
    began_s, used_s = time.monotonic(), sum(process.cpu_times()[:2])
    for _ in range(2 * IDLE_S):
        wheel.send(f"{status(6, 1, '8')}\r\n".encode("ascii"))
        time.sleep(0.5)
    percent = 100 * (sum(process.cpu_times()[:2]) - used_s) / (time.monotonic() - began_s)
    megabytes = process.memory_info().rss / 1e6
    return [
        at_most("memory, 1 table (RSS)", megabytes, RSS_TARGET_MB, "{:.0f} MB"),
        at_most("CPU at rest, 2 status lines a second", percent, IDLE_CPU_TARGET, "{:.2f} %"),
    ]
