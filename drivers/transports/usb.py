"""A USB device with bulk endpoints, its calls kept in a thread of its own.

    event loop                          owner thread "usb:1d50:60c6"
    open, write, close  --condition-->  find, claim, [send, read]..., give back
    on_data, on_lost    <--call_soon_threadsafe--

A thread lives as long as its connection and closes the device itself, so that no handle is ever used by two
threads. After `close` it ends with the call that is under way, after `LONGEST_TIMEOUT_MS` at most.
Causes: those of `usb_device`, besides `write-timeout` (the device takes nothing), `hung` (the thread of the
connection before has not ended), `closed` (while it was being opened) and `driver-error` (a library raised
what nobody knows by name).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from dollyd.drivers.transports import ports
from dollyd.drivers.transports.usb_device import UsbDevice
from dollyd.drivers.transports.usb_port import UsbSettings
from dollyd.wire.errors import TransportError, ensure

WRITE_BUFFER_BYTES = 4096
"""Most bytes waiting to be sent; commands are short, more means that the device does not read."""
WAITING_BYTES = 65_536
"""While so many received bytes wait for the event loop, the device is left to wait too."""
END_S = 2.0
"""How long `open` waits for the connection before to end."""
_BREATH_S = 0.005
"""Pause after a read that brought nothing and took no time: empty packets must not keep a core busy."""


class UsbTransport:
    """One USB device that can be opened and lost any number of times. All calls belong to the event loop.

    `backend`: of pyusb, None = libusb 1.0. `counters`: over all connections, see `UsbDevice`.
    """

    def __init__(self, settings: UsbSettings, backend: Any = None) -> None:
        self.counters: Counter[str] = Counter()
        self._settings = settings
        self._backend = backend
        self._connection: _Connection | None = None
        self._last: _Connection | None = None

    async def open(self, on_data: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Find the device anew and claim it.

        `on_data` gets every chunk, and an empty one where bytes were lost and nothing else is there to tell
        it by `overruns`. `on_lost` is called at most once, after the device was given back, and never from
        within `write`. Raises `TransportError` with the cause.
        """
        ensure(self._connection is None, "a device is opened once at a time")
        if self._last is not None:
            await self._last.join()
        device = UsbDevice(self._settings, self._backend, self.counters)
        connection = _Connection(self._settings, device, on_data, self._lost(on_lost))
        self._connection = self._last = connection
        try:
            await connection.start()
        except BaseException:  # failed, or cancelled
            self.close()
            raise

    def write(self, data: bytes) -> bool:
        """Send soon, in order. False: nothing was taken, the device is closed, read-only or too slow."""
        return self._connection is not None and self._connection.write(data)

    def close(self) -> None:
        """Close without waiting; what was not sent is forgotten. Never raises, may be called again."""
        if self._connection is not None:
            self._connection.stop()
            self._connection = None

    def hold(self, *, held: bool) -> None:
        """Read nothing until told otherwise; the device is left to wait."""
        if self._connection is not None:
            self._connection.hold(held=held)

    def overruns(self) -> int:
        """Losses of received bytes since open: transfers cut off by a time-out, repairs."""
        return 0 if self._connection is None else self._connection.gaps

    def altered(self) -> bool:
        """Never: who has claimed a device is the only one to set it."""
        return False

    def explain(self, cause: str) -> str:
        """What else is known of a failed open, for people."""
        name = self._settings.name
        found = [] if self._last is None else self._last.device.found
        node = "" if self._last is None else self._last.device.node
        match cause:
            case "no-libusb":
                return "libusb 1.0 is not installed; install the package libusb-1.0-0 and restart dollyd"
            case "ambiguous":
                return f"{name} is plugged in at {', '.join(found)}; add serial= or path= to the port"
            case "no-permission":
                return f"{name}: install dollyd's udev rules, and add its user to their group"
            case "no-endpoint":
                return f"{name} has no such bulk endpoints in interface {self._settings.interface}"
            case ports.DRIVER_ERROR if self._last is not None:
                return f"{name} {node}: {self._last.trouble}"
            case "busy" if node:
                return "held by " + (", ".join(ports.holders(node)) or "a process that we may not see")
            case _:
                return f"{name} {node}".rstrip()

    def _lost(self, on_lost: Callable[[str], None]) -> Callable[[str], None]:
        def lost(cause: str) -> None:
            self._connection = None
            on_lost(cause)

        return lost


