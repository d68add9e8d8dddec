"""The Debian package: what it is told to hold. `make system-test` puts it into a real systemd."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.build_deb import (
    HOME,
    PLACES,
    PYTHON,
    SCRIPTS,
    SITE_PACKAGES,
    lay_out_files,
    lay_out_program,
    normalise,
    seal,
    source_date,
    write_control,
)
from tools.man_page import man_page

from dollyd.daemon.cli import application
from dollyd.daemon.host.self_check import MANIFEST, check_files

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
    assert "dollyd check --config $config" in postinst  # without its file the command is refused
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


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stage of a package with one library, sealed as that of every package; gives its environment."""
    stage = tmp_path_factory.mktemp("stage")
    library = stage / SITE_PACKAGES / "dollyd/__init__.py"
    library.parent.mkdir(parents=True)
    library.write_text("number = 17\n")
    lay_out_program(stage, os.environ)
    lay_out_files(ROOT, stage)
    seal(stage)
    return stage / HOME


def test_all_that_the_daemon_runs_is_sealed(laid_out: Path) -> None:
    sealed = {line.partition("  ")[2] for line in (laid_out / MANIFEST).read_text().splitlines()}
    library = SITE_PACKAGES.removeprefix(f"{HOME}/") + "/dollyd"
    assert sealed == {
        "bin/dollyd",
        "bin/python",
        "bin/python3",
        "pyvenv.cfg",
        f"{library}/__init__.py",
        f"{library}/__pycache__/__init__.cpython-311.pyc",
        "/usr/bin/dollyd",
        *(f"/{place}" for place in PLACES.values() if "/doc/" not in place),
    }
    answer = check_files("asked", laid_out)  # on a machine that has the package, or has it not
    assert not [one for one in answer.differs if " /" not in one]


def test_what_runs_is_what_was_sealed(laid_out: Path) -> None:
    # No environment, no files of the user, and no byte code that is written when it runs, by root either.
    assert (laid_out / "bin/dollyd").read_text().startswith(f"#!/{HOME}/bin/python3 -IB\n")
    (compiled,) = (laid_out / "lib").rglob("*.pyc")
    flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
    assert flags == 0b11, "byte code goes by the source's hash, which is compared"


@pytest.mark.parametrize(
    ("file", "section", "key"),
    [("requirements.txt", "project", "dependencies"), ("build-requirements.txt", "build-system", "requires")],
)
def test_every_library_that_we_need_is_pinned_with_its_digest(file: str, section: str, key: str) -> None:
    text = (DEB / file).read_text()
    pinned = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    }
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())[section][key]
    assert wanted
    for requirement in map(Requirement, wanted):
        version = pinned.get(canonicalize_name(requirement.name), "")
        assert version, f"{requirement.name} is not pinned; the head of {file} says how to write it anew"
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"
    for entry in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry, entry


def test_the_build_time_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert source_date(ROOT) == 1_700_000_000


def test_the_manual_page_tells_of_every_command_and_of_every_option() -> None:
    page = man_page()
    assert page == man_page()
    assert not [line for line in page.splitlines() if line.startswith("'")]
    said: dict[str, set[str]] = {}
    for section in re.split(r"^\.SS ", page.replace("\\-", "-"), flags=re.MULTILINE)[1:]:
        tags = re.findall(r"^\.B (.*)$", section, re.MULTILINE)
        said[section.split('"')[1]] = {word.rstrip(",") for tag in tags for word in tag.split()}
    wanted = {
        name: {option for parameter in command.params for option in parameter.opts if option.startswith("-")}
        for name, command in every_command("dollyd", typer.main.get_command(application))
    }
    unsaid = {name: options - said.get(name, set()) for name, options in wanted.items()}
    assert not any(unsaid.values()), unsaid
    assert wanted["dollyd table"]
    assert wanted["dollyd archive"]
    assert {"dollyd table open", "dollyd archive migrate"} <= said.keys()


def every_command(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, one in getattr(command, "commands", {}).items():
        yield from every_command(f"{name} {word}", one)
