"""Bets of the money wheel (rulebook section 4): one symbol of those that the rulebook gives odds for."""

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
from dollyd.daemon.core.games.money_wheel import Variant


def _symbol(bet: Bet) -> str:
    return bet.selection[0]


def _check(bet: Bet, variant: Variant) -> None:
    check_offered(bet, {"symbol": tuple(variant.odds)}, variant.odds, _symbol)


def _offered(variant: Variant) -> dict[str, tuple[Selection, ...]]:
    return with_odds("money-wheel", {"symbol": tuple(variant.odds)}, variant.odds, _symbol)


def _settle(bet: Bet, stake: int, played: Round) -> Answer:
    symbol = _symbol(bet)
    if played.outcome["symbol"] != symbol:
        return loses(bet)
    return wins(bet, stake, ratio(played.variant.odds[symbol]), played)


MONEY_WHEEL_BETS = GameBets(
    game="money-wheel", offered=_offered, check=_check, settle=_settle, on_void=stakes_of_a_void_round
)
