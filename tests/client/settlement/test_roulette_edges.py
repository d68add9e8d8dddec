"""The house edge of every roulette bet, enumerated through the library, against the rulebook's oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import pytest
from tests.support.house_edge import chain_edge, edge
from tests.support.tables import layout, roulette, rulebook

from dollyd.client.settlement.roulette import ROULETTE_BETS
from dollyd.client.settlement.roulette_layout import CLOTHS
from dollyd.client.settlement.spec import Bet, Choice, Round, Verdict
from dollyd.daemon.core.games.roulette import ROULETTE
from dollyd.daemon.core.games.spec import Drawn
from dollyd.daemon.core.rulebook import PrisonLoss

STAKE = 100
EVEN_CHANCES = ("red", "black", "even", "odd", "1-18", "19-36")
FIELDS = {"straight", "split", "street", "corner", "sixline", "dozen", "column", "quarter", "even_money"}

ORACLE = """
A       1 straight 6/37
A       1 split corner 5/37
A       1 street 4/37
A       1 sixline 7/37
A       1 dozen column even_money quarter 1/37
B       1 straight 6/37
B       1 split corner 5/37
B       1 street 4/37
B       1 sixline 7/37
B       1 dozen column even_money quarter 1/37
B       2 straight -24/37
B       2 split -25/37
B       2 street -26/37
B       2 corner -23/37
B       2 sixline -17/37
B       2 dozen column even_money quarter 1/37
B     1+2 straight 5/37
B     1+2 split 4/37
B     1+2 street 3/37
B     1+2 corner 61/555
B     1+2 sixline 31/185
B     1+2 dozen column even_money quarter 1/37
C       1 straight split street corner sixline dozen column even_money quarter 1/37
D       1 straight split street corner sixline dozen column quarter 1/37
D       1 even_money 1/74
E       1 straight split street corner sixline dozen column even_money quarter 1/19
E       1 first_five 3/38
F       1 straight split street corner sixline dozen column quarter 1/19
F       1 first_five 3/38
F       1 even_money 1/38
"""
"""Variant (D: half), odds table, kinds, edge: by hand from the rulebook."""


def _oracle() -> dict[tuple[str, str, str], Fraction]:
    lines = [line.split() for line in ORACLE.strip().splitlines()]
    return {
        (variant, table, kind): Fraction(value) for variant, table, *kinds, value in lines for kind in kinds
    }


@cache
def rounds(variant: str, odds_table: int, zero_rule: str) -> tuple[Round, ...]:
    """Every outcome of a variant once."""
    rules = roulette(variant)
    wheel = layout(rules.layout)
    return tuple(
        Round(
            "roulette",
            variant,
            rules,
            ROULETTE.outcome(Drawn((pocket,), rules, wheel, (), quarters=True)),
            odds_table=odds_table,
            zero_rule=zero_rule,
            quarter_odds=rulebook().quarter_odds,
        )
        for pocket in wheel.clockwise
    )


def space(variant: str, table: str) -> list[Round]:
    zero_rule = roulette(variant).zero_rules[0]
    first, second = (rounds(variant, number, zero_rule) for number in (1, 2))
    blended = roulette(variant).odds_table_2_one_in - 1
    return {"1": list(first), "2": list(second), "1+2": [*first * blended, *second]}[table]


def net_of(bet: Bet) -> Callable[[Round], Fraction]:
    def net(played: Round) -> Fraction:
        answer = ROULETTE_BETS.settle(bet, bet.stake, played)
        assert answer.verdict is not Verdict.STAYS
        return Fraction(answer.paid - bet.stake, bet.stake)

    return net


@pytest.mark.parametrize(("variant", "table", "kind"), _oracle())
def test_every_field_has_the_edge_of_the_oracle(variant: str, table: str, kind: str) -> None:
    outcomes = space(variant, table)
    selections = [tuple(field) for known, field in CLOTHS[roulette(variant).layout] if known == kind]
    assert selections
    for selection in selections:
        bet = Bet("1", "roulette", kind, selection, STAKE)
        assert edge(net_of(bet), outcomes) == _oracle()[variant, table, kind], selection


def test_the_oracle_covers_every_bet_of_every_variant() -> None:
    covered = {(variant, kind) for variant, _, kind in _oracle()}
    bets = {(variant, kind) for variant in "ABCDEF" for kind in FIELDS | set(roulette(variant).odds)}
    assert covered == bets


# --- variant D: stakes that live over rounds -----------------------------------------------------

Position: TypeAlias = tuple[tuple[str, str | int], ...]
"""The state of a stake, hashable; empty when it is placed."""


def prison_edge(
    selection: str, rule: str, loss: PrisonLoss, choose: Callable[[Position], Choice] = lambda _: Choice.NONE
) -> Fraction:
    """The edge of an even chance under en prison, by the library's own states."""

    def play(position: Position, played: Round) -> Position | Fraction:
        bet = Bet("1", "roulette", "even_money", (selection,), STAKE, dict(position), choose(position))
        answer = ROULETTE_BETS.settle(bet, STAKE, replace(played, prison_loss=loss))
        if answer.verdict is Verdict.STAYS:
            return tuple(answer.state.items())
        return Fraction(answer.paid - STAKE, STAKE)

    placed: Position = ()
    return chain_edge(play, placed, rounds("D", 1, rule))


def half_at_once(_position: Position) -> Choice:
    return Choice.HALF


def prison_then_quarter(position: Position) -> Choice:
    return Choice.QUARTER if position else Choice.PRISON


def always_prison(position: Position) -> Choice:
    return Choice.STAY if position else Choice.PRISON


@pytest.mark.parametrize("selection", EVEN_CHANCES)
def test_en_prison_in_both_readings(selection: str) -> None:
    assert prison_edge(selection, "prison", "three_in_a_row") == Fraction(937423, 68407561)
    assert prison_edge(selection, "prison", "third_level") == Fraction(685, 49987)


@pytest.mark.parametrize("loss", ["three_in_a_row", "third_level"])
@pytest.mark.parametrize("selection", EVEN_CHANCES)
def test_both_rules_by_the_choice_of_the_player(selection: str, loss: PrisonLoss) -> None:
    assert prison_edge(selection, "both", loss, half_at_once) == Fraction(1, 74)
    assert prison_edge(selection, "both", loss, prison_then_quarter) == Fraction(75, 5476)
    assert prison_edge(selection, "both", loss, always_prison) == prison_edge(selection, "prison", loss)
