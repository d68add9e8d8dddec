"""A ball detector beside the reader: what it proves, and what becomes of the round without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.tables import BALL, PLAIN, PROVEN, WHEEL, Play, game, make_setup

from dollyd.daemon.core.events import (
    BetsClosed,
    ClockStepped,
    Confirmed,
    Defect,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Flag,
    GameEnded,
    GameStarted,
    Inspected,
    Observed,
    Reading,
    TurnsBasis,
)
from dollyd.daemon.core.round import Phase
from dollyd.daemon.core.state import Setup
from dollyd.wire.record import Kind
from dollyd.wire.stamp import Stamp

LAPS = DrawFacts(turns_basis=TurnsBasis.COUNTED, ball_turns_x100=600, ball_direction="clockwise")
"""What the detector saw of a good draw."""
TURNS_BACK = DrawFacts(wheel_direction="counter-clockwise")
"""What a reader of numbers sees of the wheel."""
SEEN = game(9, BALL)


def us_sd(**changes: Any) -> Setup:
    return make_setup("E", profile_name="us-sd", ball=True, **changes)


def played(setup: Setup, ball: DrawFacts | None = LAPS, wheel: DrawFacts = TURNS_BACK) -> Play:
    """A round to the reading; the detector tells what it saw before, or nothing."""
    play = Play(setup).bets_open()
    play.tell(GameStarted(SEEN), DrawStarted(game()), BetsClosed(WHEEL, game()))
    if ball is not None:
        play.tell(Observed(SEEN, ball))
    play.tell(Reading(game(), ("17",), wheel))
    return play


def ending(play: Play) -> tuple[Kind, str]:
    last = play.emitted[-1]
    return last.kind, getattr(last.body, "rule", "")


# --- agreement -----------------------------------------------------------------------------------------


def test_the_detector_proves_what_the_reader_does_not() -> None:
    play = played(us_sd())
    assert ending(play) == (Kind.RESULT, "")
    witnesses = play.body(Kind.RESULT).evidence.witnesses
    assert [(w.device, w.value, w.turns_basis) for w in witnesses] == [
        (WHEEL, ["17"], "none"),
        (BALL, [], "counted"),
    ]
    assert witnesses[1].ball_turns_x100 == 600


def test_the_result_waits_for_the_detector() -> None:
    play = played(us_sd(), ball=None)
    assert play.phase is Phase.AT_REST
    play.tell(Observed(SEEN, LAPS), after_ms=500)
    assert ending(play) == (Kind.RESULT, "")


@pytest.mark.parametrize("setup", [us_sd(), make_setup("A", ball=True)], ids=["us-sd", "fi-ray-2013"])
def test_a_detector_that_is_silent_leaves_the_round_unresolved_within_a_second(setup: Setup) -> None:
    play = played(setup, ball=None)
    play.wait(999)
    assert play.phase is Phase.AT_REST
    play.wait(1)
    assert ending(play) == (Kind.UNRESOLVED, "witness-missing")
    assert [w.value for w in play.body(Kind.UNRESOLVED).evidence.witnesses] == [["17"], []]


def test_a_detector_that_was_never_heard_is_missing_too() -> None:
    play = Play(make_setup("A", ball=True)).at_rest()
    play.wait(1_000)
    assert ending(play) == (Kind.UNRESOLVED, "witness-missing")


def test_a_detector_alone_reads_no_number() -> None:
    play = Play(us_sd()).bets_open()
    play.tell(GameStarted(SEEN), DrawStarted(game()), BetsClosed(WHEEL, game()), Observed(SEEN, LAPS))
    assert play.phase is Phase.NO_MORE_BETS
    play.wait(120_000)
    assert ending(play) == (Kind.UNRESOLVED, "draw-timeout")


@pytest.mark.parametrize(
    ("how", "facts", "rule"),
    [
        (Ending.SUPERSEDED, LAPS, "no-reading"),
        (Ending.SHUT_DOWN, LAPS, "no-reading"),
        (Ending.LOST, replace(LAPS, defects=(Defect.DEVICE_LOST,)), "device-lost"),
    ],
)
def test_a_detector_that_leaves_in_mid_draw_is_a_doubt_and_no_void(
    how: Ending, facts: DrawFacts, rule: str
) -> None:
    play = Play(us_sd()).no_more_bets()
    play.tell(GameStarted(SEEN), GameEnded(SEEN, how, facts))
    assert ending(play) == (Kind.UNRESOLVED, rule)


# --- turns (T31) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turns_x100", "expected"),
    [
        pytest.param(390, (Kind.VOID, "too-few-turns"), id="T31-3.9"),
        pytest.param(400, (Kind.RESULT, ""), id="T31-4.0"),
    ],
)
def test_t31_laps_that_the_detector_counted(turns_x100: int, expected: tuple[Kind, str]) -> None:
    assert ending(played(us_sd(), replace(LAPS, ball_turns_x100=turns_x100))) == expected


def test_laps_are_judged_when_the_detector_has_seen_them_to_the_end() -> None:
    play = Play(us_sd()).no_more_bets()
    few = replace(LAPS, ball_turns_x100=100)
    play.tell(GameStarted(SEEN), DrawUpdate(SEEN, few))
    assert play.phase is Phase.NO_MORE_BETS
    play.tell(Observed(SEEN, few))
    assert ending(play) == (Kind.VOID, "too-few-turns"), "known before the ball is at rest"


def test_laps_of_which_one_may_be_lost() -> None:
    bound = replace(LAPS, turns_lower_bound=True)
    assert ending(played(us_sd(), bound)) == (Kind.RESULT, "")
    uncertain = ending(played(us_sd(), replace(bound, ball_turns_x100=390)))
    assert uncertain == (Kind.UNRESOLVED, "turns-uncertain")


BASES = [TurnsBasis.COUNTED, TurnsBasis.REPORTED, TurnsBasis.CERTIFIED]


@pytest.mark.parametrize("shown", BASES)
@pytest.mark.parametrize("asked", BASES)
def test_only_the_proofs_that_the_profile_names_are_enough(shown: TurnsBasis, asked: TurnsBasis) -> None:
    setup = us_sd(rules={"turns_basis": frozenset({str(asked)})})
    expected = (Kind.RESULT, "") if shown is asked else (Kind.UNRESOLVED, "turns-not-proven")
    assert ending(played(setup, replace(LAPS, turns_basis=shown))) == expected


def test_a_dealer_who_confirms_supplies_turns_and_directions() -> None:
    play = Play(make_setup("E", profile_name="us-sd", confirm="dealer")).at_rest(facts=PLAIN)
    assert play.phase is Phase.AT_REST
    play.tell(Confirmed("d1"))
    result = play.body(Kind.RESULT)
    assert (result.evidence.confirmed_by, result.evidence.witnesses[0].turns_basis) == ("d1", "none")


def test_a_dealer_who_confirms_does_not_make_too_few_turns_good() -> None:
    few = replace(LAPS, ball_turns_x100=390)
    assert ending(played(us_sd(confirm="dealer"), few)) == (Kind.VOID, "too-few-turns")


# --- directions (T32) ----------------------------------------------------------------------------------


def test_t32_a_ball_that_runs_with_the_wheel_is_no_spin() -> None:
    play = played(us_sd(), LAPS, DrawFacts(wheel_direction="clockwise"))
    assert ending(play) == (Kind.VOID, "same-direction")


def test_t32_it_is_no_spin_before_the_ball_is_at_rest() -> None:
    play = Play(us_sd()).no_more_bets()
    play.tell(GameStarted(SEEN), DrawUpdate(game(), DrawFacts(wheel_direction="clockwise")))
    play.tell(DrawUpdate(SEEN, LAPS))
    assert ending(play) == (Kind.VOID, "same-direction")


def test_in_finland_directions_are_left_to_the_dealer() -> None:
    same = DrawFacts(wheel_direction="clockwise")
    assert ending(played(make_setup("A", ball=True), LAPS, same)) == (Kind.RESULT, "")


@pytest.mark.parametrize("setup", [us_sd(), make_setup("A", ball=True)], ids=["us-sd", "fi-ray-2013"])
def test_devices_that_saw_different_directions_leave_the_round_unresolved(setup: Setup) -> None:
    # The wheel says that the ball ran clockwise, the detector that it ran the other way.
    other = replace(LAPS, ball_direction="counter-clockwise")
    assert ending(played(setup, other, PROVEN)) == (Kind.UNRESOLVED, "directions-disagree")


def test_a_direction_that_nobody_saw_is_no_result_in_dakota() -> None:
    assert ending(played(us_sd(), LAPS, PLAIN)) == (Kind.UNRESOLVED, "direction-not-proven")


# --- ball out, second ball (T33) -----------------------------------------------------------------------


def ball_out(play: Play, number: int = 1) -> Play:
    play.no_more_bets(number)
    seen = game(number, BALL)
    play.tell(GameStarted(seen), DrawUpdate(seen, replace(LAPS, flags=(Flag.BALL_OUT,), ball_turns_x100=900)))
    return play


def test_t33_a_ball_that_leaves_the_wheel_is_void_and_wants_an_inspection() -> None:
    play = ball_out(Play(us_sd()))
    assert ending(play) == (Kind.VOID, "ball-out")
    assert play.table.inspection == "ball-out"
    play.tell(GameStarted(game(2)), BetsClosed("d1"))
    play.tell(Reading(game(2), ("17",), PROVEN))
    assert play.table.round is None, "no round before the inspection"
    assert play.kinds.count(Kind.ROUND) == 1
    play.tell(Inspected("d1"))
    incident = play.body(Kind.INCIDENT)
    assert (incident.what, incident.details) == ("inspected", {"by": "d1"})
    assert "ball-out" in incident.text
    play.bets_open(3)
    assert play.phase is Phase.BETS_OPEN
    assert [body.games for body in play.bodies(Kind.GAP)] == [["wheel/s1/002"]], "what was played meanwhile"


def test_t33_an_inspection_that_nobody_asked_for_is_told_and_changes_nothing() -> None:
    play = Play(us_sd()).open()
    play.tell(Inspected("d1"))
    assert play.kinds == [Kind.SESSION, Kind.INCIDENT]


@pytest.mark.parametrize("game_of", [game(), SEEN], ids=["the-reader", "the-detector"])
def test_a_second_ball_is_void_and_wants_no_inspection(game_of: Any) -> None:
    play = Play(us_sd()).no_more_bets()
    play.tell(GameStarted(SEEN), DrawUpdate(game_of, replace(PLAIN, flags=(Flag.SECOND_BALL,))))
    assert ending(play) == (Kind.VOID, "foreign-object")
    assert play.table.inspection == ""
    assert play.bets_open(2).phase is Phase.BETS_OPEN


# --- time (T62) ----------------------------------------------------------------------------------------


def test_t62_a_clock_that_steps_back_changes_no_duration_and_no_order() -> None:
    play = Play(make_setup("A", hold_ms=2_000)).whole_round(number=1)
    play.wait(2_000)
    play.now = Stamp(play.now.mono_ns, play.now.utc_ns - 5_000_000_000)
    play.tell(ClockStepped(-5_000_000_000))
    assert play.body(Kind.CLOCK).step_ns == -5_000_000_000
    play.whole_round(number=2)
    play.wait(1_999)
    assert play.kinds.count(Kind.RESULT) == 1
    play.wait(1)
    assert [emit.round for emit in play.emitted if emit.kind is Kind.RESULT] == [1, 2]
    first, second = (body.evidence.times.at_rest for body in play.bodies(Kind.RESULT))
    assert first.monotonic_ns < second.monotonic_ns
    assert first.utc > second.utc
