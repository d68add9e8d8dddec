"""Another device behind the same name, over a lost line and over a restart: people are asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.drivers.test_tlp_rounds import Table
from tests.support.chains import ChainMaker, decision
from tests.support.tables import WHEEL, Play, make_setup
from tests.support.tlp_speakers import Camera, Wheel
from tests.support.wheel_lines import Ear, status

from dollyd.daemon.core.bound import DEVICE_CHANGED
from dollyd.daemon.core.events import (
    DeviceChanged,
    DeviceReady,
    Inspected,
)
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.table.engine import Input, Op
from dollyd.daemon.table.resume import remind, restored
from dollyd.wire.record import Kind
from dollyd.wire.stamp import Stamp

SN1 = (("kind", "WHEEL"), ("vendor", "ACME"), ("model", "M1"), ("serial", "SN1"), ("boot", "B1"))
SN2 = (*SN1[:3], ("serial", "SN2"), ("boot", "B1"))


def relink(table: Table, device: str, ms: int = 700) -> Table:
    """The line is lost and comes back."""
    table._feed(Input(Op.LOST, table.at, device, "gone"))
    table.wait(ms)._feed(Input(Op.OPEN, table.at, device))
    return table


def whats(table: Table) -> list[str]:
    bodies = [msgspec.json.decode(record.body) for record in table.records if record.kind is Kind.INCIDENT]
    return [body["what"] for body in bodies]


# --- a serial number -------------------------------------------------------------------------------------


def test_f2_another_camera_behind_the_same_name_asks_people(tmp_path: Path) -> None:
    table, camera = Table(tmp_path, "sic-bo", "dice"), Camera(3)
    throw = [*camera.throw("0005"), camera.res("1", "2", "3", game="0005")]
    table.hear("dice", camera.hello("DC000001"), camera.sta(1, "0005"), *throw)
    relink(table, "dice")
    other = Camera(3)
    table.hear("dice", other.hello("DC000777"), other.sta(1, "0499"))
    assert whats(table)[-1] == DEVICE_CHANGED
    rounds = table.engine.table.number
    table.hear("dice", *other.throw("0500"), other.res("4", "5", "6", game="0500"))
    assert table.engine.table.number == rounds, "no round begins before people say so"
    table.house(Inspected("t1", "technician"))
    table.hear("dice", other.sta(1, "0501"), other.sta(2, "0501"))
    assert table.engine.table.number == rounds + 1


def test_f2_the_same_wheel_after_a_power_cycle_asks_nobody(tmp_path: Path) -> None:
    table, wheel = Table(tmp_path, "roulette", "wheel"), Wheel()
    table.hear("wheel", *wheel.before(), *wheel.draw(), wheel.res())
    relink(table, "wheel").hear("wheel", wheel.reboot(), wheel.sta(1, "0001"), wheel.sta(2, "0001"))
    assert DEVICE_CHANGED not in whats(table)
    assert table.engine.table.round is not None


def test_f2_another_wheel_on_one_connection_leaves_the_round_without_a_number(tmp_path: Path) -> None:
    table, wheel = Table(tmp_path, "roulette", "wheel"), Wheel()
    table.hear("wheel", *wheel.before(), *wheel.draw(), wheel.hello("SN2"), wheel.res())
    assert DEVICE_CHANGED in whats(table)
    assert "unresolved" in table.kinds
    assert "result" not in table.kinds


# --- a counter -------------------------------------------------------------------------------------------


def back_with(counter: int, pocket: str, after_ms: int = 700, at: int = 3) -> Ear:
    """A wheel that was lost in game `at`, and what shows up in its place."""
    ear = Ear().open().hear(status(6, at, "8")).lose().quiet(after_ms).open()
    return ear.hear(status(6, counter, pocket), status(6, counter, pocket))


@pytest.mark.parametrize("counter", [184, 2, 250])
def test_f2_a_counter_that_cannot_follow_is_another_wheel(counter: int) -> None:
    assert [type(event) for event in back_with(counter, "20").of(DeviceChanged)] == [DeviceChanged]


@pytest.mark.parametrize(
    ("counter", "pocket", "after_ms", "at"),
    [
        (3, "8", 700, 3),
        (4, "8", 700, 3),
        (1, "8", 700, 256),
        (1, "", 700, 184),  # a loss of power
        (8, "20", 60_000, 3),  # so many games fit into the time
    ],
)
def test_f2_a_wheel_that_plays_on_or_was_switched_off_is_the_same(
    counter: int, pocket: str, after_ms: int, at: int
) -> None:
    assert back_with(counter, pocket, after_ms, at).of(DeviceChanged) == []


def test_f2_the_silence_before_a_dead_connection_is_given_up_counts() -> None:
    ear = Ear().open().hear(status(6, 3, "8")).quiet(60_000).lose().quiet(700).open()
    assert ear.hear(status(6, 8, "20"), status(6, 8, "20")).of(DeviceChanged) == []


def test_f2_one_damaged_line_is_no_other_wheel() -> None:
    ear = Ear().open().hear(status(6, 3, "8")).lose().quiet(700).open()
    assert ear.hear(status(6, 131, "8"), status(6, 3, "8"), status(6, 3, "8")).of(DeviceChanged) == []


def test_f2_a_counter_is_known_over_a_restart() -> None:
    ear = Ear()
    ear.protocol.remember("wheel/1234/003#2", ear.at.utc_ns)
    ear.quiet(5_000)
    ear.open().hear(status(6, 184, "20"), status(6, 184, "20"))
    assert len(ear.of(DeviceChanged)) == 1


def test_f2_a_changed_wheel_gives_no_number_to_the_round_in_progress() -> None:
    play = Play(make_setup("C")).no_more_bets()
    play.tell(DeviceChanged(WHEEL, "counter 184 cannot follow 003 so soon"))
    assert play.table.blocked == DEVICE_CHANGED


# --- over a restart --------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "changed.db")
    yield opened
    opened.close()


def incident(what: str, identity: dict[str, str]) -> dict[str, object]:
    return {"what": what, "device": WHEEL, "text": "", "details": identity}


@pytest.mark.parametrize(
    ("later", "asked"),
    [
        pytest.param([], "", id="known"),
        pytest.param([DEVICE_CHANGED], DEVICE_CHANGED, id="nobody-has-looked"),
        pytest.param([DEVICE_CHANGED, "inspected"], "", id="accepted"),
        pytest.param([DEVICE_CHANGED, "inspected", DEVICE_CHANGED], DEVICE_CHANGED, id="changed-again"),
    ],
)
def test_f2_identity_and_what_people_have_not_accepted_outlive_a_restart(
    journal: Journal, later: list[str], asked: str
) -> None:
    maker = ChainMaker("r1")
    maker.add(Kind.INCIDENT, 0, incident("device-ready", dict(SN1)))
    for what in later:
        maker.add(Kind.INCIDENT, 0, incident(what, dict(SN2) if what == DEVICE_CHANGED else {}))
    journal.append(maker.entries)
    tail = journal.tail("r1")
    assert tail is not None
    assert tail.inspection == asked
    play = Play(make_setup("C"))
    play.table = restored(make_setup("C"), tail, Stamp(0, 0))
    play.tell(DeviceReady(WHEEL, SN2 if later else SN1))
    assert play.table.inspection == asked
    play.tell(DeviceReady(WHEEL, SN1 if later else SN2))
    assert play.table.inspection == DEVICE_CHANGED


def test_f2_the_game_in_a_record_is_what_a_restart_goes_on_from(journal: Journal) -> None:
    maker, body = ChainMaker("r1"), decision()
    body["evidence"] |= {
        "devices": [{"name": WHEEL, "driver": "d", "role": "wheel", "identity": {"firmware": "1.22"}}],
        "witnesses": [{"device": WHEEL, "game": "wheel/1234/017"}],
    }
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.RESULT, 1, body)
    journal.append(maker.entries)
    tail = journal.tail("r1")
    assert tail is not None
    known = tail.devices[WHEEL]
    assert (known.identity, known.game) == ({"firmware": "1.22"}, "wheel/1234/017")
    ear = Ear()
    remind({WHEEL: ear.protocol}, tail)
    assert ear.protocol.snapshot().left.counter == 17
