"""Settlement: every bet of both regulations, paid exactly, from verified records (docs/settlement.md)."""

from dollyd.client.settlement.rulebooks import (
    LoadedRulebook,
    load_rulebook,
    rulebook_of_digest,
    shipped_rulebooks,
)
from dollyd.client.settlement.settle import (
    BETS,
    Adjustment,
    carried,
    findings,
    last_results,
    read_round,
    resettle,
    settle,
    settle_bet,
    settle_correction,
)
from dollyd.client.settlement.spec import (
    Answer,
    Bet,
    Choice,
    GameBets,
    Round,
    SettlementError,
    State,
    Verdict,
)

__all__ = [
    "BETS",
    "Adjustment",
    "Answer",
    "Bet",
    "Choice",
    "GameBets",
    "LoadedRulebook",
    "Round",
    "SettlementError",
    "State",
    "Verdict",
    "carried",
    "findings",
    "last_results",
    "load_rulebook",
    "read_round",
    "resettle",
    "rulebook_of_digest",
    "settle",
    "settle_bet",
    "settle_correction",
    "shipped_rulebooks",
]
