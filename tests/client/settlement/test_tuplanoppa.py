"""Bets of Tuplanoppa: the edge of each over 36 throws, cases of the rulebook, bets that do not exist."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.settling import answer, bet, bets_on, edge_of, net, shipped, values, void_round

from dollyd.client.settlement.settle import settle_bet
from dollyd.client.settlement.spec import Bet, SettlementError, Verdict
from dollyd.client.settlement.tuplanoppa import OFFERED

ALL_BETS = bets_on("tuplanoppa", OFFERED)
EDGES = {
    Fraction(1, 12): ("sum_2", "sum_4", "sum_10", "sum_12", "under_7", "over_7"),
    Fraction(1, 9): ("sum_3", "sum_5", "sum_9", "sum_11"),
    Fraction(1, 6): ("sum_6", "sum_7", "sum_8", "any_pair"),
}


def name(placed: Bet) -> str:
    """A bet as the rulebook names its odds."""
    return "_".join((placed.kind, *placed.selection))


def test_every_odd_of_the_rulebook_is_a_bet_over_36_throws() -> None:
    names = {name(placed) for placed in ALL_BETS}
    assert names == shipped("tuplanoppa").variant.odds.keys()
    assert sorted(names) == sorted(sum(EDGES.values(), ()))
    assert len(values("tuplanoppa")) == 36


@pytest.mark.parametrize("placed", ALL_BETS, ids=name)
def test_a_bet_has_its_house_edge(placed: Bet) -> None:
    assert name(placed) in EDGES[edge_of(placed)]


@pytest.mark.parametrize(
    ("thrown", "kind", "selection", "gain"),
    [
        pytest.param("4-4", "any_pair", (), 400, id="T41-pair"),
        pytest.param("4-4", "sum", ("8",), 500, id="T41-sum"),
        pytest.param("4-4", "over_7", (), 100, id="T41-over"),
        pytest.param("1-6", "sum", ("7",), 400, id="T42-sum"),
        pytest.param("1-6", "under_7", (), -50, id="T42-under"),
        pytest.param("1-6", "over_7", (), -50, id="T42-over"),
        pytest.param("1-6", "any_pair", (), -100, id="T42-pair"),
        pytest.param("1-1", "sum", ("2",), 3200, id="T43-sum"),
        pytest.param("1-1", "any_pair", (), 400, id="T43-pair"),
        pytest.param("1-1", "under_7", (), 100, id="T43-under"),
    ],
)
def test_a_case_of_the_rulebook(thrown: str, kind: str, selection: tuple[str, ...], gain: int) -> None:
    assert net(bet("tuplanoppa", kind, *selection), tuple(thrown.split("-"))) == gain


def test_half_of_an_odd_stake_is_rounded_down_to_the_minor_unit() -> None:
    seven = answer(bet("tuplanoppa", "under_7", stake=101), ("3", "4"))
    assert (seven.verdict, seven.profit, seven.returned) == (Verdict.HALF_LOST, 0, 50)


@pytest.mark.parametrize(
    ("placed", "reason"),
    [
        (bet("tuplanoppa", "sum", "1"), "sum is bet on one of 2, .*, 12, not on 1"),
        (bet("tuplanoppa", "sum", "13"), "not on 13"),
        (bet("tuplanoppa", "sum"), "not on nothing"),
        (bet("tuplanoppa", "any_pair", "6"), "any_pair is bet without a selection, not on 6"),
        (bet("tuplanoppa", "pair", "6"), "tuplanoppa has no bet 'pair', only sum, any_pair, under_7, over_7"),
    ],
)
def test_a_bet_that_does_not_exist_is_refused_with_the_reason(placed: Bet, reason: str) -> None:
    with pytest.raises(SettlementError, match=reason):
        answer(placed, ("1", "2"))


def test_a_void_round_halves_nothing() -> None:
    void = settle_bet(bet("tuplanoppa", "under_7"), void_round("tuplanoppa", "unstated"))
    assert (void.verdict, void.paid) == (Verdict.RETURNED, 100)


@given(st.sampled_from(ALL_BETS), st.integers(1, 10**9), st.sampled_from(values("tuplanoppa")))
def test_never_more_is_paid_than_stake_times_odds_plus_one(
    like: Bet, stake: int, value: tuple[str, ...]
) -> None:
    paid = answer(bet("tuplanoppa", like.kind, *like.selection, stake=stake), value).paid
    assert paid <= stake * (shipped("tuplanoppa").variant.odds[name(like)] + 1)
