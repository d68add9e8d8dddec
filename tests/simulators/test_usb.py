"""The simulated USB bus: it keeps the rules of the kernel and libusb, and drives the models of the ptys."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import usb.core
import usb.util

from dollyd.daemon.host.clock import SystemClock
from dollyd.drivers.transports.usb import UsbTransport
from dollyd.drivers.transports.usb_port import UsbSettings
from dollyd.simulators.line import Line
from dollyd.simulators.odds_box import OddsBox, OddsBoxOptions
from dollyd.simulators.runner import run_device
from dollyd.simulators.tlp import frame
from dollyd.simulators.usb import SimulatedUsb
from dollyd.simulators.usb_gadget import Gadget, Interface

VID, PID = 0x1D50, 0x60C6


@pytest.fixture
def gadget() -> Gadget:
    return Gadget(VID, PID, serial="äß-1", ports=(2, 3), interfaces=(Interface(kernel_driver=True),))


@pytest.fixture
def bus(gadget: Gadget) -> SimulatedUsb:
    return SimulatedUsb(gadget)


@pytest.fixture
def device(bus: SimulatedUsb) -> Iterator[Any]:
    found = usb.core.find(backend=bus, idVendor=VID)
    yield found
    usb.util.dispose_resources(found)


def claim(device: Any) -> None:
    device.detach_kernel_driver(0)
    usb.util.claim_interface(device, 0)


def errno_of(caught: pytest.ExceptionInfo[usb.core.USBError]) -> int:
    return int(caught.value.errno)


def test_pyusb_sees_a_device_with_its_descriptors(device: Any, bus: SimulatedUsb) -> None:
    assert (device.idVendor, device.idProduct, device.port_numbers) == (VID, PID, (2, 3))
    assert device.serial_number == "äß-1"
    (interface,) = device.get_active_configuration()
    assert [endpoint.bEndpointAddress for endpoint in interface] == [0x81, 0x01]
    assert usb.core.find(backend=bus, idVendor=0x0403) is None


def test_a_message_comes_in_packets_and_ends_with_one_that_is_not_full(device: Any, gadget: Gadget) -> None:
    claim(device)
    gadget.write(bytes(100))
    gadget.write(bytes(128))
    assert len(device.read(0x81, 64)) == 64
    assert len(device.read(0x81, 4096)) == 36, "a transfer ends with the message"
    assert len(device.read(0x81, 4096)) == 128


def test_a_time_out_hands_out_the_part_that_came_without_a_word(device: Any, gadget: Gadget) -> None:
    claim(device)
    gadget.marks_ends = False
    gadget.write(bytes(128))
    started_s = time.monotonic()
    assert len(device.read(0x81, 4096, 30)) == 128
    with pytest.raises(usb.core.USBTimeoutError):
        device.read(0x81, 4096, 30)
    assert time.monotonic() - started_s >= 0.06


def test_a_packet_larger_than_the_room_for_it_overflows(device: Any, gadget: Gadget) -> None:
    claim(device)
    gadget.write(bytes(60))
    with pytest.raises(usb.core.USBError) as caught:
        device.read(0x81, 10)
    assert errno_of(caught) == 75


def test_a_kernel_driver_keeps_others_out(device: Any) -> None:
    with pytest.raises(usb.core.USBError) as caught:
        usb.util.claim_interface(device, 0)
    assert errno_of(caught) == 16
    with pytest.raises(usb.core.USBError) as caught:
        device.set_configuration()
    assert errno_of(caught) == 16


def test_a_claim_keeps_the_kernel_driver_out_until_the_handle_is_closed(device: Any, gadget: Gadget) -> None:
    claim(device)
    with pytest.raises(usb.core.USBError) as caught:
        device.attach_kernel_driver(0)
    assert errno_of(caught) == 16
    usb.util.dispose_resources(device)
    device.attach_kernel_driver(0)
    assert gadget.interfaces[0].driver_bound


@pytest.mark.parametrize("endpoint", [0x81, 0x01])
def test_a_halt_lasts_until_it_is_cleared(device: Any, gadget: Gadget, endpoint: int) -> None:
    def transfer() -> None:
        if endpoint == 0x81:
            device.read(endpoint, 64)
        else:
            device.write(endpoint, b"x")

    claim(device)
    gadget.halt(endpoint)
    gadget.write(b"x")
    for _ in range(3):
        with pytest.raises(usb.core.USBError) as caught:
            transfer()
        assert errno_of(caught) == 32
    device.clear_halt(endpoint)
    transfer()


def test_an_unplugged_device_ends_the_read_and_stays_gone_for_the_old_handle(
    device: Any, bus: SimulatedUsb, gadget: Gadget
) -> None:
    claim(device)
    pulled = threading.Timer(0.03, bus.unplug, [gadget])
    pulled.start()
    started_s = time.monotonic()
    with pytest.raises(usb.core.USBError) as caught:
        device.read(0x81, 64, 60_000)
    assert errno_of(caught) == 19
    assert time.monotonic() - started_s < 30
    pulled.join()
    bus.plug(gadget)
    with pytest.raises(usb.core.USBError) as caught:
        device.read(0x81, 64, 10)
    assert errno_of(caught) == 19
    assert usb.core.find(backend=bus, idVendor=VID).address != device.address


def test_planned_failures_come_when_and_as_often_as_planned(device: Any, bus: SimulatedUsb) -> None:
    bus.fail(5, "is_kernel_driver_active", after=1, times=2)
    answers = []
    for _ in range(4):
        try:
            answers.append(device.is_kernel_driver_active(0))
        except usb.core.USBError as error:
            answers.append((error.errno, error.backend_error_code))
    assert answers == [True, (5, -1), (5, -1), True]
    bus.fail(38)
    with pytest.raises(NotImplementedError):
        device.clear_halt(0x81)


def test_misuse_is_noted(device: Any, bus: SimulatedUsb) -> None:
    claim(device)
    handle = bus.handles[0]
    stranger = threading.Thread(target=bus.get_configuration, args=[handle], name="stranger")
    stranger.start()
    stranger.join()
    usb.util.dispose_resources(device)
    bus.is_kernel_driver_active(handle, 0)
    assert bus.complaints == [
        "get_configuration in stranger, not in the handle's thread",
        "is_kernel_driver_active on a closed handle",
    ]
    assert bus.calls[-2].name == "close_device"
    assert "stranger" in {call.thread for call in bus.calls}


async def test_a_model_of_the_ptys_plays_a_usb_device() -> None:
    clock = SystemClock()
    box = OddsBox(OddsBoxOptions(), b"key", Random(4), clock.stamp().mono_ns, script=(2,))
    gadget = Gadget(VID, PID)
    bus = SimulatedUsb(gadget)
    heard = bytearray()
    transport = UsbTransport(UsbSettings(VID, PID, endpoint_out=0x01, timeout_ms=20), bus)
    playing = asyncio.create_task(run_device(box, gadget, clock, Line(Random(5))))
    try:
        await transport.open(heard.extend, lambda _: None)
        assert transport.write(frame("HC", "DRW", 9, "0412", "9C0D4E7A11B2F00D"))
        async with asyncio.timeout(5):
            while b"ODRES" not in heard:  # noqa: ASYNC110  the device knows no event
                await asyncio.sleep(0.002)
    finally:
        transport.close()
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
    assert b"$ODHEL,0" in heard
    assert b",0412,2,000000001,9C0D4E7A11B2F00D," in heard
