"""Bets of boule: the edge of each over 36 cups, cases of the rulebook, selections that do not exist."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.settling import answer, bet, bets_on, edge_of, net, shipped, values, void_round

from dollyd.client.settlement.boule import OFFERED
from dollyd.client.settlement.settle import settle_bet
from dollyd.client.settlement.spec import Bet, SettlementError, Verdict

ALL_BETS = bets_on("boule", OFFERED)


def cup_of(number: int) -> tuple[str, str]:
    """A cup with this number; the fifth number of the bowl is in cup 4."""
    return str(number), str(number - 1)


def test_there_are_nine_straight_bets_and_six_simple_chances_over_36_cups() -> None:
    assert len(ALL_BETS) == 15
    assert len(values("boule")) == 36
    assert OFFERED.keys() == shipped("boule").variant.odds.keys()


@pytest.mark.parametrize("placed", ALL_BETS, ids=lambda placed: "-".join((placed.kind, *placed.selection)))
def test_every_bet_has_the_house_edge_of_one_ninth(placed: Bet) -> None:
    assert edge_of(placed) == Fraction(1, 9)


@pytest.mark.parametrize(
    ("number", "kind", "selection", "gain"),
    [
        pytest.param(7, "red", (), 100, id="T34-red"),
        pytest.param(7, "odd", (), 100, id="T34-odd"),
        pytest.param(7, "6-9", (), 100, id="T34-passe"),
        pytest.param(7, "straight", ("7",), 700, id="T34-straight"),
        pytest.param(2, "red", (), 100, id="T35-red"),
        pytest.param(2, "even", (), 100, id="T35-even"),
        pytest.param(2, "1-4", (), 100, id="T35-manque"),
        pytest.param(5, "straight", ("5",), 700, id="five-is-paid-straight-up"),
    ],
)
def test_a_case_of_the_rulebook(number: int, kind: str, selection: tuple[str, ...], gain: int) -> None:
    assert net(bet("boule", kind, *selection), cup_of(number)) == gain


@pytest.mark.parametrize("kind", [kind for kind in OFFERED if kind != "straight"])
def test_five_takes_every_simple_chance_in_full(kind: str) -> None:
    five = answer(bet("boule", kind), cup_of(5))
    assert (five.verdict, five.paid) == (Verdict.LOSES, 0)


@pytest.mark.parametrize(
    ("placed", "reason"),
    [
        (bet("boule", "straight", "10"), "straight is bet on one of 1, 2, 3, 4, 5, 6, 7, 8, 9, not on 10"),
        (bet("boule", "straight", "0"), "not on 0"),
        (bet("boule", "straight"), "not on nothing"),
        (bet("boule", "straight", "1", "2"), "not on 1, 2"),
        (bet("boule", "red", "7"), "red is bet without a selection, not on 7"),
        (bet("boule", "split", "1"), "boule has no bet 'split', only straight"),
    ],
)
def test_a_bet_that_does_not_exist_is_refused_with_the_reason(placed: Bet, reason: str) -> None:
    with pytest.raises(SettlementError, match=reason):
        answer(placed, cup_of(1))


@pytest.mark.parametrize("policy", ["player_choice", "returned", "unstated", "carried"])
def test_a_void_round_takes_nothing(policy: str) -> None:
    void = settle_bet(bet("boule", "red"), void_round("boule", policy))
    if policy == "carried":
        assert (void.verdict, void.paid) == (Verdict.STAYS, 0)
    else:
        assert (void.verdict, void.paid) == (Verdict.RETURNED, 100)


@given(
    st.sampled_from(ALL_BETS),
    st.integers(1, 10**9),
    st.sampled_from(values("boule")),
    st.integers(0, 10**9),
)
def test_never_more_is_paid_than_stake_times_odds_plus_one(
    like: Bet, stake: int, value: tuple[str, ...], maximum: int
) -> None:
    placed = bet("boule", like.kind, *like.selection, stake=stake)
    paid = answer(placed, value, maximum=maximum)
    odds = shipped("boule").variant.odds[like.kind]
    assert paid.paid - paid.invalid <= (stake - paid.invalid) * (odds + 1)
