"""A host that cannot answer for another round opens none; the one in progress is played to its end."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.tables import IN_PHASE, PROVEN, START, Play, game, make_setup

from dollyd.daemon.core.events import (
    BetsClosed,
    ClockStepped,
    GameStarted,
    HostIncident,
    PlayHalted,
    Reading,
    Restarted,
    TableClosed,
)
from dollyd.daemon.core.round import Phase
from dollyd.daemon.core.state import Table
from dollyd.wire.record import ClockBody, Kind
from dollyd.wire.stamp import iso_utc

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


# --- F9: what the last record says of the clock ----------------------------------------------------

HOUR_NS = 3_600 * 10**9


def restarted(down_utc_ns: int, down_mono_ns: int) -> Play:
    """A table after a start, so long after its last record by the two clocks."""
    play = Play(make_setup("A", gaming_date=lambda utc_ns: iso_utc(utc_ns)[:10]), Table(open=True, number=7))
    play.tell(Restarted(iso_utc(START.utc_ns - down_utc_ns), down_utc_ns, down_mono_ns))
    return play


def test_f9_a_clock_that_was_wrong_before_the_restart_is_a_record() -> None:
    """30 hours behind and unsynchronised; the daemon was down for five seconds, and the time is right now."""
    play = restarted(30 * HOUR_NS + 5 * 10**9, 5 * 10**9)
    body = play.body(Kind.CLOCK)
    assert (body.step_ns, body.cause) == (30 * HOUR_NS, "restart")
    assert body.gaming_date > body.gaming_date_before
    assert play.body(Kind.GAP).down_ms == 5_000
    assert not play.whats()


def test_f9_a_clock_that_is_right_makes_no_record() -> None:
    play = restarted(5 * 10**9 + 1_000_000, 5 * 10**9)
    assert Kind.CLOCK not in [emit.kind for emit in play.emitted]
    assert play.body(Kind.GAP).down_ms == 5_000


def test_f9_after_a_reboot_only_what_cannot_be_is_told() -> None:
    for down_ns, told in ((30 * HOUR_NS, []), (32 * 24 * HOUR_NS, ["clock-ahead-of-journal"])):
        play = restarted(down_ns, -1)
        assert play.whats() == told
        assert Kind.CLOCK not in [emit.kind for emit in play.emitted]
        assert play.body(Kind.GAP).down_ms is msgspec.UNSET


def test_f9_a_step_over_the_gaming_day_names_the_wrong_date() -> None:
    play = Play(make_setup("A", gaming_date=lambda utc_ns: iso_utc(utc_ns)[:10]), Table(open=True, number=7))
    play.tell(ClockStepped(60 * HOUR_NS), ClockStepped(0, synchronised=True))
    step, synchronised = (emit.body for emit in play.emitted if emit.kind is Kind.CLOCK)
    assert isinstance(step, ClockBody)
    assert isinstance(synchronised, ClockBody)
    assert step.gaming_date == iso_utc(START.utc_ns)[:10] != step.gaming_date_before
    assert (synchronised.step_ns, synchronised.synchronised) == (0, True)
    assert synchronised.gaming_date is msgspec.UNSET


def test_a_table_that_waits_for_an_inspection_says_that_it_is_blocked() -> None:
    assert Table(open=True, inspection="ball-left-the-wheel").blocked == "ball-left-the-wheel"
