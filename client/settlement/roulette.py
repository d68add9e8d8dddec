"""Roulette A to F: every bet, paid by the odds of the record's rulebook (rulebook section 2).

Kinds and selections: `straight`, `split`, `street`, `corner`, `first_five` and `sixline` name their pockets;
`dozen` (`13-24`), `column` (`2`), `quarter` (`10-18`) and `even_money` (`red`, `black`, `even`, `odd`,
`1-18`, `19-36`) name their field as the outcome does.
"""

from __future__ import annotations

from dollyd.client.settlement.en_prison import Came, imprison, settle_imprisoned
from dollyd.client.settlement.roulette_layout import Field, field_of, fields_of
from dollyd.client.settlement.spec import (
    Answer,
    Bet,
    Choice,
    GameBets,
    Round,
    Selection,
    SettlementError,
    Verdict,
    half_lost,
    loses,
    stakes_of_a_void_round,
    stays,
)
from dollyd.daemon.core.games.roulette import ZEROS, Variant


def offered(variant: Variant) -> dict[str, tuple[Selection, ...]]:
    """Every field of the cloth, numbers in their order; `quarter` only where the cloth shows quarters."""
    return fields_of(variant.layout)


def check(bet: Bet, variant: Variant) -> None:
    """Refuse a bet that the cloth of the variant does not have. Raises `SettlementError` with the reason."""
    _field(bet, variant)


def settle(bet: Bet, stake: int, played: Round) -> Answer:
    """What a result does to a bet.

    Raises `SettlementError` for a bet that the table does not have, or a choice that the player has not made.
    """
    field = _field(bet, played.variant)
    odds = _odds(bet, played)
    won = played.outcome[field.attribute] in field.values
    if bet.state:
        return _imprisoned(bet, won, played)
    if won:  # odds are whole numbers: nothing to round
        return Answer(bet.id, Verdict.WINS, profit=stake * odds, returned=stake)
    if bet.kind == "even_money" and played.outcome["pocket"] in ZEROS:
        return _on_zero(bet, stake, played)
    return loses(bet)


def on_void(bet: Bet, stake: int, played: Round) -> Answer:
    """A void round is no round to an imprisoned stake: it stays as it was (rulebook 2.5)."""
    return stays(bet, bet.state) if bet.state else stakes_of_a_void_round(bet, stake, played)


ROULETTE_BETS = GameBets(game="roulette", offered=offered, check=check, settle=settle, on_void=on_void)


def _field(bet: Bet, variant: Variant) -> Field:
    try:
        return field_of(bet.kind, bet.selection, variant.layout)
    except SettlementError as error:
        raise SettlementError(f"bet {bet.id}: {error}") from error


def _odds(bet: Bet, played: Round) -> int:
    """Odds n to 1, by the table that was drawn (variant B). Quarters only where the cloth shows them."""
    if bet.kind == "quarter":
        odds = played.quarter_odds if "quarter" in played.outcome else 0
    elif played.odds_table == 2:
        odds = played.variant.odds_table_2.get(bet.kind, 0)
    else:
        odds = played.variant.odds.get(bet.kind, 0)
    if not odds:
        raise SettlementError(f"bet {bet.id}: this table of variant {played.variant_name} has no {bet.kind}")
    return int(odds)


def _on_zero(bet: Bet, stake: int, played: Round) -> Answer:
    """An even chance on 0 or 00, by the rule that is in force at the table (rulebook 2.9, 2.10)."""
    match played.zero_rule:
        case "lose":
            return loses(bet)
        case "half":
            return half_lost(bet, stake, played)
        case "prison":
            return imprison(bet, stake)
        case "both" if bet.choice is Choice.HALF:
            return half_lost(bet, stake, played)
        case "both" if bet.choice is Choice.PRISON:
            return imprison(bet, stake)
        case "both":
            raise SettlementError(f"bet {bet.id}: zero came; the player chooses half or prison")
    raise SettlementError(f"bet {bet.id}: the record names no rule for zero, {played.zero_rule!r}")


def _imprisoned(bet: Bet, won: bool, played: Round) -> Answer:
    if bet.kind != "even_money" or played.zero_rule not in ("prison", "both"):
        rule = f"{bet.kind} under the zero rule {played.zero_rule!r}"
        raise SettlementError(f"bet {bet.id}: {rule} is never imprisoned, yet the bet has a state")
    lost = Came.ZERO if played.outcome["pocket"] in ZEROS else Came.OPPOSITE
    return settle_imprisoned(bet, Came.OWN if won else lost, played)
