"""Listens to a configured device for a moment, through the daemon's own transport and protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from dollyd.daemon.host.clock import Clock
from dollyd.daemon.settings.load import DeviceSettings
from dollyd.daemon.table.runner import transport_of
from dollyd.drivers.framing import BadFrame
from dollyd.drivers.protocols.cammegh_ss2.lines import parse, said_of_itself
from dollyd.drivers.spec import Said, Status
from dollyd.wire.errors import TransportError
from dollyd.wire.stamp import NS_PER_MS

LISTEN_PERIODS = 6
"""A device says something in each; the wheel's four questions take as many of its lines."""
ANSWER_PERIODS = 2
_OUTPUT = b"*O\r\n"
"""The one question to a wheel that sends no status: how its output is set. It changes nothing in any state
of the wheel."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a device was heard to be. `by_daemon`: as the running daemon told, which holds the port.

    `cause`: why it could not be listened to; empty where it could. `bytes`: that came, or, `by_daemon`, that
    came since its last sentence.
    """

    status: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    bytes: int = 0
    cause: str = ""
    detail: str = ""
    by_daemon: bool = False

    @property
    def understood(self) -> bool:
        """At least one of its sentences was one of its language."""
        return self.status not in {"", Status.INIT, Status.LOST}


class _Line:
    """A device on its line, as long as it is listened to."""

    def __init__(self, device: DeviceSettings, clock: Clock) -> None:
        self.protocol = device.driver.protocol(device.setup)
        self.transport = transport_of(device)
        self.bytes = 0
        self.lines = 0
        """Lines that a SlingShot could have said."""
        self.lost = ""
        self.told: dict[str, str] = {}
        self._framing = device.driver.framing()
        self._clock = clock

    async def open(self) -> None:
        """Raises `TransportError`."""
        await self.transport.open(self._on_data, self._on_lost)
        self._send(self.protocol.opened(self._clock.stamp()))

    async def listen(self, for_ns: int) -> None:
        """Let it speak, and the protocol ask what it asks in play."""
        end_ns = self._clock.stamp().mono_ns + for_ns
        while (now_ns := self._clock.stamp().mono_ns) < end_ns:
            due_ns = self.protocol.deadline_ns()
            at_least_ns = now_ns + NS_PER_MS
            await self._clock.sleep_until(min(end_ns, max(at_least_ns, due_ns or end_ns)))
            self._send(self.protocol.tick(self._clock.stamp()))

    def _on_lost(self, cause: str) -> None:
        self.lost = cause

    def _on_data(self, data: bytes) -> None:
        self.bytes += len(data)
        for frame in self._framing.feed(data):
            self._send(self.protocol.received(frame, self._clock.stamp()))
            line = None if isinstance(frame, BadFrame) else parse(frame.raw)
            if line is not None:
                self.lines += 1
                self.told |= said_of_itself(line)

    def _send(self, said: Said) -> None:
        for data in said.send:
            self.transport.write(data)


async def hear(device: DeviceSettings, clock: Clock) -> Heard:
    """Listen for `LISTEN_PERIODS`; never raises for a device.

    A SlingShot that sends no status is asked how its output is set.
    """
    line = _Line(device, clock)
    period_ns = device.setup.period_ms * NS_PER_MS
    try:
        await line.open()
    except TransportError as error:
        return Heard(cause=str(error), detail=line.transport.explain(str(error)))
    try:
        await line.listen(LISTEN_PERIODS * period_ns)
        mute = line.bytes == 0 or line.lines > 0  # a bare number comes whatever the output is set to
        if device.driver.name == "cammegh-ss2" and line.protocol.status is Status.INIT and mute:
            line.transport.write(_OUTPUT)
            await line.listen(ANSWER_PERIODS * period_ns)
    finally:
        line.transport.close()
    identity = line.told if device.driver.name == "cammegh-ss2" else {}
    identity |= dict(line.protocol.identity)
    return Heard(str(line.protocol.status), identity, line.bytes, line.lost)


async def hear_all(devices: Mapping[str, DeviceSettings], clock: Clock) -> dict[str, Heard]:
    """Listen to several devices at the same time."""
    heard = await asyncio.gather(*(hear(device, clock) for device in devices.values()))
    return dict(zip(devices, heard, strict=True))
