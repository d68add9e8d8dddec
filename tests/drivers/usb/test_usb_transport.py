"""The USB transport through real pyusb on a simulated bus."""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

import pytest
import usb.backend.libusb1
from tests.support.pty_pair import until
from tests.support.usb_line import (
    FRAME,
    PID,
    VID,
    Line,
    assert_given_back,
    failure,
    settings,
)

from dollyd.drivers.transports import usb_device
from dollyd.drivers.transports.usb import WAITING_BYTES, WRITE_BUFFER_BYTES, UsbTransport
from dollyd.drivers.transports.usb_port import UsbSettings, parse_usb
from dollyd.simulators.usb import SimulatedUsb
from dollyd.simulators.usb_gadget import Gadget, Interface
from dollyd.wire.errors import TransportError


async def test_bytes_pass_unchanged_both_ways(gadget: Gadget, line: Line) -> None:
    await line.start()
    every_byte = bytes(range(256))
    gadget.write(every_byte)
    assert line.write(every_byte)
    await until(lambda: line.heard == every_byte, "all bytes heard")
    await until(lambda: bytes(gadget.heard) == every_byte, "all bytes sent")
    assert line.overruns() == 0


@pytest.mark.parametrize("read_bytes", [None, 4096])
async def test_a_megabyte_arrives_whole_and_in_order(
    bus: SimulatedUsb, gadget: Gadget, line: Line, read_bytes: int | None
) -> None:
    line._settings = settings(read_bytes=read_bytes)
    await line.start()
    data = Random(7).randbytes(1_000_000)
    for at in range(0, len(data), 50_000):
        gadget.write(data[at : at + 50_000])
    await until(lambda: sum(map(len, line.chunks)) == len(data), "all of it heard")
    assert line.heard == data
    assert line.overruns() == 0


async def test_a_stalled_loop_leaves_the_device_to_wait_and_loses_nothing(gadget: Gadget, line: Line) -> None:
    gadget.interfaces[0].packet_bytes = 512
    await line.start()
    data = Random(8).randbytes(2 * WAITING_BYTES)
    gadget.write(data)
    assert line._connection is not None
    for _ in range(500):
        time.sleep(0.01)  # noqa: ASYNC251  a stalled loop is the very thing
        if line._connection._waiting_bytes >= WAITING_BYTES:
            break
    time.sleep(0.05)  # noqa: ASYNC251  as above
    assert line.chunks == []
    assert WAITING_BYTES <= line._connection._waiting_bytes < WAITING_BYTES + 512
    await until(lambda: line.heard == data, "all of it heard")


async def test_neither_callback_before_open_has_returned(gadget: Gadget, line: Line) -> None:
    returned = False
    early: list[bytes] = []

    def heard(data: bytes) -> None:
        if not returned:
            early.append(data)
        line.chunks.append(data)

    gadget.write(FRAME)
    # The loop is busy while the thread opens: whatever it posts meanwhile runs before `open` can go on.
    asyncio.get_running_loop().call_soon(time.sleep, 0.05)
    await line.open(heard, line.losses.append)
    returned = True
    await until(lambda: line.heard == FRAME, "heard")
    assert early == []


async def test_a_closed_transport_calls_nobody_back(gadget: Gadget, line: Line) -> None:
    await line.start()
    gadget.write(FRAME)
    time.sleep(0.03)  # noqa: ASYNC251  the chunk is posted, and must not run before the close
    line.close()
    line.close()
    await asyncio.sleep(0.03)
    assert (line.chunks, line.losses) == ([], [])
    assert not line.write(b"x")
    assert line.overruns() == 0


async def test_a_cancelled_open_lets_go(bus: SimulatedUsb, gadget: Gadget, line: Line) -> None:
    with bus._lock:  # the thread is held up in its first call
        opening = asyncio.create_task(line.start())
        await asyncio.sleep(0.01)
        opening.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await opening
    await line.start()
    gadget.write(FRAME)
    await until(lambda: line.heard == FRAME, "the next open works")


