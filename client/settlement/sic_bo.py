"""Bets of Sic Bo (rulebook section 6). Small and big lose on every triple; totals and doubles do not."""

from __future__ import annotations

from itertools import combinations

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
from dollyd.daemon.core.games.dice import FACES, Variant

OFFERED: dict[str, tuple[str, ...]] = {
    "small": (),
    "big": (),
    "single": FACES,
    "two_dice": tuple(f"{low}-{high}" for low, high in combinations(FACES, 2)),
    "double": FACES,
    "any_triple": (),
    "triple": FACES,
    "total": tuple(map(str, range(3, 19))),
}
"""A total is offered where the rulebook gives odds for it: not for 3 and 18."""


def _odds_key(bet: Bet) -> str:
    """Where the rulebook has the odds; those of a single depend on how many dice show it, at least one."""
    match bet.kind:
        case "total":
            return f"total_{bet.selection[0]}"
        case "single":
            return "single_1"
        case kind:
            return kind


def _check(bet: Bet, variant: Variant) -> None:
    check_offered(bet, OFFERED, variant.odds, _odds_key)


def _offered(variant: Variant) -> dict[str, tuple[Selection, ...]]:
    return with_odds("sic-bo", OFFERED, variant.odds, _odds_key)


def _settle(bet: Bet, stake: int, played: Round) -> Answer:
    outcome, key = played.outcome, _odds_key(bet)
    match bet.kind:
        case "small" | "big":
            won = outcome["size"] == bet.kind
        case "single":
            count = outcome[f"count_{bet.selection[0]}"]
            won, key = count > 0, f"single_{count}"
        case "two_dice":
            won = bet.selection[0] in outcome["two_dice"]
        case "double":
            won = bet.selection[0] in outcome["doubles"]
        case "any_triple":
            won = outcome["triple"]
        case "triple":
            won = outcome[f"count_{bet.selection[0]}"] == 3
        case _:
            won = outcome["total"] == int(bet.selection[0])
    return wins(bet, stake, ratio(played.variant.odds[key]), played) if won else loses(bet)


SIC_BO_BETS = GameBets(
    game="sic-bo", offered=_offered, check=_check, settle=_settle, on_void=stakes_of_a_void_round
)
