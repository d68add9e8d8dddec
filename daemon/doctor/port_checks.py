"""What can be wrong with ports, adapters and their sockets (faults B13, B18, B19; devices part 5)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from dollyd.daemon.discovery.known import ADAPTERS, GENERATORS, own_rule
from dollyd.daemon.discovery.sysfs import TTYS, UsbDevice, equal_devices, stable_name
from dollyd.daemon.doctor.case import Case, Finding, fault, group_name, warning
from dollyd.daemon.settings.load import DeviceSettings
from dollyd.wire.files import Sight, look_for

LATENCY_MAX_MS = 16
"""What an FTDI adapter has unless it is told otherwise."""
DISCONNECTS_MAX = 5
"""So often a plug may have been pulled since the machine's start."""
OUR_RULES = "90-dollyd.rules"
"""Takes back what the rules of brltty decide."""
OWN_RULES = "/etc/udev/rules.d/70-table.rules"
"""Where an operator gives devices to dollyd that our rules do not know."""
_DISCONNECT = re.compile(r"usb ([0-9]+-[0-9.]+): USB disconnect")
_BRLTTY_TOOK = re.compile(r"claimed by \w+ while 'brltty'")


def missing_ports(case: Case) -> Iterator[Finding]:
    """A configured port that is not there."""
    for device in _serial(case):
        if look_for(case.host.path(device.section.port)) is not Sight.THERE:
            what = f"{device.key}: {device.section.port} is not there"
            yield fault("port-missing", what, "plug it in, or take the name that `dollyd discover` prints")
    for device in case.devices():
        meant = case.meant_by(device.usb) if device.usb is not None else []
        if device.usb is not None and not meant:
            what = f"{device.key}: {device.usb.name} is not plugged in"
            yield fault("port-missing", what, "plug it in, or take the name that `dollyd discover` prints")
        elif len(meant) > 1:
            what = f"{device.key}: {device.section.port} is at {', '.join(one.plug for one in meant)}"
            yield fault("usb-ambiguous", what, "add serial= or path= to its name")


def stale_ports(case: Case) -> Iterator[Finding]:
    """B18: a node that outlived its device, as in a container after a replug."""
    for device in _serial(case):
        node = case.host.real(device.section.port)
        name = node.rsplit("/", 1)[1]
        there = look_for(case.host.path(node)) is Sight.THERE and node.startswith("/dev/tty")
        if there and not case.host.path(f"{TTYS}/{name}").exists():
            what = f"{device.key}: {node} is there, but the kernel knows no such port"
            yield fault(
                "port-stale", what, "in a container: mount /dev and /run/udev of the host; else replug"
            )


def held_ports(case: Case) -> Iterator[Finding]:
    """Somebody else has the port open and eats its bytes."""
    for device, port in case.bound():
        others = [holder for holder in port.held_by if not _is_daemon(case, holder)]
        if others:
            what = f"{device.key}: {device.section.port} is held by {', '.join(others)}"
            yield fault("port-held", what, "end that program, and keep it from starting again")
    for key, heard in case.heard.items():
        if heard.cause == "busy":
            what = f"{key}: the port is busy, {heard.detail}"
            yield fault("port-held", what, "end that program; run this as root to see whose it is")


def forbidden_ports(case: Case) -> Iterator[Finding]:
    """The service's user may not use a serial port."""
    behind = {device.key: port.usb for device, port in case.bound()}
    for device in _serial(case):
        yield from _forbidden(case, device, device.section.port, behind.get(device.key))


def forbidden_usb(case: Case) -> Iterator[Finding]:
    """The service's user may not use a device over USB itself."""
    for device in case.devices():
        for usb in case.meant_by(device.usb) if device.usb is not None else ():
            yield from _forbidden(case, device, usb.node, usb)


def _forbidden(case: Case, device: DeviceSettings, node: str, usb: UsbDevice | None) -> Iterator[Finding]:
    user, path = case.user, case.host.path(node)
    if user is None or look_for(path) is not Sight.THERE or user.may_use(path):
        return
    status = path.stat()
    group = group_name(case.host, status.st_gid)
    if status.st_mode & 0o060 != 0o060 or group == "root":
        mode = f"mode {status.st_mode & 0o777:04o}"
        what = f"{device.key}: {device.section.port} belongs to group {group}, {mode}"
        yield fault("port-group", what, f"{_by_rules(usb)}, then `udevadm trigger`")
    else:
        what = f"{device.key}: user {user.name} is not in group {group} of {device.section.port}"
        yield fault("user-groups", what, f"`usermod -aG {group} {user.name}`, then restart dollyd")


def unstable_names(case: Case) -> Iterator[Finding]:
    """A name that the kernel gives in the order of plugging."""
    for device, port in case.bound():
        better = stable_name(port, case.ports)
        if device.section.port == port.node and better != port.node:
            what = f"{device.key}: {port.node} may be another device after a restart"
            yield warning("port-name", what, f'port = "{better}"')


def equal_adapters(case: Case) -> Iterator[Finding]:
    """Two adapters that nothing but their sockets tells apart."""
    for group in equal_devices(device for device in case.usb if device.ids in {**ADAPTERS, **GENERATORS}):
        plugs = ", ".join(device.plug for device in group)
        remedy = "name both by socket (by-path), and mark sockets and plugs"
        if group[0].serial:
            what = f"{group[0].name} at {plugs} have one serial number, {group[0].serial}"
            yield fault("one-serial", what, remedy)
        else:
            yield warning("no-serial", f"{group[0].name} at {plugs} have no serial number", remedy)


