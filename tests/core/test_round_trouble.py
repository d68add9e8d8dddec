"""Restarts, unresolved rounds, games without a round, witnesses, devices in trouble."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.support.tables import (
    PROVEN,
    SECOND_WHEEL,
    START,
    WHEEL,
    Play,
    but_for_counts,
    game,
    later,
    make_setup,
    odds_drawn,
)

from dollyd.daemon.core.events import (
    BetsClosed,
    Confirmed,
    Defect,
    DeviceReady,
    DeviceTrouble,
    DrawStarted,
    DrawUpdate,
    Ending,
    Event,
    Flag,
    GameEnded,
    GameStarted,
    Observed,
    Reading,
    Restarted,
    TableClosed,
    Tick,
    VoidDeclared,
)
from dollyd.daemon.core.round import Phase, deadline_ns, step
from dollyd.daemon.core.state import MISSED_NAMED_MAX, Mark, Round, Table
from dollyd.wire.record import Kind

VOID = VoidDeclared("d1", "dealer", "a coin on the wheel")


# --- restarts ----------------------------------------------------------------------------------------------

RESTARTED = Restarted("2026-11-29T18:41:20.000000000Z")


def test_a_round_that_a_restart_interrupted_is_unresolved_once() -> None:
    table = Table(open=True, number=7, round=Round(7, interrupted=True))
    play = Play(make_setup("A"), table)
    play.tell(RESTARTED)
    assert play.kinds == [Kind.GAP, Kind.SESSION, Kind.UNRESOLVED]
    unresolved = play.body(Kind.UNRESOLVED)
    assert unresolved.rule == "restart-in-mid-round"
    assert unresolved.evidence.times.opened is msgspec.UNSET
    assert play.body(Kind.GAP).since_utc == "2026-11-29T18:41:20.000000000Z"
    assert play.body(Kind.SESSION).event == "resumed"
    play.tell(RESTARTED, Tick())
    assert play.kinds.count(Kind.UNRESOLVED) == 1
    play.tell(VOID)
    assert play.emitted[-1].round == 7
    assert play.phase is Phase.WAITING


def test_a_restart_in_mid_round_never_goes_on_with_it() -> None:
    play = Play(make_setup("A")).no_more_bets()
    play.tell(RESTARTED, Reading(game(), ("17",), PROVEN))
    assert play.body(Kind.UNRESOLVED).rule == "restart-in-mid-round"
    assert Kind.RESULT not in play.kinds


def test_an_unresolved_round_stays_blocked_over_a_restart() -> None:
    mark = Mark("restart-in-mid-round", START)
    play = Play(
        make_setup("A"), Table(open=True, number=7, round=Round(7, interrupted=True, unresolved=mark))
    )
    play.tell(RESTARTED)
    assert play.kinds == [Kind.GAP, Kind.SESSION]
    assert play.phase is Phase.BLOCKED
    assert play.table.blocked == "restart-in-mid-round"


def test_a_restart_of_a_closed_table_opens_no_session() -> None:
    play = Play(make_setup("A"))
    play.tell(RESTARTED)
    assert play.kinds == [Kind.GAP]


def test_the_next_round_after_a_restart_has_a_new_number() -> None:
    play = Play(make_setup("A"), Table(open=True, number=41))
    play.tell(RESTARTED)
    assert play.whole_round().emitted[-1].round == 42


# --- unresolved rounds -------------------------------------------------------------------------------------


def test_an_unresolved_round_waits_for_people_unless_the_profile_says_otherwise() -> None:
    play = Play(make_setup("A")).blocked()
    assert deadline_ns(play.setup, play.table) is None
    play.wait(86_400_000)
    assert play.phase is Phase.BLOCKED


def test_unresolved_void_after_its_time_is_void_as_unrecoverable() -> None:
    play = Play(make_setup("A", rules={"unresolved_void_after_s": 60})).blocked()
    play.wait(59_999)
    assert Kind.VOID not in play.kinds
    play.wait(1)
    assert play.body(Kind.VOID).rule == "unrecoverable"
    assert play.phase is Phase.WAITING


def test_the_wait_for_people_begins_anew_after_a_restart() -> None:
    # Monotonic time began anew: what stands in the state is of another boot.
    old = Mark("restart-in-mid-round", later(START, -10 * 86_400_000))
    table = Table(open=True, number=7, round=Round(7, interrupted=True, unresolved=old))
    play = Play(make_setup("A", rules={"unresolved_void_after_s": 60}), table)
    play.tell(RESTARTED)
    assert play.phase is Phase.BLOCKED
    play.wait(59_999)
    assert play.phase is Phase.BLOCKED
    play.wait(1)
    assert play.kinds[-1] is Kind.VOID


def test_nothing_that_a_device_says_later_resolves_a_round() -> None:
    play = Play(make_setup("A")).blocked()
    play.tell(BetsClosed(WHEEL, game()), Reading(game(), ("17",), PROVEN), Confirmed("d1"))
    assert play.phase is Phase.BLOCKED
    assert Kind.RESULT not in play.kinds


# --- games without a round -----------------------------------------------------------------------------


def gap_games(play: Play) -> list[list[str]]:
    return [body.games for body in play.bodies(Kind.GAP)]


def test_games_missed_while_blocked_are_told_once_before_the_next_record() -> None:
    # A crash after that record must not forget them.
    play = Play(make_setup("A")).blocked(1)
    play.tell(GameStarted(game(2)), GameStarted(game(3)))
    assert gap_games(play) == []
    play.tell(VOID)
    assert gap_games(play) == [["wheel/s1/002", "wheel/s1/003"]]
    assert play.kinds[-2:] == [Kind.GAP, Kind.VOID]
    play.whole_round(number=4)
    play.whole_round(number=5)
    assert len(gap_games(play)) == 1


def test_a_joined_game_is_missed_and_opens_no_round() -> None:
    play = Play(make_setup("A")).open()
    play.tell(GameStarted(game(1), joined=True), Reading(game(1), ("17",), PROVEN))
    assert play.phase is Phase.WAITING
    play.bets_open(2)
    assert gap_games(play) == [["wheel/s1/001"]]


def test_missed_games_are_told_when_the_table_is_closed() -> None:
    play = Play(make_setup("A")).open()
    play.tell(GameStarted(game(1), joined=True), TableClosed("d1"))
    assert play.kinds[-2:] == [Kind.GAP, Kind.SESSION]


def test_a_game_under_way_when_the_table_is_opened_is_missed() -> None:
    play = Play(make_setup("A"))
    play.tell(GameStarted(game(1)), DrawStarted(game(1)))
    play.open()
    play.tell(BetsClosed(WHEEL, game(1)), Reading(game(1), ("17",), PROVEN))
    assert play.kinds == [Kind.SESSION], "it is no round"
    play.bets_open(2)
    assert gap_games(play) == [["wheel/s1/001"]]


@pytest.mark.parametrize(
    "end",
    [
        Reading(game(1), ("17",), PROVEN),
        GameEnded(game(1), Ending.SHUT_DOWN, PROVEN),
        Observed(game(1), PROVEN),
        GameStarted(game(2)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_game_that_ended_before_the_table_was_opened_is_of_no_concern(end: Event) -> None:
    play = Play(make_setup("A"))
    play.tell(GameStarted(game(1)), end)
    play.open()
    play.bets_open(3)
    assert gap_games(play) == ([["wheel/s1/002"]] if isinstance(end, GameStarted) else [])


def test_a_game_that_was_told_at_its_end_is_not_under_way() -> None:
    play = Play(make_setup("A"))
    play.tell(GameStarted(game(1), told_at_end=True))
    play.open()
    play.bets_open(2)
    assert gap_games(play) == []


@pytest.mark.parametrize("awaited", ["odds", "dealer"])
def test_a_game_that_begins_while_the_round_still_waits_is_missed(awaited: str) -> None:
    play = Play(make_setup("B") if awaited == "odds" else make_setup("A", confirm="dealer")).at_rest(number=1)
    play.tell(GameStarted(game(2)), odds_drawn(1) if awaited == "odds" else Confirmed("d1"))
    assert play.kinds[-1] is Kind.RESULT, "the number of the round was complete"
    play.tell(Reading(game(2), ("18",), PROVEN))
    play.bets_open(3)
    assert gap_games(play) == [["wheel/s1/002"]]
    assert play.kinds.count(Kind.RESULT) == 1


def test_a_game_that_supersedes_an_unread_one_is_missed_too() -> None:
    play = Play(make_setup("A")).no_more_bets(1)
    play.tell(GameStarted(game(2)))
    assert play.body(Kind.UNRESOLVED).rule == "no-reading"
    play.tell(VOID)
    play.bets_open(3)
    assert gap_games(play) == [["wheel/s1/002"]]


def test_many_missed_games_are_counted_and_the_first_ones_named() -> None:
    play = Play(make_setup("A")).blocked(1)
    for number in range(2, 202):
        play.tell(GameStarted(game(number)))
    play.tell(VOID)
    play.bets_open(202)
    gap = play.body(Kind.GAP)
    assert gap.count == 200
    assert gap.games == [str(game(number)) for number in range(2, 2 + MISSED_NAMED_MAX)]


# --- two witnesses (design 5) ----------------------------------------------------------------------------


def two_wheels(first: str, second: str, variant: str = "A") -> Play:
    play = Play(make_setup(variant, wheels=2)).no_more_bets()
    play.tell(GameStarted(game(5, SECOND_WHEEL)))
    play.tell(Reading(game(), (first,), PROVEN))
    assert play.phase is Phase.NO_MORE_BETS, "one reading is not enough"
    play.tell(Reading(game(5, SECOND_WHEEL), (second,), PROVEN))
    return play


def test_two_witnesses_that_agree_give_a_result_with_both_readings() -> None:
    result = two_wheels("17", "17").body(Kind.RESULT)
    assert [(w.device, w.value) for w in result.evidence.witnesses] == [
        (WHEEL, ["17"]),
        (SECOND_WHEEL, ["17"]),
    ]


def test_two_witnesses_that_disagree_leave_the_round_unresolved_with_both_readings() -> None:
    unresolved = two_wheels("17", "18").body(Kind.UNRESOLVED)
    assert unresolved.rule == "witnesses-disagree"
    assert [w.value for w in unresolved.evidence.witnesses] == [["17"], ["18"]]


def test_zero_and_double_zero_disagree() -> None:
    assert two_wheels("0", "00", "E").body(Kind.UNRESOLVED).rule == "witnesses-disagree"


def test_a_witness_that_is_silent_leaves_the_round_unresolved() -> None:
    play = Play(make_setup("A", wheels=2)).at_rest()
    assert play.phase is Phase.NO_MORE_BETS
    play.wait(999)
    assert play.phase is Phase.NO_MORE_BETS
    play.wait(1)
    unresolved = play.body(Kind.UNRESOLVED)
    assert unresolved.rule == "witness-missing"
    assert [w.value for w in unresolved.evidence.witnesses] == [["17"]]


def test_a_draw_without_end_is_unresolved_in_time() -> None:
    play = Play(make_setup("A")).no_more_bets()
    play.wait(119_999)
    assert play.phase is Phase.NO_MORE_BETS
    play.wait(1)
    assert play.body(Kind.UNRESOLVED).rule == "draw-timeout"


def test_a_draw_in_which_bets_are_never_closed_is_unresolved_in_time() -> None:
    play = Play(make_setup("A")).spinning()
    play.wait(119_999)
    assert play.phase is Phase.SPINNING
    play.wait(1)
    assert play.body(Kind.UNRESOLVED).rule == "draw-timeout"


def test_bets_may_stay_open_for_as_long_as_no_draw_has_begun() -> None:
    play = Play(make_setup("A")).bets_open()
    play.wait(86_400_000)
    assert play.phase is Phase.BETS_OPEN


def test_a_defect_of_one_witness_is_enough() -> None:
    play = Play(make_setup("A", wheels=2)).no_more_bets()
    play.tell(GameStarted(game(5, SECOND_WHEEL)), Reading(game(), ("17",), PROVEN))
    lost = replace(PROVEN, defects=(Defect.DEVICE_LOST,))
    play.tell(GameEnded(game(5, SECOND_WHEEL), Ending.LOST, lost))
    assert play.body(Kind.UNRESOLVED).rule == Defect.DEVICE_LOST


# --- devices and relaunches ----------------------------------------------------------------------------


def test_trouble_and_return_of_a_device_are_told_once_each() -> None:
    play = Play(make_setup("A")).open()
    play.tell(
        DeviceReady(WHEEL), DeviceTrouble(WHEEL, "stale", "silent"), DeviceTrouble(WHEEL, "stale", "silent")
    )
    play.tell(DeviceReady(WHEEL), DeviceReady(WHEEL))
    assert play.whats() == ["device-ready", "device-stale", "device-back"]


def test_a_relaunch_is_an_incident_and_the_round_goes_on() -> None:
    play = Play(make_setup("A")).bets_open()
    again = replace(PROVEN, relaunches=1)
    play.tell(DrawUpdate(game(), again), DrawUpdate(game(), again))
    assert play.whats() == ["relaunch"]
    play.tell(DrawStarted(game()), BetsClosed(WHEEL, game()), Reading(game(), ("17",), again))
    assert play.body(Kind.RESULT).evidence.witnesses[0].relaunches == 1


def test_flags_of_a_void_stand_in_its_evidence() -> None:
    play = Play(make_setup("A")).no_more_bets()
    play.tell(DrawUpdate(game(), replace(PROVEN, flags=(Flag.DEVICE_FAULT,))))
    void = play.body(Kind.VOID)
    assert (void.rule, void.evidence.witnesses[0].flags) == ("device-fault", ["device-fault"])


def test_a_refused_event_gives_the_very_same_state() -> None:
    setup = make_setup("A")
    table = Table()
    assert but_for_counts(step(setup, table, TableClosed("d1"), START)[0]) == table


def test_a_game_of_a_device_that_brings_no_outcome_opens_no_round() -> None:
    play = Play(make_setup("A")).open()
    play.tell(GameStarted(game(1, SECOND_WHEEL)))
    assert play.phase is Phase.WAITING
    play.bets_open(1).tell(GameStarted(game(1, SECOND_WHEEL)))
    assert [w.game.device for w in play.round.witnesses] == [WHEEL]
