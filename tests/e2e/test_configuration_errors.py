"""A wrong configuration is one line that names file, key and remedy, exit 78, and nothing else happens."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.daemon import Installation, dollyd


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path, "127.0.0.1:1")


@dataclass(frozen=True)
class Mistake:
    """What is done wrong, the key that must be named, and a word of the remedy."""

    make: Callable[[Installation], object]
    key: str
    remedy: str


def unknown_key(installation: Installation) -> None:
    installation.reconfigure('game = "roulette"', 'game = "roulette"\nhold_time = 3')


def wrong_type(installation: Installation) -> None:
    installation.reconfigure("stakes = { minimum = 100", 'stakes = { minimum = "100"')


def missing_key_file(installation: Installation) -> None:
    installation.signing_key.unlink()


def wheel_of_38(installation: Installation) -> None:
    installation.reconfigure('pockets = "37"', 'pockets = "38"')


def no_odds_box(installation: Installation) -> None:
    text = installation.config.read_text()
    installation.config.write_text(text[: text.index("[tables.r1.devices.odds]")])


def port_is_a_file(installation: Installation) -> None:
    (installation.directory / "r1-wheel").write_text("no port")


def journal_cannot_be_made(installation: Installation) -> None:
    installation.reconfigure("journal.db", "nowhere/journal.db")


def journal_is_something_else(installation: Installation) -> None:
    installation.reconfigure("/journal.db", "")


def key_for_everybody(installation: Installation) -> None:
    installation.signing_key.chmod(0o644)


def no_toml(installation: Installation) -> None:
    installation.reconfigure("[journal]", "[journal")


MISTAKES = {
    "unknown-key": Mistake(unknown_key, "tables.r1.hold_time", "remove it"),
    "wrong-type": Mistake(wrong_type, "tables.r1.stakes.minimum", "correct the value"),
    "missing-key-file": Mistake(missing_key_file, "signing.key", "dollyd keys new"),
    "wheel-of-38": Mistake(wheel_of_38, "tables.r1.devices.wheel.expect.pockets", "37 pockets"),
    "no-odds-box": Mistake(no_odds_box, "tables.r1.devices", "add a device"),
    "port-is-a-file": Mistake(port_is_a_file, "tables.r1.devices.wheel.port", "/dev/serial/by-id"),
    "journal-cannot-be-made": Mistake(journal_cannot_be_made, "journal.path", "writable path"),
    "journal-is-a-directory": Mistake(journal_is_something_else, "journal.path", "writable path"),
    "key-for-everybody": Mistake(key_for_everybody, "signing.key", "chmod 0600"),
    "no-toml": Mistake(no_toml, "", "correct the line"),
}


def told_as_it_should_be(installation: Installation, mistake: Mistake, under: tuple[str, ...] = ()) -> None:
    before = sorted(installation.directory.iterdir())
    run = dollyd("run", "--config", installation.config, under=under)
    assert run.returncode == 78, run.stderr
    assert not run.stdout
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"dollyd: {installation.config}: {mistake.key}"), line
    assert mistake.remedy in line
    assert sorted(installation.directory.iterdir()) == before, "something was created"


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_created(installation: Installation, name: str) -> None:
    MISTAKES[name].make(installation)
    told_as_it_should_be(installation, MISTAKES[name])


@pytest.fixture
def plain_user() -> tuple[str, ...]:
    """The command under which permissions count; root passes them by otherwise."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed: root may do everything")
    return ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


def test_a_port_that_may_not_be_used_is_told_at_the_start(
    installation: Installation, plain_user: tuple[str, ...]
) -> None:
    master, slave = os.openpty()
    try:
        os.fchmod(slave, 0)
        (installation.directory / "r1-wheel").symlink_to(os.ttyname(slave))
        told_as_it_should_be(
            installation, Mistake(lambda _: None, "tables.r1.devices.wheel.port", "dialout"), plain_user
        )
    finally:
        os.close(master)
        os.close(slave)


def test_a_directory_that_may_not_be_written_is_told_at_the_start(
    installation: Installation, plain_user: tuple[str, ...]
) -> None:
    closed = installation.directory / "closed"
    closed.mkdir(mode=0o555)
    installation.reconfigure("journal.db", "closed/journal.db")
    told_as_it_should_be(installation, Mistake(lambda _: None, "journal.path", "writable path"), plain_user)
    assert not list(closed.iterdir())