def colliding_names(case: Case) -> Iterator[Finding]:
    """A name by serial number that several adapters want: it leads to the one that was seen last."""
    equal = {device.plug for group in equal_devices(case.usb) for device in group}
    for device, port in case.bound():
        if port.usb is not None and port.usb.plug in equal and device.section.port in port.by_serial:
            what = f"{device.key}: several adapters want the name {device.section.port}"
            names = port.by_plug or ("the one below /dev/serial/by-path",)
            yield fault("by-id-collision", what, f'port = "{names[0]}"')


def sleeping_devices(case: Case) -> Iterator[Finding]:
    """B19: autosuspend; the first bytes after a silence are lost, or all until the host speaks."""
    for usb in case.bound_usb():
        if usb.power == "auto":
            what = f"{usb.name} at {usb.plug} may be put to sleep (power/control is auto)"
            yield fault("autosuspend", what, f"{_by_rules(usb)}, or write `on` to its power/control")


def late_adapters(case: Case) -> Iterator[Finding]:
    """An FTDI adapter that was told to wait for more bytes: results come late, though none is lost."""
    for device, port in case.bound():
        if port.latency_ms > LATENCY_MAX_MS:
            what = f"{device.key}: its adapter holds bytes back for {port.latency_ms} ms (latency_timer)"
            yield warning("latency-timer", what, f"write {LATENCY_MAX_MS} to its latency_timer")


def loose_plugs(case: Case) -> Iterator[Finding]:
    """A device that the kernel lost again and again: hub, cable or supply."""
    counts = Counter(_DISCONNECT.findall(kernel_log(case)))
    for plug, count in sorted(counts.items()):
        if count > DISCONNECTS_MAX:
            what = f"the device at {plug} was lost {count} times since the machine's start"
            yield fault("usb-unstable", what, "change the cable, then the hub; use a hub with its own supply")


def modem_manager(case: Case) -> Iterator[Finding]:
    """B13: ModemManager runs, and nothing tells it to leave these ports alone."""
    if not any(case.host.read(f"/proc/{pid}/comm") == "ModemManager" for pid in case.host.names("/proc")):
        return
    for device, port in case.bound():
        numbers = [port.number, port.usb.number if port.usb is not None else ""]
        told = "".join(case.host.read(f"/run/udev/data/c{number}") for number in numbers if number)
        if "ID_MM_DEVICE_IGNORE=1" not in told and "ID_MM_PORT_IGNORE=1" not in told:
            what = f"{device.key}: ModemManager runs and will speak to {port.node}"
            remedy = f"{_by_rules(port.usb)}, or `systemctl mask --now ModemManager`"
            yield fault("modem-manager", what, remedy)


def brltty(case: Case) -> Iterator[Finding]:
    """B13: a driver for Braille displays takes every adapter with a common chip."""
    remedy = "install dollyd's udev rules, or `apt-get purge brltty`; then replug the adapter"
    if _BRLTTY_TOOK.search(kernel_log(case)):
        yield fault("brltty", "brltty has taken an adapter away, says the kernel's log", remedy)
        return
    folders = ("/usr/lib/udev/rules.d", "/lib/udev/rules.d", "/run/udev/rules.d", "/etc/udev/rules.d")
    files = {name: folder for folder in folders for name in case.host.names(folder)}
    if OUR_RULES in files:
        return
    for name, folder in files.items():  # of one name in several folders the last one counts
        if "brltty" not in name:
            continue
        rules = [line for line in case.host.read(f"{folder}/{name}").splitlines() if not line.startswith("#")]
        taken = sorted(what for ids, what in ADAPTERS.items() if any(_names(line, *ids) for line in rules))
        if taken:
            yield fault("brltty", f"{folder}/{name} gives {', '.join(taken)} to brltty", remedy)


def kernel_log(case: Case) -> str:
    """The kernel's messages since the machine's start, the last thousands of them."""
    journal = ("journalctl", "--dmesg", "--boot", "--output=cat", "--no-pager", "--lines=5000")
    return case.host.run(journal) or case.host.run(("dmesg",))


def _by_rules(usb: UsbDevice | None) -> str:
    """What gives a device to dollyd: our udev rules, or a line for one that they do not know."""
    rule = own_rule(*usb.ids) if usb is not None else ""
    return f"put {rule} into {OWN_RULES}" if rule else "install dollyd's udev rules"


def _is_daemon(case: Case, holder: str) -> bool:
    """Whether `name (pid N)` is the daemon itself."""
    return case.is_daemon(holder.rsplit(" ", 1)[1].rstrip(")"))


def _names(rule: str, vid: str, pid: str) -> bool:
    """Whether a rule is about a device; the kernel writes PRODUCT without leading zeros."""
    rule = rule.lower()
    product = f"{vid.lstrip('0')}/{pid.lstrip('0')}/"
    return product in rule or (f'idvendor}}=="{vid}"' in rule and f'idproduct}}=="{pid}"' in rule)


def _serial(case: Case) -> Iterator[DeviceSettings]:
    return (device for device in case.devices() if device.usb is None)
