"""Roulette, settled: the cases of the rulebook's part (b) under their numbers, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import layout, roulette, rulebook

from dollyd.client.settlement.roulette import ROULETTE_BETS
from dollyd.client.settlement.roulette_layout import CLOTHS
from dollyd.client.settlement.spec import Answer, Bet, Choice, Round, SettlementError, Verdict
from dollyd.daemon.core.games.roulette import ROULETTE
from dollyd.daemon.core.games.spec import Drawn

STAKE = 100


def played(variant: str, pocket: str, *, quarters: bool = True, **facts: Any) -> Round:
    """A round as the daemon's own game tells it, with the shipped odds."""
    rules = roulette(variant)
    drawn = Drawn((pocket,), rules, layout(rules.layout), (), quarters)
    facts.setdefault("zero_rule", rules.zero_rules[0])
    facts.setdefault("quarter_odds", rulebook().quarter_odds)
    return Round("roulette", variant, rules, ROULETTE.outcome(drawn), **facts)


def bet(text: str, stake: int = STAKE, choice: Choice = Choice.NONE) -> Bet:
    """A bet in one line: the kind, then its selection."""
    kind, *selection = text.split()
    return Bet("1", "roulette", kind, tuple(selection), stake, choice=choice)


def answered(text: str, round_played: Round, choice: Choice = Choice.NONE) -> Answer:
    placed = bet(text, choice=choice)
    ROULETTE_BETS.check(placed, round_played.variant)
    return ROULETTE_BETS.settle(placed, placed.stake, round_played)


def net(text: str, round_played: Round, choice: Choice = Choice.NONE) -> int:
    answer = answered(text, round_played, choice)
    assert answer.verdict is not Verdict.STAYS
    return answer.paid - STAKE


def test_t1_a_straight() -> None:
    assert net("straight 17", played("A", "17")) == 3000


@pytest.mark.parametrize(
    ("text", "gain"),
    [
        ("straight 17", 6000),
        ("split 17 20", 3000),
        ("street 16 17 18", 2000),
        ("corner 17 18 20 21", 1400),
        ("sixline 13 14 15 16 17 18", 800),
    ],
)
def test_t2_table_2_of_b_doubles_inside_bets(text: str, gain: int) -> None:
    assert net(text, played("B", "17", odds_table=2)) == gain
    assert net(text, played("B", "17", odds_table=1)) == gain // 2


@pytest.mark.parametrize(
    ("text", "gain"),
    [
        ("dozen 13-24", 200),
        ("column 2", 200),
        ("even_money black", 100),
        ("even_money odd", 100),
        ("even_money 1-18", 100),
        ("quarter 10-18", 300),
    ],
)
def test_t3_table_2_of_b_leaves_outside_bets(text: str, gain: int) -> None:
    assert net(text, played("B", "17", odds_table=2)) == gain


@pytest.mark.parametrize(
    ("text", "gain"),
    [
        ("straight 0", 3500),
        ("split 0 2", 1700),
        ("street 0 2 3", 1100),
        ("even_money red", -100),
        ("dozen 1-12", -100),
        ("quarter 1-9", -100),
    ],
)
def test_t6_zero_on_c(text: str, gain: int) -> None:
    assert net(text, played("C", "0")) == gain


def test_t7_half_of_an_even_chance_on_zero() -> None:
    zero = played("D", "0", zero_rule="half")
    assert answered("even_money even", zero) == Answer("1", Verdict.HALF_LOST, returned=50)


@pytest.mark.parametrize("text", ["column 1", "quarter 1-9"])
def test_t8_columns_and_quarters_lose_all_on_zero(text: str) -> None:
    assert net(text, played("D", "0", zero_rule="half")) == -100


@pytest.mark.parametrize(
    ("text", "gain"),
    [("even_money red", -100), ("dozen 1-12", -100), ("straight 00", 3500), ("first_five 0 00 1 2 3", 600)],
)
def test_t19_double_zero_on_e(text: str, gain: int) -> None:
    assert net(text, played("E", "00")) == gain


