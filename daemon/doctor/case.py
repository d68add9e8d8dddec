"""Everything that the doctor knows of a machine before it judges."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path, PurePath

from dollyd.daemon.brokers.finding import Finding as BrokerFinding
from dollyd.daemon.discovery.listening import Heard
from dollyd.daemon.discovery.sysfs import SerialPort, UsbDevice, serial_ports, usb_devices
from dollyd.daemon.doctor.credentials import absent, from_sources
from dollyd.daemon.doctor.unit import Unit, read_unit
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.machine import Host
from dollyd.daemon.host.self_check import SEALED
from dollyd.daemon.link.from_settings import mqtt_settings
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.daemon.settings.load import DeviceSettings, Settings, read
from dollyd.daemon.settings.ports import check_port
from dollyd.daemon.table.chains import Keyring, load_keyring
from dollyd.drivers.transports.usb_port import UsbSettings
from dollyd.wire.errors import ConfigError

_ACCESS_LIST = "system.posix_acl_access"
_PROGRAMS = frozenset({"dollyd", "dollyd.daemon"})
"""What stands before `run` in the daemon's command line."""


BE_ROOT = "run this as root"
"""What is to be done where only the right to look is missing."""


class Severity(StrEnum):
    """Whether play suffers, or may suffer one day."""

    FAULT = "fault"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong. `id` names the kind of fault, `remedy` is what to do, in one line."""

    id: str
    severity: Severity
    what: str
    remedy: str


def fault(id_: str, what: str, remedy: str) -> Finding:
    """Play suffers from this."""
    return Finding(id_, Severity.FAULT, what, remedy)


def warning(id_: str, what: str, remedy: str) -> Finding:
    """Play may suffer from this one day."""
    return Finding(id_, Severity.WARNING, what, remedy)


@dataclass(frozen=True, slots=True)
class Case:
    """One machine with one configuration. What could not be loaded is None, and why is in `refused`.

    `heard` by the device's key in the configuration; `brokers` by address.
    """

    host: Host
    file: str
    clock: Clock
    settings: Settings | None = None
    keyring: Keyring | None = None
    mqtt: MqttSettings | None = None
    refused: tuple[ConfigError, ...] = ()
    ports: tuple[SerialPort, ...] = ()
    usb: tuple[UsbDevice, ...] = ()
    unit: Unit = field(default_factory=Unit)
    heard: Mapping[str, Heard] = field(default_factory=dict)
    brokers: Mapping[str, list[BrokerFinding]] = field(default_factory=dict)
    package: Path = SEALED

    def devices(self) -> Iterator[DeviceSettings]:
        """All devices of the configuration."""
        for table in self.settings.tables.values() if self.settings is not None else ():
            yield from table.devices.values()

    def bound(self) -> Iterator[tuple[DeviceSettings, SerialPort]]:
        """The configured devices whose serial ports the kernel lists, with them."""
        by_node = {port.node: port for port in self.ports}
        for device in self.devices():
            port = by_node.get(self.host.real(device.section.port)) if device.usb is None else None
            if port is not None:
                yield device, port

    def meant_by(self, wanted: UsbSettings) -> list[UsbDevice]:
        """The plugged devices that a port `usb:...` means; it should be one."""
        ids = (f"{wanted.vid:04x}", f"{wanted.pid:04x}")
        return [
            one
            for one in self.usb
            if one.ids == ids and wanted.serial in {"", one.serial} and wanted.port_path in {"", one.plug}
        ]

    def bound_usb(self) -> list[UsbDevice]:
        """The USB devices that the configuration depends on."""
        found = [port.usb for _, port in self.bound() if port.usb is not None]
        for device in self.devices():
            found += self.meant_by(device.usb) if device.usb is not None else []
        return found

    def is_daemon(self, pid: str) -> bool:
        """Whether a process is the daemon itself."""
        words = self.host.read(f"/proc/{pid}/cmdline").split("\0")
        runs = any(PurePath(a).name in _PROGRAMS and b == "run" for a, b in pairwise(words))
        return runs or pid == self.unit.told("MainPID")

    @property
    def daemon_runs(self) -> bool:
        """Whether the daemon is there at this moment."""
        return any(self.is_daemon(pid) for pid in self.host.names("/proc") if pid.isdecimal())

    def may_use(self, path: Path) -> bool:
        """Whether the service may read and write a path. Raises OSError."""
        return os.access(path, os.R_OK | os.W_OK) if self.user is None else self.user.may_use(path)

    @property
    def is_asked_for_another(self) -> bool:
        """Whether the service runs as another user than the one who asks."""
        return self.user is not None and self.user.uid != os.geteuid()

    @property
    def user(self) -> Account | None:
        """Who will use the ports: the unit's user, or whoever asks; None where that is root."""
        name = self.unit.told("User")
        return account(self.host, name, self.unit.told("SupplementaryGroups").split()) if name else _asking()


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the machine, and the groups that he is in."""

    name: str
    uid: int
    gids: frozenset[int]

    def may_use(self, path: Path) -> bool:
        """Whether he may read and write a file, by its owner, group and mode. Raises OSError."""
        return self._may(path, 0o6)

    def may_read(self, path: Path, root: Path = Path("/")) -> bool:
        """Whether he may read a file and pass every folder above it, up to `root`. Raises OSError."""
        path = path.absolute()
        folders = {*path.parents, *path.resolve().parents}
        passes = (self._may(folder, 0o1) for folder in folders if folder.is_relative_to(root))
        return self._may(path, 0o4) and all(passes)

    def _may(self, path: Path, rights: int) -> bool:
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid in self.gids else 0
        return (status.st_mode >> shift) & rights == rights or _has_access_list(path)


def _has_access_list(path: Path) -> bool:
    """Whether others have rights beside those of the mode; who, is not looked up."""
    try:
        return _ACCESS_LIST in os.listxattr(path)
    except OSError:  # a file system without
        return False


def account(host: Host, name: str, more_groups: list[str]) -> Account | None:
    """A user by name; None where the machine has none of this name, or he is root."""
    users = (line.split(":") for line in host.read("/etc/passwd").splitlines())
    found = next((user for user in users if user[0] == name and len(user) > 3), None)
    if found is None or found[2] == "0":
        return None
    gids = {int(found[3])}
    for line in host.read("/etc/group").splitlines():
        group = line.split(":")
        if len(group) > 3 and (group[0] in more_groups or name in group[3].split(",")):
            gids.add(int(group[2]))
    return Account(name, int(found[2]), frozenset(gids))


def group_name(host: Host, gid: int) -> str:
    """The name of a group, its number where it has none."""
    groups = (line.split(":") for line in host.read("/etc/group").splitlines())
    return next((group[0] for group in groups if len(group) > 2 and group[2] == str(gid)), str(gid))


def _asking() -> Account | None:
    uid = os.geteuid()
    return Account(f"uid {uid}", uid, frozenset({os.getegid(), *os.getgroups()})) if uid else None


def open_case(config: Path, host: Host, clock: Clock, package: Path = SEALED) -> Case:
    """Gather what can be seen without opening a port or asking a broker. Never raises for what is wrong."""
    draft = read(config)
    faults, settings = draft.faults, draft.settings
    keyring, mqtt = None, None
    unit = read_unit(host)
    if settings is not None:
        settings = from_sources(settings, unit, host)
        unseen = {key.split(".")[0] for key, _ in absent(settings)}
        if not ("mqtt" in unseen or faults.at("mqtt")):
            with faults.kept():
                mqtt = mqtt_settings(settings)
        if not ("signing" in unseen or faults.at("signing")):
            with faults.kept():
                keyring = load_keyring(settings)
    for device in draft.devices:
        with faults.kept():
            check_port(faults.file, device)
    usable = not faults.at("", "site", "node", "journal", "tables")
    return Case(
        host=host,
        file=str(config),
        clock=clock,
        settings=settings if usable else None,
        keyring=keyring,
        mqtt=mqtt,
        refused=tuple(faults.found),
        ports=tuple(serial_ports(host)),
        usb=tuple(usb_devices(host)),
        unit=unit,
        package=package,
    )
