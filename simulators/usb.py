"""Simulated USB devices behind pyusb: a backend that plays the kernel, libusb and the bus.

    driver --pyusb--> SimulatedUsb (bus, handles, claims, faults) --> Gadget <--write / on_data--> model

A `Gadget` is a `Link` of `simulators.runner`, so every model that speaks on a pty speaks on USB too. The bus
keeps the rules that drivers break: claims, kernel drivers, halted endpoints, handles that outlive a device.
It fails any call on demand, records all of them with their threads, and notes misuse in `complaints`.
"""
# ruff: noqa: ARG002  pyusb tells a backend more than a simulated device wants to know

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import usb.backend

from dollyd.simulators.usb_gadget import Gadget, Handle, Interface, fail_with

_LANGUAGE = 0x0409
_BULK = 2
_SERIAL_INDEX = 3


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the driver and the name of the thread that made it."""

    name: str
    thread: str


class SimulatedUsb(usb.backend.IBackend):  # type: ignore[misc]  # pyusb ships no types
    """The bus, as a backend of pyusb.

    `calls`: all of them, in order. `complaints`: what a driver did that real libusb may answer with a crash.
    `failed`: how many calls failed because of `fail`.
    """

    def __init__(self, *gadgets: Gadget) -> None:
        self.calls: list[Call] = []
        self.complaints: list[str] = []
        self.handles: list[Handle] = []
        self.failed = 0
        self._lock = threading.RLock()
        self._gadgets: list[Gadget] = []
        self._addresses = 3
        self._plans: list[SimpleNamespace] = []
        for gadget in gadgets:
            self.plug(gadget)

    def plug(self, gadget: Gadget) -> None:
        """The device appears, each time under another address; its kernel drivers bind."""
        with self._lock:
            self._addresses += 1
            gadget.plugged(self._addresses)
            self._gadgets.append(gadget)

    def unplug(self, gadget: Gadget) -> None:
        """The device vanishes under the driver's hands: its calls end with ENODEV."""
        with self._lock:
            self._gadgets.remove(gadget)
        gadget.unplugged()

    def fail(self, number: int, call: str = "", *, after: int = 0, times: int = 1) -> None:
        """Let calls of this name fail, any call where it is empty: `times` of them, `after` as many good."""
        with self._lock:
            self._plans.append(SimpleNamespace(number=number, call=call, after=after, times=times))

    def open_handles(self) -> int:
        """Handles that were not closed."""
        return sum(not handle.closed for handle in self.handles)

    def names(self) -> list[str]:
        """Names of the calls so far."""
        return [call.name for call in self.calls]

    # What follows is the interface that pyusb calls.

    def enumerate_devices(self) -> Iterator[Gadget]:
        """What is plugged in."""
        self._enter("enumerate_devices")
        return iter(tuple(self._gadgets))

    def get_device_descriptor(self, dev: Gadget) -> SimpleNamespace:
        """Who a device is and where it is plugged in."""
        self._enter("get_device_descriptor")
        return SimpleNamespace(
            bLength=18,
            bDescriptorType=1,
            bcdUSB=0x0200,
            bDeviceClass=0,
            bDeviceSubClass=0,
            bDeviceProtocol=0,
            bMaxPacketSize0=64,
            idVendor=dev.vid,
            idProduct=dev.pid,
            bcdDevice=0x0100,
            iManufacturer=0,
            iProduct=0,
            iSerialNumber=_SERIAL_INDEX if dev.serial else 0,
            bNumConfigurations=1,
            address=dev.address,
            bus=dev.bus,
            port_number=dev.ports[-1],
            port_numbers=dev.ports,
            speed=2,
        )

    def get_configuration_descriptor(self, dev: Gadget, config: int) -> SimpleNamespace:
        """Every device has one configuration, number 1."""
        self._enter("get_configuration_descriptor")
        return SimpleNamespace(
            bLength=9,
            bDescriptorType=2,
            wTotalLength=0,
            bNumInterfaces=len(dev.interfaces),
            bConfigurationValue=config + 1,
            iConfiguration=0,
            bmAttributes=0x80,
            bMaxPower=50,
            extra_descriptors=[],
        )

    def get_interface_descriptor(self, dev: Gadget, intf: int, alt: int, config: int) -> SimpleNamespace:
        """A vendor-class interface without alternate settings."""
        self._enter("get_interface_descriptor")
        if alt > 0:
            raise IndexError("no further setting")
        interface = dev.interfaces[intf]
        return SimpleNamespace(
            bLength=9,
            bDescriptorType=4,
            bInterfaceNumber=interface.number,
            bAlternateSetting=alt,
            bNumEndpoints=len(interface.endpoints),
            bInterfaceClass=0xFF,
            bInterfaceSubClass=0,
            bInterfaceProtocol=0,
            iInterface=0,
            extra_descriptors=[],
        )

    def get_endpoint_descriptor(
        self, dev: Gadget, ep: int, intf: int, alt: int, config: int
    ) -> SimpleNamespace:
        """A bulk endpoint."""
        self._enter("get_endpoint_descriptor")
        interface = dev.interfaces[intf]
        return SimpleNamespace(
            bLength=7,
            bDescriptorType=5,
            bEndpointAddress=interface.endpoints[ep],
            bmAttributes=_BULK,
            wMaxPacketSize=interface.packet_bytes,
            bInterval=0,
            bRefresh=0,
            bSynchAddress=0,
            extra_descriptors=[],
        )

    def open_device(self, dev: Gadget) -> Handle:
        """A handle for the thread that asks."""
        self._enter("open_device")
        if not dev.present:
            fail_with(19)
        handle = Handle(dev)
        self.handles.append(handle)
        return handle

    def close_device(self, dev_handle: Handle) -> None:
        """Never fails, as libusb_close does not; the kernel drops what the handle had claimed."""
        self._note("close_device", dev_handle)
        with self._lock:
            dev_handle.closed = True
            for interface in dev_handle.gadget.interfaces:
                if interface.claimed_by is dev_handle:
                    interface.claimed_by = None

    def set_configuration(self, dev_handle: Handle, config_value: int) -> None:
        """Refused while any interface is held, as by usbfs."""
        gadget = self._enter_device("set_configuration", dev_handle)
        if any(interface.driver_bound or interface.claimed_by for interface in gadget.interfaces):
            fail_with(16)
        gadget.configured = True

    def get_configuration(self, dev_handle: Handle) -> int:
        """1, or 0 where the device is not configured."""
        return int(self._enter_device("get_configuration", dev_handle).configured)

    def claim_interface(self, dev_handle: Handle, intf: int) -> None:
        """Refused while a kernel driver or another handle has the interface."""
        interface = self._interface("claim_interface", dev_handle, intf)
        with self._lock:
            if interface.driver_bound or interface.claimed_by not in {None, dev_handle}:
                fail_with(16)
            interface.claimed_by = dev_handle

    def release_interface(self, dev_handle: Handle, intf: int) -> None:
        """Refused where this handle has not claimed it."""
        interface = self._interface("release_interface", dev_handle, intf)
        if interface.claimed_by is not dev_handle:
            fail_with(2)
        interface.claimed_by = None

    def is_kernel_driver_active(self, dev_handle: Handle, intf: int) -> bool:
        """Whether the kernel's own driver has the interface."""
        return self._interface("is_kernel_driver_active", dev_handle, intf).driver_bound

    def detach_kernel_driver(self, dev_handle: Handle, intf: int) -> None:
        """Take the interface from the kernel's driver."""
        interface = self._interface("detach_kernel_driver", dev_handle, intf)
        if not interface.driver_bound:
            fail_with(2)
        interface.driver_bound = False

    def attach_kernel_driver(self, dev_handle: Handle, intf: int) -> None:
        """Give it back; refused while a handle has claimed it."""
        interface = self._interface("attach_kernel_driver", dev_handle, intf)
        if interface.claimed_by is not None:
            fail_with(16)
        if interface.driver_bound or not interface.kernel_driver:
            fail_with(2)
        interface.driver_bound = True

    def clear_halt(self, dev_handle: Handle, ep: int) -> None:
        """Let a halted endpoint go on."""
        self._enter_device("clear_halt", dev_handle).recover(ep)

    def reset_device(self, dev_handle: Handle) -> None:
        """Restart the device; all halts end, and a kernel driver may take what nobody has claimed."""
        gadget = self._enter_device("reset_device", dev_handle)
        gadget.recover(None)
        for interface in gadget.interfaces:
            interface.driver_bound = interface.kernel_driver and interface.claimed_by is None

    def bulk_read(self, dev_handle: Handle, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """One IN transfer; blocks until it is complete or the time is up."""
        interface = self._transfer("bulk_read", dev_handle, intf, timeout)
        data = dev_handle.gadget.take(dev_handle, interface, len(buff), timeout)
        buff[: len(data)] = array("B", data)
        self._still_open("bulk_read", dev_handle)
        return len(data)

    def bulk_write(self, dev_handle: Handle, ep: int, intf: int, data: array[int], timeout: int) -> int:
        """One OUT transfer; blocks while the device takes nothing."""
        interface = self._transfer("bulk_write", dev_handle, intf, timeout)
        taken = dev_handle.gadget.hear(dev_handle, interface, data.tobytes(), timeout)
        self._still_open("bulk_write", dev_handle)
        return taken

    def ctrl_transfer(
        self,
        dev_handle: Handle,
        bmRequestType: int,  # noqa: N803  pyusb passes it by this name
        bRequest: int,  # noqa: N803
        wValue: int,  # noqa: N803
        wIndex: int,  # noqa: N803
        data: array[int],
        timeout: int,
    ) -> int:
        """GET_DESCRIPTOR of the serial number and of its language; anything else stalls."""
        gadget = self._enter_device("ctrl_transfer", dev_handle)
        texts = {
            0x0300: _LANGUAGE.to_bytes(2, "little"),
            0x0300 | _SERIAL_INDEX: gadget.serial.encode("utf-16-le"),
        }
        if (bmRequestType, bRequest) != (0x80, 6) or wValue not in texts:
            fail_with(32)
        answer = bytes([2 + len(texts[wValue]), 3]) + texts[wValue]
        data[: len(answer)] = array("B", answer)
        return len(answer)

    # What follows keeps the books.

    def _note(self, name: str, handle: Handle | None) -> None:
        with self._lock:
            self.calls.append(Call(name, threading.current_thread().name))
        if handle is not None and handle.thread != threading.get_ident():
            self.complaints.append(f"{name} in {threading.current_thread().name}, not in the handle's thread")
        if handle is not None:
            self._still_open(name, handle)

    def _still_open(self, name: str, handle: Handle) -> None:
        if handle.closed:
            self.complaints.append(f"{name} on a closed handle")

    def _enter(self, name: str, handle: Handle | None = None) -> None:
        """Record a call, and fail it where that was planned."""
        self._note(name, handle)
        with self._lock:
            for plan in self._plans:
                if plan.call not in {"", name} or plan.times == 0:
                    continue
                if plan.after > 0:
                    plan.after -= 1
                    continue
                plan.times -= 1
                self.failed += 1
                fail_with(plan.number)

    def _enter_device(self, name: str, handle: Handle) -> Gadget:
        self._enter(name, handle)
        if not handle.alive:
            fail_with(19)
        return handle.gadget

    def _interface(self, name: str, handle: Handle, number: int) -> Interface:
        gadget = self._enter_device(name, handle)
        for interface in gadget.interfaces:
            if interface.number == number:
                return interface
        return fail_with(2)

    def _transfer(self, name: str, handle: Handle, number: int, timeout_ms: int) -> Interface:
        interface = self._interface(name, handle, number)
        if timeout_ms < 1:
            self.complaints.append(f"{name} without a time-out")
        if interface.claimed_by is not handle:
            self.complaints.append(f"{name} on an interface that is not claimed")
        return interface
