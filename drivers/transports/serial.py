"""A serial port in the event loop: non-blocking, bounded in both directions.

pyserial opens, locks and configures the port; from then on this module owns one bare descriptor. A kernel
driver talks to its chip at open and close, which may take seconds; so both are done aside, in order.
Everything that can go wrong ends in one of these causes:

    not-found, no-permission, busy, not-a-port, refused-settings, hung     the port cannot be opened
    eof, gone, io-error, driver-error, write-timeout                       an open port is lost
    settings-changed                                                       `altered`: the session closes it

`gone` and `io-error` can be met at the open too.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import serial

from dollyd.drivers.transports import ports
from dollyd.drivers.transports.aside import Aside
from dollyd.wire.errors import TransportError, ensure

READ_BYTES = 4096
"""Most bytes taken per wake-up: a flood on one port leaves the loop to the others in between."""
WRITE_BUFFER_BYTES = 4096
"""Most bytes waiting to be sent; commands are short, more means that the device does not read."""

HUNG_S = 10.0
"""A driver waits for its chip 5 s at most, as a rule; after this time the port is said to hang."""
CLOSE_S = 0.05

_COUNTERS = struct.Struct("20i")
"""`struct serial_icounter_struct`: cts dsr rng dcd rx tx frame overrun parity brk buf_overrun, 9 spare."""
_PARTS = (
    "input modes",
    "output modes",
    "control modes",
    "local modes",
    "input speed",
    "output speed",
    "control characters",
)
"""What `tcgetattr` gives, in its order."""
_PTY_SLAVE_MAJORS = range(136, 144)


@dataclass(frozen=True, slots=True)
class SerialSettings:
    """One port. `dtr` and `rts`: the level set at open, None = as the kernel opens a port (both on).

    `port` may be any name of the node: /dev/serial/by-id/..., by-path, a link made by udev.
    `write_deadline_ms`: a device that takes no byte for so long counts as lost.
    """

    port: str
    baud: int
    bytesize: int = 8
    parity: str = "N"
    stopbits: int = 1
    dtr: bool | None = None
    rts: bool | None = None
    write_deadline_ms: int = 1000


class SerialTransport:
    """One serial port that can be opened and lost any number of times. All calls belong to the event loop."""

    def __init__(self, settings: SerialSettings) -> None:
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop
        self._on_data: Callable[[bytes], None]
        self._on_lost: Callable[[str], None]
        self._fd: int | None = None
        self._outgoing = bytearray()
        self._deadline: asyncio.TimerHandle | None = None
        self._overruns_at_open: int | None = None
        self._as_set: list[Any] = []
        self._altered: list[str] = []
        self._aside: Aside[Any] | None = None

    async def open(self, on_data: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Open the port now, exclusively and raw; what the kernel had buffered is stale and thrown away.

        `on_data` gets every chunk. `on_lost` is called at most once, after the port was closed, and never
        from within `write`. Raises `TransportError` with the cause.
        """
        ensure(self._fd is None, "a port is opened once at a time")
        self._loop = asyncio.get_running_loop()
        self._on_data, self._on_lost = on_data, on_lost
        if not await self.closed():
            raise TransportError("hung")
        self._aside = opening = Aside(partial(_open_port, self._settings), too_late=_close_port)
        self._fd = fd = await opening.result(HUNG_S)
        self._overruns_at_open = _overruns(fd)
        self._as_set = _settings_of(fd)
        self._loop.add_reader(fd, self._readable, fd)

    def write(self, data: bytes) -> bool:
        """Send soon, in order. False: nothing was taken, the port is closed or the buffer full."""
        if self._fd is None or len(self._outgoing) + len(data) > WRITE_BUFFER_BYTES:
            return False
        if not self._outgoing:
            self._loop.add_writer(self._fd, self._writable, self._fd)
            self._rearm_deadline()
        self._outgoing += data
        return True

    def close(self) -> None:
        """Close, without waiting for a slow driver; what was not sent is forgotten. Never raises.

        May be called again.
        """
        fd, self._fd = self._fd, None
        if fd is None:
            return
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)
        self._outgoing.clear()
        self._cancel_deadline()
        self._aside = closing = Aside(partial(_close_port, fd))
        closing.wait(CLOSE_S)  # nearly always enough, and then the port is free for the next one

    def hold(self, *, held: bool) -> None:
        """Read nothing until told otherwise; the kernel keeps what comes, as far as its buffer goes."""
        if self._fd is None:
            return
        self._loop.remove_reader(self._fd)
        if not held:
            self._loop.add_reader(self._fd, self._readable, self._fd)

    async def closed(self) -> bool:
        """Wait until the port is free for others; False where its driver hangs."""
        return self._aside is None or await self._aside.ended(HUNG_S)

    def overruns(self) -> int:
        """Losses of received bytes since open that the driver counted; 0 where it cannot tell."""
        if self._fd is None or self._overruns_at_open is None:
            return 0
        now = _overruns(self._fd)
        return 0 if now is None else now - self._overruns_at_open

    def altered(self) -> bool:
        """Whether another program has set the port otherwise since the open; `explain` says what and who."""
        if self._fd is None:
            return False
        now = _settings_of(self._fd)
        parts = zip(_PARTS, self._as_set, now, strict=False)  # none where the port did not answer
        self._altered = [part for part, ours, theirs in parts if ours != theirs]
        return bool(self._altered)

    def explain(self, cause: str) -> str:
        """What else is known of a failed open or a loss, for people. Slow: once per change of cause."""
        if cause == ports.SETTINGS_CHANGED:
            ours = f"(pid {os.getpid()})"  # a slow driver may still be closing it
            others = [one for one in ports.holders(self._settings.port) if ours not in one]
            by = ", ".join(others) or "a process that has left it again, or that we may not see"
            return f"{', '.join(self._altered)} changed by {by}"
        if cause != "busy":
            return ports.device_node(self._settings.port)
        return "held by " + (", ".join(ports.holders(self._settings.port)) or "a process that we may not see")

    def _readable(self, fd: int) -> None:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:  # another reader was faster
            return
        except Exception as error:  # noqa: BLE001  callback of the loop: whatever it is, the port is lost
            self._fail(ports.cause_of(error))
            return
        if data:
            self._on_data(data)
        else:
            self._fail("eof")

    def _writable(self, fd: int) -> None:
        try:
            sent = os.write(fd, self._outgoing)
        except BlockingIOError:  # the deadline runs
            return
        except Exception as error:  # noqa: BLE001  callback of the loop: whatever it is, the port is lost
            self._fail(ports.cause_of(error))
            return
        del self._outgoing[:sent]
        if not self._outgoing:
            self._loop.remove_writer(fd)
            self._cancel_deadline()
        elif sent:
            self._rearm_deadline()

    def _rearm_deadline(self) -> None:
        self._cancel_deadline()
        wait_s = self._settings.write_deadline_ms / 1000
        self._deadline = self._loop.call_later(wait_s, self._fail, "write-timeout")

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _fail(self, cause: str) -> None:
        self.close()
        self._on_lost(cause)