@pytest.mark.parametrize(("text", "gain"), [("first_five 0 00 1 2 3", 600), ("street 1 2 3", 1100)])
def test_t20_three_on_e(text: str, gain: int) -> None:
    assert net(text, played("E", "3")) == gain


@pytest.mark.parametrize("pocket", ["0", "00"])
def test_t21_half_of_an_even_chance_on_both_zeros_of_f(pocket: str) -> None:
    assert net("even_money 19-36", played("F", pocket)) == -50
    assert net("dozen 1-12", played("F", pocket)) == -100


def test_t22_quarters_lose_all_on_double_zero() -> None:
    assert net("quarter 28-36", played("F", "00")) == -100


@pytest.mark.parametrize(
    ("text", "gain"),
    [
        ("dozen 25-36", 200),
        ("column 3", 200),
        ("quarter 28-36", 300),
        ("even_money red", 100),
        ("even_money even", 100),
        ("even_money 19-36", 100),
    ],
)
def test_t25_everything_of_36(text: str, gain: int) -> None:
    assert net(text, played("C", "36")) == gain


def test_t26_where_quarters_meet() -> None:
    assert [net(f"quarter {name}", played("C", "9")) for name in ("1-9", "10-18")] == [300, -100]
    assert [net(f"quarter {name}", played("C", "10")) for name in ("1-9", "10-18")] == [-100, 300]


def test_t27_what_is_above_the_maximum_goes_back() -> None:
    from dollyd.client.settlement.settle import settle_bet

    answer = settle_bet(bet("even_money red", stake=1500), played("A", "1", maximum=1000))
    assert answer == Answer("1", Verdict.WINS, profit=1000, returned=1000, invalid=500)


def test_zero_and_double_zero_are_two_numbers() -> None:
    assert net("straight 00", played("E", "0")) == -100
    assert net("straight 0", played("E", "00")) == -100


def test_the_order_of_named_numbers_does_not_matter() -> None:
    assert net("corner 21 17 20 18", played("A", "17")) == 700


def test_both_rules_ask_for_a_choice_at_zero_only() -> None:
    zero = played("D", "0", zero_rule="both")
    assert net("even_money red", played("D", "1", zero_rule="both")) == 100
    assert net("even_money red", zero, Choice.HALF) == -50
    assert answered("even_money red", zero, Choice.PRISON).verdict is Verdict.STAYS
    with pytest.raises(SettlementError, match="the player chooses half or prison"):
        answered("even_money red", zero)


def test_a_void_round_follows_the_profile() -> None:
    void = Round("roulette", "A", roulette("A"), {}, void=True, stake_policy="player_choice")
    assert ROULETTE_BETS.on_void(bet("straight 1"), 100, void) == Answer("1", Verdict.RETURNED, returned=100)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "text", "reason"),
    [
        ("A", "split 1 3", r"1/3 is no split: .* with 1 there are 0/1, 1/2, 1/4"),
        ("A", "split 10 12", r"10/12 is no split: .* with 10 there are 7/10, 10/11, 10/13"),
        ("A", "split 0 4", r"0/4 is no split"),
        ("A", "street 2 3 4", r"2/3/4 is no street"),
        ("A", "street 0 1 3", r"0/1/3 is no street: .* with 0 there are 0/1/2, 0/2/3"),
        ("A", "corner 3 4 6 7", r"3/4/6/7 is no corner"),
        ("A", "sixline 4 5 6 10 11 12", r"no sixline"),
        ("A", "split 1 2 3", r"split 1/2/3: 3 numbers are named, it covers 2"),
        ("A", "straight 1 1", r"names a number twice"),
        ("A", "straight 37", r"the cloth has no number '37'"),
        ("A", "straight 00", r"the cloth has no number '00'"),
        ("A", "first_five 0 00 1 2 3", r"no bet 'first_five'"),
        ("E", "corner 0 1 2 3", r"0/1/2/3 is no corner"),
        ("E", "split 0 3", r"0/3 is no split"),
        ("E", "split 00 1", r"00/1 is no split"),
        ("A", "even_money green", r"there is no even_money 'green'"),
        ("A", "dozen 2", r"there is no dozen '2'; there are 1-12, 13-24, 25-36"),
        ("A", "trio 0 1 2", r"no bet 'trio'"),
    ],
)
def test_a_selection_that_the_cloth_does_not_have_is_refused(variant: str, text: str, reason: str) -> None:
    with pytest.raises(SettlementError, match=reason):
        ROULETTE_BETS.check(bet(text), roulette(variant))
    with pytest.raises(SettlementError, match=reason):
        answered(text, played(variant, "1"))


