"""A USB line for tests: the real transport on a simulated bus, with a record of what it called back."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from dollyd.drivers.transports.usb import UsbTransport
from dollyd.drivers.transports.usb_port import UsbSettings
from dollyd.simulators.usb import SimulatedUsb
from dollyd.simulators.usb_gadget import Gadget
from dollyd.wire.errors import TransportError

VID, PID = 0x1D50, 0x60C6
ERRORS = {
    "ENODEV": 19,
    "EIO": 5,
    "ENOENT": 2,
    "EPIPE": 32,
    "EBUSY": 16,
    "EACCES": 13,
    "ETIMEDOUT": 110,
    "EOVERFLOW": 75,
    "ENOSYS": 38,
}
GONE = {19, 5, 2}
FRAME = b"$WHSTA,17,2,0412,,172,0,0,00*BDD9\r\n"


def settings(**changes: Any) -> UsbSettings:
    return UsbSettings(**{"vid": VID, "pid": PID, "endpoint_out": 0x01, "timeout_ms": 10} | changes)


class Line(UsbTransport):
    """The transport with a record of what it called back."""

    def __init__(self, bus: SimulatedUsb, **changes: Any) -> None:
        super().__init__(settings(**changes), bus)
        self.chunks: list[bytes] = []
        self.losses: list[str] = []

    async def start(self) -> None:
        await self.open(self.chunks.append, self.losses.append)

    @property
    def heard(self) -> bytes:
        return b"".join(self.chunks)

    async def end(self) -> None:
        """Close, and wait for the thread."""
        self.close()
        if self._last is not None:
            await self._last.join()


def usb_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("usb:")]


def assert_given_back(bus: SimulatedUsb, *gadgets: Gadget) -> None:
    gc.collect()  # what pyusb's finalizers might still do would be done now, in a wrong thread
    assert bus.complaints == []
    assert bus.open_handles() == 0
    for gadget in gadgets:
        for interface in gadget.interfaces:
            assert interface.claimed_by is None
            assert interface.driver_bound == interface.kernel_driver


async def failure(line: Line) -> str:
    with pytest.raises(TransportError) as caught:
        await line.start()
    return str(caught.value)
