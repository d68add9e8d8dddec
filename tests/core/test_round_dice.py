"""Throws of dice within a round: permission, rejection, reading by the dealer (rulebook 5, 6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.tables import DICE, PLAIN, SECOND_DICE, Play, game, game_setup

from dollyd.daemon.core.events import (
    BetsClosed,
    Confirmed,
    Defect,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Flag,
    GameEnded,
    GameStarted,
    Permitted,
    Reading,
    ReadingContradicted,
    Restarted,
    ThrowRejected,
    Tick,
    VoidDeclared,
)
from dollyd.daemon.core.round import Phase, deadline_ns
from dollyd.daemon.core.state import Betting
from dollyd.wire.record import Kind

TUPLANOPPA = game_setup("tuplanoppa")
REJECTED = ThrowRejected("d1", "dealer", "on the rail")
READ_OPPOSITE = [
    game_setup("craps", profile_name="us-sd"),
    game_setup("sic-bo", profile_name="us-pa-dice"),
]


def shown(*flags: Flag) -> DrawFacts:
    return DrawFacts(flags=flags)


def rejections(play: Play) -> list[tuple[str, int]]:
    return [(body.rule, body.throw) for body in play.bodies(Kind.THROW_REJECTED)]


def thrown_again(play: Play, faces: str, number: int) -> Play:
    """The dealer permits the next throw, the camera sees its next game."""
    play.tell(GameStarted(game(number, DICE)), Permitted("d1"))
    return play.thrown(faces, number)


# --- a throw that counts -------------------------------------------------------------------------------


def test_a_permitted_throw_is_the_result() -> None:
    play = Play(TUPLANOPPA).dice_round("5-2")
    assert play.kinds == [Kind.SESSION, Kind.ROUND, Kind.BETS_CLOSED, Kind.RESULT]
    outcome = play.body(Kind.RESULT).outcome
    assert (outcome["sum"], outcome["under_over"]) == (7, "seven")


def test_dice_of_a_game_without_permission_are_thrown_as_they_come() -> None:
    play = Play(game_setup("sic-bo")).bets_open()
    play.tell(BetsClosed("d1"))
    play.thrown("1-2-3")
    assert play.body(Kind.RESULT).outcome["total"] == 6


@pytest.mark.parametrize("faces", ["0-7", "1-2-3", "6"])
def test_faces_that_the_game_has_not_are_never_a_result(faces: str) -> None:
    play = Play(TUPLANOPPA).dice_round(faces)
    assert play.body(Kind.UNRESOLVED).rule == Defect.NOT_ON_WHEEL
    assert Kind.RESULT not in play.kinds


# --- throws that are rejected --------------------------------------------------------------------------


def test_t46_a_throw_before_the_permission_is_no_result() -> None:
    play = Play(TUPLANOPPA).bets_open()
    play.tell(BetsClosed("d1"))
    play.thrown("6-6")
    assert rejections(play) == [("thrown-before-permission", 1)]
    assert Kind.RESULT not in play.kinds
    thrown_again(play, "2-3", 2)
    assert play.body(Kind.RESULT).outcome["sum"] == 5


def test_t46_a_reading_without_a_start_is_a_throw_too() -> None:
    # A camera that tells of the dice at rest only must not get round the permission.
    play = Play(TUPLANOPPA).bets_open()
    play.tell(BetsClosed("d1"), Reading(game(1, DICE), ("6", "6"), PLAIN))
    assert rejections(play) == [("thrown-before-permission", 1)]


def test_t46_a_permission_after_the_throw_began_comes_too_late() -> None:
    play = Play(TUPLANOPPA).bets_open()
    play.tell(BetsClosed("d1"), DrawStarted(game(1, DICE)), Permitted("d1"))
    play.tell(Reading(game(1, DICE), ("6", "6"), PLAIN))
    assert rejections(play) == [("thrown-before-permission", 1)]
    assert Kind.RESULT not in play.kinds


def test_t46_a_permission_between_the_readings_of_two_cameras_comes_too_late() -> None:
    play = Play(game_setup("tuplanoppa", witnesses=2)).bets_open()
    play.tell(GameStarted(game(7, SECOND_DICE)), BetsClosed("d1"))
    play.tell(Reading(game(1, DICE), ("6", "6"), PLAIN), Permitted("d1"))
    play.tell(Reading(game(7, SECOND_DICE), ("6", "6"), PLAIN))
    assert rejections(play) == [("thrown-before-permission", 1)]
    assert Kind.RESULT not in play.kinds


def test_a_rejected_throw_that_came_before_no_more_bets_does_not_spoil_the_next() -> None:
    play = Play(game_setup("tuplanoppa", rules={"nmb_before_draw": "required"})).spinning()
    assert rejections(play) == [("thrown-before-permission", 1)]
    play.tell(BetsClosed("d1"))
    thrown_again(play, "1-1", 2)
    assert play.kinds[-1] is Kind.RESULT


def test_t44_dice_not_thrown_together_are_rejected_before_anything_else() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.tell(DrawStarted(game(1, DICE)), DrawUpdate(game(1, DICE), shown(Flag.NOT_TOGETHER)))
    assert rejections(play) == [("not-together", 1)], "while they roll, and before the dealer has judged"
    play.tell(Reading(game(1, DICE), ("5", "2"), shown(Flag.NOT_TOGETHER)))
    assert Kind.RESULT not in play.kinds


def test_t44_not_together_comes_before_a_defect() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    both = DrawFacts(flags=(Flag.NOT_TOGETHER,), defects=(Defect.UNREAD,))
    play.tell(DrawStarted(game(1, DICE)), DrawUpdate(game(1, DICE), both))
    assert rejections(play) == [("not-together", 1)]
    assert play.phase is Phase.NO_MORE_BETS


@pytest.mark.parametrize(
    ("flag", "rule"),
    [
        (Flag.COCKED, "cocked"),
        (Flag.STACKED, "stacked"),
        (Flag.OUTSIDE_AREA, "outside-area"),
        (Flag.WRONG_COUNT, "wrong-count"),
        (Flag.FOREIGN_OBJECT, "foreign-object"),
        (Flag.NOT_SHAKEN, "not-shaken"),
        (Flag.NOT_TOGETHER, "not-together"),
    ],
)
@pytest.mark.parametrize("name", ["tuplanoppa", "sic-bo"])
def test_a_throw_that_lies_or_went_wrong_is_rejected_and_the_round_goes_on(
    name: str, flag: Flag, rule: str
) -> None:
    faces = "4-3" if name == "tuplanoppa" else "4-3-1"
    play = Play(game_setup(name)).dice_ready()
    play.thrown(faces, facts=shown(flag))
    assert rejections(play) == [(rule, 1)]
    rejected = play.body(Kind.THROW_REJECTED)
    assert rejected.evidence.witnesses[0].flags == [flag]
    assert rejected.clause
    assert play.phase is Phase.NO_MORE_BETS
    thrown_again(play, faces, 2)
    assert play.kinds[-1] is Kind.RESULT
    assert [emit.round for emit in play.emitted if emit.captured] == [1, 1]


def test_after_a_rejected_throw_bets_stay_closed_and_its_game_is_over() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.thrown("4-4", facts=shown(Flag.COCKED))
    assert play.round.betting is Betting.CLOSED
    assert play.round.witnesses == ()
    before = play.table
    play.tell(BetsClosed("d1"), Reading(game(1, DICE), ("4", "4"), PLAIN))
    play.tell(GameEnded(game(1, DICE), Ending.LOST, PLAIN), ReadingContradicted(game(1, DICE), ("1", "1")))
    assert play.table == before, "what the camera still says of the rejected throw changes nothing"
    thrown_again(play, "6-6", 2)
    assert play.kinds.count(Kind.BETS_CLOSED) == 1
    result = play.body(Kind.RESULT)
    assert result.evidence.game_ref == "dice/s1/002"
    times = result.evidence.times
    assert times.bets_closed.monotonic_ns < times.draw_started.monotonic_ns < times.at_rest.monotonic_ns


def test_every_throw_wants_a_permission_of_its_own() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.thrown("4-4", facts=shown(Flag.COCKED))
    play.tell(GameStarted(game(2, DICE)))
    play.thrown("5-5", 2)
    assert rejections(play) == [("cocked", 1), ("thrown-before-permission", 2)]


def test_throws_of_a_round_are_counted_and_begin_anew_with_the_next() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.thrown("4-4", 1, shown(Flag.COCKED))
    for number in (2, 3):
        play.tell(GameStarted(game(number, DICE)), Permitted("d1"))
        play.thrown("4-4", number, shown(Flag.STACKED))
    thrown_again(play, "1-1", 4)
    play.dice_ready(5)
    play.thrown("4-4", 5, shown(Flag.COCKED))
    assert rejections(play) == [("cocked", 1), ("stacked", 2), ("stacked", 3), ("cocked", 1)]


def test_the_time_of_the_draw_begins_anew_with_a_rejected_throw() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.wait(119_000)
    play.thrown("4-4", facts=shown(Flag.COCKED))
    play.wait(119_000)
    assert play.phase is Phase.NO_MORE_BETS
    play.wait(1_000)
    assert play.body(Kind.UNRESOLVED).rule == "draw-timeout"


def test_an_earlier_rounds_contradiction_still_names_its_round_after_a_rejected_throw() -> None:
    play = Play(TUPLANOPPA).dice_round("1-1")
    play.dice_ready(2)
    play.thrown("4-4", 2, shown(Flag.COCKED))
    play.tell(ReadingContradicted(game(1, DICE), ("1", "2")))
    assert play.whats() == ["result-contradicted"]
    assert play.emitted[-1].round == 1


def test_a_void_of_the_round_is_possible_between_two_throws() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.thrown("4-4", facts=shown(Flag.COCKED))
    play.tell(VoidDeclared("d1", "dealer", "a fight"))
    assert play.body(Kind.VOID).rule == "declared"
    assert play.dice_round("2-2", 2).kinds[-1] is Kind.RESULT


def test_a_restart_between_two_throws_leaves_the_round_unresolved() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.thrown("4-4", facts=shown(Flag.COCKED))
    play.tell(Restarted("2026-11-29T18:41:20Z"))
    assert play.body(Kind.UNRESOLVED).rule == "restart-in-mid-round"


# --- the dealer's rejection ----------------------------------------------------------------------------


@pytest.mark.parametrize("at_rest", [False, True])
def test_the_dealer_rejects_a_throw(at_rest: bool) -> None:
    play = Play(game_setup("tuplanoppa", confirm="dealer")).dice_ready()
    play.tell(DrawStarted(game(1, DICE)))
    if at_rest:
        play.tell(Reading(game(1, DICE), ("6", "1"), PLAIN))
    play.tell(REJECTED)
    rejected = play.body(Kind.THROW_REJECTED)
    assert (rejected.rule, rejected.text, rejected.declared_by, rejected.role) == (
        "rejected-by-person",
        "on the rail",
        "d1",
        "dealer",
    )
    assert play.phase is Phase.NO_MORE_BETS
    thrown_again(play, "3-3", 2).tell(Confirmed("d1"))
    assert play.body(Kind.RESULT).outcome["sum"] == 6


def test_who_may_not_judge_a_throw_is_refused() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.tell(DrawStarted(game(1, DICE)), ThrowRejected("i1", "inspector", "on the rail"))
    assert play.whats() == ["rejection-refused"]
    assert rejections(play) == []
    play.tell(Reading(game(1, DICE), ("3", "3"), PLAIN))
    assert play.kinds[-1] is Kind.RESULT


def test_a_throw_that_was_not_made_or_is_the_result_already_cannot_be_rejected() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.tell(REJECTED)
    play.thrown("3-3").tell(REJECTED)
    assert play.whats() == ["rejection-refused", "rejection-refused"]
    assert rejections(play) == []
    assert play.kinds.count(Kind.RESULT) == 1


def test_at_a_wheel_there_is_no_throw_to_reject() -> None:
    play = Play(game_setup("roulette", confirm="dealer")).at_rest()
    play.tell(REJECTED)
    assert play.whats() == ["rejection-refused"]
    assert play.phase is Phase.AT_REST


# --- dice that the profile lets the dealer read --------------------------------------------------------


@pytest.mark.parametrize("setup", READ_OPPOSITE, ids=lambda setup: f"{setup.profile.id}")
def test_a_cocked_die_that_may_be_read_waits_for_the_dealer(setup: Any) -> None:
    faces = "-".join(setup.game.values(None)[40 % len(setup.game.values(None))])
    play = Play(setup).dice_ready()
    play.thrown(faces, facts=shown(Flag.COCKED))
    assert play.phase is Phase.AT_REST
    assert deadline_ns(setup, play.table) is None, "time does not confirm it, and there is no busy loop"
    play.wait(3_600_000)
    play.tell(Tick())
    assert play.phase is Phase.AT_REST
    play.tell(Confirmed("d1"))
    result = play.body(Kind.RESULT)
    assert result.evidence.confirmed_by == "d1"
    assert result.evidence.witnesses[0].flags == ["cocked"]


@pytest.mark.parametrize("setup", READ_OPPOSITE, ids=lambda setup: f"{setup.profile.id}")
def test_a_cocked_die_that_may_be_read_can_be_rejected(setup: Any) -> None:
    faces = "-".join(setup.game.values(None)[0])
    play = Play(setup).dice_ready()
    play.thrown(faces, facts=shown(Flag.COCKED)).tell(REJECTED)
    assert rejections(play) == [("rejected-by-person", 1)]


def test_where_a_die_may_be_read_a_flat_throw_needs_no_dealer() -> None:
    assert Play(READ_OPPOSITE[0]).dice_round("4-4").kinds[-1] is Kind.RESULT


def test_a_stacked_die_is_read_where_the_profile_says_so() -> None:
    setup = game_setup("craps", rules={"dice_stacked": "read"})
    play = Play(setup).dice_ready()
    play.thrown("4-4", facts=shown(Flag.STACKED))
    assert play.phase is Phase.AT_REST
    play.tell(Confirmed("d1"))
    assert play.kinds[-1] is Kind.RESULT


# --- two cameras ---------------------------------------------------------------------------------------


def two_cameras(first: str, second: str) -> Play:
    play = Play(game_setup("tuplanoppa", witnesses=2)).dice_ready()
    play.tell(GameStarted(game(7, SECOND_DICE)), DrawStarted(game(1, DICE)))
    play.tell(Reading(game(1, DICE), tuple(first.split("-")), PLAIN))
    if second:
        play.tell(Reading(game(7, SECOND_DICE), tuple(second.split("-")), PLAIN))
    return play


def test_two_cameras_that_agree_give_one_result() -> None:
    result = two_cameras("5-2", "5-2").body(Kind.RESULT)
    assert [w.value for w in result.evidence.witnesses] == [["5", "2"], ["5", "2"]]


@pytest.mark.parametrize("second", ["5-3", "2-5"])
def test_two_cameras_that_disagree_leave_the_round_unresolved(second: str) -> None:
    unresolved = two_cameras("5-2", second).body(Kind.UNRESOLVED)
    assert unresolved.rule == "witnesses-disagree"
    assert [w.value for w in unresolved.evidence.witnesses] == [["5", "2"], second.split("-")]


def test_a_second_camera_that_is_silent_leaves_the_round_unresolved_within_a_second() -> None:
    play = two_cameras("5-2", "")
    play.wait(999)
    assert play.phase is Phase.NO_MORE_BETS
    play.wait(1)
    assert play.body(Kind.UNRESOLVED).rule == "witness-missing"


def test_one_camera_is_enough_to_reject_a_throw_for_both() -> None:
    play = Play(game_setup("tuplanoppa", witnesses=2)).dice_ready()
    play.tell(GameStarted(game(7, SECOND_DICE)), DrawStarted(game(1, DICE)))
    play.tell(DrawUpdate(game(7, SECOND_DICE), shown(Flag.OUTSIDE_AREA)))
    assert rejections(play) == [("outside-area", 1)]
    play.tell(Reading(game(1, DICE), ("5", "2"), PLAIN), Reading(game(7, SECOND_DICE), ("5", "2"), PLAIN))
    assert Kind.RESULT not in play.kinds
    play.tell(GameStarted(game(2, DICE)), GameStarted(game(8, SECOND_DICE)), Permitted("d1"))
    play.tell(DrawStarted(game(2, DICE)), Reading(game(2, DICE), ("1", "1"), PLAIN))
    play.tell(Reading(game(8, SECOND_DICE), ("1", "1"), PLAIN))
    assert play.body(Kind.RESULT).outcome["sum"] == 2


def test_a_camera_that_is_lost_in_a_throw_leaves_the_round_unresolved() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    lost = DrawFacts(defects=(Defect.DEVICE_LOST,))
    play.tell(DrawStarted(game(1, DICE)), GameEnded(game(1, DICE), Ending.LOST, lost))
    assert play.body(Kind.UNRESOLVED).rule == Defect.DEVICE_LOST


# --- records -------------------------------------------------------------------------------------------


def test_a_rejection_names_the_rules_and_leaves_out_what_is_not_known() -> None:
    play = Play(TUPLANOPPA).dice_ready()
    play.thrown("4-4", facts=shown(Flag.COCKED))
    rejected = play.body(Kind.THROW_REJECTED)
    assert (rejected.setting.game, rejected.setting.rulebook) == ("tuplanoppa", TUPLANOPPA.rulebook)
    assert rejected.gaming_date == TUPLANOPPA.gaming_date(play.now.utc_ns)
    assert rejected.shooter is msgspec.UNSET
    assert rejected.declared_by is msgspec.UNSET
    assert rejected.role is msgspec.UNSET
