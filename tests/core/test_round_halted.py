"""A host that cannot answer for another round opens none; the one in progress is played to its end."""

from __future__ import annotations

import pytest
from tests.support.tables import IN_PHASE, PROVEN, START, Play, game, make_setup

from dollyd.daemon.core.events import (
    BetsClosed,
    GameStarted,
    HostIncident,
    PlayHalted,
    Reading,
    Restarted,
    TableClosed,
)
from dollyd.daemon.core.record import Kind
from dollyd.daemon.core.round import Phase
from dollyd.daemon.core.stamp import iso_utc
from dollyd.daemon.core.state import Table

FULL, ROOM = PlayHalted("disk-full"), PlayHalted("")


@pytest.fixture
def play() -> Play:
    return Play(make_setup("A"))


def test_a_halted_table_opens_no_round_and_tells_the_games_it_missed(play: Play) -> None:
    play.open().tell(FULL)
    assert play.table.blocked == "disk-full"
    play.tell(GameStarted(game(1)), GameStarted(game(2)), BetsClosed("d1"))
    assert (play.phase, play.table.number) == (Phase.WAITING, 0)
    play.tell(ROOM)
    assert not play.table.blocked
    assert play.body(Kind.GAP).games == [str(game(1)), str(game(2))]
    assert play.kinds[-2:] == [Kind.GAP, Kind.INCIDENT]
    assert [(body.what, body.details["reason"]) for body in play.bodies(Kind.INCIDENT)] == [
        ("play-halted", "disk-full"),
        ("play-resumed", "disk-full"),
    ]
    play.whole_round(number=3)
    assert play.body(Kind.RESULT).evidence.game_ref == str(game(3))


def test_a_game_that_began_while_play_was_halted_stays_without_a_result(play: Play) -> None:
    play.open().tell(FULL, GameStarted(game(1)), ROOM)
    play.tell(BetsClosed("wheel", game(1)))
    assert play.table.round is None


def test_the_round_in_progress_is_played_to_its_end(play: Play) -> None:
    play.spinning().tell(FULL)
    play.tell(BetsClosed("wheel", game(1)))
    assert play.phase is Phase.NO_MORE_BETS
    play.tell(Reading(game(1), ("17",), PROVEN))
    assert play.kinds[-1] is Kind.RESULT
    assert play.table.blocked == "disk-full"


def test_an_unresolved_round_is_the_nearer_reason(play: Play) -> None:
    play.blocked().tell(FULL)
    rule = play.body(Kind.UNRESOLVED).rule
    assert play.table.blocked == rule


@pytest.mark.parametrize("phase", IN_PHASE)
def test_the_host_is_heard_in_every_phase_and_says_nothing_twice(phase: Phase) -> None:
    play = IN_PHASE[phase](Play(make_setup("A", confirm="dealer")))
    play.effects.clear()
    play.tell(ROOM, FULL, FULL, HostIncident("captures-stopped", "the disk is nearly full"), ROOM, ROOM)
    assert play.phase is phase
    assert play.whats() == ["play-halted", "captures-stopped", "play-resumed"]


def test_a_halted_table_can_be_closed(play: Play) -> None:
    play.open().tell(FULL, TableClosed("d1"))
    assert play.phase is Phase.TABLE_CLOSED


def test_b50_a_clock_behind_the_last_record_is_told_and_changes_no_order() -> None:
    ten_minutes_ns = 600 * 10**9
    play = Play(make_setup("A"), Table(open=True, number=7))
    play.tell(Restarted(iso_utc(START.utc_ns + ten_minutes_ns)))
    assert play.whats() == ["clock-behind-journal"]
    assert play.body(Kind.INCIDENT).details == {"last_utc": iso_utc(START.utc_ns + ten_minutes_ns)}
    play.whole_round()
    assert [emit.round for emit in play.emitted if emit.kind is Kind.RESULT] == [8]
    good = Play(make_setup("A"), Table(open=True, number=7))
    good.tell(Restarted(iso_utc(START.utc_ns)))
    assert not good.whats()
