"""Rounds from end to end: their course, voids in time and too late, hold and confirmation."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.tables import (
    PROVEN,
    START,
    WHEEL,
    Play,
    but_for_counts,
    game,
    make_setup,
)

from dollyd.daemon.core.events import (
    BetsClosed,
    Confirmed,
    Defect,
    DeviceReady,
    DrawStarted,
    Reading,
    ReadingContradicted,
    VoidDeclared,
)
from dollyd.daemon.core.round import Phase
from dollyd.wire.record import Kind, encode
from dollyd.wire.stamp import NS_PER_S

VOID = VoidDeclared("d1", "dealer", "a coin on the wheel")


# --- a round with a result ---------------------------------------------------------------------------


def test_a_round_tells_its_course_and_its_result() -> None:
    play = Play(make_setup("A")).whole_round("17")
    assert play.kinds == [Kind.SESSION, Kind.ROUND, Kind.BETS_CLOSED, Kind.RESULT]
    assert [emit.round for emit in play.emitted] == [0, 1, 1, 1]
    assert [emit.captured for emit in play.emitted] == [False, False, False, True]
    result = play.body(Kind.RESULT)
    assert result.outcome["pocket"] == "17"
    assert result.evidence.game_ref == "wheel/s1/001"
    assert (result.evidence.bets_closed_by, result.evidence.confirmed_by) == (WHEEL, "auto")
    assert result.mode == "auto"
    assert play.phase is Phase.WAITING


def test_times_of_a_result_are_those_of_its_events() -> None:
    play = Play(make_setup("A")).whole_round()
    times = play.body(Kind.RESULT).evidence.times
    steps = [times.opened, times.draw_started, times.bets_closed, times.at_rest, times.confirmed]
    assert [moment.monotonic_ns - START.mono_ns for moment in steps] == [2e6, 3e6, 4e6, 5e6, 5e6]


def test_no_more_bets_may_come_before_the_draw() -> None:
    play = Play(make_setup("A")).bets_open()
    play.tell(BetsClosed("d1"))
    assert play.phase is Phase.NO_MORE_BETS
    play.tell(DrawStarted(game()), Reading(game(), ("17",), PROVEN))
    assert play.body(Kind.RESULT).evidence.bets_closed_by == "d1"


def test_t60_double_zero_is_a_text_in_the_record() -> None:
    play = Play(make_setup("E")).whole_round("00")
    text = encode(play.body(Kind.RESULT)).decode()
    assert '"pocket":"00"' in text
    assert '"value":["00"]' in text
    assert msgspec.json.decode(text)["outcome"]["pocket"] == "00"


def test_round_numbers_grow_over_results_and_voids() -> None:
    play = Play(make_setup("A")).whole_round(number=1)
    play.spinning(2).tell(VOID)
    play.whole_round(number=3)
    ends = [(emit.kind, emit.round) for emit in play.emitted if emit.captured]
    assert ends == [(Kind.RESULT, 1), (Kind.VOID, 2), (Kind.RESULT, 3)]


def test_quarters_are_told_where_the_cloth_shows_them() -> None:
    with_them = Play(make_setup("A", quarters=True)).whole_round("17").body(Kind.RESULT)
    without = Play(make_setup("A")).whole_round("17").body(Kind.RESULT)
    assert with_them.outcome["quarter"] == "10-18"
    assert "quarter" not in without.outcome


def test_a_result_names_text_stakes_devices_and_gaming_date() -> None:
    setup = make_setup("C")
    play = Play(setup).open()
    play.tell(DeviceReady(WHEEL, (("firmware", "V2.50"), ("pockets", "37"))))
    result = play.whole_round().body(Kind.RESULT)
    assert (result.setting.game, result.setting.variant) == ("roulette", "C")
    assert (result.setting.rulebook, result.setting.profile) == (setup.rulebook, setup.profile)
    assert result.stakes == setup.stakes
    assert result.gaming_date == setup.gaming_date(START.utc_ns)
    (device,) = result.evidence.devices
    assert device.identity == {"firmware": "V2.50", "pockets": "37"}


def test_after_the_result_another_number_is_an_incident_and_changes_no_result() -> None:
    play = Play(make_setup("A")).whole_round("17")
    play.tell(ReadingContradicted(game(), ("18",)))
    incident = play.body(Kind.INCIDENT)
    assert (incident.what, incident.details) == ("result-contradicted", {"shown": "18"})
    assert play.kinds.count(Kind.RESULT) == 1


def test_a_late_contradiction_names_the_round_that_it_contradicts() -> None:
    play = Play(make_setup("A")).whole_round("17")
    play.bets_open(2).tell(ReadingContradicted(game(1), ("18",)))
    assert [emit.round for emit in play.emitted if emit.kind is Kind.INCIDENT] == [1]
    assert play.phase is Phase.BETS_OPEN


# --- void in time and too late (rulebook 2.5) ----------------------------------------------------------


@pytest.mark.parametrize("where", ["spinning", "no_more_bets", "at_rest"])
def test_t28_a_void_in_the_round_ends_it(where: str) -> None:
    play = Play(make_setup("A", confirm="dealer"))
    getattr(play, where)()
    play.tell(VOID)
    void = play.body(Kind.VOID)
    assert (void.rule, void.declared_by, void.role, void.text) == (
        "declared",
        "d1",
        "dealer",
        "a coin on the wheel",
    )
    assert void.stake_policy == "player_choice", "settlement need not know the profile"
    assert play.phase is Phase.WAITING
    assert play.whole_round(number=2).phase is Phase.AT_REST, "bets can be opened again"


def test_a_void_before_anything_moves_is_refused() -> None:
    play = Play(make_setup("A")).bets_open()
    play.tell(VOID)
    assert play.whats() == ["void-refused"]
    assert play.phase is Phase.BETS_OPEN


def test_t29_a_void_after_the_result_is_refused_and_logged() -> None:
    play = Play(make_setup("A")).whole_round()
    before = play.table
    play.tell(VOID)
    assert but_for_counts(play.table) == but_for_counts(before)
    assert Kind.VOID not in play.kinds
    refused = play.body(Kind.INCIDENT)
    assert (refused.what, refused.details) == ("void-refused", {"by": "d1"})
    assert play.emitted[-1].round == 1


def test_t29_a_confirmation_ends_the_round_at_once() -> None:
    play = Play(make_setup("A", confirm="dealer")).at_rest()
    play.tell(Confirmed("d1"), VOID)
    assert Kind.VOID not in play.kinds
    assert play.whats() == ["void-refused"]
    assert play.body(Kind.RESULT).evidence.confirmed_by == "d1"


def test_t30_an_inspector_alone_cannot_void_a_roulette_round() -> None:
    play = Play(make_setup("A")).spinning()
    play.tell(VoidDeclared("i1", "inspector", "too few turns"))
    assert play.phase is Phase.SPINNING
    assert "inspector" in play.body(Kind.INCIDENT).text
    assert Kind.VOID not in play.kinds


def test_an_inspector_may_where_the_profile_lets_him() -> None:
    setup = make_setup("A", rules={"void_declarers": frozenset({"dealer", "inspector"})})
    play = Play(setup).spinning()
    play.tell(VoidDeclared("i1", "inspector", "too few turns"))
    assert play.body(Kind.VOID).role == "inspector"


# --- hold and confirmation -----------------------------------------------------------------------------


def test_without_a_hold_the_reading_is_the_result() -> None:
    play = Play(make_setup("A", hold_ms=0)).at_rest()
    assert play.kinds[-1] is Kind.RESULT


def test_with_a_hold_the_result_comes_at_its_end() -> None:
    play = Play(make_setup("A", hold_ms=2_000)).at_rest()
    play.wait(1_999)
    assert Kind.RESULT not in play.kinds
    play.wait(1)
    times = play.body(Kind.RESULT).evidence.times
    assert times.confirmed.monotonic_ns - times.at_rest.monotonic_ns == 2 * NS_PER_S


def test_a_void_inside_the_hold_counts() -> None:
    play = Play(make_setup("A", hold_ms=2_000)).at_rest()
    play.tell(VOID, after_ms=1_999)
    assert play.kinds[-1] is Kind.VOID
    play.wait(10_000)
    assert Kind.RESULT not in play.kinds


def test_a_void_after_the_hold_is_refused_even_where_the_tick_is_late() -> None:
    play = Play(make_setup("A", hold_ms=2_000)).at_rest()
    play.tell(VOID, after_ms=2_000)
    assert play.kinds[-2:] == [Kind.RESULT, Kind.INCIDENT]
    assert play.whats() == ["void-refused"]


def test_the_dealers_confirmation_is_waited_for() -> None:
    play = Play(make_setup("A", confirm="dealer")).at_rest()
    play.wait(3_600_000)
    assert play.phase is Phase.AT_REST
    play.tell(Confirmed("d1"))
    assert play.kinds[-1] is Kind.RESULT


def test_another_number_inside_the_hold_makes_the_round_unresolved() -> None:
    play = Play(make_setup("A", hold_ms=2_000)).at_rest("17")
    play.tell(Reading(game(), ("18",), PROVEN))
    assert play.body(Kind.UNRESOLVED).rule == Defect.NUMBER_CHANGED
    assert play.body(Kind.UNRESOLVED).evidence.witnesses[0].value == ["17"]