def _open_port(settings: SerialSettings) -> int:
    """A locked, raw, flushed, non-blocking descriptor of the port."""
    port = serial.Serial(
        None,
        baudrate=settings.baud,
        bytesize=settings.bytesize,
        parity=settings.parity,
        stopbits=settings.stopbits,
        exclusive=True,
    )
    port.port = ports.device_node(settings.port)
    if settings.dtr is not None:
        port.dtr = settings.dtr
    if settings.rts is not None:
        port.rts = settings.rts
    try:
        port.open()
        try:
            _finish(port.fileno(), parity=settings.parity != serial.PARITY_NONE)
            # Lock and settings live on in the copy, and closing it cannot trip over pyserial's own state.
            return os.dup(port.fileno())
        finally:
            port.close()
    except (OSError, termios.error) as error:
        raise TransportError(ports.cause_of(error)) from error
    except ValueError as error:  # the driver cannot do this speed or format
        raise TransportError("refused-settings") from error


def _close_port(fd: int) -> None:
    # Unsent output would hold up the close for seconds. On a device that is gone both calls may fail,
    # and the descriptor is free all the same (close(2)).
    with contextlib.suppress(OSError, termios.error):
        termios.tcflush(fd, termios.TCOFLUSH)
    with contextlib.suppress(OSError, termios.error):
        os.close(fd)


def _finish(fd: int, *, parity: bool) -> None:
    """What pyserial leaves open: all bytes as they come, no hang-up, no second open."""
    iflag, oflag, cflag, lflag, ispeed, ospeed, cc = termios.tcgetattr(fd)
    iflag &= ~(termios.BRKINT | termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP)
    iflag &= ~(termios.IXON | termios.IXOFF | termios.IXANY | termios.IGNPAR | termios.PARMRK)
    if parity:
        iflag |= termios.INPCK  # a byte with the wrong parity reads as NUL, which no frame may contain
    cflag &= ~termios.HUPCL  # a restart of the daemon must not restart the device
    # With VMIN 0 "nothing there" reads as 0 bytes like an unplugged device; with 1 it is EAGAIN.
    cc[termios.VMIN], cc[termios.VTIME] = 1, 0
    termios.tcsetattr(fd, termios.TCSANOW, [iflag, oflag, cflag, lflag, ispeed, ospeed, cc])
    # A pseudo-terminal keeps the mark after its holder was killed and would refuse the successor.
    if os.major(os.fstat(fd).st_rdev) not in _PTY_SLAVE_MAJORS:
        fcntl.ioctl(fd, termios.TIOCEXCL)


def _settings_of(fd: int) -> list[Any]:
    """What `tcgetattr` gives; empty for a port that is gone: the next read tells."""
    try:
        return termios.tcgetattr(fd)
    except (OSError, termios.error):
        return []


def _overruns(fd: int) -> int | None:
    """Overruns of the chip and of the kernel's buffer since the driver started; None: not counted."""
    try:
        answer = fcntl.ioctl(fd, termios.TIOCGICOUNT, bytes(_COUNTERS.size))
    except OSError:  # no such counter (pseudo-terminals, many USB chips), or gone: the next read tells
        return None
    counters = _COUNTERS.unpack(answer)
    return int(counters[7]) + int(counters[10])
