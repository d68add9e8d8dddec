"""A TLP/1 money wheel: its turns are counted sector by sector (tlp-1.md 8, rulebook 4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tlp_lines import SILENCE_MS, Host, ref, setup_of
from tests.support.tlp_speakers import MONEY_GAME, SECTORS, MoneyWheel

from dollyd.daemon.core.events import (
    BetsClosed,
    Defect,
    DeviceReady,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Flag,
    GameEnded,
    GameStarted,
    Reading,
    ReadingContradicted,
    TurnsBasis,
)
from dollyd.drivers.spec import Status


def host(**changes: Any) -> Host:
    return Host(setup_of("MW", "money-wheel", **changes)).open()


def heard(*lines: bytes) -> Host:
    return host().hear(*lines, ms=2)


def game_of(*ways: int, turns_x100: str = "", start: int = 1, flags: str = "00") -> Host:
    wheel = MoneyWheel(start)
    wheel.way = "1" if max(ways, key=abs, default=0) < 0 else "0"
    return heard(wheel.hello(), wheel.sta(1), *wheel.turn(*ways), wheel.sta(5), wheel.res(turns_x100, flags))


def test_a_turn_from_place_bets_to_the_sector() -> None:
    told, game = game_of(216, turns_x100="400", start=31), ref("wheel", MONEY_GAME)
    facts = DrawFacts(turns_basis=TurnsBasis.COUNTED, wheel_turns_x100=400, wheel_direction="clockwise")
    assert told.events == [
        DeviceReady("wheel", told.protocol.identity),
        GameStarted(game),
        DrawStarted(game),
        Reading(game, ("31",), facts),
    ]
    assert told.of(BetsClosed) == []
    assert [game for _, game in told.acks] == [MONEY_GAME]


@pytest.mark.parametrize(
    ("ways", "turns_x100"),
    [
        ((215,), 398),
        ((216,), 400),
        ((216, -1), 400),  # the clapper pushes it back
        ((215, -1), 398),
        ((-10, 216), 400),  # wound up against the launch
        ((-10, 215, -1), 398),
        ((-216,), 400),  # launched the other way
        ((-300, 20), 555),
        ((100, -60, 116), 214),  # stopped and turned again is no long turn
        ((3, -3, 2, -2, 216, -1, 1, -1), 400),
    ],
)
def test_t37_the_longest_way_in_one_direction_is_counted(ways: tuple[int, ...], turns_x100: int) -> None:
    (reading,) = game_of(*ways).of(Reading)
    assert reading.facts.wheel_turns_x100 == turns_x100


def test_the_wind_up_before_the_release_does_not_add() -> None:
    wheel = MoneyWheel()
    lines = [wheel.hello(), wheel.sta(1), wheel.sta(2), *wheel.go(50), *wheel.go(-40), wheel.sta(2)]
    (reading,) = heard(*lines, *wheel.turn(216), wheel.res("400")).of(Reading)
    assert reading.facts.wheel_turns_x100 == 400


def test_a_wheel_that_does_not_say_where_it_stands_has_one_pass_less() -> None:
    wheel = MoneyWheel()
    lines = [wheel.hello(), wheel.sta(1), wheel.say("STA", "2", MONEY_GAME, "", "0", "0", "", "00")]
    lines += [wheel.sta(3), *wheel.go(216), wheel.res("400")]
    assert heard(*lines).of(Reading)[0].facts.wheel_turns_x100 == 398


@pytest.mark.parametrize("total", ["398", "399", "400", "401", "402"])
def test_the_total_may_be_one_sector_off(total: str) -> None:
    assert game_of(216, turns_x100=total).values == [("1",)]


@pytest.mark.parametrize("total", ["397", "403", "0", "800"])
def test_a_total_that_is_not_our_count_is_a_doubt(total: str) -> None:
    told = game_of(216, turns_x100=total)
    assert (told.values, told.defects) == ([], (Defect.COUNTS_DIFFER,))


def test_a_wheel_without_passes_reports_its_total() -> None:
    (reading,) = game_of(turns_x100="612").of(Reading)
    assert (reading.facts.turns_basis, reading.facts.wheel_turns_x100) == (TurnsBasis.REPORTED, 612)


def test_a_lost_pass_makes_the_count_a_lower_bound() -> None:
    wheel = MoneyWheel()
    lines = [wheel.hello(), wheel.sta(1), *wheel.turn(216), wheel.res("400")]
    (reading,) = heard(*lines[:50], *lines[53:]).of(Reading)
    assert (reading.facts.wheel_turns_x100, reading.facts.turns_lower_bound) == (394, True)
    assert reading.facts.defects == ()


def test_52_a_sector_that_is_no_neighbour_is_a_doubt_where_nothing_was_lost() -> None:
    wheel = MoneyWheel()
    lines = [wheel.hello(), wheel.sta(1), *wheel.turn(100)]
    wheel.sector += 5
    told = heard(*lines, *wheel.go(200), wheel.res())
    assert (told.values, told.defects) == ([], (Defect.SENSORS_DISAGREE,))


@pytest.mark.parametrize("sector", ["0", "55", "x", ""])
def test_52_a_pass_of_no_sector_of_this_wheel_is_a_doubt(sector: str) -> None:
    wheel = MoneyWheel()
    lines = [wheel.hello(), wheel.sta(1), *wheel.turn(216), wheel.say("EVT", MONEY_GAME, "PASS", sector, "9")]
    told = heard(*lines, wheel.res())
    assert (told.values, told.defects) == ([], (Defect.NOT_ON_WHEEL,))


@pytest.mark.parametrize("sector", ["0", "55", "007"])
def test_52_a_sector_that_is_not_on_the_wheel(sector: str) -> None:
    wheel = MoneyWheel()
    told = heard(wheel.hello(), wheel.sta(1), *wheel.turn(216), wheel.res(sector=sector))
    assert (told.values, told.defects) == ([], (Defect.NOT_ON_WHEEL,))


def test_33_a_blank_sector_without_a_pin_was_not_read() -> None:
    wheel = MoneyWheel()
    told = heard(wheel.hello(), wheel.sta(1), *wheel.turn(216), wheel.res(sector=""))
    assert (told.values, told.defects) == ([], (Defect.UNREAD,))


@pytest.mark.parametrize("sector", ["", "31"])
def test_t38_a_pointer_on_a_pin_ends_the_game_without_a_reading(sector: str) -> None:
    wheel = MoneyWheel()
    told = heard(wheel.hello(), wheel.sta(1), *wheel.turn(400), wheel.res("740", "04", sector=sector))
    update, ended = told.of(DrawUpdate, GameEnded)
    assert isinstance(update, DrawUpdate)
    assert update.facts.flags == (Flag.BETWEEN_SECTORS,)
    assert isinstance(ended, GameEnded)
    assert (ended.ending, ended.facts.wheel_turns_x100, ended.facts.defects) == (Ending.SHUT_DOWN, 740, ())
    assert told.hear(wheel.sta(5), wheel.sta(2, "0078")).of(Reading) == []
    assert len(told.of(GameEnded)) == 1


@pytest.mark.parametrize(("mask", "flag"), [("20", Flag.TOUCHED), ("40", Flag.DEVICE_FAULT)])
@pytest.mark.parametrize("how", ["sta", "flt", "res"])
def test_t39_a_flag_in_the_turn_is_told_at_once(mask: str, flag: Flag, how: str) -> None:
    wheel = MoneyWheel()
    told = heard(wheel.hello(), wheel.sta(1), *wheel.turn(300))
    match how:
        case "sta":
            told.hear(wheel.sta(3, flags=mask))
        case "flt":
            told.hear(wheel.say("FLT", MONEY_GAME, mask, "TEXT"))
        case _:
            told.hear(wheel.res(flags=mask))
    assert told.of(DrawUpdate)[0].facts.flags == (flag,)


@pytest.mark.parametrize(
    ("mask", "defect"),
    [("02", Defect.ROTOR_REVERSED), ("08", Defect.SENSORS_DISAGREE), ("10", Defect.ROTOR_OVER_SPEED)],
)
def test_a_wheel_that_doubts_itself_gives_no_sector(mask: str, defect: Defect) -> None:
    told = game_of(216, flags=mask)
    assert told.values == []
    assert told.defects == (defect,)
    assert (Flag.RUNAWAY in told.of(DrawUpdate)[-1].facts.flags) is (mask == "10")


def test_flag_01_only_informs() -> None:
    (reading,) = game_of(184, turns_x100="340", flags="01").of(Reading)
    assert (reading.facts.wheel_turns_x100, reading.facts.flags) == (340, ())


@pytest.mark.parametrize("mask", ["01", "04"])
def test_a_pin_that_is_passed_is_no_stop(mask: str) -> None:
    wheel = MoneyWheel()
    lines = [wheel.hello(), wheel.sta(1), *wheel.turn(100), wheel.sta(3, flags=mask), *wheel.go(116)]
    assert heard(*lines, wheel.res("400")).of(Reading)[0].facts.flags == ()


@pytest.mark.parametrize("mask", ["20", "10", "02"])
def test_a_hand_on_the_wheel_before_the_release_is_the_way_of_things(mask: str) -> None:
    wheel = MoneyWheel()
    lines = [wheel.hello(), wheel.sta(1), wheel.sta(2, flags=mask), *wheel.turn(216), wheel.res("400")]
    assert heard(*lines).of(Reading)[0].facts.flags == ()


def test_a_motor_fault_is_a_fault_of_the_device() -> None:
    wheel = MoneyWheel()
    told = heard(wheel.hello(), wheel.sta(1, flags="40"))
    assert told.protocol.status is Status.FAULT
    assert told.hear(wheel.sta(1)).protocol.status is Status.READY


@pytest.mark.parametrize("state", [2, 3, 5])
def test_42_a_turn_that_was_under_way_gives_no_sector(state: int) -> None:
    wheel = MoneyWheel()
    told = heard(wheel.hello(), wheel.sta(state), wheel.sta(3), *wheel.go(216), wheel.res("400"))
    assert (told.values, len(told.acks)) == ([], 1)
    assert told.of(GameStarted) == [GameStarted(ref("wheel", MONEY_GAME), joined=True)]


@pytest.mark.parametrize("way", [(2, 5), (2, 4), (2, 3, 4)])
def test_36_a_step_that_was_not_seen_spoils_the_sector(way: tuple[int, ...]) -> None:
    wheel = MoneyWheel()
    told = heard(wheel.hello(), wheel.sta(1), *(wheel.sta(state) for state in way), wheel.res("400"))
    assert told.values == []
    assert Defect.ILLEGAL_TRANSITION in told.defects


def test_15_silence_in_the_turn_is_a_gap_though_passes_come() -> None:
    wheel = MoneyWheel()
    told = heard(wheel.hello(), wheel.sta(1), *wheel.turn(100)).hear(*wheel.go(116), ms=SILENCE_MS / 100)
    assert (told.hear(wheel.res("400")).values, told.defects) == ([], (Defect.DATA_GAP,))


def test_31_46_48_a_result_counts_once_and_is_held_to() -> None:
    wheel = MoneyWheel()
    lines = [wheel.hello(), wheel.sta(1), *wheel.turn(216), wheel.res("400")]
    told = heard(*lines, lines[-1]).lose().open().hear(wheel.hello(), lines[-1])
    assert (told.values, len(told.acks)) == ([("1",)], 3)
    assert told.hear(wheel.res("400", sector="2")).of(ReadingContradicted) == [
        ReadingContradicted(ref("wheel", MONEY_GAME), ("2",))
    ]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 54), st.integers(1, 20), st.integers(150, 260), st.integers(0, 1), st.data())
def test_any_turn_is_counted_or_is_a_lower_bound(
    start: int, wound: int, passes: int, back: int, draw: st.DataObject
) -> None:
    wheel = MoneyWheel(start)
    ways = (-wound, passes, -back) if back else (-wound, passes)
    lines = [wheel.hello(), wheel.sta(1), *wheel.turn(*ways), wheel.res(str(passes * 100 // SECTORS))]
    gone = draw.draw(st.sets(st.integers(4, len(lines) - 2), max_size=3))
    told = host()
    for place, line in enumerate(lines):
        told.bytes(draw.draw(st.sampled_from([b"", b"", b"$MW\r\n", b"\xff"])))
        if place not in gone:
            told.bytes(line)
    for reading in told.through_json().of(Reading):
        facts = reading.facts
        assert (facts.wheel_turns_x100 or 0) <= passes * 100 // SECTORS
        assert facts.turns_lower_bound or facts.wheel_turns_x100 == passes * 100 // SECTORS
        assert reading.value == (str(wheel.sector),)
