"""The USB transport through real pyusb on a simulated bus. Names b<n> are entries of the fault list."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import pytest
import usb.backend.libusb1
from tests.support.pty_pair import until

from dollyd.daemon.clock import SystemClock
from dollyd.daemon.errors import InvariantError, TransportError
from dollyd.daemon.session import DeviceSession
from dollyd.drivers.framing import AnyFrame, LineDecoder
from dollyd.drivers.transports import usb as usb_transport
from dollyd.drivers.transports import usb_device
from dollyd.drivers.transports.usb import WAITING_BYTES, WRITE_BUFFER_BYTES, UsbTransport
from dollyd.drivers.transports.usb_port import UsbSettings, parse_usb
from dollyd.simulators.usb import SimulatedUsb
from dollyd.simulators.usb_gadget import Gadget, Interface

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


@pytest.fixture(scope="module", autouse=True)
def quick_collection() -> Iterator[None]:
    """Let `gc.collect` look at what this module made only: it is asked for often."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def gadget() -> Gadget:
    return Gadget(VID, PID, serial="00A1", interfaces=(Interface(kernel_driver=True),))


@pytest.fixture
async def bus(gadget: Gadget) -> SimulatedUsb:
    return SimulatedUsb(gadget)


@pytest.fixture
async def line(bus: SimulatedUsb, gadget: Gadget) -> AsyncIterator[Line]:
    transport = Line(bus)
    yield transport
    await transport.end()
    await until(lambda: not usb_threads(), "thread ended")
    assert_given_back(bus, gadget)


async def failure(line: Line) -> str:
    with pytest.raises(TransportError) as caught:
        await line.start()
    return str(caught.value)


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


