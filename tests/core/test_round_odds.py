"""What a result needs besides a number: the odds table, zeros in a row, turns and directions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.support.tables import (
    ODDS_BOX,
    PROVEN,
    WHEEL,
    Play,
    game,
    make_setup,
    odds_drawn,
)

from dollyd.daemon.core.events import (
    Approved,
    BetsClosed,
    Confirmed,
    Defect,
    DrawFacts,
    DrawStarted,
    Ending,
    GameEnded,
    OddsDrawn,
    OddsFailed,
    Reading,
    ResultProposed,
    TurnsBasis,
    VoidDeclared,
)
from dollyd.daemon.core.round import Phase, deadline_ns
from dollyd.daemon.core.state import Table
from dollyd.wire.record import IncidentBody, Kind

VOID = VoidDeclared("d1", "dealer", "a coin on the wheel")


# --- the odds table of variant B (rulebook 2.8) ------------------------------------------------------------


def test_odds_are_asked_once_a_round_after_no_more_bets() -> None:
    play = Play(make_setup("B")).bets_open()
    assert play.odds_asked == []
    play.tell(DrawStarted(game()))
    assert play.odds_asked == []
    play.tell(BetsClosed(WHEEL, game()), BetsClosed("d1"))
    assert play.odds_asked == [1]


@pytest.mark.parametrize("variant", "ACDEF")
def test_no_other_variant_asks_for_odds(variant: str) -> None:
    play = Play(make_setup(variant)).whole_round("0")
    assert play.odds_asked == []
    assert play.body(Kind.RESULT).odds is msgspec.UNSET


@pytest.mark.parametrize("table", [1, 2])
def test_t2_t3_the_result_carries_the_table_drawn_and_its_proof(table: int) -> None:
    play = Play(make_setup("B")).whole_round("17", odds_table=table)
    odds = play.body(Kind.RESULT).odds
    drawn = odds_drawn(1, table)
    assert (odds.table, odds.counter, odds.nonce, odds.proof) == (
        table,
        drawn.counter,
        drawn.nonce,
        drawn.proof,
    )


def test_the_result_waits_for_the_odds_table_and_the_wait_is_no_busy_loop() -> None:
    play = Play(make_setup("B")).at_rest()
    assert play.phase is Phase.AT_REST
    due = deadline_ns(play.setup, play.table)
    assert due is not None
    assert due > play.now.mono_ns
    play.tell(odds_drawn(1), after_ms=3_000)
    assert play.kinds[-1] is Kind.RESULT


def test_t4_without_an_odds_table_the_table_is_blocked() -> None:
    play = Play(make_setup("B")).at_rest()
    play.wait(5_000)
    assert play.body(Kind.UNRESOLVED).rule == "odds-missing"
    assert play.phase is Phase.BLOCKED
    assert Kind.RESULT not in play.kinds


def test_t4_the_dealer_cannot_confirm_without_an_odds_table() -> None:
    play = Play(make_setup("B", confirm="dealer")).at_rest()
    play.tell(Confirmed("d1"))
    assert play.whats() == ["confirmation-refused"]
    play.tell(odds_drawn(1))
    assert play.phase is Phase.AT_REST, "the refused confirmation does not count later"
    play.tell(Confirmed("d1"))
    assert play.kinds[-1] is Kind.RESULT


def test_an_odds_answer_after_its_time_is_none_even_where_the_tick_is_late() -> None:
    play = Play(make_setup("B")).at_rest()
    play.tell(odds_drawn(1), after_ms=5_000)
    assert play.body(Kind.UNRESOLVED).rule == "odds-missing"
    assert Kind.RESULT not in play.kinds


def test_an_odds_answer_just_after_the_round_became_unresolved_lets_people_enter_what_came() -> None:
    play = Play(make_setup("B")).no_more_bets()
    play.tell(GameEnded(game(), Ending.LOST, DrawFacts(defects=(Defect.DEVICE_LOST,))))
    assert play.phase is Phase.BLOCKED
    play.tell(odds_drawn(1, 2), entered(play, "17"), Approved("p1", "pit-boss", "{}", "ab"))
    result = play.body(Kind.RESULT)
    assert (result.mode, result.odds.table) == ("manual", 2)


def test_an_odds_answer_after_its_time_is_none_for_an_unresolved_round_either() -> None:
    play = Play(make_setup("B")).no_more_bets()
    play.tell(GameEnded(game(), Ending.LOST, DrawFacts(defects=(Defect.DEVICE_LOST,))))
    play.tell(odds_drawn(1, 2), after_ms=5_000)
    play.tell(entered(play, "17"))
    assert play.whats() == ["odds-unused", "manual-result-refused"]


def entered(play: Play, pocket: str) -> ResultProposed:
    """The dealer says what came."""
    return ResultProposed("d1", "dealer", "{}", "ab", play.round.number, (pocket,), "the sensor is dead")


def test_t5_odds_drawn_while_bets_are_open_cannot_be_confirmed() -> None:
    play = Play(make_setup("B")).spinning()
    play.tell(odds_drawn(1))
    assert play.whats() == ["order-violation"]
    assert play.body(Kind.UNRESOLVED).rule == "odds-before-no-more-bets"
    assert play.phase is Phase.BLOCKED


@pytest.mark.parametrize("where", ["no_more_bets", "at_rest"])
def test_refused_odds_block_the_table_at_once(where: str) -> None:
    play = Play(make_setup("B"))
    getattr(play, where)()
    play.tell(OddsFailed(ODDS_BOX, 1, "bad-mac"))
    refused = play.body(Kind.INCIDENT)
    assert (refused.what, refused.text, refused.details) == ("odds-refused", "bad-mac", {"round": "1"})
    assert play.body(Kind.UNRESOLVED).rule == "odds-missing"


def test_contradicted_odds_are_no_odds() -> None:
    play = Play(make_setup("B")).no_more_bets()
    play.tell(odds_drawn(1, 1), OddsFailed(ODDS_BOX, 1, "two-answers"))
    unresolved = play.body(Kind.UNRESOLVED)
    assert unresolved.rule == "odds-missing"
    assert unresolved.odds is msgspec.UNSET


def test_odds_contradicted_after_the_result_are_an_incident_that_names_the_round() -> None:
    play = Play(make_setup("B")).whole_round()
    play.tell(OddsFailed(ODDS_BOX, 1, "two-answers"))
    assert play.body(Kind.INCIDENT).details == {"round": "1"}
    assert play.kinds.count(Kind.RESULT) == 1


def test_the_first_odds_table_of_a_round_stands() -> None:
    play = Play(make_setup("B")).no_more_bets()
    play.tell(odds_drawn(1, 1), odds_drawn(1, 2))
    play.tell(Reading(game(), ("17",), PROVEN))
    assert play.body(Kind.RESULT).odds.table == 1


def test_a_void_round_consumes_its_odds_draw() -> None:
    play = Play(make_setup("B")).no_more_bets()
    play.tell(odds_drawn(1, 2), VOID)
    assert play.body(Kind.VOID).odds.table == 2
    play.no_more_bets(2)
    assert play.odds_asked == [1, 2]
    play.tell(odds_drawn(1, 2), Reading(game(2), ("17",), PROVEN))
    assert Kind.RESULT not in play.kinds, "the draw of the void round does not count for the next"
    play.tell(odds_drawn(2, 1))
    assert play.body(Kind.RESULT).odds.table == 1


# --- no draw is hidden (rulebook 2.8) ---------------------------------------------------------------------


def proof_of(drawn: OddsDrawn, **more: str) -> dict[str, str]:
    return {
        "round": str(drawn.round),
        "table": str(drawn.table),
        "counter": str(drawn.counter),
        "nonce": drawn.nonce,
        "proof": drawn.proof,
    } | more


def test_f10_a_draw_that_was_lost_with_the_process_shows_at_the_next_one() -> None:
    play = Play(make_setup("B"), Table(odds_counter=6)).no_more_bets()
    play.tell(drawn := replace(odds_drawn(1), counter=8))
    (told,) = play.emitted[-1:]
    assert isinstance(told.body, IncidentBody)
    assert (told.round, told.body.what, told.body.device) == (1, "odds-counter-jump", ODDS_BOX)
    assert told.body.details == proof_of(drawn, before="6")
    play.tell(Reading(game(), ("17",), PROVEN))
    assert play.body(Kind.RESULT).odds.counter == 8
    play.whole_round(number=2)  # its draw has counter 2: another box, or one that began anew
    assert play.whats() == ["odds-counter-jump"] * 2


def test_f10_counters_that_go_on_by_one_make_no_record() -> None:
    play = Play(make_setup("B"))
    for number in (1, 2, 3):
        play.whole_round(number=number)
    assert play.whats() == []
    assert play.table.odds_counter == 3


def test_f10_a_draw_that_comes_when_its_round_is_over_is_a_record() -> None:
    play = Play(make_setup("B")).no_more_bets()
    play.tell(VOID, odds_drawn(1, 2))
    (told,) = play.emitted[-1:]
    assert isinstance(told.body, IncidentBody)
    assert (told.round, told.body.what, told.body.details) == (0, "odds-unused", proof_of(odds_drawn(1, 2)))
    play.no_more_bets(2).tell(odds_drawn(2))
    assert play.whats() == ["odds-unused"], "the counter goes on from there"


def test_f10_a_draw_before_no_more_bets_is_a_record() -> None:
    play = Play(make_setup("B")).spinning()
    play.tell(odds_drawn(1))
    assert play.body(Kind.INCIDENT).details == proof_of(odds_drawn(1))


def test_l5_an_odds_answer_after_unresolved_is_a_record() -> None:
    play = Play(make_setup("B")).no_more_bets()
    play.tell(GameEnded(game(), Ending.LOST, DrawFacts(defects=(Defect.DEVICE_LOST,))))
    play.tell(odds_drawn(1, 2))
    (told,) = play.emitted[-1:]
    assert isinstance(told.body, IncidentBody)
    assert (told.round, told.body.what, told.body.details) == (1, "odds-drawn", proof_of(odds_drawn(1, 2)))


def test_l5_an_odds_answer_after_its_time_is_a_record_too_and_counts_for_nothing() -> None:
    play = Play(make_setup("B")).no_more_bets()
    play.tell(GameEnded(game(), Ending.LOST, DrawFacts(defects=(Defect.DEVICE_LOST,))))
    play.tell(odds_drawn(1, 2), after_ms=5_000)
    assert play.whats() == ["odds-unused"]
    assert play.round.odds is None


# --- zeros (rulebook 2.9) ----------------------------------------------------------------------------------


def zeros(play: Play) -> list[Any]:
    return [body.outcome.get("zeros_in_a_row") for body in play.bodies(Kind.RESULT)]


@pytest.mark.parametrize("zero_rule", ["half", "prison", "both"])
def test_the_record_names_the_zero_rule_in_force(zero_rule: str) -> None:
    play = Play(make_setup("D", zero_rule=zero_rule)).whole_round("0")
    assert play.body(Kind.RESULT).setting.zero_rule == zero_rule


@pytest.mark.parametrize(
    ("variant", "zero_rule"), [("A", "lose"), ("B", "lose"), ("C", "lose"), ("E", "lose"), ("F", "half")]
)
def test_variants_with_one_zero_rule_name_it_too(variant: str, zero_rule: str) -> None:
    play = Play(make_setup(variant)).whole_round("0")
    assert play.body(Kind.RESULT).setting.zero_rule == zero_rule
    assert zeros(play) == [None]


def test_zeros_in_a_row_are_counted() -> None:
    play = Play(make_setup("D", zero_rule="prison"))
    for number, pocket in enumerate(["0", "0", "0", "17", "0"], start=1):
        play.whole_round(pocket, number)
    assert zeros(play) == [1, 2, 3, 0, 1]


def test_t14_a_void_after_a_zero_frees_no_stake() -> None:
    play = Play(make_setup("D", zero_rule="prison")).whole_round("0", 1)
    play.spinning(2).tell(VOID)
    play.whole_round("1", 3)
    assert zeros(play) == [1, 0]
    assert play.bodies(Kind.VOID)[0].setting.zero_rule == "prison"


def test_t15_zeros_around_a_void_are_two_in_a_row() -> None:
    play = Play(make_setup("D", zero_rule="prison")).whole_round("0", 1)
    play.no_more_bets(2).tell(VOID)
    for number, pocket in ((3, "0"), (4, "1"), (5, "1")):
        play.whole_round(pocket, number)
    assert zeros(play) == [1, 2, 0, 0]


def test_zeros_are_not_counted_by_an_unresolved_round_that_is_voided() -> None:
    play = Play(make_setup("D", zero_rule="prison")).whole_round("0", 1)
    play.bets_open(2).tell(Reading(game(2), ("0",), PROVEN), VOID)
    play.whole_round("0", 3)
    assert zeros(play) == [1, 2]


# --- a jurisdiction with turns and directions (T31, T32) --------------------------------------------------

COUNTED = DrawFacts(
    turns_basis=TurnsBasis.COUNTED,
    ball_turns_x100=600,
    ball_direction="clockwise",
    wheel_direction="counter-clockwise",
)


@pytest.mark.parametrize(
    ("facts", "end", "rule"),
    [
        pytest.param(replace(COUNTED, ball_turns_x100=390), Kind.VOID, "too-few-turns", id="T31-3.9-turns"),
        pytest.param(replace(COUNTED, ball_turns_x100=399), Kind.VOID, "too-few-turns", id="T31-3.99-turns"),
        pytest.param(replace(COUNTED, ball_turns_x100=400), Kind.RESULT, "", id="T31-4.0-turns"),
        pytest.param(
            replace(COUNTED, wheel_direction="clockwise"),
            Kind.VOID,
            "same-direction",
            id="T32-same-direction",
        ),
        pytest.param(COUNTED, Kind.RESULT, "", id="opposite-directions"),
        pytest.param(PROVEN, Kind.RESULT, "", id="certified-by-the-machine"),
        pytest.param(
            replace(COUNTED, ball_turns_x100=None), Kind.UNRESOLVED, "turns-not-proven", id="turns-not-known"
        ),
        pytest.param(
            replace(COUNTED, ball_direction=""), Kind.UNRESOLVED, "direction-not-proven", id="no-direction"
        ),
    ],
)
def test_no_spin_of_south_dakota(facts: DrawFacts, end: Kind, rule: str) -> None:
    play = Play(make_setup("E", profile_name="us-sd")).at_rest("17", facts=facts)
    assert play.kinds[-1] is end
    assert getattr(play.emitted[-1].body, "rule", "") == rule


def test_finland_leaves_turns_and_directions_to_the_dealer() -> None:
    few = replace(COUNTED, ball_turns_x100=10, wheel_direction="clockwise")
    assert Play(make_setup("A")).at_rest(facts=few).kinds[-1] is Kind.RESULT
