"""What holds for all bets on all results: order, bounds, corrections, and stakes that are split."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dollyd.client.settlement.rulebooks import load_rulebook
from dollyd.client.settlement.settle import read_round, resettle, settle
from dollyd.client.settlement.spec import Bet, Choice, SettlementError
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.roulette import parse_layout
from dollyd.daemon.core.games.spec import Drawn
from dollyd.daemon.core.rulebook import convert

RULEBOOK = load_rulebook("fi-ray-2013-roulette")
MAXIMUM = 5000
GAME = GAMES["roulette"]


def _layout(name: str) -> Any:
    return parse_layout(files("dollyd").joinpath("config", "layouts", f"{name}.toml").read_bytes())


VARIANTS = {name: convert(tree, GAME.variant) for name, tree in RULEBOOK.book.variants.items()}
LAYOUTS = {name: _layout(name) for name in {variant.layout for variant in VARIANTS.values()}}
ZERO_RULES = [(name, rule) for name, variant in VARIANTS.items() for rule in variant.zero_rules]


def record(variant: str, zero_rule: str, pocket: str, odds_table: int) -> dict[str, Any]:
    drawn = Drawn((pocket,), VARIANTS[variant], LAYOUTS[VARIANTS[variant].layout], (), quarters=True)
    named = {"id": RULEBOOK.id, "digest": RULEBOOK.digest}
    setting = {"game": "roulette", "variant": variant, "rulebook": named, "zero_rule": zero_rule}
    body = {
        "setting": setting,
        "stakes": {"minimum": 1, "maximum": MAXIMUM, "currency": "EUR"},
        "outcome": GAME.outcome(drawn),
        "odds": {"table": odds_table},
    }
    return {"v": 1, "kind": "result", "chain": "a" * 32, "round": 1, "body": body}


SELECTIONS: list[tuple[str, tuple[str, ...]]] = [
    *(("straight", (str(number),)) for number in range(37)),
    ("split", ("17", "20")),
    ("split", ("0", "2")),
    ("street", ("16", "17", "18")),
    ("corner", ("16", "17", "19", "20")),
    ("sixline", ("13", "14", "15", "16", "17", "18")),
    *(("dozen", (name,)) for name in ("1-12", "13-24", "25-36")),
    *(("column", (name,)) for name in "123"),
    *(("quarter", (name,)) for name in ("1-9", "10-18", "19-27", "28-36")),
    *(("even_money", (name,)) for name in ("red", "black", "even", "odd", "1-18", "19-36")),
]


@st.composite
def bets(draw: st.DrawFn) -> list[Bet]:
    wanted = draw(
        st.lists(
            st.tuples(
                st.sampled_from(SELECTIONS),
                st.integers(1, 2 * MAXIMUM),
                st.sampled_from([Choice.HALF, Choice.PRISON]),
            ),
            max_size=12,
        )
    )
    return [
        Bet(f"b{number}", "roulette", kind, selection, stake, choice=choice)
        for number, ((kind, selection), stake, choice) in enumerate(wanted)
    ]


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, str]:
    rule: tuple[str, str] = draw(st.sampled_from(ZERO_RULES))
    return rule


def pockets(rule: tuple[str, str]) -> st.SearchStrategy[str]:
    clockwise = LAYOUTS[VARIANTS[rule[0]].layout].clockwise
    return st.one_of(st.sampled_from(clockwise), st.sampled_from(sorted({"0", "00"} & set(clockwise))))


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    rule = draw(rules())
    table = draw(st.integers(1, 2)) if VARIANTS[rule[0]].odds_table_2 else 1
    return record(*rule, draw(pockets(rule)), table)


@st.composite
def wrong_and_right(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    rule = draw(rules())
    wrong, right = draw(pockets(rule)), draw(pockets(rule))
    return record(*rule, wrong, 1), record(*rule, right, 1)


@given(records(), bets(), st.randoms(use_true_random=False))
def test_the_order_of_bets_does_not_matter(played: dict[str, Any], placed: list[Bet], random: Any) -> None:
    in_order = {answer.bet: answer for answer in settle(played, placed, RULEBOOK)}
    shuffled = placed.copy()
    random.shuffle(shuffled)
    assert {answer.bet: answer for answer in settle(played, shuffled, RULEBOOK)} == in_order


@given(records(), bets())
def test_no_more_is_paid_than_the_odds_allow(played: dict[str, Any], placed: list[Bet]) -> None:
    this_round = read_round(played, RULEBOOK)
    odds = this_round.variant.odds_table_2 if this_round.odds_table == 2 else this_round.variant.odds
    for bet, answer in zip(placed, settle(played, placed, RULEBOOK), strict=True):
        in_play = min(bet.stake, MAXIMUM)
        assert answer.invalid == bet.stake - in_play
        assert 0 <= answer.returned <= in_play
        assert 0 <= answer.profit <= in_play * (odds | {"quarter": 3})[bet.kind]


@given(wrong_and_right(), bets())
def test_settle_then_correct_equals_settle_right(
    played: tuple[dict[str, Any], dict[str, Any]], placed: list[Bet]
) -> None:
    wrong, right = (settle(record, placed, RULEBOOK) for record in played)
    adjustments = resettle(wrong, right)
    assert [adjustment.settled for adjustment in adjustments] == right
    assert sum(a.paid for a in wrong) + sum(a.difference for a in adjustments) == sum(a.paid for a in right)


@given(records(), bets(), st.integers(1, MAXIMUM))
def test_a_stake_in_two_parts_changes_nothing_but_rounding(
    played: dict[str, Any], placed: list[Bet], part: int
) -> None:
    for bet in placed:
        whole = replace(bet, stake=min(bet.stake, MAXIMUM))
        if part >= whole.stake:
            continue
        parts = [replace(whole, stake=part), replace(whole, stake=whole.stake - part)]
        paid = sum(answer.paid for answer in settle(played, parts, RULEBOOK))
        assert 0 <= settle(played, [whole], RULEBOOK)[0].paid - paid <= 1


@given(records(), st.lists(st.sampled_from([str(n) for n in range(37)]), min_size=2, max_size=3))
def test_a_bet_is_settled_or_refused_and_nothing_else(played: dict[str, Any], numbers: list[str]) -> None:
    bet = Bet("b", "roulette", "split" if len(numbers) == 2 else "street", tuple(numbers), 100)
    try:
        (answer,) = settle(played, [bet], RULEBOOK)
    except SettlementError:
        return
    assert len(set(numbers)) == len(numbers)
    assert (answer.paid > 0) == (played["body"]["outcome"]["pocket"] in numbers)
