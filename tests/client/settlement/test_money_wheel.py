"""Bets of the money wheel: the edge of each symbol over 54 sectors, cases, symbols that do not exist."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.settling import answer, bet, edge_of, net, shipped, values, void_round

from dollyd.client.settlement.settle import settle_bet
from dollyd.client.settlement.spec import Bet, SettlementError, Verdict

EDGES = {
    "1": Fraction(4, 27),
    "2": Fraction(1, 6),
    "5": Fraction(1, 9),
    "10": Fraction(5, 27),
    "20": Fraction(2, 9),
    "45A": Fraction(4, 27),
    "45B": Fraction(4, 27),
}


def sector_of(symbol: str) -> tuple[str]:
    """The first sector with a symbol, counted from 1."""
    return (str(shipped("money-wheel").layout.sectors.index(symbol) + 1),)


def test_every_symbol_of_the_rulebook_is_bet_on_over_54_sectors() -> None:
    assert EDGES.keys() == shipped("money-wheel").variant.odds.keys()
    assert len(values("money-wheel")) == 54


@pytest.mark.parametrize("symbol", EDGES)
def test_a_symbol_has_its_house_edge(symbol: str) -> None:
    assert edge_of(bet("money-wheel", "symbol", symbol)) == EDGES[symbol]


def test_t37_the_20_to_1_pays_2000() -> None:
    assert net(bet("money-wheel", "symbol", "20"), sector_of("20")) == 2000


def test_the_two_symbols_of_45_to_1_do_not_win_for_each_other() -> None:
    assert net(bet("money-wheel", "symbol", "45A"), sector_of("45A")) == 4500
    assert net(bet("money-wheel", "symbol", "45A"), sector_of("45B")) == -100


@pytest.mark.parametrize("policy", ["unstated", "player_choice"])
def test_t38_t39_a_void_spin_neither_wins_nor_loses(policy: str) -> None:
    void = settle_bet(bet("money-wheel", "symbol", "20"), void_round("money-wheel", policy))
    assert (void.verdict, void.profit, void.paid) == (Verdict.RETURNED, 0, 100)


@pytest.mark.parametrize(
    ("placed", "reason"),
    [
        (bet("money-wheel", "symbol", "45"), "symbol is bet on one of 1, 2, 5, 10, 20, 45A, 45B, not on 45"),
        (bet("money-wheel", "symbol", "1", "2"), "not on 1, 2"),
        (bet("money-wheel", "symbol"), "not on nothing"),
        (bet("money-wheel", "sector", "1"), "money-wheel has no bet 'sector', only symbol"),
    ],
)
def test_a_bet_that_does_not_exist_is_refused_with_the_reason(placed: Bet, reason: str) -> None:
    with pytest.raises(SettlementError, match=reason):
        answer(placed, sector_of("1"))


@given(st.sampled_from(sorted(EDGES)), st.integers(1, 10**9), st.sampled_from(values("money-wheel")))
def test_never_more_is_paid_than_stake_times_odds_plus_one(
    symbol: str, stake: int, value: tuple[str, ...]
) -> None:
    paid = answer(bet("money-wheel", "symbol", symbol, stake=stake), value).paid
    assert paid <= stake * (shipped("money-wheel").variant.odds[symbol] + 1)
