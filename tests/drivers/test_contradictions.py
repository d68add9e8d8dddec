"""What a device says twice of one draw is compared, by every driver; both readings stand in the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from tests.support.tlp_lines import Host, setup_of
from tests.support.tlp_speakers import (
    MONEY_GAME,
    WHEEL_GAME,
    Camera,
    Detector,
    MoneyWheel,
    Wheel,
    wheel_heard,
)
from tests.support.wheel_lines import Ear, Game, status

from dollyd.daemon.core.events import (
    Defect,
    DrawFacts,
    DrawUpdate,
    GameEnded,
    Observed,
    OddsFailed,
    Reading,
    ReadingContradicted,
    Spoken,
)
from dollyd.drivers import DRIVERS
from dollyd.drivers.agreement import DIFFERS

KINDS = Reading | Observed | DrawUpdate | GameEnded
SAYS_ALL_ONCE = {"truerng", "onerng", "chaoskey"}
"""A generator gives bytes, of which none says what another has said."""


def _wheel(spoil: Callable[[Wheel], Iterable[bytes]], game: str = "roulette") -> list[Spoken]:
    wheel = Wheel("BOULE" if game == "boule" else "WHEEL")
    return wheel_heard([*wheel.before(), *spoil(wheel)], game).events


def _lap_out_of_turn(wheel: Wheel) -> Iterable[bytes]:
    lines = [wheel.sta(2), wheel.sta(3)]
    lines += [wheel.say("EVT", WHEEL_GAME, "LAP", n, "800") for n in ("1", "2", "4", "5")]
    return [*lines, wheel.sta(4), wheel.res(laps="4")]


def _laps_in_status(wheel: Wheel) -> Iterable[bytes]:
    shown = wheel.say
    return [
        *(wheel.sta(2), wheel.sta(3), *wheel.laps(5)),
        shown("STA", "4", WHEEL_GAME, "", "172", "0", "9", "00"),
        wheel.res(),
    ]


def _total_below_what_was_shown(wheel: Wheel) -> Iterable[bytes]:
    told = [wheel.sta(2), wheel.sta(3), wheel.say("STA", "4", WHEEL_GAME, "", "172", "0", "9", "00")]
    return [*told, wheel.res(laps="5")]


def _ball(spoil: Callable[[Detector], Iterable[bytes]]) -> list[Spoken]:
    ball = Detector()
    host = Host(setup_of("BD", "roulette")).open()
    return host.hear(ball.hello(), ball.sta(2), ball.sta(3), *ball.laps(4), *spoil(ball), ms=50).events


def _money(spoil: Callable[[MoneyWheel], Iterable[bytes]]) -> list[Spoken]:
    wheel = MoneyWheel()
    host = Host(setup_of("MW", "money-wheel")).open()
    return host.hear(wheel.hello(), wheel.sta(1), *wheel.turn(216), *spoil(wheel), ms=2).events


def _dice() -> list[Spoken]:
    camera = Camera(3)
    host = Host(setup_of("DC", "craps")).open()
    return host.hear(camera.hello(), camera.sta(1), *camera.throw(), camera.res("1", "2"), ms=100).events


def _ss2(*lines: str) -> list[Spoken]:
    return Ear().open_idle().hear(*lines).events


GAME = Game(counter=17, pocket="23")

CASES: dict[str, tuple[str, str, Callable[[], list[Spoken]]]] = {
    "wheel-pocket": (
        "tlp",
        "pocket",
        lambda: _wheel(lambda w: [*w.draw(), w.res("17", "5", "00", WHEEL_GAME, "0")]),
    ),
    "wheel-pocket-that-is-none": (
        "tlp",
        "pocket",
        lambda: _wheel(lambda w: [*w.draw(), w.res("17", "5", "00", WHEEL_GAME, "37")]),
    ),
    "boule-cup": (
        "tlp",
        "pocket",
        lambda: _wheel(lambda w: [*w.draw(), w.res("9", "5", "00", WHEEL_GAME, "24")], "boule"),
    ),
    "wheel-laps": ("tlp", "laps", lambda: _wheel(lambda w: [*w.draw(), w.res(laps="6")])),
    "wheel-lap-out-of-turn": ("tlp", "lap_number", lambda: _wheel(_lap_out_of_turn)),
    "wheel-laps-in-status": ("tlp", "laps_shown", lambda: _wheel(_laps_in_status)),
    "wheel-total-below": ("tlp", "laps_shown", lambda: _wheel(_total_below_what_was_shown)),
    "wheel-rotor": ("tlp", "rotor", lambda: _wheel(lambda w: [*w.draw(), w.res(way="1")])),
    "ball-drop": ("tlp", "laps", lambda: _ball(lambda b: [b.drop(5), b.res("4")])),
    "ball-result": ("tlp", "laps", lambda: _ball(lambda b: [b.drop(4), b.res("5")])),
    "ball-direction": ("tlp", "ball_direction", lambda: _ball(lambda b: [b.drop(4), b.res(way="1")])),
    "money-sector": ("tlp", "sector", lambda: _money(lambda m: [m.sta(3), m.res(sector="30")])),
    "money-sector-moving": (
        "tlp",
        "sector_shown",
        lambda: _money(lambda m: [m.say("STA", "3", MONEY_GAME, "30", "0", "0", "", "00"), m.res()]),
    ),
    "money-sector-at-rest": (
        "tlp",
        "sector",
        lambda: _money(lambda m: [m.say("STA", "5", MONEY_GAME, "2", "0", "0", "", "00"), m.res()]),
    ),
    "money-turns": ("tlp", "turns_x100", lambda: _money(lambda m: [m.res("550")])),
    "money-direction": (
        "tlp",
        "direction",
        lambda: _money(lambda m: [m.say("RES", MONEY_GAME, str(m.sector), "1", "400", "00")]),
    ),
    "dice": ("tlp", "dice", _dice),
    "ss2-bare": ("cammegh-ss2", "number", lambda: _ss2(*GAME.lines("234"), "24", GAME.line(5), GAME.line(5))),
    "ss2-number": (
        "cammegh-ss2",
        "number",
        lambda: _ss2(*GAME.lines("234"), GAME.line(5), status(5, 17, "24")),
    ),
    "ss2-bonus": (
        "cammegh-ss2",
        "bonus_1",
        lambda: _ss2(*GAME.lines("234"), "*Y;1;007", "*Y;1;008", *GAME.lines("5")),
    ),
    "ss2-rotor": (
        "cammegh-ss2",
        "rotor",
        lambda: _ss2(*GAME.lines("234"), status(4, 17, "8", direction=1), *GAME.lines("5")),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_f1_a_device_that_contradicts_itself_in_one_draw_gives_no_reading(name: str) -> None:
    driver, what, heard = CASES[name]
    assert driver in DRIVERS
    events = heard()
    assert not [event for event in events if isinstance(event, Reading)]
    facts: list[DrawFacts] = [event.facts for event in events if isinstance(event, KINDS)]
    assert set(facts[-1].defects) & {
        Defect.WITNESSES_DISAGREE,
        Defect.COUNTS_DIFFER,
        Defect.NUMBER_CHANGED,
        Defect.ROTOR_REVERSED,
    }
    one, _, other = dict(facts[-1].details)[DIFFERS + what].partition("; ")
    assert one
    assert other
    assert one != other


def test_f1_every_driver_that_says_anything_twice_is_tried() -> None:
    tried = {driver for driver, _, _ in CASES.values()} | {"winning-number-line"}
    assert tried | SAYS_ALL_ONCE == set(DRIVERS)
    assert not tried & SAYS_ALL_ONCE


def test_f1_the_number_that_a_wheel_shows_for_the_game_before_is_compared() -> None:
    after = Game(counter=18, pocket="5", before="24")
    ear = Ear().open_idle().hear(*GAME.lines(), after.line(2))
    (reading,) = ear.of(Reading)
    assert ear.of(ReadingContradicted) == []  # one line may be damaged
    ear.hear(after.line(2), after.line(2), after.line(3))
    assert ear.of(ReadingContradicted) == [ReadingContradicted(reading.game, ("24",))]


def test_f1_a_damaged_line_does_not_contradict_the_game_before() -> None:
    after = Game(counter=18, pocket="5", before="23")
    lines = [after.line(2), status(2, 18, "24"), after.line(2), status(3, 18, "22"), status(3, 18, "21")]
    assert Ear().open_idle().hear(*GAME.lines(), *lines).of(ReadingContradicted) == []


def test_f1_a_display_that_shows_two_numbers_in_one_draw_contradicts_itself() -> None:
    setup = setup_of("WH", "roulette", options={"repeat_ms": 2_000})
    told = Host(setup, driver="winning-number-line").open().hear(b"17\r\n", b"18\r\n", ms=100)
    assert [event.value for event in told.of(ReadingContradicted)] == [("18",)]


def test_f1_where_no_pocket_contradicts_all_is_read() -> None:
    events = _wheel(lambda w: [*w.draw(), w.res("17", "5", "00", WHEEL_GAME, "8")])
    assert [event.value for event in events if isinstance(event, Reading)] == [("17",)]


def test_f1_passes_that_were_lost_explain_another_sector() -> None:
    wheel = MoneyWheel()
    lines = [wheel.hello(), wheel.sta(1), *wheel.turn(230), wheel.sta(3), wheel.res()]
    host = Host(setup_of("MW", "money-wheel")).open().hear(*lines[:-3], *lines[-2:], ms=2)
    assert len(host.of(Reading)) == 1
    assert host.of(OddsFailed) == []
