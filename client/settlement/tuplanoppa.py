"""Bets of Tuplanoppa (rulebook section 5): sums, any pair; under and over seven, half lost on a seven."""

from __future__ import annotations

from dollyd.client.settlement.spec import (
    Answer,
    Bet,
    GameBets,
    Round,
    Selection,
    check_offered,
    half_lost,
    loses,
    ratio,
    stakes_of_a_void_round,
    wins,
    with_odds,
)
from dollyd.daemon.core.games.dice import Variant

UNDER_OVER = {"under_7": "under", "over_7": "over"}
OFFERED: dict[str, tuple[str, ...]] = {
    "sum": tuple(map(str, range(2, 13))),
    "any_pair": (),
    **dict.fromkeys(UNDER_OVER, ()),
}


def _odds_key(bet: Bet) -> str:
    return "_".join((bet.kind, *bet.selection))


def _check(bet: Bet, variant: Variant) -> None:
    check_offered(bet, OFFERED, variant.odds, _odds_key)


def _offered(variant: Variant) -> dict[str, tuple[Selection, ...]]:
    return with_odds("tuplanoppa", OFFERED, variant.odds, _odds_key)


def _settle(bet: Bet, stake: int, played: Round) -> Answer:
    outcome = played.outcome
    if bet.kind == "sum":
        won = outcome["sum"] == int(bet.selection[0])
    elif bet.kind == "any_pair":
        won = outcome["pair"]
    elif outcome["under_over"] == "seven":
        return half_lost(bet, stake, played)
    else:
        won = outcome["under_over"] == UNDER_OVER[bet.kind]
    return wins(bet, stake, ratio(played.variant.odds[_odds_key(bet)]), played) if won else loses(bet)


TUPLANOPPA_BETS = GameBets(
    game="tuplanoppa", offered=_offered, check=_check, settle=_settle, on_void=stakes_of_a_void_round
)
