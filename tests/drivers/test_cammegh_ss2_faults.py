"""What the wheel warns of: flags with the maker's times of grace, the rotor, games without a number."""

from __future__ import annotations

import pytest
from tests.support.wheel_lines import PERIOD_MS, Ear, Game, status

from dollyd.daemon.core.events import Defect, DrawUpdate, Ending, Flag, GameEnded, GameStarted, Reading

GAME = Game()
CLOSED = [status(6, 17, "8")] * 2
BALL_UNSEEN, WITH_ROTOR, FAULT, FAILED = 1, 2, 4, 8


def after(*lines: str) -> Ear:
    return Ear().open_idle().hear(*lines)


def flags_told(ear: Ear) -> set[Flag]:
    """Every flag of any game, as told by updates, readings and ends."""
    kinds = DrawUpdate | GameEnded | Reading
    return {flag for event in ear.events if isinstance(event, kinds) for flag in event.facts.flags}


# --- flag 8: the launch failed -----------------------------------------------------------------------


def test_a_relaunch_is_counted_and_the_game_goes_on_under_its_counter() -> None:
    failing = GAME.line(2, FAILED)
    ear = after(*GAME.lines("2"), *[failing] * 60, *GAME.lines("345"))
    assert ear.numbers == ["23"]
    assert ear.facts.relaunches == 1
    assert flags_told(ear) == set()
    assert len(ear.of(GameStarted)) == 1


def test_each_failed_launch_counts() -> None:
    good, failing = GAME.line(2), GAME.line(2, FAILED)
    ear = after(good, failing, failing, good, failing, good, *GAME.lines("345"))
    assert ear.facts.relaunches == 2
    assert ear.numbers == ["23"]


def test_flag_8_may_stand_for_the_first_3_s_of_state_3() -> None:
    ear = after(GAME.line(2, FAILED), *[GAME.line(3, FAILED)] * 7, *GAME.lines("345"))
    assert ear.numbers == ["23"]
    assert flags_told(ear) == set()


def test_flag_8_after_3_s_of_state_3_is_a_failed_launch() -> None:
    ear = after(GAME.line(2, FAILED), *[GAME.line(3, FAILED)] * 8)
    assert flags_told(ear) == {Flag.LAUNCH_FAILED}


@pytest.mark.parametrize("state", [4, 7])
def test_the_3_s_of_flag_8_run_from_the_rim_however_short_state_3_is(state: int) -> None:
    rim, later = [GAME.line(3, FAILED)] * 3, [GAME.line(4, FAILED), *[GAME.line(state, FAILED)] * 3]
    ear = after(GAME.line(2, FAILED), *rim, *later)
    assert flags_told(ear) == set()
    assert flags_told(ear.hear(GAME.line(state, FAILED))) == {Flag.LAUNCH_FAILED}


def test_flag_8_later_than_that_is_a_failed_launch_at_once() -> None:
    assert flags_told(after(*GAME.lines("234"), GAME.line(4, FAILED))) == {Flag.LAUNCH_FAILED}


@pytest.mark.parametrize("shown", [[], [GAME.line(2)]])
def test_a_launch_that_never_succeeded_is_told_at_the_end(shown: list[str]) -> None:
    ear = after(GAME.line(2), *[GAME.line(2, FAILED)] * 3, *shown, *CLOSED)
    (ended,) = ear.of(GameEnded)
    assert ended.ending is Ending.SHUT_DOWN
    assert ended.facts.flags == (Flag.LAUNCH_FAILED,)
    assert ended.facts.defects == ()


# --- flag 1: the ball is not seen --------------------------------------------------------------------


def test_a_ball_unseen_for_less_than_5_s_is_no_fault_but_a_doubt_of_a_number() -> None:
    ear = after(*GAME.lines("234"), *[GAME.line(4, BALL_UNSEEN)] * 10, *GAME.lines("45"), status(2, 18, "23"))
    assert flags_told(ear) == set()
    assert ear.numbers == []
    assert ear.facts.defects[0] is Defect.BALL_BRIEFLY_NOT_DETECTED


def test_a_ball_unseen_for_5_s_is_a_fault() -> None:
    ear = after(*GAME.lines("234"), *[GAME.line(4, BALL_UNSEEN)] * 11)
    assert flags_told(ear) == {Flag.BALL_NOT_DETECTED}


def test_the_5_s_begin_anew_when_the_ball_is_seen() -> None:
    unseen = [GAME.line(4, BALL_UNSEEN)] * 8
    ear = after(*GAME.lines("234"), *unseen, GAME.line(4), *unseen, *CLOSED)
    assert flags_told(ear) == set()
    (ended,) = ear.of(GameEnded)
    assert ended.facts.defects == ()


