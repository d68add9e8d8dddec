"""Bets of boule (rulebook section 3): straight up, and six simple chances that lose in full on 5."""

from __future__ import annotations

from dollyd.client.settlement.spec import (
    Answer,
    Bet,
    GameBets,
    Round,
    Selection,
    check_offered,
    loses,
    ratio,
    stakes_of_a_void_round,
    wins,
    with_odds,
)
from dollyd.daemon.core.games.boule import NUMBERS, Variant

CHANCES = {
    "even": "parity",
    "odd": "parity",
    "red": "colour",
    "black": "colour",
    "1-4": "half",
    "6-9": "half",
}
"""The attribute of the outcome that must bear a chance's name; on 5 none does."""
OFFERED = {"straight": tuple(map(str, NUMBERS)), **dict.fromkeys(CHANCES, ())}


def _check(bet: Bet, variant: Variant) -> None:
    check_offered(bet, OFFERED, variant.odds, lambda known: known.kind)


def _offered(variant: Variant) -> dict[str, tuple[Selection, ...]]:
    return with_odds("boule", OFFERED, variant.odds, lambda known: known.kind)


def _settle(bet: Bet, stake: int, played: Round) -> Answer:
    if bet.kind == "straight":
        won = played.outcome["number"] == bet.selection[0]
    else:
        won = played.outcome[CHANCES[bet.kind]] == bet.kind
    return wins(bet, stake, ratio(played.variant.odds[bet.kind]), played) if won else loses(bet)


BOULE_BETS = GameBets(
    game="boule", offered=_offered, check=_check, settle=_settle, on_void=stakes_of_a_void_round
)
