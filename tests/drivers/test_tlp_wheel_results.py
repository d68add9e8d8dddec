"""A TLP/1 wheel: its `RES` counts once, lost sentences and flags are told (tlp-1.md 2.4, 3.3, 6.4)."""

from __future__ import annotations

import pytest
from tests.support.tlp_lines import ref
from tests.support.tlp_speakers import WHEEL_GAME, Wheel, wheel_heard, wheel_host, whole_game

from dollyd.daemon.core.events import (
    Defect,
    DeviceTrouble,
    DrawUpdate,
    Flag,
    GameEnded,
    GameStarted,
    Reading,
    ReadingContradicted,
)
from dollyd.drivers.spec import Status

# --- the RES is repeated, and counts once ------------------------------------------------------------


def test_31_a_repeated_result_is_acknowledged_each_time_and_told_once() -> None:
    wheel = Wheel()
    lines = [*wheel.before(), *wheel.draw(), wheel.sta(5), wheel.res()]
    told = wheel_heard([*lines, lines[-1], wheel.sta(5), lines[-1], wheel.sta(5)])
    assert told.values == [("28",)]
    assert told.acks == [(11, WHEEL_GAME)] * 3
    assert told.protocol.counters["missed"] == 0


def test_46_a_result_repeated_after_a_reconnect_is_an_old_one() -> None:
    wheel = Wheel()
    lines = whole_game(wheel)
    told = wheel_heard(lines).lose().open().hear(wheel.hello(), lines[-1], wheel.sta(5), lines[-1], ms=100)
    assert told.values == [("28",)]
    assert len(told.acks) == 3
    assert told.of(ReadingContradicted) == []


def test_46_a_result_kept_over_a_loss_of_power_is_an_old_one() -> None:
    wheel = Wheel()
    lines = whole_game(wheel)
    told = wheel_heard(lines).hear(wheel.reboot(), lines[-1], wheel.sta(6, "0413"), lines[-1], ms=100)
    assert told.values == [("28",)]
    assert told.protocol.counters["reboots"] == 1
    assert len(told.said("QRY")) == 1  # it has said who it is
    told.hear(wheel.sta(1, "0413"), *wheel.draw("0413"), wheel.res("3", game="0413"), ms=100)
    assert told.values == [("28",), ("3",)]


def test_38_an_old_result_never_becomes_that_of_a_new_game_of_the_same_number() -> None:
    wheel = Wheel()
    old = whole_game(wheel)[-1]
    told = wheel_host().hear(wheel.hello(), old, ms=100)  # nobody heard that game
    told.hear(wheel.reboot(), old, wheel.sta(1), *wheel.draw(), old, ms=100)
    assert told.values == []
    assert told.hear(wheel.res("3"), ms=100).values == [("3",)]


def test_47_a_result_of_another_game_is_no_reading() -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.res(game="0477")])
    assert told.values == []
    assert told.protocol.counters["result-unseen"] == 1
    assert told.hear(wheel.res(), ms=100).values == [("28",)]


def test_another_result_before_the_reading_spoils_it() -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.res(""), wheel.res()])
    assert told.values == []
    assert told.defects == (Defect.UNREAD, Defect.NUMBER_CHANGED)


@pytest.mark.parametrize("between", [[], [(5, WHEEL_GAME)], [(5, WHEEL_GAME), (1, "0413"), (2, "0413")]])
def test_48_another_result_after_the_reading_contradicts_it_once(between: list[tuple[int, str]]) -> None:
    wheel = Wheel()
    told = wheel_heard(whole_game(wheel))
    told.hear(*(wheel.sta(state, game) for state, game in between), ms=100)
    told.hear(wheel.res("29"), wheel.res("29"), ms=100)
    assert told.values == [("28",)]
    assert told.of(ReadingContradicted) == [ReadingContradicted(ref("wheel", WHEEL_GAME), ("29",))]


def test_states_after_the_reading_tell_nothing_more() -> None:
    wheel = Wheel()
    told = wheel_heard(whole_game(wheel))
    before = list(told.events)
    told.hear(wheel.sta(3), wheel.sta(4, flags="01"), wheel.sta(5), *wheel.laps(2), ms=100)
    assert told.events == before


def test_48_a_contradiction_is_known_over_a_reconnect() -> None:
    wheel = Wheel()
    told = wheel_heard(whole_game(wheel)).lose().quiet(60_000).open().hear(wheel.hello(), wheel.res("29"))
    assert told.of(ReadingContradicted) == [ReadingContradicted(ref("wheel", WHEEL_GAME), ("29",))]


def test_38_a_game_under_the_number_of_the_last_one_gives_no_number() -> None:
    wheel = Wheel()
    told = wheel_heard([*whole_game(wheel), *wheel.draw(), wheel.res("29")])
    assert told.values == [("28",)]
    assert told.of(GameStarted)[-1] == GameStarted(ref("wheel", WHEEL_GAME, 2), joined=True)
    assert told.of(ReadingContradicted) == []


