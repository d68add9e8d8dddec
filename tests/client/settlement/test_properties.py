"""What holds for all bets of all games: order, bounds, corrections, stakes that are split, states as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.chains import ChainMaker
from tests.support.settling import bets_on
from tests.support.tables import RULEBOOK, TEXTS, game_setup

from dollyd.client.settlement import boule, craps, sic_bo, tuplanoppa
from dollyd.client.settlement.en_prison import CELLS
from dollyd.client.settlement.roulette_layout import CLOTHS
from dollyd.client.settlement.rulebooks import LoadedRulebook, load_rulebook
from dollyd.client.settlement.settle import BETS, carried, resettle, settle, settle_correction
from dollyd.client.settlement.spec import Answer, Bet, Choice, SettlementError, State, ratio, rounded
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.spec import Drawn, Memory, Value
from dollyd.daemon.core.state import Setup
from dollyd.wire.jws import parse_envelope, strict_object
from dollyd.wire.record import CorrectionBody, Finding, Kind, Moment, Named, Odds, Setting, Stakes

MAXIMUM = 5000
STAKES = Stakes(minimum=1, maximum=MAXIMUM, currency="EUR")
PHASES: dict[str, list[Memory]] = {"craps": [(), (("point", "6"),), (("point", "10"),)]}


@dataclass(frozen=True)
class Table:
    """A game under one rule for zero, and every bet that its cloth has."""

    setup: Setup
    rulebook: LoadedRulebook
    zero_rule: str
    bets: Sequence[Bet]

    @property
    def values(self) -> tuple[Value, ...]:
        return self.setup.game.values(self.setup.layout)

    def setting(self) -> Setting:
        rulebook = Named(id=self.rulebook.id, digest=self.rulebook.digest)
        setting = Setting(
            game=self.setup.game.name,
            variant=self.setup.variant_name,
            rulebook=rulebook,
            profile=Named(id="test", digest="0" * 64),
        )
        return msgspec.structs.replace(setting, zero_rule=self.zero_rule) if self.zero_rule else setting


def _bets(setup: Setup) -> list[Bet]:
    """A bet on every selection that the game offers and the rulebook has odds for."""
    name, odds = setup.game.name, setup.variant.odds
    if name == "roulette":
        fields = sorted((kind, sorted(selection)) for kind, selection in CLOTHS[setup.variant.layout])
        return [Bet("b", name, kind, tuple(selection), 1) for kind, selection in fields]
    if name == "money-wheel":
        return bets_on(name, {"symbol": tuple(odds)})
    modules = {"boule": boule, "tuplanoppa": tuplanoppa, "sic-bo": sic_bo, "craps": craps}
    offered = bets_on(name, modules[name].OFFERED)
    return [bet for bet in offered if bet.kind != "total" or odds_key(bet) in odds]


def odds_key(bet: Bet) -> str:
    """Where the rulebook has the highest odds of a bet."""
    match bet.game, bet.kind:
        case "money-wheel", _:
            return bet.selection[0]
        case "sic-bo", "single":
            return "single_3"
        case ("tuplanoppa" | "craps", _) | ("sic-bo", "total"):
            return "_".join((bet.kind, *bet.selection))
    return bet.kind


def _tables(game: str) -> list[Table]:
    variants = load_rulebook(RULEBOOK).book.variants if game == "roulette" else ("",)
    rulebook = load_rulebook(TEXTS[game][0])
    tables = []
    for variant in variants:
        setup = game_setup(game, variant=variant)
        rules = setup.game.zero_rules(setup.variant) or ("",)
        tables += [Table(setup, rulebook, rule, _bets(setup)) for rule in rules]
    return tables


TABLES = {game: _tables(game) for game in GAMES}


@dataclass(frozen=True)
class Came:
    """How a round ended."""

    table: Table
    finding: Finding
    odds_table: int = 1

    @property
    def record(self) -> dict[str, Any]:
        """The final record's payload, as far as settlement reads it."""
        named = self.finding.kind
        body = msgspec.to_builtins(self.finding) | {"setting": msgspec.to_builtins(self.table.setting())}
        if named == Kind.RESULT:
            body |= {"stakes": msgspec.to_builtins(STAKES), "odds": {"table": self.odds_table}}
        return {"v": 1, "kind": named, "chain": "a" * 32, "round": 1, "body": body}

    def settle(self, bets: Sequence[Bet]) -> list[Answer]:
        return settle(self.record, bets, self.table.rulebook)


