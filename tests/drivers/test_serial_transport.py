"""The serial transport on real pseudo-terminals. Names b<n> are entries of the fault list."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.pty_pair import PtyPair, until

from dollyd.drivers.transports import ports
from dollyd.drivers.transports import serial as serial_transport
from dollyd.drivers.transports.serial import (
    READ_BYTES,
    WRITE_BUFFER_BYTES,
    SerialSettings,
    SerialTransport,
)
from dollyd.wire.errors import TransportError

HOLDER = """
import fcntl, os, sys
port = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.flock(port, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


class Line(SerialTransport):
    """The transport with a record of what it called back."""

    def __init__(self, settings: SerialSettings) -> None:
        super().__init__(settings)
        self.chunks: list[bytes] = []
        self.losses: list[str] = []

    async def start(self) -> None:
        await self.open(self.chunks.append, self.losses.append)

    @property
    def heard(self) -> bytes:
        return b"".join(self.chunks)


@pytest.fixture
def pty(tmp_path: Path) -> Iterator[PtyPair]:
    with PtyPair(tmp_path / "wheel") as pair:
        yield pair


@pytest.fixture
async def line(pty: PtyPair) -> AsyncIterator[Line]:
    transport = Line(SerialSettings(str(pty.port), baud=9600, write_deadline_ms=DEADLINE_MS))
    yield transport
    transport.close()


DEADLINE_MS = 1_000  # of a write


async def failure(line: Line) -> str:
    with pytest.raises(TransportError) as caught:
        await line.start()
    return str(caught.value)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_bytes_pass_unchanged_both_ways(pty: PtyPair, line: Line) -> None:
    await line.start()
    every_byte = bytes(range(256))
    pty.send(every_byte)
    assert line.write(every_byte)
    await until(lambda: len(line.heard) == 256, "all bytes heard")
    await asyncio.sleep(0.02)
    assert line.heard == every_byte
    assert pty.received() == every_byte


async def test_port_is_raw_and_never_hangs_up(pty: PtyPair, line: Line) -> None:
    slave = os.open(pty.port, os.O_RDWR | os.O_NOCTTY)
    iflag, oflag, cflag, lflag, ispeed, ospeed, cc = termios.tcgetattr(slave)
    iflag |= termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.IXOFF
    iflag |= termios.ISTRIP | termios.BRKINT | termios.IGNPAR | termios.PARMRK
    lflag |= termios.ICANON | termios.ECHO
    worst = [iflag, oflag | termios.OPOST, cflag | termios.HUPCL, lflag, ispeed, ospeed, cc]
    termios.tcsetattr(slave, termios.TCSANOW, worst)
    os.close(slave)

    await line.start()
    iflag, oflag, cflag, lflag, ispeed, ospeed, cc = termios.tcgetattr(line._fd or -1)
    assert iflag & (termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.IXOFF) == 0
    assert iflag & (termios.ISTRIP | termios.BRKINT | termios.IGNPAR | termios.PARMRK | termios.INPCK) == 0
    assert oflag & termios.OPOST == 0
    assert lflag & (termios.ICANON | termios.ECHO | termios.ISIG) == 0
    assert cflag & termios.HUPCL == 0
    assert cflag & termios.CLOCAL
    assert (ispeed, ospeed) == (termios.B9600, termios.B9600)
    assert cc[termios.VMIN] in {1, b"\x01"}


async def test_format_of_the_line_is_set(pty: PtyPair) -> None:
    line = Line(SerialSettings(str(pty.port), 115_200, bytesize=7, parity="E", stopbits=2))
    await line.start()
    try:
        iflag, _, cflag, _, ispeed, _, _ = termios.tcgetattr(line._fd or -1)
    finally:
        line.close()
    assert ispeed == termios.B115200
    assert cflag & termios.CSTOPB
    # A pseudo-terminal is always 8N1 to the kernel; that parity errors are marked is seen all the same.
    assert iflag & termios.INPCK


async def test_b3_zero_bytes_while_readable_is_one_loss(pty: PtyPair, line: Line) -> None:
    await line.start()
    pty.unplug()
    await until(lambda: bool(line.losses), "loss noticed")
    await asyncio.sleep(0.05)
    assert line.losses in (["eof"], ["gone"])
    assert not line.write(b"x")


async def test_b4_errors_while_closing_hide_nothing(
    pty: PtyPair, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_close = os.close

    def broken_flush(fd: int, queue: int) -> None:
        raise termios.error(5, "Input/output error")

    def broken_close(fd: int) -> None:
        real_close(fd)
        raise OSError(5, "Input/output error")

    before = open_descriptors()
    await line.start()
    monkeypatch.setattr(termios, "tcflush", broken_flush)
    monkeypatch.setattr(os, "close", broken_close)
    line.close()
    monkeypatch.undo()
    line.close()
    assert open_descriptors() == before

    await line.start()
    pty.send(b"again")
    await until(lambda: line.heard == b"again", "the port works again")


async def test_b5_reopened_200_times_on_the_same_path(pty: PtyPair, line: Line) -> None:
    before = open_descriptors()
    for turn in range(200):
        await line.start()
        line.close()
        assert open_descriptors() == before, f"descriptor left open in turn {turn}"
    assert line.losses == []


async def test_b6_a_full_buffer_that_drains_in_time_is_survived(pty: PtyPair, line: Line) -> None:
    await line.start()
    sent = await _fill(line)
    await asyncio.sleep(DEADLINE_MS / 4000)
    received = pty.received()
    while len(received) < len(sent):
        await asyncio.sleep(0.01)
        received += pty.received()
    assert received == sent
    await asyncio.sleep(DEADLINE_MS / 1000)  # that of a write that was done does not fire
    assert line.losses == []
    assert line.write(b"*X\r\n")


async def test_a_slow_line_that_makes_progress_is_not_lost(
    pty: PtyPair, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.write

    def slow_write(fd: int, data: bytearray) -> int:
        time.sleep(0.15)
        return real_write(fd, data[:100])

    await line.start()
    monkeypatch.setattr(os, "write", slow_write)
    assert line.write(bytes(1000))  # takes 1.5 s
    received = b""
    while len(received) < 1000:
        await asyncio.sleep(0.01)
        received += pty.received()
    assert line.losses == []


async def test_a_device_that_takes_nothing_is_lost(pty: PtyPair, line: Line) -> None:
    await line.start()
    await _fill(line)
    started, cpu = time.monotonic(), time.process_time()
    await until(lambda: bool(line.losses), "write deadline")
    assert line.losses == ["write-timeout"]
    assert time.monotonic() - started < 5
    assert time.process_time() - cpu < 0.25 * DEADLINE_MS / 1000, "waiting for room must not spin"


async def _fill(line: Line) -> bytes:
    """Write until kernel and transport take no more; what was taken."""
    sent = b""
    refused = 0
    while refused < 3:
        piece = b"%06d|" % len(sent) * 64
        if line.write(piece):
            sent += piece
            refused = 0
        else:
            refused += 1
            await asyncio.sleep(0.01)
    assert len(sent) > WRITE_BUFFER_BYTES
    return sent


async def test_outgoing_buffer_is_bounded_and_takes_whole_messages_only(pty: PtyPair, line: Line) -> None:
    assert not line.write(b"closed")
    await line.start()
    assert not line.write(bytes(WRITE_BUFFER_BYTES + 1))
    assert line.write(b"short")
    assert not line.write(bytes(WRITE_BUFFER_BYTES))
    await asyncio.sleep(0.02)
    assert pty.received() == b"short"


async def test_b7_a_stalled_loop_loses_nothing(pty: PtyPair, line: Line) -> None:
    await line.start()
    flood = b"".join(b"*%05d\r\n" % number for number in range(3000))
    assert pty.master is not None
    os.set_blocking(pty.master, True)
    master = pty.master

    def send() -> None:
        rest = memoryview(flood)
        while rest:
            rest = rest[os.write(master, rest[:230]) :]  # 10 ms of 230,400 Bd
            time.sleep(0.001)

    device = threading.Thread(target=send)
    device.start()
    time.sleep(0.2)  # noqa: ASYNC251  stalls the loop on purpose
    await until(lambda: len(line.heard) >= len(flood), "the whole flood")
    device.join()
    assert line.heard == flood
    assert max(map(len, line.chunks)) <= READ_BYTES


async def test_b7_overruns_are_counted_from_open(
    pty: PtyPair, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    await line.start()
    assert line.overruns() == 0  # a pseudo-terminal does not count
    line.close()

    counters = {"overrun": 3, "buf_overrun": 1}

    def icounter(fd: int, request: int, argument: bytes = b"") -> bytes:
        if request == termios.TIOCGICOUNT:
            return struct.pack(
                "11i", *[99] * 7, counters["overrun"], 99, 99, counters["buf_overrun"]
            ) + bytes(36)
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(fcntl, "ioctl", icounter)
    await line.start()
    assert line.overruns() == 0
    counters["overrun"] += 2
    counters["buf_overrun"] += 1
    assert line.overruns() == 3


async def test_b8_what_was_buffered_before_open_is_not_heard(pty: PtyPair, line: Line) -> None:
    pty.send(b"*X;5;100;17;0\r\n")
    await asyncio.sleep(0.02)
    await line.start()
    pty.send(b"fresh")
    await until(lambda: bool(line.heard), "fresh data")
    await asyncio.sleep(0.02)
    assert line.heard == b"fresh"


async def test_b11_a_second_open_is_refused_and_the_holder_named(pty: PtyPair, line: Line) -> None:
    with subprocess.Popen(  # noqa: ASYNC220  the test waits for it anyway
        [sys.executable, "-SEc", HOLDER, str(pty.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        before = open_descriptors()
        assert await failure(line) == "busy"
        assert open_descriptors() == before
        assert f"(pid {holder.pid})" in line.explain("busy")
        holder.stdin.close()
    await line.start()


async def test_b11_our_own_second_open_is_refused(pty: PtyPair, line: Line) -> None:
    await line.start()
    second = Line(SerialSettings(str(pty.port), 9600))
    assert await failure(second) == "busy"
    assert f"(pid {os.getpid()})" in second.explain("busy")
    pty.send(b"mine")
    await until(lambda: line.heard == b"mine", "the first holder is undisturbed")


async def test_b11_a_thief_of_bytes_is_no_unplugged_device(pty: PtyPair, line: Line) -> None:
    await line.start()
    thief = os.open(pty.port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        for _ in range(50):
            pty.send(b"*X\r\n")
            os.read(thief, 100)
            await asyncio.sleep(0)
    finally:
        os.close(thief)
    assert line.losses == []


async def test_b11_other_programs_are_shut_out_of_real_ports_only(
    pty: PtyPair, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shut_out() -> bool:
        assert line._fd is not None
        tiocgexcl = 0x8004_5440
        return struct.unpack("i", fcntl.ioctl(line._fd, tiocgexcl, bytes(4))) != (0,)

    await line.start()
    assert not shut_out(), "the mark would outlive a killed holder on a pseudo-terminal"
    line.close()
    monkeypatch.setattr(serial_transport, "_PTY_SLAVE_MAJORS", range(0))
    await line.start()
    assert shut_out()


async def test_b12_the_link_is_followed_at_every_open(pty: PtyPair, line: Line) -> None:
    await line.start()
    old_master = pty.master
    pty.plug()
    line.close()
    await line.start()
    pty.send(b"second")
    await until(lambda: line.heard == b"second", "data of the new node")
    assert old_master is not None
    os.close(old_master)


@pytest.mark.parametrize(("level", "request_name"), [(True, "TIOCMBIS"), (False, "TIOCMBIC")])
async def test_b14_modem_lines_are_set_as_configured(
    pty: PtyPair, level: bool, request_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, bytes]] = []
    real_ioctl = fcntl.ioctl

    def logged_ioctl(fd: int, request: int, argument: bytes = b"") -> bytes:
        asked.append((request, argument))
        if request in {termios.TIOCMBIS, termios.TIOCMBIC}:  # a pseudo-terminal has no modem lines
            return argument
        return real_ioctl(fd, request, argument)

    monkeypatch.setattr(fcntl, "ioctl", logged_ioctl)
    line = Line(SerialSettings(str(pty.port), 9600, dtr=level, rts=level))
    await line.start()
    line.close()
    request = getattr(termios, request_name)
    assert (request, struct.pack("I", termios.TIOCM_DTR)) in asked
    assert (request, struct.pack("I", termios.TIOCM_RTS)) in asked


async def test_b18_a_mute_device_is_no_lost_port(line: Line) -> None:
    await line.start()
    cpu = time.process_time()
    await asyncio.sleep(1)
    assert (line.chunks, line.losses) == ([], [])
    assert time.process_time() - cpu < 0.25


async def test_causes_of_a_failed_open(pty: PtyPair, tmp_path: Path) -> None:
    plain_file = tmp_path / "file"
    plain_file.write_bytes(b"")
    dangling = tmp_path / "dangling"
    dangling.symlink_to("/dev/pts/99999")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    before = open_descriptors()
    for port, cause in (
        (tmp_path / "nothing", "not-found"),
        (dangling, "not-found"),
        (loop, "not-found"),
        (plain_file / "below", "not-found"),
        (plain_file, "not-a-port"),
    ):
        assert await failure(Line(SerialSettings(str(port), 9600))) == cause
    assert open_descriptors() == before


async def test_a_speed_that_the_driver_cannot_do(pty: PtyPair, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_speed(fd: int, request: int, argument: bytes = b"") -> bytes:
        raise OSError(22, "Invalid argument")

    before = open_descriptors()
    monkeypatch.setattr(fcntl, "ioctl", no_such_speed)
    assert await failure(Line(SerialSettings(str(pty.port), 31_250))) == "refused-settings"
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (PermissionError(13, "Permission denied"), "no-permission"),
        (OSError(16, "Device or resource busy"), "busy"),
        (termios.error(5, "Input/output error"), "gone"),
        (OSError(12, "Cannot allocate memory"), "io-error"),
        (OSError("without a number"), "io-error"),
    ],
)
def test_errors_become_causes(error: OSError | termios.error, cause: str) -> None:
    assert ports.cause_of(error) == cause


async def test_closing_from_within_a_callback_is_final(pty: PtyPair, line: Line) -> None:
    losses: list[str] = []
    await line.open(lambda _: line.close(), losses.append)
    pty.send(b"bye")
    await until(lambda: line._fd is None, "closed")
    pty.unplug()
    await asyncio.sleep(0.02)
    assert losses == []


# --- drivers that take their time ----------------------------------------------------------------


async def test_a_port_that_hangs_at_the_open_holds_up_nobody(
    pty: PtyPair, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's driver waits for its chip: seconds in which the other tables play on."""
    go, opened = threading.Event(), threading.Event()
    open_port = serial_transport._open_port

    def slowly(settings: SerialSettings) -> int:
        go.wait(30)
        fd = open_port(settings)
        opened.set()
        return fd

    with PtyPair(tmp_path / "other") as other_pty:
        other = Line(SerialSettings(str(other_pty.port), baud=9600))
        await other.start()
        monkeypatch.setattr("dollyd.drivers.transports.serial._open_port", slowly)
        monkeypatch.setattr("dollyd.drivers.transports.serial.HUNG_S", 0.1)
        before = open_descriptors()
        opening = asyncio.create_task(line.start())
        other_pty.send(b"played on")
        await until(lambda: other.heard == b"played on", "the other port read")
        with pytest.raises(TransportError, match="hung"):
            await opening
        assert await failure(line) == "hung"  # no second thread for a port that hangs
        go.set()
        await until(opened.is_set, "the late open")
        await until(lambda: open_descriptors() == before, "its descriptor closed")
        monkeypatch.undo()
        await line.start()
        pty.send(b"again")
        await until(lambda: line.heard == b"again", "bytes heard")
        other.close()


async def test_a_port_that_hangs_at_the_close_holds_up_nobody(
    pty: PtyPair, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def slowly(fd: int) -> None:
        go.wait(30)
        os.close(fd)

    await line.start()
    monkeypatch.setattr("dollyd.drivers.transports.serial._close_port", slowly)
    monkeypatch.setattr("dollyd.drivers.transports.serial.HUNG_S", 0.1)
    began_s = time.monotonic()
    line.close()
    assert time.monotonic() - began_s < 20
    assert await failure(line) == "hung"
    go.set()
    monkeypatch.undo()
    await line.start()  # behind the close