@pytest.mark.parametrize(("first", "second"), [("9999", "0000"), ("0412", "0001"), ("0412", "0500")])
def test_38_a_counter_that_wraps_jumps_or_begins_anew_names_games_all_the_same(
    first: str, second: str
) -> None:
    wheel = Wheel()
    lines = [*wheel.before("0000"), *wheel.draw(first), wheel.res(game=first)]
    told = wheel_heard([*lines, *wheel.draw(second), wheel.res("3", game=second)])
    assert told.values == [("28",), ("3",)]
    told.hear(*wheel.draw(first), wheel.res("4", game=first), ms=100)
    names = [reading.game for reading in told.of(Reading)]
    assert len(set(names)) == 3  # a number that comes again names another game


# --- lost sentences ----------------------------------------------------------------------------------


def test_a_lost_lap_makes_the_count_a_lower_bound() -> None:
    lines = whole_game()
    told = wheel_heard([*lines[:5], *lines[6:]])
    (reading,) = told.of(Reading)
    assert (reading.facts.ball_turns_x100, reading.facts.turns_lower_bound) == (400, True)
    assert told.protocol.counters["missed"] == 1


def test_a_sentence_lost_before_the_draw_takes_nothing_from_the_count() -> None:
    wheel = Wheel()
    lines = [
        *wheel.before(),
        wheel.sta(2),
        wheel.sta(2),
        wheel.sta(2),
        wheel.sta(3),
        *wheel.laps(5),
        wheel.sta(4),
    ]
    told = wheel_heard([*lines[:3], *lines[4:], wheel.res()])
    (reading,) = told.of(Reading)
    assert not reading.facts.turns_lower_bound


def test_11_a_result_whose_first_copy_was_damaged_is_no_lost_event() -> None:
    wheel = Wheel()
    lines = [*wheel.before(), *wheel.draw(), wheel.res(), wheel.sta(5)]
    damaged = lines[-2].replace(b",28,", b",29,")
    told = wheel_heard([*lines[:-2], damaged, lines[-1]])
    assert (told.values, told.acks) == ([], [])
    (reading,) = told.hear(lines[-2]).of(Reading)
    assert reading.value == ("28",)
    assert not reading.facts.turns_lower_bound


@pytest.mark.parametrize("total", ["4", "6", "0", "50"])
def test_a_total_that_is_not_our_count_is_a_doubt(total: str) -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.res(laps=total)])
    assert (told.values, told.defects) == ([], (Defect.COUNTS_DIFFER,))


def test_a_total_below_our_count_is_a_doubt_even_where_events_were_lost() -> None:
    wheel = Wheel()
    lines = [*wheel.before(), *wheel.draw(), wheel.res(laps="3")]
    assert wheel_heard([*lines[:5], *lines[6:]]).defects == (Defect.COUNTS_DIFFER,)


def test_31_a_line_that_came_twice_counts_one_lap() -> None:
    doubled = [line for line in whole_game() for _ in range(2)]
    (reading,) = wheel_heard(doubled).of(Reading)
    assert reading.facts.ball_turns_x100 == 500


def test_a_number_that_wraps_is_no_gap() -> None:
    (reading,) = wheel_heard(whole_game(Wheel(seq=65_530))).of(Reading)
    assert not reading.facts.turns_lower_bound


def test_a_wheel_that_restarts_in_the_draw_has_a_gap() -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.reboot(), wheel.sta(4), wheel.res()])
    assert (told.values, told.defects) == ([], (Defect.DATA_GAP,))


def test_a_wheel_that_restarts_unheard_in_the_draw_has_a_gap() -> None:
    wheel = Wheel(seq=500)
    lines = [*wheel.before(), *wheel.draw()]
    wheel.seq = 3
    told = wheel_heard([*lines, wheel.sta(4), wheel.res()])
    assert (told.values, told.defects) == ([], (Defect.DATA_GAP,))
    assert len(told.said("QRY")) == 2


# --- flags -------------------------------------------------------------------------------------------

RULE_FLAGS = [
    ("01", Flag.BALL_NOT_DETECTED),
    ("02", Flag.BALL_WITH_ROTOR),
    ("04", Flag.DEVICE_FAULT),
    ("08", Flag.LAUNCH_FAILED),
    ("40", Flag.SECOND_BALL),
    ("100", Flag.BALL_OUT),
]


