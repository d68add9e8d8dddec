"""`dollyd wait-for-pause`: an upgrade restarts the daemon only between two rounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.chains import ChainMaker, decision
from tests.support.daemon import Installation
from tests.support.machine import Machine
from typer.testing import CliRunner, Result

from dollyd.daemon.cli import application, wait_for_pause
from dollyd.daemon.journal.store import Journal
from dollyd.wire.errors import ConfigError
from dollyd.wire.record import Kind, Time
from dollyd.wire.stamp import iso_utc


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path, "localhost:1883", variant="A")


@pytest.fixture
def chain(installation: Installation) -> ChainMaker:
    """A journal with two rounds that have their results, and a third in play."""
    chain = ChainMaker().begin().play(1, 2)
    chain.add(Kind.ROUND, 3)
    keep(installation, chain)
    return chain


def keep(installation: Installation, chain: ChainMaker, begin: int = 0) -> None:
    with closing(Journal.open(installation.journal)) as journal:
        journal.append(chain.entries[begin:])


def now() -> Time:
    """The time of a record that is written at this moment."""
    return Time(utc=iso_utc(time.time_ns()), monotonic_ns=1, boot="b", synchronised=True, error_bound_us=10)


def wait(installation: Installation, timeout_s: int) -> Result:
    arguments = ["wait-for-pause", "--config", str(installation.config), "--timeout-s", str(timeout_s)]
    return CliRunner().invoke(application, arguments)


def test_a_round_in_play_is_waited_for_and_named_at_the_end_of_the_time(
    installation: Installation, chain: ChainMaker
) -> None:
    before = installation.journal.read_bytes()
    said = wait(installation, 0)
    assert said.exit_code == 1
    assert "r1" in said.stdout
    assert installation.journal.read_bytes() == before


@pytest.mark.parametrize(("played", "told"), [("in-play", True), ("just-now", True), ("long-ago", False)])
def test_l8_dealers_are_told_of_the_gap_before_the_restart_where_tables_play(
    installation: Installation, chain: ChainMaker, played: str, told: bool
) -> None:
    if played != "in-play":
        chain.add(Kind.RESULT, 3, decision(), header={"time": now()} if played == "just-now" else {})
        keep(installation, chain, begin=len(chain.entries) - 1)
    said = " ".join(wait(installation, 0).stdout.split())
    assert ("will be a `gap`" in said and "dealers of r1" in said) == told


def test_its_result_is_the_pause(installation: Installation, chain: ChainMaker) -> None:
    def end_the_round() -> None:
        chain.add(Kind.RESULT, 3, decision())
        keep(installation, chain, begin=len(chain.entries) - 1)

    player = threading.Timer(0.3, end_the_round)
    player.start()
    began = time.monotonic()
    said = wait(installation, 60)
    assert time.monotonic() - began >= 0.25
    player.join()
    assert said.exit_code == 0, said.output


def test_a_round_that_waits_for_people_is_not_in_play(installation: Installation, chain: ChainMaker) -> None:
    chain.add(Kind.UNRESOLVED, 3, decision())
    keep(installation, chain, begin=len(chain.entries) - 1)
    assert wait(installation, 0).exit_code == 0


def test_a_pause_that_has_begun_may_be_at_its_end(installation: Installation, chain: ChainMaker) -> None:
    """The next round is waited for, and the beginning of the pause behind it."""
    chain.add(Kind.RESULT, 3, decision(), header={"time": now()})
    keep(installation, chain, begin=len(chain.entries) - 1)

    def play_on() -> None:
        time.sleep(0.3)
        for kind, body in ((Kind.ROUND, None), (Kind.RESULT, decision())):
            chain.add(kind, 4, body, header={"time": now()})
            keep(installation, chain, begin=len(chain.entries) - 1)
            time.sleep(0.3)

    player = threading.Thread(target=play_on)
    player.start()
    began = time.monotonic()
    said = wait(installation, 60)
    took_s = time.monotonic() - began
    player.join()
    assert said.exit_code == 0, said.output
    assert 0.5 < took_s < 30


def test_a_table_between_two_rounds_at_the_end_of_the_time_is_in_a_pause(
    installation: Installation, chain: ChainMaker
) -> None:
    chain.add(Kind.RESULT, 3, decision(), header={"time": now()})
    keep(installation, chain, begin=len(chain.entries) - 1)
    began = time.monotonic()
    assert wait(installation, 1).exit_code == 0
    assert time.monotonic() - began >= 1


def test_without_a_journal_there_is_nothing_to_wait_for(installation: Installation) -> None:
    assert wait(installation, 0).exit_code == 0


def no_key(installation: Installation) -> None:
    installation.signing_key.unlink()


def no_tls_file(installation: Installation) -> None:
    installation.reconfigure("[mqtt]\n", '[mqtt]\nca_file = "nowhere.crt"\n')


def no_port(installation: Installation) -> None:
    (installation.directory / "r1-wheel").write_text("no port")


def misspelt(installation: Installation) -> None:
    installation.reconfigure('site = "', 'sight = "')


@pytest.mark.parametrize("spoil", [misspelt, no_key, no_tls_file, no_port])
def test_a_configuration_that_a_start_would_refuse_is_no_pause(
    installation: Installation, spoil: Callable[[Installation], None]
) -> None:
    spoil(installation)
    assert isinstance(wait(installation, 0).exception, ConfigError)


def test_a_table_that_the_configuration_has_lost_is_waited_for(
    installation: Installation, chain: ChainMaker
) -> None:
    text = installation.config.read_text()
    installation.config.write_text(text.replace("tables.r1", "tables.r2"))
    said = wait(installation, 0)
    assert (said.exit_code, "in play: r1" in said.stdout) == (1, True)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which the service runs, as process 700."""
    machine = Machine(tmp_path / "root")
    machine.answers[("systemctl", "show")] = "LoadState=loaded\nMainPID=700"
    machine.write("/proc/700/comm", "dollyd")
    monkeypatch.setattr(wait_for_pause, "Host", lambda: machine.host)
    return machine


def test_the_journal_that_the_service_has_open_is_the_one_that_counts(
    installation: Installation, chain: ChainMaker, machine: Machine
) -> None:
    machine.path("/proc/700/fd").mkdir()
    for number, name in enumerate(("/dev/null", f"{installation.journal}.lock", "socket:[17]")):
        machine.path(f"/proc/700/fd/{number}").symlink_to(name)
    installation.reconfigure("journal.db", "another.db")
    said = wait(installation, 0)
    assert (said.exit_code, "in play: r1" in said.stdout) == (1, True)


def test_a_journal_that_is_not_to_be_seen_while_the_service_runs_is_no_pause(
    installation: Installation, machine: Machine
) -> None:
    error = wait(installation, 0).exception
    assert isinstance(error, ConfigError)
    assert "run this as root" in str(error)