class _Connection:
    """One open device and its thread.

    The fields below `_condition` are shared and guarded by it. The device and `_delivered_gaps` belong to the
    thread, everything else to the event loop.
    """

    def __init__(
        self,
        settings: UsbSettings,
        device: UsbDevice,
        on_data: Callable[[bytes], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self.gaps = 0
        self.device = device
        self._settings = settings
        self._on_data = on_data
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self.trouble = ""
        """What a library raised that nobody knows by name."""
        # The interpreter waits for a thread that is no daemon: the kernel driver is given back at exit too.
        self._thread = threading.Thread(target=self._own, name=settings.name, daemon=False)
        self._delivered_gaps = 0
        self._condition = threading.Condition()
        self._stopping = False
        self._reading = False
        self._held = False
        self._outgoing = bytearray()
        self._waiting_bytes = 0

    async def start(self) -> None:
        """Open in the thread; nothing is read before this is done. Raises `TransportError`."""
        self._thread.start()
        await self._ready
        with self._condition:
            if self._stopping:
                raise TransportError("closed")
            self._reading = True
            self._condition.notify()

    def write(self, data: bytes) -> bool:
        """Hand over to the thread, whole or not at all."""
        with self._condition:
            full = len(self._outgoing) + len(data) > WRITE_BUFFER_BYTES
            if self._settings.endpoint_out is None or not self._reading or full:
                return False
            self._outgoing += data
            self._condition.notify()
            return True

    def hold(self, *, held: bool) -> None:
        """Have the thread read nothing until told otherwise."""
        with self._condition:
            self._held = held
            self._condition.notify()

    def stop(self) -> None:
        """Tell the thread to end; from now on nobody is called back."""
        with self._condition:
            self._stopping = True
            self._condition.notify()

    async def join(self) -> None:
        """Wait until the thread has let go of the device.

        Raises `TransportError` where it does not.
        """
        try:
            async with asyncio.timeout(END_S):
                await self._ended.wait()
        except TimeoutError:
            raise TransportError("hung") from None

    # What follows runs in the thread.

    def _own(self) -> None:
        cause = ""
        try:
            try:
                self.device.open()
                self._post(self._opened)
                self._pump()
            finally:
                self.device.close()
        except TransportError as error:
            cause = str(error)
        except Exception as error:  # noqa: BLE001  boundary of the device: a library may raise anything
            self.trouble, cause = f"{type(error).__name__}: {error}", ports.DRIVER_ERROR
        self._post(self._end, cause)

    def _pump(self) -> None:
        """Send and read until told to stop. Raises `TransportError` where the device is lost."""
        deadline_s: float | None = None
        while self._may_go_on():
            deadline_s = self._send(deadline_s)
            self._deliver(b"")
            with self._condition:
                if self._held or self._waiting_bytes >= WAITING_BYTES:
                    self._condition.wait(self._settings.timeout_ms / 1000)
                    continue
            started_s = time.monotonic()
            data = self.device.read()
            self._deliver(data)
            if data and self._settings.pause_ms:
                self._pause()
            if not data and time.monotonic() - started_s < _BREATH_S:
                time.sleep(_BREATH_S)

    def _pause(self) -> None:
        """Leave the device alone for a while, unless there is something to do."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._stopping or bool(self._outgoing), self._settings.pause_ms / 1000
            )

    def _may_go_on(self) -> bool:
        with self._condition:
            self._condition.wait_for(lambda: self._reading or self._stopping)
            return not self._stopping

    def _send(self, deadline_s: float | None) -> float | None:
        """One attempt to send what waits; until when the device must take more, None = nothing waits."""
        with self._condition:
            data = bytes(self._outgoing)
        if not data:
            return None
        sent = self.device.write(data)
        with self._condition:
            del self._outgoing[:sent]
            left = bool(self._outgoing)
        now_s = time.monotonic()
        if sent or deadline_s is None:
            return now_s + self._settings.write_deadline_ms / 1000 if left else None
        if now_s > deadline_s:
            raise TransportError("write-timeout")
        return deadline_s

    def _deliver(self, data: bytes) -> None:
        """Post a chunk together with the gaps known by then, so that the one declares the other."""
        gaps = self.device.gaps
        if not data and gaps == self._delivered_gaps:
            return
        self._delivered_gaps = gaps
        with self._condition:
            self._waiting_bytes += len(data)
        self._post(self._arrived, data, gaps)

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(callback, *args)

    # What follows is called back in the event loop.

    def _opened(self) -> None:
        if not self._ready.done():  # `open` may have been cancelled
            self._ready.set_result(None)

    def _arrived(self, data: bytes, gaps: int) -> None:
        with self._condition:
            self._waiting_bytes -= len(data)
            self._condition.notify()
        if not self._stopping:
            self.gaps = gaps
            self._on_data(data)

    def _end(self, cause: str) -> None:
        self._ended.set()
        if not self._ready.done():
            self._ready.set_exception(TransportError(cause))
        elif self._reading and not self._stopping:
            self._on_lost(cause)