# --- flag 2: the ball runs with the rotor ------------------------------------------------------------


def test_a_ball_with_the_rotor_before_the_launch_is_no_matter() -> None:
    ear = after(*[GAME.line(2, WITH_ROTOR)] * 12, *[GAME.line(2, FAILED)] * 12, *GAME.lines())
    assert ear.numbers == ["23"]
    assert flags_told(ear) == set()


@pytest.mark.parametrize("state", [3, 4, 7])
def test_a_ball_with_the_rotor_in_the_draw_is_a_flag(state: int) -> None:
    ear = after(*GAME.lines("23" if state == 3 else "234"), GAME.line(state, WITH_ROTOR))
    assert flags_told(ear) == {Flag.BALL_WITH_ROTOR}


# --- *R: back to state 1 -----------------------------------------------------------------------------

BEFORE_GAME = [status(1, 17, "8")] * 2


def test_a_game_begun_again_before_its_launch_goes_on() -> None:
    ear = after(*GAME.lines("2"), "*R OK", *BEFORE_GAME, *GAME.lines())
    assert ear.numbers == ["23"]
    assert len(ear.of(GameStarted)) == 1
    assert ear.of(GameEnded) == []


@pytest.mark.parametrize(
    ("shown", "flag"), [(WITH_ROTOR, Flag.BALL_WITH_ROTOR), (FAILED, Flag.LAUNCH_FAILED)]
)
@pytest.mark.parametrize("still", [True, False])
def test_a_failed_launch_that_the_host_acknowledges_is_a_flag(shown: int, flag: Flag, still: bool) -> None:
    """The maker's procedure: the game is void, the host sends `*R`, the wheel spins anew."""
    failed = [GAME.line(2), *[GAME.line(2, shown)] * 12, *([] if still else [GAME.line(2)])]
    ear = after(*failed, "*R OK", *BEFORE_GAME, *GAME.lines())
    (ended,) = ear.of(GameEnded)
    assert (ended.facts.flags, ended.facts.defects) == ((flag,), ())
    assert ear.numbers == ["23"]
    assert [event.game.attempt for event in ear.of(GameStarted)] == [1, 2]


def test_a_game_begun_again_after_a_silence_is_not_that_of_before() -> None:
    ear = after(*GAME.lines("2")).quiet(60_000).hear(*BEFORE_GAME, *GAME.lines())
    (ended,) = ear.of(GameEnded)
    assert Defect.DATA_GAP in ended.facts.defects
    assert ear.of(Reading)[-1].game.attempt == 2


def test_a_game_begun_again_can_be_closed() -> None:
    (ended,) = after(*GAME.lines("2"), *BEFORE_GAME, *CLOSED).of(GameEnded)
    assert (ended.ending, ended.facts.defects, ended.facts.flags) == (Ending.SHUT_DOWN, (), ())


# --- flag 4: the wheel is out of order ---------------------------------------------------------------


@pytest.mark.parametrize("state", [2, 3, 4, 5])
def test_a_fault_is_kept_after_its_flag_is_gone(state: int) -> None:
    ear = after(*GAME.lines("234"[: state - 1]), GAME.line(state, FAULT), GAME.line(state))
    assert flags_told(ear) == {Flag.DEVICE_FAULT}


def test_a_fault_before_the_game_is_a_game_of_its_own() -> None:
    ear = after(*[GAME.line(1, FAULT)] * 8, *[status(6, 17, "8", FAULT)] * 2)
    (ended,) = ear.of(GameEnded)
    assert (ended.ending, ended.facts.flags) == (Ending.SHUT_DOWN, (Flag.DEVICE_FAULT,))


def test_a_fault_that_shows_first_in_the_closed_state_is_of_the_game_it_ended() -> None:
    ear = after(*GAME.lines("234"), *[status(6, 17, "8", FAULT)] * 2)
    assert flags_told(ear) == {Flag.DEVICE_FAULT}


def test_flags_of_one_game_are_not_those_of_the_next() -> None:
    ear = after(*GAME.lines("234"), GAME.line(4, FAULT), status(6, 17, "8", FAULT), *GAME.lines())
    assert ear.of(Reading)[-1].facts.flags == ()
    assert ear.numbers == ["23"]


