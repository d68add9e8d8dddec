"""The installed files against the manifest of the build, and what follows where they differ."""

from __future__ import annotations

import asyncio
import subprocess
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from tests.support.broker import until
from tools.manifest import seal_directory, seal_wheel

from dollyd.daemon.core.events import PlayHalted
from dollyd.daemon.health.halts import Halt, Halts
from dollyd.daemon.host.self_check import (
    DIFFERS_MAX,
    ENVIRONMENT,
    EVERY_S,
    MANIFEST,
    SEALED_WHOLE,
    SelfCheck,
    check_files,
    digests,
    manifest_of,
    sealed_folder,
)
from dollyd.simulators.clock import VirtualClock
from dollyd.wire.record import SelfCheckBody
from dollyd.wire.stamp import NS_PER_S

FILES = {"__init__.py": "", "daemon/app.py": "run", "config/rulebooks/roulette.toml": "id = 'x'"}
LIBRARIES = (
    "bin/dollyd",
    "lib/cryptography/ed25519.py",
    "lib/cryptography/__pycache__/ed25519.cpython-311.pyc",
    "lib/dollyd/__init__.py",
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed package, sealed."""
    package = tmp_path / "dollyd"
    for name, text in FILES.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "app.pyc").write_text("compiled here")
    seal_directory(package)
    return package


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment as the Debian package lays it out, sealed with its libraries, byte code and unit."""
    unit = tmp_path / "etc/dollyd.service"
    environment = tmp_path / "opt/dollyd"
    for path in (unit, *(environment / name for name in LIBRARIES)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as built")
    (environment / ENVIRONMENT).write_text(f"home = /usr/bin\n{SEALED_WHOLE}\n")
    (environment / "bin/python3").symlink_to("/usr/bin/python3.11")
    seal_directory(environment, {str(unit): unit})
    return environment


def test_a_sealed_build_is_good_and_names_its_manifest(package: Path) -> None:
    answer = check_files("asked", package)
    assert (answer.result, answer.files, answer.differs) == ("good", len(FILES), [])
    assert answer.manifest == sha256((package / MANIFEST).read_bytes()).hexdigest()


def test_the_manifest_is_one_that_sha256sum_reads(package: Path) -> None:
    run = subprocess.run(["sha256sum", "--check", "--strict", MANIFEST], cwd=package, check=False)
    assert run.returncode == 0


def test_a_source_checkout_is_unsealed() -> None:
    answer = check_files("start")
    assert (answer.result, answer.differs) == ("unsealed", [])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "changed daemon/app.py": lambda package: (package / "daemon/app.py").write_text("rum"),
    "missing daemon/app.py": lambda package: (package / "daemon/app.py").unlink(),
    "added daemon/extra.py": lambda package: (package / "daemon/extra.py").write_text(""),
    "added daemon/\\xfc.py": lambda package: (package / "daemon/\xfc.py").write_text(""),
}


@pytest.mark.parametrize("difference", DAMAGES)
def test_what_differs_is_named(package: Path, difference: str) -> None:
    DAMAGES[difference](package)
    answer = check_files("asked", package)
    assert (answer.result, answer.differing, answer.differs) == ("bad", 1, [difference])


CHANGES: dict[str, Callable[[Path], object]] = {
    "changed lib/cryptography/ed25519.py": lambda home: (home / LIBRARIES[1]).write_text("otherwise"),
    "changed lib/cryptography/__pycache__/ed25519.cpython-311.pyc": lambda home: (
        home / LIBRARIES[2]
    ).write_text("other code behind the same header"),
    "changed bin/dollyd": lambda home: (home / LIBRARIES[0]).write_text("otherwise"),
    "changed bin/python3": lambda home: _lead(home / "bin/python3", home),
    "changed pyvenv.cfg": lambda home: (home / ENVIRONMENT).write_text(f"{SEALED_WHOLE}\nhome = /tmp\n"),
    "added lib/cryptography/__pycache__/more.cpython-311.pyc": lambda home: (
        home / "lib/cryptography/__pycache__/more.cpython-311.pyc"
    ).touch(),
    "added lib/more.pth": lambda home: (home / "lib/more.pth").touch(),
    "added lib/more": lambda home: (home / "lib/more").symlink_to(home / "bin"),
}


def _lead(link: Path, elsewhere: Path) -> None:
    link.unlink()
    link.symlink_to(elsewhere)


@pytest.mark.parametrize("change", CHANGES)
def test_libraries_launcher_and_byte_code_are_sealed_too(environment: Path, change: str) -> None:
    CHANGES[change](environment)
    answer = check_files("asked", environment)
    assert (answer.result, answer.differs) == ("bad", [change])


def test_files_of_the_package_that_lie_elsewhere_are_sealed_too(environment: Path) -> None:
    answer = check_files("asked", environment)
    assert (answer.result, answer.files, answer.differs) == ("good", len(LIBRARIES) + 3, [])
    unit = environment.parents[1] / "etc/dollyd.service"
    unit.write_text("ExecStart=/bin/true")
    assert check_files("asked", environment).differs == [f"changed {unit}"]
    unit.unlink()
    assert check_files("asked", environment).differs == [f"missing {unit}"]


def test_a_manifest_that_is_lost_is_no_reason_to_play(environment: Path) -> None:
    (environment / MANIFEST).unlink()
    answer = check_files("asked", environment)
    assert (answer.result, answer.differs) == ("bad", [f"unreadable {environment / MANIFEST}"])


def test_links_in_a_manifest_are_comments_to_sha256sum(environment: Path) -> None:
    run = subprocess.run(["sha256sum", "--check", "--strict", MANIFEST], cwd=environment, check=False)
    assert run.returncode == 0


def test_the_environment_that_the_package_runs_in_is_what_is_checked(environment: Path) -> None:
    package = environment / "lib/dollyd"
    assert sealed_folder(environment, package) == environment
    assert sealed_folder(environment, environment.parent) == environment.parent  # this program is elsewhere
    (environment / ENVIRONMENT).write_text("home = /usr/bin\n")  # as that of a wheel
    assert sealed_folder(environment, package) == package


def test_a_manifest_that_is_garbage_and_a_great_many_differences_are_bounded(package: Path) -> None:
    (package / MANIFEST).write_bytes(b"\xff\n" * 1000)
    assert check_files("asked", package).result == "bad"
    for number in range(100):
        (package / f"extra{number}.py").touch()
    answer = check_files("asked", package)
    assert answer.differing >= 100
    assert len(answer.differs) == DIFFERS_MAX


async def test_it_is_done_at_the_start_every_day_and_when_asked(package: Path) -> None:
    clock, answers = VirtualClock(), list[SelfCheckBody]()
    check = SelfCheck(clock, answers.append, package)
    check.at_start()
    task = asyncio.create_task(check.run())
    for days in (1, 2):
        await until(lambda: clock.next_wake_ns() is not None)
        clock.advance(EVERY_S * NS_PER_S - 1)
        await asyncio.sleep(0.02)
        assert len(answers) == days
        clock.advance(1)
        await until(lambda count=days: len(answers) > count)  # type: ignore[misc]  # bound now
    check.ask()
    await until(lambda: len(answers) == 4)
    task.cancel()
    await asyncio.wait({task})
    assert [answer.reason for answer in answers] == ["start", "daily", "daily", "asked"]


def test_one_reason_to_halt_play_does_not_take_another_back() -> None:
    told: list[PlayHalted] = []
    halts = Halts(told.append)
    halts.put(Halt.DISK_FULL, holds=False)
    halts.put(Halt.DISK_FULL, holds=True)
    halts.put(Halt.DISK_FULL, holds=True)
    halts.put(Halt.SELF_CHECK, holds=True)
    halts.put(Halt.DISK_FULL, holds=False)
    halts.put(Halt.SELF_CHECK, holds=False)
    assert [one.reason for one in told] == ["disk-full", "disk-full,self-check", "self-check", ""]


def test_a_wheel_is_sealed_once_and_stays_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "dollyd-1-py3-none-any.whl"
    record = "dollyd-1.dist-info/RECORD"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(f"dollyd/{name}", text)
        archive.writestr(record, f"dollyd/__init__.py,,\n{record},,\n")
    assert seal_wheel(wheel) == seal_wheel(wheel)
    with zipfile.ZipFile(wheel) as archive:
        assert len(archive.namelist()) == len(set(archive.namelist())) == len(FILES) + 2
        lines = archive.read(record).decode().splitlines()
        archive.extractall(tmp_path / "unpacked")
    assert [line.partition(",")[0] for line in lines] == ["dollyd/__init__.py", f"dollyd/{MANIFEST}", record]
    package = tmp_path / "unpacked" / "dollyd"
    assert check_files("asked", package).result == "good"
    assert manifest_of(digests(package)) == (package / MANIFEST).read_bytes()
