"""What settlement believes: of a bet its form, of a record only what was drawn."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.tables import TEXTS, game_setup

from dollyd.client.settlement.outcomes import PLACES
from dollyd.client.settlement.rulebooks import load_rulebook
from dollyd.client.settlement.settle import (
    carried,
    findings,
    last_results,
    read_round,
    settle,
    settle_correction,
)
from dollyd.client.settlement.spec import MONEY_MAX, Answer, Bet, SettlementError
from dollyd.daemon.core import decision
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.spec import Drawn, Memory

MEMORY: dict[str, Memory] = {
    "craps": (("point", "6"),),
    "tuplanoppa": (("seats", "1 3"), ("shooter", "1")),
    "roulette": (("zeros", "1"),),
}
VARIANT = {"roulette": "D"}


def record(game: str, number: int = 0) -> dict[str, Any]:
    """The final record of a round that came to the `number`th reading that the game has."""
    setup = game_setup(game, variant=VARIANT.get(game, ""))
    value = setup.game.values(setup.layout)[number]
    memory = MEMORY.get(game, ())
    outcome = setup.game.outcome(Drawn(value, setup.variant, setup.layout, memory, game == "roulette"))
    setting = msgspec.to_builtins(decision.setting(setup))
    stakes = {"minimum": 1, "maximum": 1000, "currency": "EUR"}
    body = {"setting": setting, "stakes": stakes, "outcome": outcome}
    return {"v": 1, "kind": "result", "chain": "a" * 32, "round": 1, "body": body}


def bet_on(game: str) -> Bet:
    kinds = {
        "roulette": ("even_money", ("red",)),
        "boule": ("straight", ("3",)),
        "money-wheel": ("symbol", (next(iter(game_setup(game).variant.odds)),)),
        "tuplanoppa": ("any_pair", ()),
        "sic-bo": ("any_triple", ()),
        "craps": ("right", ("6",)),
    }
    return Bet("b", game, *kinds[game], 100)


BOOKS = {game: load_rulebook(TEXTS[game][0]) for game in GAMES}
LAST = {game: len(setup.game.values(setup.layout)) - 1 for game in GAMES for setup in [game_setup(game)]}


# --- what a bet may be ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stake", [1000.5, float("nan"), float("inf"), True, "100", None, 0, -5, MONEY_MAX + 1, [100]]
)
def test_attack_11_a_stake_is_a_whole_number_of_minor_units(stake: Any) -> None:
    with pytest.raises(SettlementError, match="stake of"):
        Bet("b1", "roulette", "straight", ("17",), stake)


@pytest.mark.parametrize(
    "change",
    [
        {"selection": (17,)},
        {"selection": (None,)},
        {"selection": ["17"]},
        {"selection": "17"},
        {"selection": None},
        {"kind": None},
        {"game": ["roulette"]},
        {"id": 7},
        {"state": None},
        {"state": {"need": 1.0}},
        {"state": {1: 1}},
    ],
)
def test_attack_11_a_selection_is_made_of_texts(change: dict[str, Any]) -> None:
    right: dict[str, Any] = {"id": "b", "game": "roulette", "kind": "straight", "selection": ("17",)}
    with pytest.raises(SettlementError):
        Bet(**right | {"stake": 100} | change)


# --- what a record may be ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stakes",
    [
        {"minimum": -5, "maximum": -1},
        {"minimum": 0, "maximum": -5},
        {"minimum": 100, "maximum": 50},
        {"minimum": 1, "maximum": MONEY_MAX + 1},
        {"minimum": 1, "maximum": 1000.0},
        {"minimum": True, "maximum": 1000},
    ],
)
def test_attack_11_limits_that_no_table_has_settle_nothing(stakes: dict[str, Any]) -> None:
    made = record("roulette", 5)
    made["body"]["stakes"] = stakes
    with pytest.raises(SettlementError):
        read_round(made, BOOKS["roulette"])


@pytest.mark.parametrize("game", GAMES)
def test_every_reading_of_every_game_settles(game: str) -> None:
    for number in range(LAST[game] + 1):
        answers = settle(record(game, number), [bet_on(game)], BOOKS[game])
        assert len(answers) == 1


def other(value: Any) -> list[Any]:
    """Other values of the same type, and of another one."""
    match value:
        case bool():
            return [not value, int(value), None]
        case int():
            return [value + 1, str(value), float(value), None]
        case str():
            return ["none" if value != "none" else "red", value + " ", None]
        case _:
            return [[*value, "7"], None]


@pytest.mark.parametrize("game", GAMES)
def test_attack_5_a_record_that_contradicts_itself_settles_nothing(game: str) -> None:
    """Each member that a bet is paid by, changed alone or left out."""
    step = max(1, LAST[game] // 12)
    for number in range(0, LAST[game] + 1, step):
        made = record(game, number)
        for name, value in made["body"]["outcome"].items():
            if name in PLACES | {"seats", "shooter"}:
                continue
            without = deepcopy(made)
            del without["body"]["outcome"][name]
            changed = [deepcopy(made) for _ in other(value)]
            for one, wrong in zip(changed, other(value), strict=True):
                one["body"]["outcome"][name] = wrong
            for one in [*changed, without]:
                if one is without and name in {"quarter", "point"}:
                    continue  # cloths without quarters, and come-out rolls, have none
                if name == "symbol" or (name == "zeros_in_a_row" and value == 2):
                    continue  # drawn, and not derived
                with pytest.raises(SettlementError):
                    read_round(one, BOOKS[game])


def test_attack_5_a_point_goes_with_its_phase() -> None:
    made = record("craps")
    del made["body"]["outcome"]["point"]
    with pytest.raises(SettlementError, match="contradicts itself: phase"):
        read_round(made, BOOKS["craps"])


def test_attack_5_the_pocket_of_one_number_with_the_colour_of_another() -> None:
    made, other_one = record("roulette", 5), record("roulette", 6)
    made["body"]["outcome"] |= {"colour": other_one["body"]["outcome"]["colour"]}
    with pytest.raises(SettlementError, match="contradicts itself: colour"):
        read_round(made, BOOKS["roulette"])


@pytest.mark.parametrize("policy", ["", "keep", None, 7])
def test_attack_5_a_stake_policy_that_no_profile_has_settles_nothing(policy: Any) -> None:
    made = record("roulette")
    made |= {"kind": "void", "body": made["body"] | {"stake_policy": policy}}
    with pytest.raises(SettlementError):
        read_round(made, BOOKS["roulette"])


def test_attack_5_a_rule_for_zero_that_the_variant_has_not_settles_nothing() -> None:
    made = record("roulette")
    made["body"]["setting"]["zero_rule"] = "lose"
    with pytest.raises(SettlementError, match="no rule 'lose' for zero"):
        read_round(made, BOOKS["roulette"])


# --- whatever may come ---------------------------------------------------------------------------

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every member of a tree."""
    if not isinstance(tree, dict):
        return [path]
    return [path, *(one for name, inner in tree.items() for one in places(inner, (*path, name)))]