@pytest.mark.parametrize(("mask", "flag"), RULE_FLAGS)
@pytest.mark.parametrize("how", ["sta", "flt", "res"])
def test_34_35_a_flag_is_told_and_kept_however_short_it_was(mask: str, flag: Flag, how: str) -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), wheel.sta(2), wheel.sta(3), wheel.sta(4)])
    match how:
        case "sta":
            told.hear(wheel.sta(4, flags=mask), wheel.sta(4), wheel.res())
        case "flt":
            told.hear(
                wheel.say("FLT", WHEEL_GAME, mask, "TEXT"),
                wheel.say("FLT", WHEEL_GAME, "00", ""),
                wheel.res(),
            )
        case _:
            told.hear(wheel.res(flags=mask))
    (update,) = told.of(DrawUpdate)
    assert update.facts.flags == (flag,)
    assert told.of(Reading)[0].facts.flags == (flag,)


@pytest.mark.parametrize(
    ("mask", "defect"),
    [("10", Defect.ROTOR_STOPPED), ("20", Defect.ROTOR_OVER_SPEED), ("80", Defect.SENSORS_DISAGREE)],
)
@pytest.mark.parametrize("how", ["sta", "res"])
def test_a_doubt_is_decisive_only_if_a_number_follows(mask: str, defect: Defect, how: str) -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.sta(4, flags=mask if how == "sta" else "00")])
    assert told.of(DrawUpdate) == []
    told.hear(wheel.res(flags=mask if how == "res" else "00"))
    assert (told.values, told.defects) == ([], (defect,))
    again = wheel_heard(
        [*wheel.before(), *wheel.draw("0500"), wheel.sta(4, "0500", flags=mask), wheel.sta(6, "0500")]
    )
    assert again.of(GameEnded)[0].facts.defects == ()


@pytest.mark.parametrize("mask", ["01", "02", "10", "20", "40", "80", "100"])
@pytest.mark.parametrize("state", [1, 2, 5])
def test_a_flag_outside_the_draw_says_nothing_of_it(mask: str, state: int) -> None:
    wheel = Wheel()
    lines = [*wheel.before(), wheel.sta(1, flags=mask if state == 1 else "00")]
    lines += [wheel.sta(2, flags=mask if state == 2 else "00"), *wheel.draw()]
    lines += [wheel.sta(5, flags=mask if state == 5 else "00"), wheel.res()]
    told = wheel_heard(lines)
    assert told.of(Reading)[0].facts.flags == ()


def test_37_a_relaunch_keeps_the_game_and_is_counted() -> None:
    wheel = Wheel()
    lines = [*wheel.before(), wheel.sta(2), wheel.sta(2, flags="08"), wheel.sta(2, flags="08"), wheel.sta(2)]
    lines += [
        wheel.say("FLT", WHEEL_GAME, "08", "RELAUNCH"),
        wheel.sta(2, flags="08"),
        *wheel.draw(),
        wheel.res(),
    ]
    told = wheel_heard(lines)
    assert [update.facts.relaunches for update in told.of(DrawUpdate)] == [1, 2]
    (reading,) = told.of(Reading)
    assert (reading.facts.relaunches, reading.facts.flags) == (2, ())


def test_a_fault_flag_makes_the_device_faulty_until_it_goes() -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), wheel.say("FLT", "", "04", "SENSOR")])
    assert told.protocol.status is Status.FAULT
    assert told.of(DeviceTrouble)[0].status == "fault"
    assert told.hear(wheel.sta(1)).protocol.status is Status.READY
    assert told.hear(wheel.say("FLT", "", "?", "")).protocol.status is Status.FAULT


def test_directions_are_those_of_rotor_and_ball() -> None:
    wheel = Wheel()
    lines = [*wheel.before(), wheel.sta(2, way="1"), wheel.sta(3, way="1"), wheel.sta(4, way="1")]
    (reading,) = wheel_heard([*lines, wheel.res(way="1")]).of(Reading)
    assert (reading.facts.wheel_direction, reading.facts.ball_direction) == ("counter-clockwise", "clockwise")


def test_t32_flag_02_says_that_the_ball_runs_with_the_rotor() -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.sta(4, flags="02"), wheel.res()])
    (reading,) = told.of(Reading)
    assert reading.facts.ball_direction == reading.facts.wheel_direction == "clockwise"


def test_a_direction_that_is_not_known_is_not_made_up() -> None:
    wheel = Wheel()
    (reading,) = wheel_heard([*wheel.before(), *wheel.draw(), wheel.res(way="")]).of(Reading)
    assert (reading.facts.wheel_direction, reading.facts.ball_direction) == ("", "")


@pytest.mark.parametrize("late", ["sta", "res"])
def test_45_a_rotor_that_turns_round_after_no_more_bets_is_a_doubt(late: str) -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.sta(4, way="1" if late == "sta" else "0")])
    told.hear(wheel.res(way="1"))
    assert (told.values, told.defects) == ([], (Defect.ROTOR_REVERSED,))


def test_44_a_rotor_that_stands_still_after_no_more_bets_is_a_doubt() -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.sta(4, rpm="000"), wheel.res()])
    assert (told.values, told.defects) == ([], (Defect.ROTOR_STOPPED,))
