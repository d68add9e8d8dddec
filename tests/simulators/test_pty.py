"""A real pseudo-terminal, opened as a driver opens it, and the runner that drives a model over it."""

from __future__ import annotations

import asyncio
import errno
import os
import select
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import serial

from dollyd.simulators.clock import VirtualClock
from dollyd.simulators.line import Line
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.runner import run_device
from dollyd.simulators.ss2 import COMPACT, Ss2Wheel
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for is the kernel's
            await asyncio.sleep(0.002)


def read_some(port: int, wanted: int) -> bytes:
    """Up to `wanted` bytes that are there, or come within a second."""
    data = b""
    while len(data) < wanted and select.select([port], [], [], 1)[0]:
        data += os.read(port, wanted - len(data))
    return data


async def test_bytes_go_both_ways_unchanged(tmp_path: Path) -> None:
    link = PtyLink(tmp_path / "wheel")
    heard = bytearray()
    link.on_data = heard.extend
    link.plug()
    every_byte = bytes(range(256))
    with serial.Serial(str(link.path), 9600, timeout=1, exclusive=True) as port:
        link.write(every_byte)
        assert port.read(256) == every_byte
        port.write(every_byte)
        await until(lambda: bytes(heard) == every_byte)
    link.unplug()


async def test_unplug_hangs_up_and_takes_the_name_away(tmp_path: Path) -> None:
    link = PtyLink(tmp_path / "wheel")
    link.plug()
    port = os.open(link.path, os.O_RDWR | os.O_NOCTTY)
    try:
        link.unplug()
        assert not link.path.is_symlink()
        poll = select.poll()
        poll.register(port, select.POLLIN)
        assert poll.poll(1000)[0][1] & select.POLLHUP
        try:
            assert os.read(port, 1) == b""
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017 - both are what a pulled cable gives
    finally:
        os.close(port)
    link.write(b"into the void")
    assert link.dropped_bytes == 13


async def test_plugged_again_under_another_number_while_the_host_holds_the_old(tmp_path: Path) -> None:
    link = PtyLink(tmp_path / "wheel")
    link.plug()
    first = link.path.readlink()
    port = os.open(link.path, os.O_RDWR | os.O_NOCTTY)
    link.unplug()
    link.plug()
    second = link.path.readlink()
    os.close(port)
    port = os.open(link.path, os.O_RDWR | os.O_NOCTTY)
    link.write(b"again")
    assert read_some(port, 5) == b"again"
    os.close(port)
    link.unplug()
    assert first != second


async def test_without_a_host_bytes_are_lost_and_nothing_spins(tmp_path: Path) -> None:
    link = PtyLink(tmp_path / "wheel")
    link.plug()
    link.write(b"nobody")
    port = os.open(link.path, os.O_RDWR | os.O_NOCTTY)
    os.close(port)
    link.write(b"gone")
    await asyncio.sleep(0.05)
    before = os.times()
    await asyncio.sleep(0.1)
    after = os.times()
    assert after.user + after.system - before.user - before.system < 0.05
    assert link.dropped_bytes == 10
    port = os.open(link.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        os.read(port, 1)
    os.close(port)
    link.unplug()


async def test_a_host_that_does_not_read_does_not_block_the_device(tmp_path: Path) -> None:
    link = PtyLink(tmp_path / "wheel")
    link.plug()
    port = os.open(link.path, os.O_RDWR | os.O_NOCTTY)
    for _ in range(300):
        link.write(b"x" * 1024)
    assert link.dropped_bytes > 100_000
    os.close(port)
    link.unplug()


async def test_wheel_over_a_pty_in_virtual_time(tmp_path: Path) -> None:
    clock = VirtualClock()
    now_ns = clock.stamp().mono_ns
    wheel = Ss2Wheel(COMPACT, Random(5), now_ns)
    link = PtyLink(tmp_path / "wheel")
    link.plug()
    life = asyncio.create_task(run_device(wheel, link, clock, Line(Random(1))))
    expected = Ss2Wheel(COMPACT, Random(5), now_ns).advance(now_ns + 2 * NS_PER_S)
    with serial.Serial(str(link.path), 9600, timeout=1) as port:
        await clock.run_for(2 * NS_PER_S)
        assert port.read(len(expected)) == expected
        await asyncio.sleep(0.05)  # the link looks for a host every 20 ms
        port.write(b"*T Z\r\n")
        await until(lambda: port.in_waiting >= 9)
        assert port.read(9) == b"*T z 37\r\n"
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    link.unplug()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - pathlib is said to block in a coroutine


async def test_delayed_chunks_leave_at_their_own_time(tmp_path: Path) -> None:
    clock = VirtualClock()
    wheel = Ss2Wheel(COMPACT, Random(5), clock.stamp().mono_ns)
    link = PtyLink(tmp_path / "wheel")
    link.plug()
    line = Line(Random(1))
    line.faults.set("line-bytes")
    life = asyncio.create_task(run_device(wheel, link, clock, line))
    first_ns = wheel.due_ns()
    assert first_ns is not None
    port = os.open(link.path, os.O_RDWR | os.O_NOCTTY)
    await clock.run_for(first_ns - clock.stamp().mono_ns + 5 * NS_PER_MS)
    assert read_some(port, 5) == b"*X;6;"
    os.close(port)
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    link.unplug()