def damaged(tree: dict[str, Any], path: tuple[Any, ...], wrong: Any, gone: bool) -> dict[str, Any]:
    """The tree with another value at a path, or none."""
    changed: Any = deepcopy(tree)
    *above, last = path
    inner = changed
    for name in above:
        inner = inner[name]
    if gone:
        del inner[last]
    else:
        inner[last] = wrong
    return dict(changed)


@given(data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_attack_11_whatever_a_record_and_a_bet_are_there_is_an_answer_or_a_settlement_error(
    data: st.DataObject,
) -> None:
    game = data.draw(st.sampled_from(list(GAMES)))
    made = record(game, data.draw(st.integers(0, LAST[game])))
    if data.draw(st.booleans()):
        made |= {"kind": "void", "body": made["body"] | {"stake_policy": "returned"}}
    if data.draw(st.booleans()):
        finding = {"kind": made["kind"]} | made["body"]
        made |= {"kind": "correction", "body": made["body"] | {"before": finding, "after": dict(finding)}}
    path = data.draw(st.sampled_from([path for path in places(made) if path]))
    made = damaged(made, path, data.draw(ANYTHING), gone=data.draw(st.booleans()))
    book = BOOKS[game]
    try:
        fields: dict[str, Any] = {
            "id": "b",
            "game": game,
            "kind": bet_on(game).kind,
            "selection": bet_on(game).selection,
        }
        spoilt = data.draw(st.sampled_from([*fields, "stake", "state", ""]))
        fields |= {"stake": 100} | ({spoilt: data.draw(ANYTHING)} if spoilt else {})
        bet = Bet(**fields)
        if made.get("kind") == "correction":
            for adjustment in settle_correction(made, [bet], book):
                assert isinstance(adjustment.difference, int)
            return
        (answer,) = settle(made, [bet], book)
        assert isinstance(answer, Answer)
        assert type(answer.paid) is int
        assert answer.paid >= 0
        carried(bet, answer)
    except SettlementError:
        pass


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=st.dictionaries(st.sampled_from(["kind", "body", "v", "chain", "round"]), ANYTHING))
def test_attack_11_what_is_no_record_is_a_settlement_error(made: dict[str, Any]) -> None:
    calls = (
        lambda: read_round(made, BOOKS["roulette"]),
        lambda: findings(made),
        lambda: last_results([made], 3),
        lambda: settle_correction(made, [], BOOKS["roulette"]),
    )
    for call in calls:
        with suppress(SettlementError):
            call()