def came(table: Table, *, void: bool = False) -> st.SearchStrategy[Came]:
    """A result of the table, or a void round."""
    game, setup = table.setup.game, table.setup

    def result(value: Value, phase: Memory, odds_table: int) -> Came:
        outcome = game.outcome(Drawn(value, setup.variant, setup.layout, phase, quarters=True))
        return Came(table, Finding(kind="result", outcome=outcome), odds_table)

    zeros = [value for value in table.values if value[0] in ("0", "00")] or table.values
    results = st.builds(
        result,
        st.one_of(st.sampled_from(table.values), st.sampled_from(zeros)),
        st.sampled_from(PHASES.get(game.name, [()])),
        st.sampled_from((1, 2) if game.needs_odds_table(setup.variant) else (1,)),
    )
    policies = st.sampled_from(("player_choice", "returned", "carried", "unstated"))
    voids = policies.map(lambda policy: Came(table, Finding(kind="void", rule="x", stake_policy=policy)))
    return st.one_of(results, voids) if void else results


def bets(table: Table, maximum: int = 2 * MAXIMUM) -> st.SearchStrategy[list[Bet]]:
    """Bets on the cloth, with every state and choice that they can have there."""
    prison = table.zero_rule in ("prison", "both")

    def placed(like: Bet, stake: int, working: bool, imprisoned: int, choice: bool) -> Bet:
        cells = sorted(CELLS, key=lambda cell: (cell.need, cell.run))
        state: State = {}
        if prison and like.kind == "even_money" and imprisoned < len(cells):
            state = {"need": cells[imprisoned].need, "run": cells[imprisoned].run, "original": stake}
        if like.game == "craps" and imprisoned:
            state = {"rolls": imprisoned}
        options = (Choice.QUARTER, Choice.STAY) if state else (Choice.HALF, Choice.PRISON)
        return replace(like, stake=stake, working=working, state=state, choice=options[choice])

    one = st.builds(
        placed,
        st.sampled_from(table.bets),
        st.integers(1, maximum),
        st.booleans(),
        st.integers(0, 7),
        st.booleans(),
    )
    return st.lists(one, max_size=6).map(
        lambda found: [replace(bet, id=f"b{number}") for number, bet in enumerate(found)]
    )


every_game = pytest.mark.parametrize("game", TABLES)
often = settings(max_examples=25, deadline=None)


def table_of(data: st.DataObject, game: str) -> Table:
    return data.draw(st.sampled_from(TABLES[game]))


def test_every_rule_for_zero_is_played() -> None:
    assert TABLES.keys() == BETS.keys()
    rules = {(table.setup.variant_name, table.zero_rule) for table in TABLES["roulette"]}
    assert {("A", "lose"), ("D", "half"), ("D", "prison"), ("D", "both"), ("F", "half")} <= rules


@every_game
@often
@given(data=st.data())
def test_the_order_of_bets_does_not_matter(game: str, data: st.DataObject) -> None:
    table = table_of(data, game)
    played, placed = data.draw(came(table, void=True)), data.draw(bets(table))
    in_order = {answer.bet: answer for answer in played.settle(placed)}
    shuffled = data.draw(st.permutations(placed))
    assert {answer.bet: answer for answer in played.settle(shuffled)} == in_order


@every_game
@often
@given(data=st.data())
def test_no_more_is_paid_than_stake_times_odds_plus_one(game: str, data: st.DataObject) -> None:
    table = table_of(data, game)
    played, placed = data.draw(came(table, void=True)), data.draw(bets(table))
    odds = table.setup.variant.odds | ({"quarter": 3} if game == "roulette" else {})
    if played.odds_table == 2:
        odds = odds | table.setup.variant.odds_table_2
    for bet, answer in zip(placed, played.settle(placed), strict=True):
        limit = bet.stake if bet.state or played.finding.kind == "void" else min(bet.stake, MAXIMUM)
        assert answer.invalid == bet.stake - limit
        assert 0 <= answer.returned <= limit
        highest = limit * ratio(odds[odds_key(bet)])
        assert 0 <= answer.profit <= rounded(Fraction(highest), table.rulebook.book.rounding)
        assert answer.paid <= limit or answer.profit or answer.invalid


