"""A table's machine that is in good health, to be spoilt in one place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.machine import USER, USER_ID, Machine

from dollyd.daemon.doctor.case import Case, Finding, open_case
from dollyd.daemon.doctor.checks import findings
from dollyd.daemon.keys.signing import new_key
from dollyd.simulators.clock import VirtualClock

UNIT = Path(__file__).parents[3] / "systemd" / "dollyd.service"
CONFIG = """
site = "house"
node = "box1"
[journal]
path = "{home}/journal.db"
low_mb = 0
floor_mb = 0
[signing]
key = "/run/credentials/dollyd.service/dollyd_signing.pem"
[tables.r1]
game = "roulette"
variant = "A"
rulebook = "fi-ray-2013-roulette"
profile = "fi-ray-2013"
stakes = {{ minimum = 100, maximum = 100000, currency = "EUR" }}
[tables.r1.devices.wheel]
driver = "cammegh-ss2"
role = "wheel"
port = "{port}"
"""
STATE = {
    "LoadState": "loaded",
    "UnitFileState": "enabled",
    "ActiveState": "active",
    "Result": "success",
    "ExecMainStatus": "0",
    "MainPID": "700",
    "User": USER,
    "SupplementaryGroups": "",
}
SHOW, CAT = ("systemctl", "show"), ("systemctl", "cat")
KERNEL = ("journalctl", "--dmesg")


class Bench:
    """A machine with a table, and the doctor."""

    def __init__(self, directory: Path) -> None:
        self.machine = Machine(directory / "root")
        self.home = self.machine.path("/srv")
        self.home.mkdir()
        self.home.chmod(0o770)
        self.key = self.machine.path("/etc/dollyd/credentials/signing.pem")
        self.key.parent.mkdir(parents=True)
        self.port = self.machine.adapter("ttyUSB0", "1-1", serial="A50285BI")
        self.config = self.home / "dollyd.toml"
        self.config.write_text(CONFIG.format(home=self.home, port=self.port))
        self.signer = new_key(self.key)
        self.clock = VirtualClock(utc_ns=time.time_ns())
        self.package = self.home / "package"
        self.package.mkdir()
        self.state()
        self.machine.answers |= {
            CAT: UNIT.read_text("utf-8"),
            ("systemctl", "is-active"): "inactive\nactive\n",
            KERNEL: "usb 1-1: new full-speed USB device\n",
        }
        self.changes: Callable[[Case], Case] = lambda case: case

    def give_to_service(self, path: Path) -> None:
        """Its owner is the user of the service, if this test may give it away."""
        if os.geteuid() == 0:
            os.chown(path, USER_ID, USER_ID)

    def state(self, **changes: str) -> None:
        """What systemd says of the unit."""
        text = "\n".join(f"{name}={value}" for name, value in (STATE | changes).items())
        self.machine.answers[SHOW] = text

    def configure(self, *changes: tuple[str, str]) -> None:
        """Change or, with an empty first text, lengthen the configuration."""
        text = self.config.read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new) if old else text + new
        self.config.write_text(text)

    def case(self) -> Case:
        return self.changes(open_case(self.config, self.machine.host, self.clock, self.package))

    def findings(self) -> list[Finding]:
        return findings(self.case())

    def change(self, **changes: object) -> None:
        """Replace something that the case holds."""
        self.changes = lambda case: replace(case, **changes)  # type: ignore[arg-type]  # tests know the fields

    def found(self) -> set[str]:
        """The ids of what is found; each has a remedy of one line."""
        found = self.findings()
        assert all(one.remedy and "\n" not in one.remedy + one.what for one in found)
        return {one.id for one in found}

    def told(self) -> str:
        """What is told of the one thing that is found."""
        (only,) = self.findings()
        return f"{only.id}: {only.what}; {only.remedy}"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
