"""The Debian package: what it is told to hold. `make system-test` puts it into a real systemd."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.build_deb import PLACES, PYTHON, SCRIPTS, SITE_PACKAGES, normalise, source_date, write_control
from tools.man_page import man_page

from dollyd.daemon.cli import application

ROOT = Path(__file__).resolve().parents[2]
DEB = ROOT / "packaging/deb"
UNIT = (ROOT / "systemd/dollyd.service").read_text()


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    """A staging directory with one file, and what dpkg reads of it."""
    stage = tmp_path / "stage"
    library = stage / SITE_PACKAGES / "dollyd/__init__.py"
    library.parent.mkdir(parents=True)
    library.write_text("x" * 2000)
    write_control(ROOT, stage, "1.2.3", "amd64")
    normalise(stage, 1_700_000_000)
    return stage


def test_the_control_file_says_what_dpkg_asks(stage: Path) -> None:
    text = (stage / "DEBIAN/control").read_text()
    fields = dict(re.findall(r"^([A-Z][\w-]+): (.*)$", text, re.MULTILINE))
    assert fields["Package"] == "dollyd"
    assert fields["Version"] == "1.2.3"
    assert fields["Architecture"] == "amd64"
    assert fields["Installed-Size"] == "2"
    assert "$" not in text
    needed = {word.split()[0] for word in fields["Depends"].split(", ")}
    assert {"python3", "libusb-1.0-0", "udev", "tzdata", "procps"} <= needed
    # Byte code and binary wheels are for one version of Python, that of the interpreter's link.
    assert "python3 (>= 3.11), python3 (<< 3.12)" in fields["Depends"]
    assert PYTHON == (3, 11)


def test_modes_and_times_do_not_depend_on_who_builds(stage: Path) -> None:
    for path in stage.rglob("*"):
        assert path.stat().st_mtime == 1_700_000_000
        executable = path.is_dir() or path.name in SCRIPTS
        assert path.stat().st_mode & 0o777 == (0o755 if executable else 0o644), path


def test_every_file_of_the_service_has_its_place() -> None:
    shipped = {path.relative_to(ROOT).as_posix() for path in (ROOT / "systemd").iterdir() if path.is_file()}
    assert shipped <= PLACES.keys(), "a file of systemd/ that nobody installs"
    assert all((ROOT / name).is_file() for name in PLACES)


def test_nothing_lies_where_the_operator_writes() -> None:
    assert not [place for place in PLACES.values() if place.startswith(("etc/", "var/"))]


def test_nothing_that_can_forge_a_number_is_packed() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    packed = {*PLACES, *wheel["only-include"]}
    assert not [name for name in packed if name.startswith(("simulators", "tests", "tools"))]


def test_the_unit_and_the_scripts_speak_of_the_same_files() -> None:
    command = re.search(r"^ExecStart=(\S+) run --config (\S+)$", UNIT, re.MULTILINE)
    assert command is not None
    postinst = (DEB / "postinst").read_text()
    assert f"{command[1]} wait-for-pause --config" in postinst
    assert f"config={command[2]}\n" in postinst
    assert command[1] == "/opt/dollyd/bin/dollyd"


def test_what_proves_results_is_never_deleted() -> None:
    for name in SCRIPTS:
        code = [line for line in (DEB / name).read_text().splitlines() if "echo" not in line]
        assert not [line for line in code if re.search(r"\b(rm|rmdir|find|deluser|userdel)\b", line)], name


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_scripts_are_clean_shell() -> None:
    scripts = [str(DEB / name) for name in SCRIPTS]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_library_that_we_need_is_pinned_with_its_digest() -> None:
    text = (DEB / "requirements.txt").read_text()
    pinned = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    }
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert wanted
    for requirement in map(Requirement, wanted):
        version = pinned.get(canonicalize_name(requirement.name), "")
        assert version, (
            f"{requirement.name} is not pinned; the head of requirements.txt says how to write it anew"
        )
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"
    for entry in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry, entry


def test_the_build_time_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert source_date(ROOT) == 1_700_000_000


def test_the_manual_page_tells_of_every_command() -> None:
    page = man_page()
    assert page == man_page()
    for command in application.registered_commands:
        name = str(command.name).replace("-", "\\-")
        assert f'.SS "dollyd {name}"' in page
    assert not [line for line in page.splitlines() if line.startswith("'")]
