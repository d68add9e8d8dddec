"""Craps in the round: the record tells phase and point as they were at the start of the roll (rulebook 7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.tables import DICE, Play, game, game_setup

from dollyd.daemon.core.events import DrawFacts, DrawStarted, Flag, GameStarted, VoidDeclared
from dollyd.daemon.core.games.craps import CRAPS
from dollyd.daemon.core.state import Table
from dollyd.wire.record import Kind, encode

SETUP = game_setup("craps")
COME_OUT: tuple[str, int | None] = ("come-out", None)


def rolled(*rolls: str) -> Play:
    """Rounds one after the other; the start of the roll closes the bets."""
    play = Play(SETUP)
    for number, faces in enumerate(rolls, start=1):
        roll(play, faces, number)
    return play


def roll(play: Play, faces: str, number: int) -> None:
    play.bets_open(number)
    play.thrown(faces, number)


def phases(play: Play) -> list[tuple[str, int | None]]:
    outcomes = [body.outcome for body in play.bodies(Kind.RESULT)]
    return [(outcome["phase"], outcome.get("point")) for outcome in outcomes]


def test_the_start_of_the_roll_closes_the_bets() -> None:
    play = rolled("6-5")
    assert play.body(Kind.BETS_CLOSED).by == "draw-start"
    assert play.kinds == [Kind.SESSION, Kind.ROUND, Kind.BETS_CLOSED, Kind.RESULT]


def test_t55_a_come_out_4_is_told_as_a_come_out_and_makes_the_point_of_the_next_roll() -> None:
    play = rolled("2-2", "6-5")
    assert phases(play) == [COME_OUT, ("point", 4)]
    assert "point" not in play.bodies(Kind.RESULT)[0].outcome


def test_t56_a_come_out_6_is_told_as_a_come_out() -> None:
    play = rolled("3-3")
    outcome = play.body(Kind.RESULT).outcome
    assert (outcome["phase"], outcome["sum"]) == ("come-out", 6)


@pytest.mark.parametrize("before", [(), ("4-4",)], ids=["come-out", "point-8"])
def test_t57_a_roll_that_decides_nothing_is_a_result_and_never_void(before: tuple[str, ...]) -> None:
    play = rolled(*before, "6-5", "6-5")
    assert Kind.VOID not in play.kinds
    assert play.kinds.count(Kind.RESULT) == len(before) + 2
    assert phases(play)[-1] == (("point", 8) if before else COME_OUT)


@pytest.mark.parametrize("made", ["4-4", "3-4"], ids=["point", "seven"])
def test_a_point_ends_with_itself_or_a_seven(made: str) -> None:
    assert phases(rolled("5-3", "1-1", "3-3", made, "5-3")) == [
        COME_OUT,
        ("point", 8),
        ("point", 8),
        ("point", 8),
        COME_OUT,
    ]


def test_a_void_round_and_a_rejected_throw_leave_the_point() -> None:
    play = rolled("4-4")
    play.spinning(2).tell(VoidDeclared("d1", "dealer", "a fight"))
    play.bets_open(3)
    play.thrown("3-4", 3, DrawFacts(flags=(Flag.OUTSIDE_AREA,)))
    assert play.kinds[-1] is Kind.THROW_REJECTED, "a seven that does not count"
    play.tell(GameStarted(game(4, DICE)), DrawStarted(game(4, DICE)))
    play.thrown("1-1", 4)
    assert phases(play) == [COME_OUT, ("point", 8)]


def test_a_restart_goes_on_with_the_point_that_the_last_outcome_tells() -> None:
    told: Any = msgspec.json.decode(encode(rolled("4-4", "1-1").bodies(Kind.RESULT)[-1]))["outcome"]
    again = Play(SETUP, Table(open=True, number=2, memory=CRAPS.after(told)))
    roll(again, "6-6", 3)
    assert phases(again) == [("point", 8)]
