"""Tables of the demo in virtual time: the real runners, sessions, drivers and simulators; ports of memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec
import pytest

from dollyd.daemon.host.stall import StallWatch
from dollyd.daemon.journal.writer import Draft
from dollyd.daemon.keys.signing import new_key
from dollyd.daemon.settings.load import DeviceSettings, TableSettings, load
from dollyd.daemon.table import runner as table_module
from dollyd.daemon.table.engine import Op
from dollyd.daemon.table.runner import TableRunner
from dollyd.simulators.clock import VirtualClock
from dollyd.simulators.demo.pit import lay_out
from dollyd.simulators.demo.tables import PERIOD_MS, TABLES
from dollyd.simulators.evening import Evening
from dollyd.simulators.faults import Switchboard
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

_CHUNK = 4096


class MemoryPort:
    """Both ends of a line: the simulated device writes, the session reads; always plugged in."""

    def __init__(self) -> None:
        self.faults = Switchboard("port")
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.host_came: Callable[[], None] = lambda: None
        self.opens = 0
        self._heard: Callable[[bytes], None] | None = None
        self._held = False
        self._waiting = bytearray()
        self.trouble: Exception | None = None
        """What the library behind the port raises at the next call, whatever that is."""

    # --- the device's end

    def write(self, data: bytes) -> None:
        """To the host, or into the kernel's buffer while it does not read."""
        if self._heard is None:
            return
        self._waiting += data
        self._flush()

    def plug(self) -> None:
        """It is."""

    def unplug(self) -> None:
        """It stays."""

    # --- the host's end

    async def open(self, on_data: Callable[[bytes], None], _on_lost: Callable[[str], None]) -> None:
        self._raise()
        self._heard, self._held = on_data, False
        self.opens += 1
        self._waiting.clear()
        self.host_came()

    def close(self) -> None:
        self._heard = None

    def hold(self, *, held: bool) -> None:
        self._held = held
        self._flush()

    def overruns(self) -> int:
        self._raise()
        return 0

    def altered(self) -> bool:
        self._raise()
        return False

    def explain(self, _cause: str) -> str:
        return ""

    def send(self, data: bytes) -> bool:
        self.on_data(data)
        return True

    def _raise(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    def _flush(self) -> None:
        while self._waiting and self._heard is not None and not self._held:
            data = bytes(self._waiting[:_CHUNK])
            del self._waiting[:_CHUNK]
            self._heard(data)


class HostEnd:
    """A `MemoryPort` as the session's transport: `write` goes the other way."""

    def __init__(self, port: MemoryPort) -> None:
        self.open, self.close, self.hold = port.open, port.close, port.hold
        self.overruns, self.explain, self.write = port.overruns, port.explain, port.send
        self.altered = port.altered


class Kept:
    """A disk that is never late."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []

    def submit(self, draft: Draft) -> None:
        self.drafts.append(draft)

    def of(self, table: str, *kinds: Kind) -> list[Draft]:
        """The records of a table, of these kinds or all."""
        return [one for one in self.drafts if one.table == table and (not kinds or one.kind in kinds)]


def settings_of(directory: Path, *, shipped: bool) -> dict[str, TableSettings]:
    """The demo's tables, under the shipped profiles or under the demo's own, for devices that hurry."""
    sections = lay_out(directory)
    if shipped:
        sections = re.sub(r'(?m)^profile = "(.*)\.toml"$', r'profile = "\1"', sections)
    new_key(directory / "signing.pem")
    config = directory / "dollyd.toml"
    config.write_text(
        f'site = "s"\nnode = "n"\n[journal]\npath = "{directory}/journal.db"\n'
        f'[signing]\nkey = "{directory}/signing.pem"\n{sections}'
    )
    return dict(load(config).tables)


class Pit:
    """Some of the demo's tables side by side on one clock; `now` lets time pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = VirtualClock()
        self.kept = Kept()
        self.runners: dict[str, TableRunner] = {}
        self.ports: dict[str, MemoryPort] = {}
        self.stalls = StallWatch(self.clock, self._stalled, lambda: self.clock.stamp().mono_ns)
        self._evenings: list[Evening] = []
        monkeypatch.setattr(table_module, "transport_of", self._transport_of)
        monkeypatch.setattr(TableRunner, "_arm", lambda _: None)  # it waits in real time; `run_for` ticks

    def add(self, name: str, settings: TableSettings, period_ms: int) -> Evening:
        """A table, and its devices at this status period; they play until the test ends."""
        runner = TableRunner(
            settings, self.kept, self.clock, Random(1), lambda _: None, _raise, self.stalls.look
        )
        runner.start(None)
        self.runners[name] = runner
        scenario = msgspec.structs.replace(
            TABLES[name].evening, games=100_000, longest_s=100_000, period_ms=period_ms
        )
        return Evening(scenario, self.clock, lambda device: self._port(f"{name}-{device}"), lambda _: None)

    async def run_for(self, ms: int, step_ms: int = 20) -> None:
        """Let time pass, with a tick where a table asked for one."""
        for _ in range(ms // step_ms):
            await self.clock.run_for(step_ms * NS_PER_MS)
            self.stalls.look()
            for runner in self.runners.values():
                due_ns = runner.engine.deadline_ns()
                if due_ns is not None and due_ns <= self.clock.stamp().mono_ns:
                    runner.feed(Op.TICK)

    async def stand_still(self, ms: int) -> None:
        """The machine stands still while the devices play on; then all that waits is read."""
        for port in self.ports.values():
            port.hold(held=True)
        await self.clock.run_for(ms * NS_PER_MS)
        for port in self.ports.values():
            port.hold(held=False)

    def _port(self, key: str) -> MemoryPort:
        return self.ports.setdefault(key, MemoryPort())

    def _transport_of(self, device: DeviceSettings) -> HostEnd:
        return HostEnd(self._port(Path(device.section.port).name))

    def _stalled(self, length_ms: int) -> None:
        for runner in self.runners.values():
            runner.stalled(length_ms)


@dataclass(frozen=True)
class Played:
    """A table of the demo: where its files lie, the status period of its devices, and by which profile."""

    name: str
    folder: Path
    period_ms: int = PERIOD_MS
    shipped: bool = False


@asynccontextmanager
async def at_work(pit: Pit, *tables: Played) -> AsyncIterator[None]:
    """Tables with their devices; at the end whatever ended a session is raised."""
    evenings: list[asyncio.Task[None]] = []
    sessions: list[asyncio.Task[None]] = []
    for table in tables:
        table.folder.mkdir()
        settings = settings_of(table.folder, shipped=table.shipped)[table.name]
        evenings.append(asyncio.create_task(pit.add(table.name, settings, table.period_ms).run()))
        sessions += [asyncio.create_task(one.run()) for one in pit.runners[table.name].sessions.values()]
    try:
        yield
    finally:
        ended = [task for task in sessions if task.done()]
        for task in (*evenings, *sessions):
            task.cancel()
        await asyncio.gather(*evenings, *sessions, return_exceptions=True)
    for task in ended:
        task.result()


def _raise(error: Exception) -> None:
    raise error


def most_within(drafts: list[Draft], window_ns: int = 10 * NS_PER_S) -> int:
    """The most records of any stretch of time so long."""
    times = [draft.at.mono_ns for draft in drafts]
    return max((sum(begin <= at < begin + window_ns for at in times) for begin in times), default=0)
