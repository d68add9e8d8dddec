"""What was found, for people, and as sections of a configuration."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dollyd.daemon.discovery.identity import Identity, who_is_there
from dollyd.daemon.discovery.known import ADAPTERS, GENERATORS
from dollyd.daemon.discovery.sysfs import (
    SerialPort,
    UsbDevice,
    equal_devices,
    is_generator,
    serial_ports,
    stable_name,
    usb_devices,
)
from dollyd.daemon.host.machine import Host
from dollyd.drivers import DRIVERS

CONSOLES = "/sys/class/tty/console/active"
"""Where the kernel writes its messages and somebody may log in: no device of a table is there."""


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """One device that a configuration can name. `port`: the most stable name that it has."""

    port: str
    node: str
    usb: UsbDevice | None
    held_by: tuple[str, ...]
    identity: Identity


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that is plugged in. `others`: USB devices that no driver fits."""

    devices: tuple[FoundDevice, ...]
    others: tuple[UsbDevice, ...]
    collisions: tuple[tuple[UsbDevice, ...], ...]
    """Adapters that say the same of themselves: only their sockets tell them apart."""


async def discover(host: Host) -> Found:
    """Look at everything, and listen at the free ports where that is safe; takes some seconds."""
    ports, usb = serial_ports(host), usb_devices(host)
    identities = await asyncio.gather(*(_identity(host, port) for port in ports))
    devices = [
        FoundDevice(stable_name(port, ports), port.node, port.usb, port.held_by, identity)
        for port, identity in zip(ports, identities, strict=True)
    ]
    behind = {device.usb.plug for device in devices if device.usb is not None}
    for device in usb:
        driver = GENERATORS.get(device.ids, "")
        if device.plug not in behind and driver and DRIVERS[driver].usb is not None:
            name = _usb_name(device, usb)
            devices.append(
                FoundDevice(name, "", device, (), Identity(driver, "odds", {}, "known by its ids"))
            )
            behind.add(device.plug)
    interesting = [device for device in usb if device.plug in behind]
    return Found(
        tuple(devices),
        tuple(device for device in usb if device.plug not in behind),
        tuple(tuple(group) for group in equal_devices(interesting)),
    )


async def _identity(host: Host, port: SerialPort) -> Identity:
    if is_generator(port) and port.usb is not None:
        return Identity(GENERATORS[port.usb.ids], "odds", {}, "known by its ids, not opened")
    if port.node.removeprefix("/dev/") in host.read(CONSOLES).split():
        return Identity(note="not asked: it is the kernel's console")
    if port.held_by:
        return Identity(note="not asked: it is held")
    if port.usb is not None and port.usb.ids not in ADAPTERS:
        return Identity(note="not asked: not an adapter that is known to take it well")
    return await who_is_there(host, port.node)


def _usb_name(device: UsbDevice, others: Iterable[UsbDevice]) -> str:
    name = f"usb:{device.vid}:{device.pid}"
    alone = sum(other.is_equal_to == device.is_equal_to for other in others) == 1
    if device.serial and alone:
        return f"{name}:serial={device.serial}"
    return name if alone else f"{name}:path={device.plug}"


# --- telling -------------------------------------------------------------------------------------


def lines(found: Found) -> Iterator[str]:
    """For people."""
    if not found.devices:
        yield "no serial port and no generator is plugged in"
    for device in found.devices:
        yield device.port
        if device.node and device.node != device.port:
            yield f"  now {device.node}"
        if (usb := device.usb) is not None:
            serial = usb.serial or "none"
            yield f"  {usb.name} ({usb.vid}:{usb.pid}), serial number {serial}, at {usb.plug}"
        yield f"  {_who(device.identity)}"
        for holder in device.held_by:
            yield f"  held by {holder}"
    for group in found.collisions:
        plugs = ", ".join(device.plug for device in group)
        yield f"collision: {plugs} are equal ({group[0].name}); name them by socket, and never swap the plugs"
    for other in found.others:
        yield f"no driver fits {other.name} ({other.vid}:{other.pid}) at {other.plug}"


def _who(identity: Identity) -> str:
    said = ", ".join(f"{key} {value}" for key, value in identity.said.items() if value)
    parts = (
        f"driver {identity.driver}, role {identity.role}" if identity.driver else "",
        said,
        identity.note,
    )
    return "; ".join(part for part in parts if part)


def configuration(found: Found, table: str = "TABLE") -> Iterator[str]:
    """Sections for the configuration, a line at a time; what must be filled in is in capitals."""
    names: Counter[str] = Counter()
    for device in found.devices:
        identity = device.identity
        role = identity.role or "ROLE"
        names[role] += 1
        name = role.lower() if names[role] == 1 else f"{role.lower()}-{names[role]}"
        section = [f"[tables.{table}.devices.{name}]", f"driver = {_quoted(identity.driver or 'DRIVER')}"]
        section += [f"role = {_quoted(role)}", f"port = {_quoted(device.port)}"]
        if expect := _expected(identity.said):
            section.append(
                f"expect = {{ {', '.join(f'{key} = {_quoted(text)}' for key, text in expect.items())} }}"
            )
        if identity.driver == "tlp" and role == "odds":
            section.append('secret_file = "odds.key"')
        mark = "" if identity.driver else "# "
        yield from ("", *(mark + line for line in section))


def _expected(said: Mapping[str, str]) -> dict[str, str]:
    """What of an identity binds a device to its table."""
    return {key: said[key] for key in ("serial", "pockets") if said.get(key)}


def _quoted(text: str) -> str:
    return json.dumps(text)  # a basic string of TOML, for printable text