async def test_own_bug_in_the_thread_is_raised_by_the_next_open(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(device: usb_device.UsbDevice) -> bytes:
        raise ZeroDivisionError

    await line.start()
    monkeypatch.setattr(usb_device.UsbDevice, "read", broken)
    await until(lambda: line.losses == ["bug"], "loss noticed")
    with pytest.raises(InvariantError):
        await line.start()
    line._last = None


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


# B20: no call to a device that is gone, no loop


@pytest.mark.parametrize("number", sorted(GONE))
async def test_b20_a_device_that_is_gone_is_lost_once_and_found_again(
    bus: SimulatedUsb, gadget: Gadget, line: Line, number: int
) -> None:
    await line.start()
    gadget.write(FRAME)
    await until(lambda: line.heard == FRAME, "heard")
    bus.fail(number, "bulk_read", times=1000)
    await until(lambda: bool(line.losses), "loss noticed")
    reads = bus.names().count("bulk_read")
    await asyncio.sleep(0.05)
    assert line.losses == ["gone"]
    assert bus.names().count("bulk_read") == reads
    assert bus.failed == 1, "no second try on a device that is gone"
    assert line.counters == {}


async def test_b20_unplugged_and_back_under_another_address(
    bus: SimulatedUsb, gadget: Gadget, line: Line
) -> None:
    for turn in range(5):
        await line.start()
        gadget.write(b"%d" % turn)
        await until(lambda: line.heard.endswith(b"%d" % turn), "heard")  # noqa: B023  waited for here
        address = gadget.address
        bus.unplug(gadget)
        await until(lambda: len(line.losses) == turn + 1, "loss noticed")  # noqa: B023  waited for here
        assert await failure(line) == "not-found"
        bus.plug(gadget)
        assert gadget.address != address
    assert set(line.losses) == {"gone"}


async def short_life(gadget: Gadget, line: Line, patience_s: float) -> list[str]:
    """A life with everything in it, both ways; the causes of its end, none where all went well.

    A device whose reads time out for good is silent, which is no loss: the session's periods tell.
    """
    try:
        await line.start()
    except TransportError as error:
        return [str(error)]
    deadline_s = time.monotonic() + patience_s
    told = -1
    while not line.losses and not (FRAME in line.heard and gadget.heard):
        if line.overruns() > told:  # at first, and where the frame in progress became void
            told = line.overruns()
            gadget.write(FRAME)
            line.write(FRAME)
        if time.monotonic() > deadline_s:
            return ["silent"]
        await asyncio.sleep(0.001)
    return line.losses


@pytest.mark.parametrize("number", ERRORS.values(), ids=ERRORS.keys())
@pytest.mark.parametrize("times", [1, 10_000], ids=["once", "for-good"])
async def test_b20_every_call_fails_in_turn(number: int, times: int) -> None:
    """Whatever call fails: no hang, one cause, the handle closed in its thread, the driver given back."""
    silent = (number, times) == (ERRORS["ETIMEDOUT"], 10_000)
    buses = []
    for after in range(200):
        second = Interface(1, endpoint_in=0x82, endpoint_out=0x02)
        gadget = Gadget(VID, PID, serial="00A1", interfaces=(Interface(kernel_driver=True), second))
        bus = SimulatedUsb(gadget)
        line = Line(bus, serial="00A1", timeout_ms=2, write_deadline_ms=10)
        bus.fail(number, after=after, times=times)
        started_s = time.monotonic()
        causes = await short_life(gadget, line, 0.1 if silent else 5)
        await line.end()
        assert time.monotonic() - started_s < 2
        assert len(causes) <= 1, causes
        assert causes != ["silent"] or silent
        if causes and number in GONE:
            assert causes == ["gone"]
        if times == 1:  # where everything fails from here on, nothing can be given back
            assert gadget.interfaces[0].driver_bound, bus.names()
        buses.append(bus)
        if bus.failed == 0:
            break
    assert buses[-1].failed == 0, "the last life was the sound one"
    assert len(buses) > 20
    gc.collect()
    assert [bus.complaints for bus in buses if bus.complaints or bus.open_handles()] == []
    await until(lambda: not usb_threads(), "threads ended")


# B21: the other interfaces are not our business


async def test_b21_a_kernel_driver_on_another_interface_does_not_disturb() -> None:
    gadget = Gadget(
        VID,
        PID,
        interfaces=(
            Interface(kernel_driver=True),
            Interface(1, endpoint_in=0x82, endpoint_out=0x02, kernel_driver=True),
        ),
    )
    bus = SimulatedUsb(gadget)
    line = Line(bus, interface=1, endpoint_in=0x82, endpoint_out=0x02)
    await line.start()
    gadget.write(FRAME, interface=1)
    await until(lambda: line.heard == FRAME, "heard")
    assert "set_configuration" not in bus.names()
    assert gadget.interfaces[0].driver_bound
    assert not gadget.interfaces[1].driver_bound
    await line.end()
    assert_given_back(bus, gadget)


async def test_b21_a_device_that_is_not_configured_is_configured() -> None:
    gadget = Gadget(VID, PID, configured=False)
    bus = SimulatedUsb(gadget)
    line = Line(bus)
    await line.start()
    assert gadget.configured
    await line.end()
    assert_given_back(bus, gadget)


# B22: what was taken is given back


@pytest.mark.parametrize("call", ["claim_interface", "release_interface"])
async def test_b22_kernel_driver_is_given_back_after_a_failure(
    bus: SimulatedUsb, gadget: Gadget, call: str
) -> None:
    line = Line(bus)
    bus.fail(16, call)
    if call == "claim_interface":
        assert await failure(line) == "busy"
    else:
        await line.start()
    await line.end()
    assert_given_back(bus, gadget)
    assert "attach_kernel_driver" in bus.names()


async def test_b22_a_start_after_a_kill_between_detach_and_claim_works(gadget: Gadget, line: Line) -> None:
    gadget.interfaces[0].driver_bound = False  # as a killed daemon left it
    await line.start()
    gadget.write(FRAME)
    await until(lambda: line.heard == FRAME, "heard")
    gadget.interfaces[0].kernel_driver = False  # not ours to give back: we did not take it


async def test_b22_a_driver_that_cannot_be_given_back_is_counted(bus: SimulatedUsb, gadget: Gadget) -> None:
    line = Line(bus)
    await line.start()
    bus.fail(16, "attach_kernel_driver", times=2)
    await line.end()
    assert line.counters == {"kernel-driver-not-returned": 1}
    assert bus.open_handles() == 0


# B23: one thread, one handle


@pytest.mark.parametrize("timeout_ms", [1, 250])
async def test_b23_a_hanging_read_is_cancelled_within_2_s(
    bus: SimulatedUsb, line: Line, timeout_ms: int
) -> None:
    line._settings = settings(timeout_ms=timeout_ms)
    await line.start()
    await until(lambda: "bulk_read" in bus.names(), "the read hangs")
    started_s = time.monotonic()
    line.close()
    assert time.monotonic() - started_s < 0.05, "close does not wait"
    await line.end()
    await until(lambda: not usb_threads(), "thread ended")
    assert time.monotonic() - started_s < 1
    assert {call.thread for call in bus.calls} == {"usb:1d50:60c6"}


async def test_b23_a_reopen_waits_for_the_read_before(bus: SimulatedUsb, gadget: Gadget, line: Line) -> None:
    line._settings = settings(timeout_ms=200)
    await line.start()
    await until(lambda: "bulk_read" in bus.names(), "the read hangs")
    line.close()
    await line.start()
    assert bus.open_handles() == 1
    await until(lambda: len(usb_threads()) == 1, "the first thread ended")


async def test_b23_a_call_that_never_ends_keeps_the_next_open_away(
    bus: SimulatedUsb, gadget: Gadget, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usb_transport, "END_S", 0.05)
    await line.start()
    await until(lambda: "bulk_read" in bus.names(), "the read hangs")
    with gadget.changed:  # the read cannot end
        line.close()
        assert await failure(line) == "hung"
        assert len(usb_threads()) == 1
    monkeypatch.undo()
    await line.start()


def test_b23_a_loop_that_ended_first_leaves_a_device_that_is_given_back(gadget: Gadget) -> None:
    bus = SimulatedUsb(gadget)

    async def brief() -> None:
        line = Line(bus, timeout_ms=50)
        await line.start()
        line.close()

    asyncio.run(brief())
    for thread in threading.enumerate():
        if thread.name.startswith("usb:"):
            thread.join(2)
    assert_given_back(bus, gadget)


async def test_b23_a_time_out_without_end_cannot_be_configured() -> None:
    for timeout_ms in (0, 251):
        with pytest.raises(ValueError, match="timeout_ms"):
            settings(timeout_ms=timeout_ms)


async def test_b23_two_devices_do_not_disturb_each_other() -> None:
    calm, wild = Gadget(VID, PID, ports=(1,)), Gadget(VID, PID, ports=(2,))
    bus = SimulatedUsb(calm, wild)
    first, second = Line(bus, port_path="1-1", timeout_ms=250), Line(bus, port_path="1-2")
    await first.start()
    for turn in range(10):
        await second.start()
        calm.write(b"%d" % turn)
        wild.write(FRAME * 10)
        await until(lambda: len(second.heard) == 350 * (turn + 1), "the wild one heard")  # noqa: B023  waited for here
        bus.unplug(wild)
        await until(lambda: len(second.losses) == turn + 1, "loss noticed")  # noqa: B023  waited for here
        bus.plug(wild)
    await until(lambda: first.heard == b"0123456789", "the calm one heard all")
    assert first.losses == []
    await until(lambda: usb_threads() == ["usb:1d50:60c6:path=1-1"], "the wild one's thread ended")
    await first.end()
    await second.end()
    assert_given_back(bus, calm, wild)


# B24: the ladder


async def test_b24_a_halt_is_cleared_and_what_was_on_its_way_is_void(
    bus: SimulatedUsb, gadget: Gadget, line: Line
) -> None:
    await line.start()
    gadget.halt(0x81)
    gadget.write(FRAME)
    await until(lambda: FRAME in line.heard, "heard again")
    assert line.counters == {"clear-halt": 1}
    assert line.chunks == [b"", FRAME], "the loss is told before the next chunk"
    assert line.overruns() == 1
    assert line.losses == []


async def test_b24_a_halt_that_stays_is_reset_and_the_interface_claimed_again(
    bus: SimulatedUsb, gadget: Gadget, line: Line
) -> None:
    await line.start()
    gadget.halt(0x81, until_reset=True)
    gadget.write(FRAME)
    await until(lambda: FRAME in line.heard, "heard again")
    assert line.counters == {"clear-halt": 1, "reset": 1}
    assert line.overruns() == 2
    assert line.losses == []
    assert bus.names().count("claim_interface") == 2


async def test_b24_a_device_that_stays_halted_is_lost(bus: SimulatedUsb, line: Line) -> None:
    await line.start()
    bus.fail(32, "bulk_read", times=1000)
    await until(lambda: bool(line.losses), "loss noticed")
    assert line.losses == ["stalled"]
    assert line.counters == {"clear-halt": 1, "reset": 1}
    assert bus.failed == 3


async def test_b24_a_step_that_fails_leads_to_the_next(bus: SimulatedUsb, gadget: Gadget, line: Line) -> None:
    await line.start()
    bus.fail(110, "clear_halt")
    gadget.halt(0x81)
    gadget.write(FRAME)
    await until(lambda: FRAME in line.heard, "heard again")
    assert line.counters == {"clear-halt": 1, "reset": 1}
    assert line.overruns() == 1


async def test_b24_repairs_are_earned_again_by_a_sound_time(
    gadget: Gadget, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usb_device, "SOUND_S", 0.05)
    await line.start()
    for turn in range(1, 5):
        gadget.halt(0x81)
        await until(lambda: line.overruns() == turn, "repaired")  # noqa: B023  waited for here
        await asyncio.sleep(0.06)
    assert line.counters == {"clear-halt": 4}
    assert line.losses == []


async def test_b24_a_halted_out_endpoint_is_cleared_and_the_order_not_repeated(
    gadget: Gadget, line: Line
) -> None:
    await line.start()
    gadget.halt(0x01)
    assert line.write(b"DRW 1\r\n")
    await until(lambda: line.overruns() == 1, "repaired")
    assert line.write(b"DRW 2\r\n")
    await until(lambda: bool(gadget.heard), "sent")
    assert bytes(gadget.heard) == b"DRW 2\r\n"
    assert line.losses == []


class Diary:
    """A sink that writes down what the session tells."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def opened(self) -> None:
        self.entries.append("opened")

    def received(self, frames: list[AnyFrame]) -> bool:
        self.entries += [str(frame) for frame in frames]
        return True

    def lost(self, cause: str) -> None:
        self.entries.append(f"lost {cause}")


async def test_b24_the_session_declares_the_gap(bus: SimulatedUsb, gadget: Gadget) -> None:
    diary = Diary()
    transport = UsbTransport(settings(), bus)
    session = DeviceSession("wheel", transport, LineDecoder(), diary, clock=SystemClock(), random=Random(1))
    running = asyncio.create_task(session.run())
    await until(lambda: diary.entries == ["opened"], "open")
    gadget.write(FRAME[:20])
    await until(lambda: session.counters["bytes"] == 20, "half a frame")
    gadget.halt(0x81)
    gadget.write(FRAME)
    await until(lambda: len(diary.entries) == 4, "a whole frame")
    assert diary.entries[1:3] == ["lost overrun", "opened"]
    assert "WHSTA" in diary.entries[3]
    assert session.counters["overruns"] == 1
    bus.unplug(gadget)
    bus.plug(gadget)
    await until(lambda: len(diary.entries) == 6, "back again")
    assert diary.entries[4:] == ["lost gone", "opened"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(lambda: not usb_threads(), "thread ended")
    assert_given_back(bus, gadget)


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
    assert time.monotonic() - started_s < 0.5
    assert line.heard == FRAME, "reading goes on meanwhile"


async def test_a_device_that_pauses_is_not_lost(gadget: Gadget, line: Line) -> None:
    line._settings = settings(write_deadline_ms=400)
    gadget.takes_bytes = 0
    await line.start()
    assert line.write(b"*X\r\n")
    await asyncio.sleep(0.05)
    with gadget.changed:
        gadget.takes_bytes = None
        gadget.changed.notify_all()
    await until(lambda: bytes(gadget.heard) == b"*X\r\n", "sent")
    await asyncio.sleep(0.45)
    assert line.losses == []


async def test_a_slow_device_that_makes_progress_is_not_lost(gadget: Gadget, line: Line) -> None:
    line._settings = settings(write_deadline_ms=60)
    gadget.takes_bytes = 20  # every 10 ms
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
    await asyncio.sleep(0.3)
    assert time.process_time() - started < 0.1
    assert bus.names().count("bulk_read") < 100
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
