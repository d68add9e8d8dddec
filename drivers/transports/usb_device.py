"""One USB device as its owner thread sees it: found, claimed, read, repaired, given back.

Every method blocks, and all of them belong to one thread: neither pyusb nor libusb lets a handle be closed
while another thread reads from it. Each call ends after the configured time-out. Trouble is a
`TransportError` with one of these causes:

    no-libusb, not-found, ambiguous, no-permission, busy, no-endpoint, refused-settings
    gone, stalled, no-answer, garbled, io-error

A device that answers with an error is repaired at most twice in a while: the halt of the endpoint is cleared,
then the device is reset. Whatever was on its way is void then, and counted in `gaps`.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections import Counter
from functools import cache
from typing import Any

import usb.backend.libusb1
import usb.core
import usb.util

from dollyd.drivers.transports.usb_port import UsbSettings
from dollyd.wire.errors import TransportError

USB_ERRORS = (usb.core.USBError, NotImplementedError, ValueError, IndexError)
"""What pyusb raises for a device that fails. The last two: a descriptor could not be read."""
SOUND_S = 10.0
"""A device that kept well for so long has earned two repairs again."""

_LOADING = threading.Lock()

_CAUSES = {
    errno.ENODEV: "gone",
    errno.ENOENT: "gone",
    errno.ENXIO: "gone",
    errno.EIO: "gone",
    errno.EACCES: "no-permission",
    errno.EPERM: "no-permission",
    errno.EBUSY: "busy",
    errno.EPIPE: "stalled",
    errno.ETIMEDOUT: "no-answer",
    errno.EOVERFLOW: "garbled",
}


def libusb() -> Any:
    """The backend for libusb 1.0, or None where that is not installed, until the process ends."""
    with _LOADING:  # pyusb loads it without a lock, and two threads may ask at once
        return search_libusb()


@cache
def search_libusb() -> Any:
    """Load libusb. Remembered, since a search that fails starts a compiler and takes 80 ms."""
    return usb.backend.libusb1.get_backend()


def cause_of(error: BaseException) -> str:
    """A short word for what went wrong; `io-error` where the error number says no more."""
    number = error.errno if isinstance(error, OSError) else None
    return "io-error" if number is None else _CAUSES.get(number, "io-error")


class UsbDevice:
    """`open` once, then `read` and `write`, then `close`, also after a failed `open`.

    `gaps`: how often bytes may have been lost since open. `counters`: `clear-halt`, `reset`, `cut-off` and
    `kernel-driver-not-returned`. `node`: the device's file once it is found. `found`: the places of all
    devices that fit the settings.
    """

    def __init__(self, settings: UsbSettings, backend: Any, counters: Counter[str]) -> None:
        self.gaps = 0
        self.node = ""
        self.found: tuple[str, ...] = ()
        self._settings = settings
        self._backend = backend
        self._counters = counters
        self._device: Any = None
        self._fitting: list[Any] = []
        self._read_bytes = 0
        self._packet_bytes = 0
        self._detached = False
        self._repairs = 0
        self._repaired_s = 0.0

    def open(self) -> None:
        """Find the device anew and claim its interface. Raises `TransportError`."""
        backend = self._backend or libusb()
        if backend is None:
            raise TransportError("no-libusb")
        try:
            self._device = self._find(backend)
            self._set_up()
        except USB_ERRORS as error:
            raise TransportError(cause_of(error)) from error

    def read(self) -> bytes:
        """What came within the time-out, nothing where the device had nothing to say.

        Raises `TransportError` where the device is lost.
        """
        started_s = time.monotonic()
        endpoint, timeout_ms = self._settings.endpoint_in, self._settings.timeout_ms
        try:
            data: bytes = self._device.read(endpoint, self._read_bytes, timeout_ms).tobytes()
        except usb.core.USBTimeoutError:
            return b""
        except USB_ERRORS as error:
            self._repair(endpoint, error)
            return b""
        if self._cut_off(len(data), time.monotonic() - started_s):
            self._counters["cut-off"] += 1
            self.gaps += 1
        return data

    def write(self, data: bytes) -> int:
        """Send what the device takes within the time-out; the number of bytes that are done with.

        What was on its way while a fault was repaired is not sent again: the device may have half of it.
        Raises `TransportError` where the device is lost.
        """
        endpoint = self._settings.endpoint_out
        try:
            return int(self._device.write(endpoint, data, self._settings.timeout_ms))
        except usb.core.USBTimeoutError:
            return 0
        except USB_ERRORS as error:
            self._repair(endpoint, error)
            return len(data)

    def close(self) -> None:
        """Give the interface and its kernel driver back. Never raises."""
        if self._device is not None:
            with contextlib.suppress(*USB_ERRORS):  # closing the handle releases it in any case
                usb.util.release_interface(self._device, self._settings.interface)
            if self._detached:
                self._attach_kernel_driver()
        for device in self._fitting:
            usb.util.dispose_resources(device)
        self._fitting.clear()
        self._device = None

    def _cut_off(self, count: int, took_s: float) -> bool:
        """Whether the time-out struck between two packets of a message.

        pyusb hands out such a part without a word. A message ends with a packet that is not full, so full
        packets only, fewer than asked for, at the end of the time-out, are a part.
        """
        in_time = took_s * 1000 < self._settings.timeout_ms
        return not in_time and 0 < count < self._read_bytes and count % self._packet_bytes == 0

    def _find(self, backend: Any) -> Any:
        trouble: BaseException | None = None
        ids = {"idVendor": self._settings.vid, "idProduct": self._settings.pid}
        for device in usb.core.find(find_all=True, backend=backend, **ids):
            device.default_timeout = self._settings.timeout_ms
            fits = False
            try:
                fits = self._is_meant(device)
            except USB_ERRORS as error:  # another one may be the right one
                trouble = error
            if fits:
                self._fitting.append(device)
            else:
                usb.util.dispose_resources(device)
        self.found = tuple(_port_path(device) for device in self._fitting)
        if trouble is not None and not self.found:
            raise trouble
        if len(self.found) != 1:
            raise TransportError("ambiguous" if self.found else "not-found")
        device = self._fitting[0]
        self.node = f"/dev/bus/usb/{device.bus:03}/{device.address:03}"
        return device

    def _is_meant(self, device: Any) -> bool:
        if self._settings.port_path not in {"", _port_path(device)}:
            return False
        return not self._settings.serial or _serial_number(device) == self._settings.serial

    def _set_up(self) -> None:
        """Check the endpoints and claim the interface, taking it from its kernel driver where it has one."""
        number = self._settings.interface
        packets = self._packet_sizes()
        if not {self._settings.endpoint_in, self._settings.endpoint_out} - {None} <= packets.keys():
            raise TransportError("no-endpoint")
        self._packet_bytes = packets[self._settings.endpoint_in]
        self._read_bytes = self._settings.read_bytes or self._packet_bytes
        if self._packet_bytes == 0 or self._read_bytes % self._packet_bytes:
            raise TransportError("refused-settings")
        if self._kernel_driver_active():
            self._device.detach_kernel_driver(number)
            self._detached = True
        usb.util.claim_interface(self._device, number)

    def _packet_sizes(self) -> dict[int, int]:
        """The bulk endpoints of our interface, in the configuration that is active.

        A configured device is not configured again: the kernel refuses that while any interface is in use,
        also one that is no business of ours.
        """
        try:
            configuration = self._device.get_active_configuration()
        except usb.core.USBError as error:
            if error.errno is not None:
                raise
            self._device.set_configuration()  # pyusb's word for "not configured" has no number
            configuration = self._device.get_active_configuration()
        for index in range(configuration.bNumInterfaces):
            interface = configuration[(index, 0)]
            if interface.bInterfaceNumber == self._settings.interface:
                return {
                    endpoint.bEndpointAddress: endpoint.wMaxPacketSize
                    for endpoint in interface
                    if usb.util.endpoint_type(endpoint.bmAttributes) == usb.util.ENDPOINT_TYPE_BULK
                }
        return {}

    def _kernel_driver_active(self) -> bool:
        try:
            return bool(self._device.is_kernel_driver_active(self._settings.interface))
        except NotImplementedError:  # a system without such drivers
            return False

    def _attach_kernel_driver(self) -> None:
        """Give the interface back to its driver.

        The second try is made through a fresh handle: closing the first one has dropped all claims.
        """
        cause = ""
        for _ in range(2):
            try:
                self._device.attach_kernel_driver(self._settings.interface)
            except USB_ERRORS as error:
                usb.util.dispose_resources(self._device)
                cause = cause_of(error)
            else:
                return
        if cause != "gone":
            self._counters["kernel-driver-not-returned"] += 1

    def _repair(self, endpoint: int | None, error: BaseException) -> None:
        """The next step of: clear the halt, reset, give up. A step that fails leads to the next at once.

        Raises `TransportError` with the cause where there is no further step, or nothing to repair.
        """
        cause = cause_of(error)
        if time.monotonic() - self._repaired_s > SOUND_S:
            self._repairs = 0
        while cause != "gone" and self._repairs < 2:
            self._repairs += 1
            self._repaired_s = time.monotonic()
            try:
                if self._repairs == 1:
                    self._counters["clear-halt"] += 1
                    self._device.clear_halt(endpoint)
                else:
                    self._counters["reset"] += 1
                    self._device.reset()
                    self._set_up()
            except USB_ERRORS as failed:
                cause = cause_of(failed)
            else:
                self.gaps += 1
                return
        raise TransportError(cause) from error


def _port_path(device: Any) -> str:
    """Name of the plug as in /sys/bus/usb/devices, e.g. 1-2.3."""
    return f"{device.bus}-{'.'.join(str(port) for port in device.port_numbers or ())}"


def _serial_number(device: Any) -> str:
    """What the device calls itself, empty where it has no such text.

    pyusb's own property hides a missing permission, so its two steps are made here.
    """
    if not device.iSerialNumber:
        return ""
    languages = usb.util.get_langids(device)
    return str(usb.util.get_string(device, device.iSerialNumber, languages[0])) if languages else ""
