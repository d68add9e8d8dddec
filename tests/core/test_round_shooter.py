"""Whose turn it is to throw (rulebook 5): clockwise, until a seven, past those who decline or do not play."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.tables import DICE, Play, game, game_setup

from dollyd.daemon.core.events import (
    DrawFacts,
    DrawStarted,
    Flag,
    GameStarted,
    Permitted,
    Reading,
    Seated,
    ShooterDeclined,
    VoidDeclared,
)
from dollyd.daemon.core.games.tuplanoppa import TUPLANOPPA
from dollyd.daemon.core.state import Table
from dollyd.wire.record import Kind, encode

SETUP = game_setup("tuplanoppa")
DECLINED = ShooterDeclined("d1")


def table_of(*seats: str) -> Play:
    """A table at which these seats play; the first of them throws."""
    play = Play(SETUP).open()
    play.tell(Seated("d1", seats))
    return play


def shooter(play: Play) -> str:
    return dict(play.table.memory).get("shooter", "")


def rejected(play: Play, faces: str, number: int) -> None:
    play.dice_ready(number)
    play.thrown(faces, number, DrawFacts(flags=(Flag.COCKED,)))


def test_a_table_without_seats_names_nobody() -> None:
    play = Play(SETUP).dice_round("5-2")
    outcome = play.body(Kind.RESULT).outcome
    assert {"seats", "shooter"}.isdisjoint(outcome)
    assert play.table.memory == ()


def test_the_result_names_the_seats_and_who_threw() -> None:
    play = table_of("1", "3", "4").dice_round("6-2")
    outcome = play.body(Kind.RESULT).outcome
    assert (outcome["seats"], outcome["shooter"]) == (["1", "3", "4"], "1")
    text = encode(play.body(Kind.RESULT)).decode()
    assert '"seats":["1","3","4"],"shooter":"1"' in text


def test_a_player_throws_until_his_seven_then_the_dice_go_clockwise() -> None:
    play = table_of("1", "3", "4")
    shooters = []
    for number, faces in enumerate(["6-2", "1-1", "3-4", "5-2", "6-6", "1-6", "2-2"], start=1):
        play.dice_round(faces, number)
        shooters.append(play.bodies(Kind.RESULT)[-1].outcome["shooter"])
    assert shooters == ["1", "1", "1", "3", "4", "4", "1"]


def test_t45_after_a_seven_those_who_decline_or_do_not_play_are_passed() -> None:
    play = table_of("3", "4", "5", "1")  # seat 6 is not in the round
    play.dice_round("5-2")
    assert shooter(play) == "4"
    play.tell(DECLINED, DECLINED)
    assert shooter(play) == "1"
    play.dice_round("1-1", 2)
    assert play.bodies(Kind.RESULT)[-1].outcome["shooter"] == "1"


def test_t45_seats_told_anew_for_the_round_pass_who_left_it_clockwise() -> None:
    play = table_of("1", "3", "4", "5")
    play.tell(DECLINED)
    play.dice_round("5-2")
    assert shooter(play) == "4"
    play.tell(Seated("d1", ("1", "3", "5")))
    assert shooter(play) == "5", "the next clockwise of those who play, not the first of the list"


def test_a_shooter_who_still_plays_stays_when_seats_are_told_anew() -> None:
    play = table_of("1", "3", "4")
    play.tell(DECLINED, Seated("d1", ("4", "1", "2", "3")))
    assert shooter(play) == "3"


def test_nobody_of_the_seats_before_is_there_any_more() -> None:
    play = table_of("1", "3")
    play.tell(Seated("d1", ("7", "8")))
    assert shooter(play) == "7"


def test_all_decline_and_the_dealer_draws() -> None:
    play = table_of("1", "3")
    play.tell(DECLINED, DECLINED)
    assert shooter(play) == ""
    play.tell(DECLINED)
    assert shooter(play) == ""
    play.dice_round("5-2")
    assert play.body(Kind.RESULT).outcome["shooter"] == ""
    assert shooter(play) == "1", "the next round begins with the first seat again"


def test_who_declined_is_asked_again_after_a_result() -> None:
    play = table_of("1", "3")
    play.tell(DECLINED)
    play.dice_round("5-2")
    assert shooter(play) == "1"


def test_a_rejected_seven_neither_ends_the_turn_nor_is_a_result() -> None:
    play = table_of("1", "3")
    rejected(play, "5-2", 1)
    assert Kind.RESULT not in play.kinds
    assert shooter(play) == "1"
    assert play.body(Kind.THROW_REJECTED).shooter == "1"
    play.tell(GameStarted(game(2, DICE)), Permitted("d1"))
    play.thrown("4-4", 2)
    assert play.body(Kind.RESULT).outcome["shooter"] == "1"


def test_a_void_round_leaves_the_shooter() -> None:
    play = table_of("1", "3").dice_ready()
    play.tell(DrawStarted(game(1, DICE)), VoidDeclared("d1", "dealer", "a fight"))
    assert shooter(play) == "1"


def test_who_has_thrown_cannot_decline() -> None:
    play = table_of("1", "3").dice_ready()
    play.tell(DrawStarted(game(1, DICE)), DECLINED)
    play.tell(Reading(game(1, DICE), ("4", "4"), DrawFacts()))
    assert play.body(Kind.RESULT).outcome["shooter"] == "1"


def test_a_shooter_declines_between_the_permission_and_the_throw() -> None:
    play = table_of("1", "3").dice_ready()
    play.tell(DECLINED)
    play.thrown("4-4")
    assert play.body(Kind.RESULT).outcome["shooter"] == "3"


def test_no_seats_means_nobody() -> None:
    play = table_of("1", "3")
    play.tell(Seated("d1", ()))
    assert play.table.memory == ()
    play.tell(DECLINED)
    assert play.table.memory == ()


@pytest.mark.parametrize("name", ["craps", "sic-bo", "roulette"])
def test_other_games_have_no_shooter(name: str) -> None:
    play = Play(game_setup(name)).open()
    play.tell(Seated("d1", ("1", "3")), DECLINED)
    assert play.table.memory == ()


@pytest.mark.parametrize("faces", ["5-2", "6-6"])
def test_a_restart_goes_on_with_the_shooter_that_the_last_outcome_tells(faces: str) -> None:
    play = table_of("1", "3", "4").dice_round(faces)
    told: Any = msgspec.json.decode(encode(play.body(Kind.RESULT)))["outcome"]
    again = Play(SETUP, Table(open=True, number=1, memory=TUPLANOPPA.after(told)))
    assert again.table.memory == play.table.memory
    again.dice_round("1-1", 2)
    assert again.body(Kind.RESULT).outcome["shooter"] == ("3" if faces == "5-2" else "1")
