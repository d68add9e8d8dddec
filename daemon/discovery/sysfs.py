"""Serial ports and USB devices as the kernel lists them in /sys. Nothing is opened.

The library that could do this, pyudev, needs libudev and its data base, which a container has not; these few
files are the kernel's interface and are always there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dollyd.daemon.discovery.known import ADAPTERS, GENERATORS
from dollyd.daemon.host.machine import Host
from dollyd.daemon.settings.ports import USB_NODES
from dollyd.drivers.transports.ports import holders

TTYS = "/sys/class/tty"
USB = "/sys/bus/usb/devices"
_SERIAL_TTY = re.compile(r"tty(USB|ACM|AMA|S|XRUSB)[0-9]+")
_PLUG = re.compile(r"[0-9]+-[0-9.]+")
_BY_SERIAL = ("/dev/dolly/by-serial", "/dev/serial/by-id")
_BY_PLUG = ("/dev/dolly/by-path", "/dev/serial/by-path")


@dataclass(frozen=True, slots=True)
class UsbDevice:
    """One USB device; empty where it does not say. `plug`: its socket's name, as in the kernel's log."""

    plug: str
    vid: str
    pid: str
    vendor: str
    product: str
    serial: str
    power: str
    """`on`, or `auto`: the kernel puts it to sleep when nobody speaks."""
    number: str
    """Major and minor of its node, e.g. `189:3`."""
    node: str
    """Where it is opened over USB itself, e.g. `/dev/bus/usb/001/004`."""

    @property
    def ids(self) -> tuple[str, str]:
        """Vendor and product number."""
        return self.vid, self.pid

    @property
    def name(self) -> str:
        """For people."""
        said = " ".join(part for part in (self.vendor, self.product) if part)
        return ADAPTERS.get(self.ids) or said or f"{self.vid}:{self.pid}"

    @property
    def is_equal_to(self) -> tuple[str, str, str]:
        """What two devices have in common that no name by serial number can tell apart."""
        return self.vid, self.pid, self.serial


@dataclass(frozen=True, slots=True)
class SerialPort:
    """One serial port. `by_serial` and `by_plug`: links to it that stay, best one first."""

    node: str
    number: str
    usb: UsbDevice | None
    by_serial: tuple[str, ...]
    by_plug: tuple[str, ...]
    latency_ms: int
    """How long an FTDI adapter waits for more bytes before it hands them over; 0: has no such timer."""
    held_by: tuple[str, ...]
    """E.g. `brltty (pid 812)`; those of other users are seen by root only."""


def usb_devices(host: Host) -> list[UsbDevice]:
    """Every USB device but the hubs."""
    plugs = (name for name in host.names(USB) if _PLUG.fullmatch(name))
    return [_usb(host, f"{USB}/{name}", name) for name in plugs if not _is_hub(host, f"{USB}/{name}")]


def serial_ports(host: Host) -> list[SerialPort]:
    """Every serial port behind which there is a chip."""
    links = {folder: _links(host, folder) for folder in (*_BY_SERIAL, *_BY_PLUG)}
    return [_port(host, name, links) for name in host.names(TTYS) if _is_port(host, name)]


def equal_devices(devices: Iterable[UsbDevice]) -> Iterator[list[UsbDevice]]:
    """Groups of devices that say the same of themselves."""
    groups: dict[tuple[str, str, str], list[UsbDevice]] = {}
    for device in devices:
        groups.setdefault(device.is_equal_to, []).append(device)
    yield from (group for group in groups.values() if len(group) > 1)


def stable_name(port: SerialPort, ports: Iterable[SerialPort]) -> str:
    """The name under which a configuration finds the port again after a restart or a replug.

    By serial number where the adapter has one of its own; else by its socket; else the kernel's own.
    """
    count = Counter(other.usb.is_equal_to for other in ports if other.usb is not None)
    unique = port.usb is not None and port.usb.serial != "" and _alone(port, ports, count)
    names = (*(port.by_serial if unique else ()), *port.by_plug)
    return names[0] if names else port.node


def _alone(port: SerialPort, ports: Iterable[SerialPort], count: Counter[tuple[str, str, str]]) -> bool:
    """Whether its device is the only one of its kind and number; it may have several ports."""
    if port.usb is None:
        return False
    same = sum(other.usb == port.usb for other in ports)
    return count[port.usb.is_equal_to] == same


def is_generator(port: SerialPort) -> bool:
    """Whether it must not be opened to find out who it is."""
    return port.usb is not None and port.usb.ids in GENERATORS


# --- reading -------------------------------------------------------------------------------------


def _usb(host: Host, folder: str, plug: str) -> UsbDevice:
    return UsbDevice(
        plug=plug,
        vid=host.read(f"{folder}/idVendor"),
        pid=host.read(f"{folder}/idProduct"),
        vendor=host.read(f"{folder}/manufacturer"),
        product=host.read(f"{folder}/product"),
        serial=host.read(f"{folder}/serial"),
        power=host.read(f"{folder}/power/control"),
        number=host.read(f"{folder}/dev"),
        node=f"{USB_NODES}/{host.read(f'{folder}/busnum'):0>3}/{host.read(f'{folder}/devnum'):0>3}",
    )


def _is_hub(host: Host, folder: str) -> bool:
    return host.read(f"{folder}/bDeviceClass") == "09"


def _is_port(host: Host, name: str) -> bool:
    """A USB adapter's port, or one of the board: of those the kernel also lists sockets without a chip."""
    if not _SERIAL_TTY.fullmatch(name) or not host.path(f"{TTYS}/{name}/device").exists():
        return False
    return not name.startswith("ttyS") or host.read(f"{TTYS}/{name}/type") not in {"", "0"}


def _port(host: Host, name: str, links: dict[str, dict[str, str]]) -> SerialPort:
    node = f"/dev/{name}"
    latency = host.read(f"/sys/bus/usb-serial/devices/{name}/latency_timer")
    return SerialPort(
        node=node,
        number=host.read(f"{TTYS}/{name}/dev"),
        usb=_usb_behind(host, host.real(f"{TTYS}/{name}/device")),
        by_serial=tuple(links[folder][node] for folder in _BY_SERIAL if node in links[folder]),
        by_plug=tuple(links[folder][node] for folder in _BY_PLUG if node in links[folder]),
        latency_ms=int(latency) if latency.isdecimal() else 0,
        held_by=tuple(holders(node, host.path("/proc"))),
    )


def _usb_behind(host: Host, device: str) -> UsbDevice | None:
    """The USB device that a kernel device belongs to: the nearest folder above with a vendor number."""
    while device.count("/") > 1:
        if host.path(f"{device}/idVendor").exists():
            return _usb(host, device, device.rsplit("/", 1)[1])
        device = device.rsplit("/", 1)[0]
    return None


def _links(host: Host, folder: str) -> dict[str, str]:
    """Links of a folder by the node that they lead to; of several the first."""
    found: dict[str, str] = {}
    for name in host.names(folder):
        found.setdefault(host.real(f"{folder}/{name}"), f"{folder}/{name}")
    return found
