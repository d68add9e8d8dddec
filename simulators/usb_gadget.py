"""A simulated USB device: its interfaces, its packets, and the link to whatever model plays it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

import usb.core

LIBUSB_CODES = {5: -1, 22: -2, 13: -3, 19: -4, 2: -5, 16: -6, 110: -7, 75: -8, 32: -9, 4: -10, 12: -11}
"""Linux error number to libusb's own; 38 is "not supported", for which pyusb has no number."""
_NOT_SUPPORTED = 38
_PACKETS = 20_000
"""Most packets that a device keeps for a host which does not ask; older ones are lost."""


def fail_with(number: int) -> NoReturn:
    """Raise what pyusb's libusb backend raises for this error number."""
    if number == _NOT_SUPPORTED:
        raise NotImplementedError("Operation not supported or unimplemented on this platform")
    kind = usb.core.USBTimeoutError if number == 110 else usb.core.USBError
    raise kind("simulated", LIBUSB_CODES.get(number, -99), number)


@dataclass(slots=True)
class Interface:
    """One interface. `kernel_driver`: whether the kernel has a driver for it, `driver_bound`: has it now."""

    number: int = 0
    endpoint_in: int = 0x81
    endpoint_out: int | None = 0x01
    packet_bytes: int = 64
    kernel_driver: bool = False
    driver_bound: bool = field(init=False)
    claimed_by: Handle | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.driver_bound = self.kernel_driver

    @property
    def endpoints(self) -> list[int]:
        """Addresses, IN first."""
        return [self.endpoint_in] + ([] if self.endpoint_out is None else [self.endpoint_out])


class Handle:
    """What `open_device` gives. Only the thread that opened it may use it, and only until it is closed."""

    def __init__(self, gadget: Gadget) -> None:
        self.gadget = gadget
        self.address = gadget.address
        self.thread = threading.get_ident()
        self.closed = False

    @property
    def alive(self) -> bool:
        """Whether the device is still plugged in as it was; plugged in again it needs a new handle."""
        return self.gadget.present and self.gadget.address == self.address


class Gadget:
    """One device, and the link to whatever model plays it.

    `on_data` gets the host's bytes: in the event loop that ran at plug-in, else in the driver's thread.
    `marks_ends`: send an empty packet behind a message that fills its last one, as well-made devices do.
    `takes_bytes`: most that the OUT endpoint takes of one transfer before it times out, None = everything.
    """

    def __init__(
        self,
        vid: int = 0x1D50,
        pid: int = 0x60C6,
        *,
        serial: str = "",
        bus: int = 1,
        ports: tuple[int, ...] = (2,),
        interfaces: tuple[Interface, ...] = (),
        configured: bool = True,
    ) -> None:
        self.vid, self.pid, self.serial = vid, pid, serial
        self.bus, self.ports, self.address = bus, ports, 0
        self.interfaces = interfaces or (Interface(),)
        self.configured = configured
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.marks_ends = True
        self.takes_bytes: int | None = None
        self.heard = bytearray()
        self.present = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self.changed = threading.Condition()
        self._packets: deque[bytes] = deque(maxlen=_PACKETS)
        self._halted: dict[int, bool] = {}

    def write(self, data: bytes, interface: int = 0) -> None:
        """One message to the host; it stays in the device until the host asks."""
        size = self.interfaces[interface].packet_bytes
        with self.changed:
            self._packets.extend(data[at : at + size] for at in range(0, len(data), size))
            if self.marks_ends and len(data) % size == 0:
                self._packets.append(b"")
            self.changed.notify_all()

    def plugged(self, address: int) -> None:
        """The device starts anew, with nothing to say and its kernel drivers bound."""
        try:
            self.loop = asyncio.get_running_loop()
        except RuntimeError:
            self.loop = None
        with self.changed:
            self.address, self.present = address, True
            self._packets.clear()
            self._halted.clear()
            for interface in self.interfaces:
                interface.driver_bound, interface.claimed_by = interface.kernel_driver, None

    def unplugged(self) -> None:
        """Calls under way end with ENODEV."""
        with self.changed:
            self.present = False
            self.changed.notify_all()

    def halt(self, endpoint: int, *, until_reset: bool = False) -> None:
        """The endpoint answers EPIPE until its halt is cleared, or until a reset only."""
        with self.changed:
            self._halted[endpoint] = until_reset
            self.changed.notify_all()

    def recover(self, endpoint: int | None) -> None:
        """Clear a halt; None = a reset, which clears all."""
        with self.changed:
            for halted, until_reset in tuple(self._halted.items()):
                if endpoint is None or (endpoint == halted and not until_reset):
                    del self._halted[halted]

    def take(self, handle: Handle, interface: Interface, room: int, timeout_ms: int) -> bytes:
        """What a bulk IN transfer gets: packets until one is not full, the buffer is, or the time is up."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        got = b""
        with self.changed:
            while len(got) < room:
                while not self._packets and self._trouble(handle, interface.endpoint_in) is None:
                    left_s = deadline_s - time.monotonic()
                    if left_s <= 0:
                        return got or fail_with(110)  # as pyusb: a part comes without an error
                    self.changed.wait(left_s)
                if (trouble := self._trouble(handle, interface.endpoint_in)) is not None:
                    fail_with(trouble)
                packet = self._packets.popleft()
                got += packet
                if len(got) > room:
                    fail_with(75)
                if len(packet) < interface.packet_bytes:
                    break
        return got

    def hear(self, handle: Handle, interface: Interface, data: bytes, timeout_ms: int) -> int:
        """A bulk OUT transfer; the number of bytes taken, fewer than all at the end of the time only."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        endpoint = interface.endpoint_out or 0
        with self.changed:
            while (
                len(part := data[: self.takes_bytes]) < len(data) and self._trouble(handle, endpoint) is None
            ):
                if not self.changed.wait(deadline_s - time.monotonic()):
                    break
            if (trouble := self._trouble(handle, endpoint)) is not None:
                fail_with(trouble)
            self.heard += part
        if data and not part:
            fail_with(110)
        if self.loop is None:
            self.on_data(part)
        else:
            self.loop.call_soon_threadsafe(self.on_data, part)
        return len(part)

    def _trouble(self, handle: Handle, endpoint: int) -> int | None:
        if not handle.alive:
            return 19
        return 32 if endpoint in self._halted else None