def test_quarters_are_refused_where_the_cloth_does_not_show_them() -> None:
    with pytest.raises(SettlementError, match="this table of variant C has no quarter"):
        answered("quarter 1-9", played("C", "1", quarters=False))


def test_odds_table_2_is_refused_where_the_variant_has_none() -> None:
    with pytest.raises(SettlementError, match="has no straight"):
        answered("straight 1", played("A", "1", odds_table=2))


def test_a_record_without_zero_rule_decides_no_even_chance_on_zero() -> None:
    with pytest.raises(SettlementError, match="no rule for zero"):
        answered("even_money red", played("D", "0", zero_rule=""))


def test_only_even_chances_of_d_carry_a_state() -> None:
    state = {"need": 1, "run": 1, "original": 100}
    with pytest.raises(SettlementError, match="never imprisoned"):
        ROULETTE_BETS.settle(
            Bet("1", "roulette", "straight", ("1",), 100, state), 100, played("D", "1", zero_rule="prison")
        )
    with pytest.raises(SettlementError, match="never imprisoned"):
        ROULETTE_BETS.settle(Bet("1", "roulette", "even_money", ("red",), 100, state), 100, played("C", "1"))


# --- properties ----------------------------------------------------------------------------------

VARIANTS = [("A", 1), ("B", 1), ("B", 2), ("C", 1), ("D", 1), ("E", 1), ("F", 1)]


@st.composite
def rounds_and_bets(draw: st.DrawFn) -> tuple[Round, str]:
    variant, table = draw(st.sampled_from(VARIANTS))
    rules = roulette(variant)
    pocket = draw(st.sampled_from(layout(rules.layout).clockwise))
    zero_rule = draw(st.sampled_from(rules.zero_rules))
    keys = sorted((kind, sorted(selection)) for kind, selection in CLOTHS[rules.layout])
    kind, selection = draw(st.sampled_from(keys))
    return played(variant, pocket, odds_table=table, zero_rule=zero_rule), " ".join([kind, *selection])


STAKES = st.integers(1, 10**12)
CHOICES = st.sampled_from([Choice.HALF, Choice.PRISON])


@given(rounds_and_bets(), STAKES, CHOICES)
def test_never_more_is_paid_than_stake_times_odds_plus_one(
    at: tuple[Round, str], stake: int, choice: Choice
) -> None:
    round_played, text = at
    placed = bet(text, stake, choice)
    odds = {"quarter": round_played.quarter_odds} | round_played.variant.odds
    if round_played.odds_table == 2:
        odds |= round_played.variant.odds_table_2
    answer = ROULETTE_BETS.settle(placed, stake, round_played)
    assert 0 <= answer.paid <= stake * (odds[placed.kind] + 1)
    assert (answer.profit > 0) is (answer.verdict is Verdict.WINS)


@given(rounds_and_bets(), STAKES, STAKES, CHOICES)
def test_splitting_a_stake_changes_nothing_but_rounding(
    at: tuple[Round, str], one: int, other: int, choice: Choice
) -> None:
    round_played, text = at
    paid = [
        ROULETTE_BETS.settle(bet(text, stake, choice), stake, round_played).paid
        for stake in (one, other, one + other)
    ]
    rounding = 1 if round_played.zero_rule in ("half", "both") else 0
    assert 0 <= paid[2] - paid[0] - paid[1] <= rounding