@every_game
@often
@given(data=st.data())
def test_settle_then_correct_equals_settle_right(game: str, data: st.DataObject) -> None:
    """By hand, and by a correction as it is signed."""
    table = table_of(data, game)
    wrong, right = data.draw(came(table, void=True)), data.draw(came(table, void=True))
    right = replace(right, odds_table=wrong.odds_table)  # no correction touches what the box drew
    placed = data.draw(bets(table))
    before, after = wrong.settle(placed), right.settle(placed)
    adjustments = settle_correction(signed_correction(wrong, right), placed, table.rulebook)
    assert adjustments == resettle(before, after)
    assert [(one.reversed, one.settled) for one in adjustments] == list(zip(before, after, strict=True))
    paid = sum(answer.paid for answer in before) + sum(one.difference for one in adjustments)
    assert paid == sum(answer.paid for answer in after)


def signed_correction(wrong: Came, right: Came) -> dict[str, Any]:
    """The payload of a correction record, taken out of its envelope."""
    drawn = Moment(utc="2026-11-29T18:41:20Z", monotonic_ns=1)
    odds = Odds(table=wrong.odds_table, device="odds", counter=1, nonce="n", proof="p", drawn=drawn)
    body = CorrectionBody(
        id="0" * 64,
        corrects=4,
        element="outcome",
        before=wrong.finding,
        after=right.finding,
        setting=wrong.table.setting(),
        gaming_date="2026-11-29",
        stakes=STAKES,
        odds=odds,
        reason="the video shows it",
        approvals=[],
    )
    envelope = ChainMaker().add(Kind.CORRECTION, 1, msgspec.to_builtins(body))
    return strict_object(parse_envelope(envelope).payload, "payload")


@every_game
@often
@given(data=st.data())
def test_a_stake_in_two_parts_changes_nothing_but_rounding(game: str, data: st.DataObject) -> None:
    table = table_of(data, game)
    played, placed = data.draw(came(table, void=True)), data.draw(bets(table, MAXIMUM))
    share = data.draw(st.fractions(0, 1))
    for bet in (bet for bet in placed if bet.stake > 1):
        part = 1 + int(share * (bet.stake - 2))
        whole, one, other = (_with_stake(bet, stake) for stake in (bet.stake, part, bet.stake - part))
        answers = played.settle([whole, one, other])
        assert len({answer.verdict for answer in answers}) == 1
        assert abs(answers[0].paid - answers[1].paid - answers[2].paid) <= 1


def _with_stake(bet: Bet, stake: int) -> Bet:
    original: State = {"original": stake} if "original" in bet.state else {}
    return replace(bet, stake=stake, state={**bet.state, **original})


@every_game
@often
@given(data=st.data())
def test_a_state_that_was_kept_as_json_is_the_same_state(game: str, data: st.DataObject) -> None:
    table = table_of(data, game)
    placed = data.draw(bets(table))
    for _round in range(3):
        played = data.draw(came(table, void=True))
        kept = [replace(bet, state=json.loads(json.dumps(dict(bet.state)))) for bet in placed]
        answers = played.settle(placed)
        assert played.settle(kept) == answers
        following = [carried(bet, answer) for bet, answer in zip(kept, answers, strict=True)]
        placed = [replace(bet, choice=_choice(bet)) for bet in following if bet]
        assert all(bet.stake > 0 for bet in placed)


def _choice(bet: Bet) -> Choice:
    return Choice.STAY if bet.state else Choice.PRISON


@often
@given(data=st.data())
def test_a_bet_is_settled_or_refused_and_nothing_else(data: st.DataObject) -> None:
    table = table_of(data, "roulette")
    played = data.draw(came(table))
    numbers = data.draw(
        st.lists(st.sampled_from([str(number) for number in range(37)]), min_size=2, max_size=3)
    )
    bet = Bet("b", "roulette", "split" if len(numbers) == 2 else "street", tuple(numbers), 100)
    try:
        (answer,) = played.settle([bet])
    except SettlementError:
        return
    assert len(set(numbers)) == len(numbers)
    outcome: Any = played.finding.outcome
    assert (answer.paid > 0) == (outcome["pocket"] in numbers)
