"""What the package holds, and that it works where nothing else of the source tree is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from tests.support.wheel_lines import Game, status

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
NOT_FOR_TABLES = ("simulators", "tests", "tools", "src")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist of the source tree, and the wheel that was made from it alone."""
    out = tmp_path_factory.mktemp("dist")
    # Without isolation: the build tools are those of the environment, nothing is fetched.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin` of an environment that has the wheel, and the dependencies of the one that runs the tests."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False)
    packages = next(home.glob("lib/python*/site-packages"))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        str(home / "bin" / "python"),
    ]
    command = [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # It comes after the wheel; the editable dollyd in it does not count, being a `.pth` file of its own.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def run(installed: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of that environment, far from the source tree."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    program, *arguments = command
    return subprocess.run(
        [str(installed / program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=installed,
        env=environment,
        timeout=60,
    )


def test_the_wheel_holds_all_that_a_table_needs(names: set[str]) -> None:
    for folder in ("wire", "daemon", "drivers", "client"):
        sources = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.py")}
        assert sources
        assert {f"dollyd/{source}" for source in sources} <= names
    data = {str(path.relative_to(ROOT)) for path in (ROOT / "config").rglob("*") if path.is_file()}
    data |= {str(path.relative_to(ROOT)) for path in (ROOT / "systemd").iterdir()}
    data = {path for path in data if "__pycache__" not in path}
    assert {f"dollyd/{path}" for path in data} <= names
    for folder in ("rulebooks", "profiles", "layouts", "examples"):
        assert any(name.startswith(f"dollyd/config/{folder}/") and name.endswith(".toml") for name in names)
    assert {"dollyd/py.typed", "dollyd/__init__.py", "dollyd/systemd/dollyd.service"} <= names


def test_the_wheel_holds_nothing_that_can_forge_a_number(names: set[str]) -> None:
    metadata = {name for name in names if ".dist-info/" in name}
    assert {name.split("/")[0] for name in names - metadata} == {"dollyd"}
    for folder in NOT_FOR_TABLES:
        assert not [name for name in names if name.startswith((f"dollyd/{folder}", f"{folder}/"))]
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_bears_its_licence_and_needs_no_test_tools(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().splitlines()
        assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())
    assert "License-Expression: Apache-2.0" in lines
    needed = {line.split()[1].split(">")[0] for line in lines if line.startswith("Requires-Dist:")}
    assert "pyserial" in needed
    assert not needed & {"pytest", "amqtt", "joserfc", "hypothesis"}


def test_the_sdist_holds_no_links(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert not [member.name for member in members if member.issym() or member.islnk()]
    inside = {member.name.split("/", 1)[1] for member in members}
    assert {"daemon/app.py", "simulators/__main__.py", "tests/conftest.py", "Makefile"} <= inside


def test_an_installed_dollyd_says_what_it_can(installed: Path) -> None:
    where = run(installed, "python", "-c", "import dollyd.daemon; print(dollyd.daemon.__file__)")
    assert where.stdout.startswith(str(installed.parent))
    said = run(installed, "dollyd", "--help")
    assert said.returncode == 0, said.stderr
    for command in ("run", "check", "keys", "verify", "replay", "demo"):
        assert command in said.stdout


def test_an_installed_dollyd_finds_the_shipped_rules(installed: Path, tmp_path: Path) -> None:
    game = Game(pocket="28")
    lines = [status(6, 16, "8"), *game.lines(), *game.next("5").lines("2")]
    capture = tmp_path / "game.jsonl"
    capture.write_text(
        "".join(
            json.dumps({"t": number / 2, "dir": "rx", "line": line}) + "\n"
            for number, line in enumerate(lines)
        )
    )
    said = run(installed, "dollyd", "replay", str(capture), "--json")
    assert said.returncode == 0, said.stderr
    attempts = [json.loads(line) for line in said.stdout.splitlines()]
    assert [(a["game"], a["pocket"]) for a in attempts if a["verdict"] == "result"] == [("017", "28")]


def test_an_installed_dollyd_has_no_demo(installed: Path) -> None:
    said = run(installed, "dollyd", "demo")
    assert said.returncode == 78
    assert "no simulators" in said.stderr
    assert len(said.stderr.splitlines()) == 1
