"""Place bets of craps (rulebook section 7): right and buy win on the number before a seven, lay the reverse.

A roll that is neither decides nothing ("nulle") and the stake stays; that is never a void round. The player
may take off a stake that stays; his commission is not given back (the by-law does not say that it is).
"""

from __future__ import annotations

from fractions import Fraction

from dollyd.client.settlement.spec import (
    Answer,
    Bet,
    GameBets,
    Round,
    Selection,
    SettlementError,
    State,
    Verdict,
    check_offered,
    loses,
    ratio,
    returned,
    rounded,
    stays,
    wins,
    with_odds,
)
from dollyd.daemon.core.games.craps import POINTS, SEVEN
from dollyd.daemon.core.games.dice import Variant

NUMBERS = tuple(map(str, sorted(POINTS)))
OFFERED = dict.fromkeys(("right", "buy", "lay"), NUMBERS)


def commission(bet: Bet, variant: Variant, rounding: str) -> int:
    """What the player pays before the bet is accepted, minor units, on top of `bet.stake`.

    Buy pays a share of the stake, lay of the potential win, right nothing. The stake must be within the
    maximum of the table: nothing is paid for what is not in play.
    """
    percent = ratio(variant.odds.get(f"{bet.kind}_commission", 0))
    base = bet.stake * (ratio(variant.odds[_odds_key(bet)]) if bet.kind == "lay" else Fraction(1))
    return rounded(base * percent / 100, rounding)


def _odds_key(bet: Bet) -> str:
    return f"{bet.kind}_{bet.selection[0]}"


def _check(bet: Bet, variant: Variant) -> None:
    check_offered(bet, OFFERED, variant.odds, _odds_key)


def _offered(variant: Variant) -> dict[str, tuple[Selection, ...]]:
    return with_odds("craps", OFFERED, variant.odds, _odds_key)


def _settle(bet: Bet, stake: int, played: Round) -> Answer:
    outcome, number = played.outcome, int(bet.selection[0])
    lay = bet.kind == "lay"
    if outcome["phase"] == "come-out" and not (lay or bet.working):
        return Answer(bet.id, Verdict.NOT_WORKING, state=_waited(bet))
    winning, losing = (SEVEN, number) if lay else (number, SEVEN)
    if outcome["sum"] == winning:
        return wins(bet, stake, ratio(played.variant.odds[_odds_key(bet)]), played)
    return loses(bet) if outcome["sum"] == losing else stays(bet, _waited(bet))


def _waited(bet: Bet) -> State:
    """How many rolls the stake has waited. With a state it is in play: no limit is put to it again."""
    rolls = bet.state.get("rolls", 0)
    if type(rolls) is not int or rolls < 0:
        raise SettlementError(f"bet {bet.id}: {dict(bet.state)} is no state of a stake that waits")
    return {"rolls": rolls + 1}


def _on_void(bet: Bet, stake: int, played: Round) -> Answer:
    """A stake waits for its number, not for one roll: it stays, unless the profile gives stakes back."""
    return returned(bet, stake) if played.stake_policy == "returned" else stays(bet, bet.state)


CRAPS_BETS = GameBets(game="craps", offered=_offered, check=_check, settle=_settle, on_void=_on_void)
