"""Simulated wheels at the far ends of the machine's serial lines, and the truth of what they played."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from tools.rig_test.judge import Played

from dollyd.daemon.host.clock import SystemClock
from dollyd.simulators.line import Line
from dollyd.simulators.runner import Device
from dollyd.simulators.ss2 import SHORT, Ss2Options, Ss2Wheel
from dollyd.simulators.tlp_wheel import TlpWheel, WheelOptions
from dollyd.wire.stamp import NS_PER_S

PERIOD_MS = 100
"""Between two status lines: a game takes about 3 s at the SlingShot 2, 8 s at the TLP wheels."""
_BACKLOG_BYTES = 512
"""What an adapter keeps for a host that does not read."""
_TRY_AGAIN_S = 0.1


class SocketLink:
    """A serial line that ends in a socket of the machine, and outlives the machine.

    What is written while no adapter is at the other end is lost, as at an open plug.
    """

    def __init__(self, path: Path) -> None:
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.connected = False
        """An adapter is plugged in at the other end."""
        self._path = path
        self._writer: asyncio.StreamWriter | None = None

    def write(self, data: bytes) -> None:
        """Send, or lose."""
        if not self.connected or self._writer is None:
            return
        if self._writer.transport.get_write_buffer_size() < _BACKLOG_BYTES:
            self._writer.write(data)

    async def run(self) -> None:
        """Hold the line, until cancelled."""
        while True:
            with suppress(OSError):
                reader, self._writer = await asyncio.open_unix_connection(self._path)
                try:
                    while data := await reader.read(4096):
                        self.on_data(data)
                finally:
                    self._writer.close()
                    self._writer = None
            await asyncio.sleep(_TRY_AGAIN_S)


class Wheel:
    """One wheel that plays on and on, whatever becomes of the machine."""

    def __init__(self, table: str, folder: Path, model: Ss2Wheel | TlpWheel) -> None:
        self.table = table
        self.link = SocketLink(folder / f"{table}.sock")
        self._model = model
        self._device = Device(model, self.link, SystemClock(), Line(Random(table)))
        self._utc_less_mono_s = time.time() - time.monotonic()

    @property
    def played(self) -> Sequence[Played]:
        """The truth so far, in order."""
        if isinstance(self._model, TlpWheel):
            told = [(int(one.game), one.number or "", one.start_ns, one.end_ns) for one in self._model.played]
        else:
            told = [
                (one.counter, (one.pocket or "").strip(), one.start_ns, one.end_ns)
                for one in self._model.played
            ]
        return [
            Played(counter, number, self._utc_s(start_ns), self._utc_s(end_ns))
            for counter, number, start_ns, end_ns in told
        ]

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.link.run())
            tasks.create_task(self._device.run())

    def _utc_s(self, mono_ns: int) -> float:
        return mono_ns / NS_PER_S + self._utc_less_mono_s


def slingshot(table: str, folder: Path, seed: int) -> Wheel:
    """A SlingShot 2."""
    options = Ss2Options(period_ms=PERIOD_MS, games_per_hour=100_000, lengths=SHORT)
    return Wheel(table, folder, Ss2Wheel(options, Random(f"{table} {seed}"), time.monotonic_ns()))


def tlp_wheel(table: str, folder: Path, seed: int, serial: str) -> Wheel:
    """A wheel that speaks TLP/1, and says who it is."""
    options = WheelOptions(period_ms=PERIOD_MS, serial=serial)
    return Wheel(table, folder, TlpWheel(options, Random(f"{table} {seed}"), time.monotonic_ns()))