# --- the rotor ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("odd", "defect"),
    [
        (GAME.line(4, rpm_x10=301), Defect.ROTOR_OVER_SPEED),
        (GAME.line(4, rpm_x10=999), Defect.ROTOR_OVER_SPEED),
        (GAME.line(4, rpm_x10=0), Defect.ROTOR_STOPPED),
        (Game(direction=1).line(4), Defect.ROTOR_REVERSED),
    ],
)
def test_an_odd_rotor_after_no_more_bets_is_a_doubt_of_the_number(odd: str, defect: Defect) -> None:
    ear = after(*GAME.lines("234"), odd, *GAME.lines("45"), status(2, 18, "23"))
    assert ear.numbers == []
    assert ear.facts.defects[0] is defect


def test_an_odd_rotor_in_a_game_that_is_shut_down_is_no_doubt_of_its_end() -> None:
    ear = after(*GAME.lines("234"), GAME.line(4, rpm_x10=925), GAME.line(4, rpm_x10=0), *CLOSED)
    (ended,) = ear.of(GameEnded)
    assert ended.facts.defects == ()


def test_the_rotor_may_stop_turn_round_and_run_in_state_2() -> None:
    odd = [GAME.line(2, rpm_x10=0), Game(direction=1).line(2, rpm_x10=35), GAME.line(2, rpm_x10=400)]
    assert after(*odd, *GAME.lines("345")).numbers == ["23"]


def test_the_limit_of_speed_is_an_option() -> None:
    setup = Ear().setup
    ear = Ear(
        type(setup)(
            **{f: getattr(setup, f) for f in ("name", "role", "pockets")}, options={"rotor_rpm_x10_max": 400}
        )
    )
    ear.open_idle().hear(*GAME.lines("23"), GAME.line(4, rpm_x10=400), *GAME.lines("45"))
    assert ear.numbers == ["23"]


# --- ends --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("states", ["2", "23", "234"])
def test_a_wheel_that_is_closed_in_mid_game_ends_it_without_a_doubt(states: str) -> None:
    ear = after(*GAME.lines(states), status(6, 17, "8"), status(6, 17, "8"))
    (ended,) = ear.of(GameEnded)
    assert (ended.ending, ended.facts.defects, ended.facts.flags) == (Ending.SHUT_DOWN, (), ())


@pytest.mark.parametrize("states", ["2", "23", "234"])
def test_one_line_in_state_6_ends_no_game(states: str) -> None:
    """4 and 6, and 2 and 6, are one bit apart."""
    rest = GAME.lines("2345"[len(states) - 1 :])
    ear = after(*GAME.lines(states), status(6, 17, "8"), *rest)
    assert ear.of(GameEnded) == []
    assert ear.numbers == ["23"]
    assert "*T Z" not in [text for _, text in ear.sent]


def test_one_line_in_state_6_is_damage_of_a_game_that_goes_on() -> None:
    again = Game(pocket="8", before="8", bare=False)
    ear = after(*again.lines("234"), status(6, 17, "8"), again.line(4), again.line(5), again.line(5))
    assert ear.numbers == []
    assert ear.hear(again.line(5)).numbers == ["8"]


@pytest.mark.parametrize("counter", [17, 1])
def test_one_line_in_state_6_and_then_state_1_is_a_wheel_that_was_closed(counter: int) -> None:
    ear = after(*GAME.lines("234"), status(6, 17, "8"), status(1, counter, "8"))
    (ended,) = ear.of(GameEnded)
    assert (ended.ending, ended.facts.defects, ended.facts.flags) == (Ending.SHUT_DOWN, (), ())


def test_a_silence_after_one_line_in_state_6_is_a_gap() -> None:
    ear = after(*GAME.lines("234"), status(6, 17, "8")).quiet(60_000)
    assert Defect.DATA_GAP in ear.of(DrawUpdate)[-1].facts.defects


def test_a_wheel_that_is_closed_after_a_silence_leaves_a_gap() -> None:
    ear = after(*GAME.lines("234")).quiet(60_000).hear(*CLOSED)
    (ended,) = ear.of(GameEnded)
    assert Defect.DATA_GAP in ended.facts.defects


def test_a_port_that_is_lost_in_mid_game_ends_it() -> None:
    (ended,) = after(*GAME.lines("234")).lose().of(GameEnded)
    assert (ended.ending, ended.facts.defects) == (Ending.LOST, (Defect.DEVICE_LOST,))


def test_a_port_that_is_lost_after_the_number_changes_nothing() -> None:
    assert after(*GAME.lines()).lose().of(GameEnded) == []


def test_a_wheel_that_stays_in_state_2_for_ever_tells_nothing_more() -> None:
    ear = after(*[GAME.line(2)] * 1200)
    assert len(ear.events) == len(after(GAME.line(2)).events)
    assert ear.quiet(PERIOD_MS).numbers == []
