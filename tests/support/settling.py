"""Bets for tests, and rounds made of the real attributes of a game, settled through the library."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from tests.support.house_edge import edge
from tests.support.tables import TEXTS, game_setup, rulebook

from dollyd.client.settlement.settle import settle_bet
from dollyd.client.settlement.spec import Answer, Bet, Round
from dollyd.daemon.core.games.spec import Drawn, Memory, Value
from dollyd.daemon.core.state import Setup

shipped = cache(game_setup)
"""A table as the shipped texts have it."""


def bet(game: str, kind: str, *selection: str, stake: int = 100, **changes: Any) -> Bet:
    return Bet("b1", game, kind, selection, stake, **changes)


def bets_on(game: str, offered: Mapping[str, tuple[str, ...]], stake: int = 100) -> list[Bet]:
    """A bet on every selection of every kind."""
    return [
        bet(game, kind, *selection, stake=stake)
        for kind, choices in offered.items()
        for selection in itertools.product(*([choices] if choices else []))
    ]


def values(game: str) -> tuple[Value, ...]:
    """The whole outcome space of a game on its shipped layout."""
    setup = shipped(game)
    return setup.game.values(setup.layout)


def round_of(game: str, value: Value, memory: Memory = (), **changes: Any) -> Round:
    """The round that a reading makes; `changes` are fields of the round."""
    setup: Setup = shipped(game)
    fields: dict[str, Any] = {
        "game": game,
        "variant_name": setup.variant_name,
        "variant": setup.variant,
        "outcome": setup.game.outcome(Drawn(value, setup.variant, setup.layout, memory)),
        "rounding": rulebook(TEXTS[game][0]).rounding,
    }
    return Round(**fields | changes)


def void_round(game: str, stake_policy: str) -> Round:
    setup: Setup = shipped(game)
    return Round(game, setup.variant_name, setup.variant, outcome={}, void=True, stake_policy=stake_policy)


def answer(placed: Bet, value: Value, memory: Memory = (), **changes: Any) -> Answer:
    """What becomes of a bet when this is thrown."""
    return settle_bet(placed, round_of(placed.game, value, memory, **changes))


def net(placed: Bet, value: Value, memory: Memory = ()) -> int:
    """The gain of a bet that ends with this throw."""
    return answer(placed, value, memory).paid - placed.stake


def edge_of(placed: Bet) -> Fraction:
    """The house edge of a bet that lives for one round."""
    return edge(lambda value: Fraction(net(placed, value), placed.stake), values(placed.game))
