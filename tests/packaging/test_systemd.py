"""The unit and what belongs to it, as systemd's own tools judge them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dollyd.daemon.host.forced_exit import END_S
from dollyd.daemon.host.restart_pause import PAUSE_MAX_S, RESTART_S
from dollyd.wire.errors import EXIT_CONFIG

SYSTEMD = Path(__file__).resolve().parents[2] / "systemd"
UNIT = SYSTEMD / "dollyd.service"
CONSUMER = SYSTEMD / "dollyd-consumer@.service"
EXPOSURE_MAX = 2.0


def run(tool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    command = [tool, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def values(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("unit", [UNIT, CONSUMER], ids=lambda unit: unit.name)
def test_b41_the_unit_is_one_and_lets_through_little(unit: Path) -> None:
    done = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    (exposure,) = re.findall(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert float(exposure) <= EXPOSURE_MAX


@pytest.mark.parametrize("unit", [UNIT, CONSUMER], ids=lambda unit: unit.name)
def test_b41_systemd_finds_nothing_to_say_of_the_unit(tmp_path: Path, unit: Path) -> None:
    here = tmp_path / unit.name.replace("@", "@witness")  # with programs that exist on any machine
    text = unit.read_text("utf-8").replace("/opt/dollyd/bin/dollyd", "/bin/true")
    here.write_text(text.replace("/bin/kill", "/bin/true"))
    done = run("systemd-analyze", "verify", "--man=no", here)
    assert (done.returncode, done.stderr) == (0, "")


def test_b41_the_sandbox_shows_the_devices() -> None:
    assert values("PrivateDevices") == ["no"]
    assert values("PrivateUsers") == []
    assert values("DevicePolicy") == ["closed"]
    allowed = {f"char-{kind} rw" for kind in ("ttyUSB", "ttyACM", "ttyS", "usb_device")}
    assert set(values("DeviceAllow")) == allowed
    assert values("SupplementaryGroups") == ["dialout"]
    modules = (SYSTEMD / "dollyd.modules-load").read_text("ascii").split()
    assert {"usbserial", "cdc_acm"} <= set(modules)


def test_b40_a_failure_is_tried_again_for_ever_and_a_mistake_is_not() -> None:
    assert values("Type") == ["notify"]
    assert values("Restart") == ["always"]
    assert values("StartLimitIntervalSec") == ["0"]
    assert values("RestartPreventExitStatus") == [str(EXIT_CONFIG)]
    assert values("RestartSec") == [str(RESTART_S)]
    assert values("RuntimeDirectoryPreserve") == ["restart"]  # where short runs are counted
    assert int(values("TimeoutStartSec")[0]) >= PAUSE_MAX_S + 120
    waits_for = {
        word for key in ("After", "Wants", "Requires") for line in values(key) for word in line.split()
    }
    assert waits_for == {"network.target"}


def test_we_end_ourselves_before_systemd_does() -> None:
    (limit_s,) = values("TimeoutStopSec")
    assert END_S < float(limit_s) <= 5


def test_the_user_and_its_directories_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "group").write_text("dialout:x:20:\n")
    done = run("systemd-sysusers", f"--root={tmp_path}", SYSTEMD / "dollyd.sysusers")
    assert done.returncode == 0, done.stderr
    assert "dialout:x:20:dollyd" in (tmp_path / "etc" / "group").read_text("ascii")
    assert re.search(
        r"^dollyd:.*:/var/lib/dollyd:/usr/sbin/nologin$", (tmp_path / "etc/passwd").read_text(), re.MULTILINE
    )
    done = run("systemd-tmpfiles", f"--root={tmp_path}", "--create", SYSTEMD / "dollyd.tmpfiles")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "etc/dollyd/credentials").stat().st_mode & 0o777 == 0o700


def test_the_udev_rules_keep_others_off_and_are_rules() -> None:
    rules = (SYSTEMD / "60-dollyd.rules").read_text("ascii") + (SYSTEMD / "90-dollyd.rules").read_text(
        "ascii"
    )
    lines = [line for line in rules.splitlines() if line and not line.startswith("#")]
    pair = r'[A-Z]+(\{[A-Za-z_/0-9]+\})?(==|!=|\+=|=)"[^"]*"'
    assert [line for line in lines if not re.fullmatch(rf"{pair}(, {pair})*", line)] == []
    labels = set(re.findall(r'LABEL="(\w+)"', rules))
    assert labels == set(re.findall(r'GOTO="(\w+)"', rules))
    for word in (
        "ID_MM_DEVICE_IGNORE",
        "power/control",
        "BRLTTY_BRAILLE_DRIVER",
        "dolly/by-path",
        "dolly/by-serial",
    ):
        assert word in rules
