"""Events of plugging: read, coalesced, and what a waiting session makes of them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs
from tests.support.broker import until
from tests.support.pty_pair import PtyPair

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.hotplug import CALM_S, Hotplug, netlink, tells_of_a_plug
from dollyd.daemon.table.session import Backoff, DeviceSession
from dollyd.drivers.framing import AnyFrame, LineDecoder
from dollyd.drivers.transports.serial import SerialSettings, SerialTransport

KERNEL = b"add@/devices/usb1/1-1/ttyUSB0\0ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=tty\0SEQNUM=4\0"
UDEV = b"libudev\0\xfe\xed\xca\xfe\0\0\0\x28ACTION=add\0SUBSYSTEM=usb\0DEVTYPE=usb_device\0"


@pytest.mark.parametrize(
    ("event", "tells"),
    [
        (KERNEL, True),
        (UDEV, True),
        (KERNEL.replace(b"add", b"remove"), False),
        (KERNEL.replace(b"tty\0", b"net\0"), False),
        (KERNEL.replace(b"tty\0", b"tty-other\0"), False),
        (b"", False),
        (os.urandom(200), False),
    ],
)
def test_only_what_comes_and_is_a_port_counts(event: bytes, *, tells: bool) -> None:
    assert tells_of_a_plug(event) is tells


async def test_a_burst_of_events_is_one_call() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    near.setblocking(False)
    calls: list[float] = []
    hotplug = Hotplug(lambda: calls.append(time.monotonic()), lambda: near)
    running = asyncio.create_task(hotplug.run())
    with far:
        for _ in range(20):
            far.send(UDEV)
        far.send(b"change@/devices/x\0ACTION=change\0SUBSYSTEM=net\0")
        await until(lambda: bool(calls))
        await asyncio.sleep(4 * CALM_S)
        assert len(calls) <= 2
        before = len(calls)
        far.send(KERNEL)
        await until(lambda: len(calls) > before)
    running.cancel()
    await asyncio.wait({running})
    assert near.fileno() == -1


async def test_lost_events_count_as_one_that_matters() -> None:
    class Overrun:
        def __init__(self, line: socket.socket) -> None:
            self._line = line
            self.fileno, self.close = line.fileno, line.close

        def recv(self, most: int, /) -> bytes:
            self._line.recv(most)
            raise OSError(errno.ENOBUFS, "No buffer space available")

    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    calls: list[int] = []
    running = asyncio.create_task(Hotplug(lambda: calls.append(1), lambda: Overrun(near)).run())
    with far:
        far.send(b"any")
        await until(lambda: bool(calls))
    running.cancel()
    await asyncio.wait({running})


async def test_without_events_it_says_so_once_and_waits() -> None:
    def refused() -> socket.socket:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with capture_logs() as log:
        running = asyncio.create_task(Hotplug(lambda: None, refused).run())
        await asyncio.sleep(0.05)
        assert not running.done()
        running.cancel()
        await asyncio.wait({running})
    assert [line["event"] for line in log] == ["hotplug_not_told"]


LONG_S = 20
LONG_MS = 2 * LONG_S * 1000
"""Of a wait, before chance shortens it by up to a half: who is back within `LONG_S` was woken."""
LATE_S = 2.0
"""What a busy machine may add."""


def say_that_a_terminal_was_added() -> None:
    """As root the kernel can be made to say it again; skips where it cannot."""
    try:
        netlink().close()
        Path("/sys/class/tty/tty0/uevent").write_text("add\n")
    except OSError as error:
        pytest.skip(f"this machine has no events for us: {error}")


async def test_the_kernels_own_event_wakes() -> None:
    say_that_a_terminal_was_added()
    calls: list[int] = []
    running = asyncio.create_task(Hotplug(lambda: calls.append(1)).run())
    await asyncio.sleep(0.05)
    say_that_a_terminal_was_added()
    for _ in range(50):
        if calls:
            break
        await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.wait({running})
    if not calls:
        pytest.skip("events are not delivered into this network namespace")


class Sink:
    """Takes everything for valid."""

    def __init__(self) -> None:
        self.opens = 0

    def opened(self) -> None:
        self.opens += 1

    def received(self, frames: list[AnyFrame]) -> bool:
        return bool(frames)

    def lost(self, cause: str) -> None:
        pass


@pytest.mark.parametrize("woken", [True, False])
async def test_b4_a_woken_session_is_back_at_once_and_any_within_2_s(tmp_path: Path, *, woken: bool) -> None:
    with PtyPair(tmp_path / "port") as pty:
        sink = Sink()
        transport = SerialTransport(SerialSettings(str(pty.port), 9600))
        session = DeviceSession(
            "wheel", transport, LineDecoder(), sink, clock=SystemClock(), random=Random(1)
        )
        if woken:
            session._backoff = Backoff(Random(1), LONG_MS, LONG_MS)
        running = asyncio.create_task(session.run())
        await until(lambda: sink.opens == 1)
        pty.unplug()
        if woken:
            await until(lambda: session._waiting is not None)
        else:
            await until(lambda: session.counters["failed.not-found"] >= 6)  # waits have come to 1 s
        pty.plug()
        plugged_s = time.monotonic()
        if woken:
            session.wake()
        await until(lambda: sink.opens == 2)
        back_s = time.monotonic() - plugged_s
        running.cancel()
        await asyncio.wait({running})
    assert back_s < (LONG_S if woken else 2.0 + LATE_S)
    session.wake()  # after the end: nothing happens


async def test_an_early_event_makes_the_waits_short_again(tmp_path: Path) -> None:
    """The kernel tells of a node before udev has made the link to it."""
    sink, port = Sink(), tmp_path / "port"
    session = DeviceSession(
        "wheel",
        SerialTransport(SerialSettings(str(port), 9600)),
        LineDecoder(),
        sink,
        clock=SystemClock(),
        random=Random(1),
    )
    session._backoff = Backoff(Random(1), longest_ms=LONG_MS)
    session._backoff._ceiling_ms = LONG_MS  # as after many attempts
    running = asyncio.create_task(session.run())
    await until(lambda: session.counters["failed.not-found"] == 1)
    started_s = time.monotonic()
    session.wake()
    await until(lambda: session.counters["failed.not-found"] >= 4)
    assert time.monotonic() - started_s < LONG_S
    running.cancel()
    await asyncio.wait({running})
