"""The service as systemd knows it: its state, and what its unit file with all drop-ins says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from dollyd.daemon.host.machine import Host

NAME = "dollyd.service"
_NODE_CLASSES = ("ttyUSB", "ttyACM", "ttyAMA", "ttyXRUSB", "ttyS")


@dataclass(frozen=True, slots=True)
class Unit:
    """Empty where systemd does not answer."""

    state: Mapping[str, str] = field(default_factory=dict)
    """`systemctl show`."""
    lines: tuple[tuple[str, str], ...] = ()
    """`systemctl cat`, in order."""

    def told(self, name: str) -> str:
        """One property of its state, empty where it is not told."""
        return self.state.get(name, "")

    def last(self, name: str) -> str:
        """A setting of which the last one counts; empty where it is not set."""
        return next((value for key, value in reversed(self.lines) if key == name), "")

    def all(self, name: str) -> list[str]:
        """A setting that adds up; an empty one forgets those before it."""
        values: list[str] = []
        for key, value in self.lines:
            if key == name:
                values = [*values, value] if value else []
        return values

    @property
    def known(self) -> bool:
        """Whether systemd knows the unit."""
        return self.told("LoadState") == "loaded"

    @property
    def runs(self) -> bool:
        """Whether the service has a process now."""
        return self.told("MainPID") not in {"", "0"}

    def lets_see(self, node: str) -> bool:
        """Whether the sandbox lets the service open a node, e.g. `/dev/ttyUSB0`."""
        if self.last("PrivateDevices") in {"yes", "true", "1", "on"}:
            return False
        allowed = self.all("DeviceAllow")
        if self.last("DevicePolicy") not in {"closed", "strict"} and not allowed:
            return True
        return any(_covers(one, node) for one in allowed)


def read_unit(host: Host) -> Unit:
    """Ask systemd; needs no privileges."""
    shown = host.run(("systemctl", "show", "--no-pager", NAME))
    state = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    return Unit(state, tuple(_settings(host.run(("systemctl", "cat", "--no-pager", NAME)))))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if "=" in line and not line.lstrip().startswith(("#", ";")):
            key, value = line.split("=", 1)
            yield key.strip(), value.strip()


def _covers(allowed: str, node: str) -> bool:
    """Whether one `DeviceAllow` covers a node; its right must be to read and to write."""
    what, _, rights = allowed.partition(" ")
    if rights and not {"r", "w"} <= set(rights):
        return False
    if what.startswith("char-"):
        return fnmatchcase(_node_class(node), what.removeprefix("char-"))
    return fnmatchcase(node, what)


def _node_class(node: str) -> str:
    """The name of a node's driver in /proc/devices."""
    if node.startswith("/dev/bus/usb/"):
        return "usb_device"
    name = node.rsplit("/", 1)[1]
    return next((one for one in _NODE_CLASSES if name.startswith(one)), name)
