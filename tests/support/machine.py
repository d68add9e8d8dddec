"""A machine made of files: /sys, /proc, /dev, /etc, /run below a directory; and what its commands print."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dollyd.daemon.host.machine import Host

USER, USER_ID = "dollyd", os.geteuid() or 998
FTDI = ("0403", "6001")
CH340 = ("1a86", "7523")


class Machine:
    """Begins as a healthy one with nothing plugged in; everything can then be spoilt.

    `answers`: what a command prints, by its first words; of several that fit the longest counts.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[tuple[str, ...], str] = {}
        self.host = Host(root, self._run)
        self.write("/etc/passwd", f"root:x:0:0::/root:/bin/sh\n{USER}:x:{USER_ID}:{USER_ID}::/:/bin/false")
        self.write("/etc/group", f"{USER}:x:{USER_ID}:\ndialout:x:{os.getgid()}:{USER}")
        self.write("/proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0")
        self.write("/proc/1/comm", "systemd")
        for folder in ("/sys/class/tty", "/sys/bus/usb/devices", "/dev"):
            self.path(folder).mkdir(parents=True)

    def path(self, name: str) -> Path:
        """Where a file of the machine lies."""
        return self.host.path(name)

    def write(self, name: str, text: str) -> None:
        """A file, with its folders."""
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text + "\n")

    def link(self, name: str, target: str) -> None:
        """A link to another file of the machine."""
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).unlink(missing_ok=True)
        self.path(name).symlink_to(self.path(target))

    def usb(self, plug: str, ids: tuple[str, str], serial: str = "", **said: str) -> str:
        """A USB device in a socket; its folder."""
        folder = f"/sys/devices/pci0/usb1/{plug}"
        files = {"idVendor": ids[0], "idProduct": ids[1], "power/control": "on", "dev": f"189:{plug[-1]}"}
        files |= {"busnum": "1", "devnum": plug[-1]}
        for name, text in (files | {"serial": serial} | said).items():
            self.write(f"{folder}/{name}", text)
        self.link(f"/sys/bus/usb/devices/{plug}", folder)
        return folder

    def adapter(
        self, name: str, plug: str, ids: tuple[str, str] = FTDI, serial: str = "", latency_ms: int = 16
    ) -> str:
        """A serial adapter with udev's names for it; the one by serial number, or what stands for one."""
        folder = f"{self.usb(plug, ids, serial)}/{plug}:1.0/{name}"
        number = f"188:{name[-1]}"
        self.write(f"{folder}/latency_timer", str(latency_ms))
        self.link(f"/sys/bus/usb-serial/devices/{name}", folder)
        self.write(f"/sys/class/tty/{name}/dev", number)
        self.link(f"/sys/class/tty/{name}/device", folder)
        self.write(f"/dev/{name}", "")
        self.path(f"/dev/{name}").chmod(0o660)
        self.write(f"/run/udev/data/c{number}", "E:ID_MM_DEVICE_IGNORE=1")
        by_id = f"/dev/serial/by-id/usb-{ids[0]}_{serial or 'Serial'}-if00-port0"
        self.link(by_id, f"/dev/{name}")
        self.link(f"/dev/serial/by-path/pci-usb-0:{plug}:1.0-port0", f"/dev/{name}")
        return by_id

    def process(self, pid: int, name: str, opens: str = "", command: str = "") -> None:
        """A process, which may have a port open."""
        self.write(f"/proc/{pid}/comm", name)
        self.write(f"/proc/{pid}/cmdline", command.replace(" ", "\0") or name)
        self.path(f"/proc/{pid}/fd").mkdir()
        if opens:
            self.path(f"/proc/{pid}/fd/3").symlink_to(opens)

    def _run(self, words: Sequence[str]) -> str:
        fitting = [known for known in self.answers if tuple(words[: len(known)]) == known]
        return self.answers[max(fitting, key=len)] if fitting else ""
