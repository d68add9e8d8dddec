"""Faults of USB devices; names b<n> are entries of the fault list."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from random import Random

import pytest
from tests.support.pty_pair import until
from tests.support.usb_line import (
    ERRORS,
    FRAME,
    GONE,
    PID,
    VID,
    Line,
    assert_given_back,
    failure,
    settings,
    usb_threads,
)

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.table.session import DeviceSession
from dollyd.drivers.framing import AnyFrame, LineDecoder
from dollyd.drivers.transports import usb as usb_transport
from dollyd.drivers.transports import usb_device
from dollyd.drivers.transports.usb import UsbTransport
from dollyd.simulators.usb import SimulatedUsb
from dollyd.simulators.usb_gadget import Gadget, Interface
from dollyd.wire.errors import TransportError

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
        causes = await short_life(gadget, line, 0.1 if silent else 15)
        await line.end()
        assert time.monotonic() - started_s < 20
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
    bus: SimulatedUsb, gadget: Gadget, line: Line, timeout_ms: int
) -> None:
    line._settings = settings(timeout_ms=timeout_ms)
    await line.start()
    await until(lambda: "bulk_read" in bus.names(), "the read hangs")
    with gadget.changed:  # the read cannot end, and close does not wait for it
        line.close()
    started_s = time.monotonic()
    await line.end()
    await until(lambda: not usb_threads(), "thread ended")
    assert time.monotonic() - started_s < 2.0 + 2.0, "and what a busy machine may add"
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