async def test_reopened_50_times(bus: SimulatedUsb, line: Line) -> None:
    for _ in range(50):
        await line.start()
        line.close()
    assert line.losses == []
    assert bus.open_handles() <= 1


async def test_f6_whatever_a_library_raises_in_the_thread_is_a_lost_device_that_opens_again(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(device: usb_device.UsbDevice) -> bytes:
        raise ZeroDivisionError

    await line.start()
    with monkeypatch.context() as patches:
        patches.setattr(usb_device.UsbDevice, "read", broken)
        await until(lambda: line.losses == ["driver-error"], "loss noticed")
    assert "ZeroDivisionError" in line.explain("driver-error")
    await line.start()


# Which device


def gadgets_of_a_hall() -> tuple[Gadget, ...]:
    return (
        Gadget(VID, PID, serial="A", ports=(1,)),
        Gadget(VID, PID, serial="B", ports=(2, 3)),
        Gadget(VID, PID, ports=(4,)),
        Gadget(0x0403, 0x6001, serial="A", ports=(5,)),
    )


@pytest.mark.parametrize(
    ("wanted", "which"),
    [({"serial": "A"}, 0), ({"serial": "B"}, 1), ({"port_path": "1-4"}, 2), ({"port_path": "1-2.3"}, 1)],
)
async def test_the_device_is_known_by_serial_or_place(wanted: dict[str, str], which: int) -> None:
    gadgets = gadgets_of_a_hall()
    bus = SimulatedUsb(*gadgets)
    line = Line(bus, **wanted)
    await line.start()
    gadgets[which].write(FRAME)
    await until(lambda: line.heard == FRAME, "the right device heard")
    assert bus.open_handles() == 1, "the others are left alone"
    await line.end()
    assert_given_back(bus, *gadgets)


@pytest.mark.parametrize(
    ("wanted", "cause", "detail"),
    [
        ({}, "ambiguous", "1-1, 1-2.3, 1-4"),
        ({"serial": "C"}, "not-found", "serial=C"),
        ({"serial": "A", "port_path": "1-4"}, "not-found", "path=1-4"),
        ({"pid": 1}, "not-found", "1d50:0001"),
        ({"serial": "A", "interface": 1}, "no-endpoint", "interface 1"),
        ({"serial": "A", "endpoint_in": 0x85}, "no-endpoint", "interface 0"),
        ({"serial": "A", "endpoint_out": 0x02}, "no-endpoint", "interface 0"),
        ({"serial": "A", "read_bytes": 100}, "refused-settings", "serial=A"),
    ],
)
async def test_a_device_that_cannot_be_meant_is_refused(
    wanted: dict[str, Any], cause: str, detail: str
) -> None:
    gadgets = gadgets_of_a_hall()
    bus = SimulatedUsb(*gadgets)
    line = Line(bus, **wanted)
    assert await failure(line) == cause
    assert detail in line.explain(cause)
    await line.end()
    assert_given_back(bus, *gadgets)


async def test_a_neighbour_that_answers_nothing_does_not_hide_the_right_device() -> None:
    neighbour, right = Gadget(VID, PID, serial="A", ports=(1,)), Gadget(VID, PID, serial="B", ports=(2,))
    bus = SimulatedUsb(neighbour, right)
    bus.fail(13, "open_device")
    line = Line(bus, serial="B")
    await line.start()
    await line.end()
    bus.fail(13, "open_device")
    line = Line(bus, serial="A")
    assert await failure(line) == "no-permission"
    assert "udev" in line.explain("no-permission")
    await line.end()
    assert_given_back(bus, neighbour, right)


async def test_an_interface_that_another_process_holds_is_busy(bus: SimulatedUsb, line: Line) -> None:
    bus.fail(16, "claim_interface")
    assert await failure(line) == "busy"
    assert line.explain("busy") == "held by a process that we may not see"


async def test_without_libusb_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[None] = []
    monkeypatch.setattr(usb.backend.libusb1, "get_backend", lambda: searches.append(None))
    usb_device.search_libusb.cache_clear()
    line = UsbTransport(settings())
    for _ in range(3):
        with pytest.raises(TransportError, match=r"^no-libusb$"):
            await line.open(lambda _: None, lambda _: None)
    usb_device.search_libusb.cache_clear()
    assert "libusb-1.0-0" in line.explain("no-libusb")
    assert len(searches) == 1, "a search starts processes, and is not made at every retry"


async def test_the_real_libusb_finds_no_such_device() -> None:
    if usb.backend.libusb1.get_backend() is None:
        pytest.skip("libusb 1.0 is not installed on this machine")
    lines = [UsbTransport(settings(vid=0xFFFF, pid=0xFFFE)) for _ in range(3)]
    for _ in range(3):
        opened = [line.open(lambda _: None, lambda _: None) for line in lines]
        answers = await asyncio.gather(*opened, return_exceptions=True)
        assert [str(answer) for answer in answers] == ["not-found"] * 3


async def test_a_cancelled_open_that_fails_is_no_loss(bus: SimulatedUsb, line: Line) -> None:
    bus.fail(19)
    with bus._lock:  # the thread is held up in its first call
        opening = asyncio.create_task(line.start())
        await asyncio.sleep(0.01)
    time.sleep(0.03)  # noqa: ASYNC251  the failure is posted, and must not run before the cancellation
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert line.losses == []


async def test_closed_while_being_opened(bus: SimulatedUsb, line: Line) -> None:
    with bus._lock:  # the thread is held up in its first call
        opening = asyncio.create_task(line.start())
        await asyncio.sleep(0.01)
        line.close()
    with pytest.raises(TransportError, match=r"^closed$"):
        await opening
    assert line.losses == []


# Time-outs


async def test_a_transfer_cut_off_by_the_time_out_is_a_gap(gadget: Gadget, line: Line) -> None:
    line._settings = settings(read_bytes=256)
    gadget.marks_ends = False
    await line.start()
    gadget.write(bytes(128))
    await until(lambda: line.chunks == [bytes(128)], "the part heard")
    assert line.overruns() == 1
    assert line.counters == {"cut-off": 1}
    gadget.write(FRAME)
    await until(lambda: len(line.chunks) == 2, "a whole transfer heard")
    assert line.overruns() == 1


@pytest.mark.parametrize("size", [1, 63, 64, 65, 128, 192])
async def test_whole_messages_are_no_gap_read_by_packets(gadget: Gadget, line: Line, size: int) -> None:
    gadget.marks_ends = False
    await line.start()
    gadget.write(bytes(size))
    await until(lambda: line.heard == bytes(size), "heard")
    await asyncio.sleep(0.02)
    assert line.overruns() == 0


async def test_a_device_that_takes_nothing_is_lost(gadget: Gadget, line: Line) -> None:
    line._settings = settings(write_deadline_ms=60)
    gadget.takes_bytes = 0
    await line.start()
    assert line.write(b"*X\r\n")
    started_s = time.monotonic()
    gadget.write(FRAME)
    await until(lambda: bool(line.losses), "write deadline")
    assert line.losses == ["write-timeout"]
    assert time.monotonic() - started_s < 5
    assert line.heard == FRAME, "reading goes on meanwhile"


async def test_a_device_that_pauses_is_not_lost(gadget: Gadget, line: Line) -> None:
    line._settings = settings(write_deadline_ms=1_000)
    gadget.takes_bytes = 0
    await line.start()
    assert line.write(b"*X\r\n")
    await asyncio.sleep(0.05)
    with gadget.changed:
        gadget.takes_bytes = None
        gadget.changed.notify_all()
    await until(lambda: bytes(gadget.heard) == b"*X\r\n", "sent")
    await asyncio.sleep(1.05)
    assert line.losses == []


async def test_a_slow_device_that_makes_progress_is_not_lost(gadget: Gadget, line: Line) -> None:
    line._settings = settings(write_deadline_ms=500)
    gadget.takes_bytes = 2  # every 10 ms
    order = bytes(range(250))
    await line.start()
    assert line.write(order)
    await until(lambda: bytes(gadget.heard) == order, "sent whole and in order")
    assert line.losses == []


async def test_outgoing_buffer_is_bounded_and_takes_whole_messages_only(gadget: Gadget, line: Line) -> None:
    assert not line.write(b"closed")
    gadget.takes_bytes = 0
    await line.start()
    assert not line.write(bytes(WRITE_BUFFER_BYTES + 1))
    assert line.write(b"short")
    assert not line.write(bytes(WRITE_BUFFER_BYTES))


async def test_a_read_only_device_takes_nothing() -> None:
    gadget = Gadget(VID, PID, interfaces=(Interface(endpoint_in=0x85, endpoint_out=None),))
    bus = SimulatedUsb(gadget)
    line = Line(bus, endpoint_in=0x85, endpoint_out=None)
    await line.start()
    gadget.write(b"noise")
    await until(lambda: line.heard == b"noise", "heard")
    assert not line.write(b"x")
    await line.end()
    assert_given_back(bus, gadget)


async def test_empty_packets_without_end_do_not_spin(bus: SimulatedUsb, gadget: Gadget, line: Line) -> None:
    await line.start()
    for _ in range(10_000):
        gadget.write(b"")
    started = time.process_time()
    await asyncio.sleep(1)
    assert time.process_time() - started < 0.4
    assert bus.names().count("bulk_read") < 300
    assert line.chunks == []


# The text of a port


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("usb:1d50:60c6", UsbSettings(VID, PID)),
        ("usb:1D50:60C6:serial=00A1", UsbSettings(VID, PID, serial="00A1")),
        ("usb:1d50:60c6:path=1-2.3:serial=x", UsbSettings(VID, PID, serial="x", port_path="1-2.3")),
        (
            "usb:1d50:60c6:interface=1:in=0x85:out=2",
            UsbSettings(VID, PID, interface=1, endpoint_in=0x85, endpoint_out=2),
        ),
    ],
)
def test_port_text_is_understood(text: str, expected: UsbSettings) -> None:
    assert parse_usb(text) == expected
    assert parse_usb(expected.name).serial == expected.serial
    assert parse_usb(expected.name).port_path == expected.port_path


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("/dev/ttyUSB0", "not of the form"),
        ("usb:1d50", "not of the form"),
        ("usb:1d5:60c6", "VID '1d5'"),
        ("usb:1d50:60c6g", "PID '60c6g'"),
        ("usb:1d50:60c6:serial=", "serial=''"),
        ("usb:1d50:60c6:serial=a b", "serial='a b'"),
        ("usb:1d50:60c6:path=2", "path='2'"),
        ("usb:1d50:60c6:speed=2", "'speed=2' is none of serial=, path="),
        ("usb:1d50:60c6:", "'' is none of"),
        ("usb:1d50:60c6:serial=a:serial=b", "twice"),
        ("usb:1d50:60c6:in=1", "no IN endpoint"),
        ("usb:1d50:60c6:out=81", "no OUT endpoint"),
        ("usb:1d50:60c6:interface=x", "interface='x'"),
    ],
)
def test_port_text_that_means_nothing_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the text is compared below, without escapes
        parse_usb(text)
    assert problem in str(caught.value)
    assert problem in str(caught.value)


async def test_an_endless_stream_is_read_at_the_pace_that_was_set(gadget: Gadget, bus: SimulatedUsb) -> None:
    gadget.marks_ends = False
    gadget.write(bytes(64 * 1000))
    line = Line(bus, pause_ms=20)
    await line.start()
    started_s = time.monotonic()
    await until(lambda: len(line.chunks) >= 5, "chunks")
    assert len(line.chunks) <= 2 + (time.monotonic() - started_s) / 0.02
    await line.end()


async def test_a_pause_does_not_hold_up_the_end(gadget: Gadget, bus: SimulatedUsb) -> None:
    gadget.marks_ends = False
    gadget.write(bytes(64 * 1000))
    line = Line(bus, pause_ms=60_000)
    await line.start()
    await until(lambda: len(line.chunks) == 1, "the first chunk")
    started_s = time.monotonic()
    await line.end()
    assert time.monotonic() - started_s < 30
