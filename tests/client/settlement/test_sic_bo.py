"""Bets of Sic Bo: the edge of each over 216 throws, cases of the rulebook, bets that do not exist."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.settling import answer, bet, bets_on, edge_of, net, shipped, values

from dollyd.client.settlement.sic_bo import OFFERED
from dollyd.client.settlement.spec import Bet, SettlementError, Verdict

OF_KIND = {
    "small": Fraction(1, 36),
    "big": Fraction(1, 36),
    "two_dice": Fraction(1, 36),
    "single": Fraction(1, 27),
    "double": Fraction(1, 9),
    "any_triple": Fraction(5, 36),
    "triple": Fraction(35, 216),
}
OF_TOTAL = {
    "4": Fraction(11, 72),
    "5": Fraction(5, 36),
    "6": Fraction(13, 108),
    "7": Fraction(7, 72),
    "8": Fraction(1, 8),
    "9": Fraction(41, 216),
    "10": Fraction(1, 8),
}
OF_TOTAL |= {str(21 - int(total)): house for total, house in OF_TOTAL.items()}
TOTALS = tuple(OF_TOTAL)
ALL_BETS = bets_on("sic-bo", {**OFFERED, "total": TOTALS})


def test_there_are_fifty_bets_over_216_throws() -> None:
    assert len(ALL_BETS) == 2 + 6 + 15 + 6 + 1 + 6 + 14
    assert len(values("sic-bo")) == 216


@pytest.mark.parametrize("placed", ALL_BETS, ids=lambda placed: "-".join((placed.kind, *placed.selection)))
def test_a_bet_has_its_house_edge(placed: Bet) -> None:
    expected = OF_TOTAL[placed.selection[0]] if placed.kind == "total" else OF_KIND[placed.kind]
    assert edge_of(placed) == expected


# case: dice, and the gain of each bet (kind, selection)
CASES = """
T47 1-1-2 single:1 200   single:2 100  double:1 1100  two_dice:1-2 600  small 100       total:4 6000
T48 2-2-2 small -100     total:6 1800  double:2 1100  single:2 1200     any_triple 3000 triple:2 18000
T48 2-2-2 two_dice:1-2 -100
T49 1-1-1 small -100     single:1 1200
T50 4-5-6 big 100        total:15 1800 two_dice:4-5 600 two_dice:4-6 600 two_dice:5-6 600
T51 3-4-3 small 100      big -100
T51 3-4-4 big 100        small -100
"""


@pytest.mark.parametrize("case", CASES.strip().splitlines(), ids=lambda case: case[:9])
def test_a_case_of_the_rulebook(case: str) -> None:
    _, thrown, *cells = case.split()
    for cell, gain in zip(cells[::2], cells[1::2], strict=True):
        kind, *selection = cell.split(":")
        assert net(bet("sic-bo", kind, *selection), tuple(thrown.split("-"))) == int(gain), cell


@pytest.mark.parametrize("total", ["3", "18"])
def test_t49_there_is_no_bet_on_the_totals_of_three_and_eighteen(total: str) -> None:
    with pytest.raises(SettlementError, match=f"the rulebook gives no odds for total {total}"):
        answer(bet("sic-bo", "total", total), ("1", "1", "1"))


@pytest.mark.parametrize(
    ("placed", "reason"),
    [
        (bet("sic-bo", "two_dice", "1-1"), "two_dice is bet on one of 1-2, .*, not on 1-1"),
        (bet("sic-bo", "two_dice", "2-1"), "not on 2-1"),
        (bet("sic-bo", "single", "7"), "single is bet on one of 1, 2, 3, 4, 5, 6, not on 7"),
        (bet("sic-bo", "double"), "not on nothing"),
        (bet("sic-bo", "total", "19"), "not on 19"),
        (bet("sic-bo", "small", "4"), "small is bet without a selection, not on 4"),
        (bet("sic-bo", "odd"), "sic-bo has no bet 'odd', only small, big"),
    ],
)
def test_a_bet_that_does_not_exist_is_refused_with_the_reason(placed: Bet, reason: str) -> None:
    with pytest.raises(SettlementError, match=reason):
        answer(placed, ("1", "2", "3"))


@given(st.sampled_from(ALL_BETS), st.integers(1, 10**9), st.sampled_from(values("sic-bo")))
def test_never_more_is_paid_than_stake_times_odds_plus_one(
    like: Bet, stake: int, value: tuple[str, ...]
) -> None:
    odds = shipped("sic-bo").variant.odds
    key = {"single": "single_3", "total": f"total_{''.join(like.selection)}"}.get(like.kind, like.kind)
    settled = answer(bet("sic-bo", like.kind, *like.selection, stake=stake), value)
    assert settled.verdict in (Verdict.WINS, Verdict.LOSES)
    assert settled.paid <= stake * (odds[key] + 1)
