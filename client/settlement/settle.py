"""Settles bets by one verified record. Pure: values in, values out, in integer minor units.

    rulebook = load_rulebook("fi-ray-2013-roulette")
    answers = settle(payload, bets, rulebook)

`payload` is the decoded payload of a record whose signature and place in the chain were checked
(`dollyd.wire.jws`, `dollyd.client.proof.verify`). Nothing here checks them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dollyd.client.settlement.boule import BOULE_BETS
from dollyd.client.settlement.craps import CRAPS_BETS
from dollyd.client.settlement.form import Setting, Void, read_body
from dollyd.client.settlement.money_wheel import MONEY_WHEEL_BETS
from dollyd.client.settlement.outcomes import agreed
from dollyd.client.settlement.roulette import ROULETTE_BETS
from dollyd.client.settlement.rulebooks import LoadedRulebook
from dollyd.client.settlement.sic_bo import SIC_BO_BETS
from dollyd.client.settlement.spec import Answer, Bet, GameBets, Round, SettlementError, Verdict
from dollyd.client.settlement.tuplanoppa import TUPLANOPPA_BETS
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.rulebook import RuleTextError, convert
from dollyd.wire.record import Kind

BETS: dict[str, GameBets] = {
    "roulette": ROULETTE_BETS,
    "boule": BOULE_BETS,
    "money-wheel": MONEY_WHEEL_BETS,
    "tuplanoppa": TUPLANOPPA_BETS,
    "sic-bo": SIC_BO_BETS,
    "craps": CRAPS_BETS,
}
"""How each game's bets are checked and settled."""


# --- one record ----------------------------------------------------------------------------------


def settle(record_payload: Mapping[str, Any], bets: Iterable[Bet], rulebook: LoadedRulebook) -> list[Answer]:
    """What becomes of each bet, in the order of `bets`. Each is settled as if it were alone.

    Raises `SettlementError` for a record that settles nothing, another rulebook than the record's, or a bet
    that cannot be; no bet is answered then. To refuse such bets one by one: `read_round` and `settle_bet`.
    """
    played = read_round(record_payload, rulebook)
    return [settle_bet(bet, played) for bet in bets]


def read_round(record_payload: Mapping[str, Any], rulebook: LoadedRulebook) -> Round:
    """What settlement needs of a verified record. Raises `SettlementError`."""
    body = read_body(record_payload)
    variant = _variant(body.setting, rulebook)
    common = {
        "game": body.setting.game,
        "variant_name": body.setting.variant,
        "variant": variant,
        "zero_rule": body.setting.zero_rule,
        "quarter_odds": rulebook.book.quarter_odds,
        "rounding": rulebook.book.rounding,
        "prison_loss": rulebook.book.prison_loss,
    }
    if isinstance(body, Void):
        return Round(**common, outcome={}, void=True, stake_policy=body.stake_policy)
    if body.odds is None and GAMES[body.setting.game].needs_odds_table(variant):
        raise SettlementError("the result names no odds table, which is never assumed")
    return Round(
        **common,
        outcome=agreed(body.outcome, body.setting.game, variant),
        odds_table=body.odds.table if body.odds else 1,
        minimum=body.stakes.minimum,
        maximum=body.stakes.maximum,
    )


def settle_bet(bet: Bet, played: Round) -> Answer:
    """What becomes of one bet. Raises `SettlementError` for a bet that cannot be, with the reason."""
    if bet.game != played.game:
        raise SettlementError(f"bet {bet.id}: it is one of {bet.game}, the record is of {played.game}")
    in_play = _in_play(bet, played)
    game = BETS[played.game]
    game.check(bet, played.variant)
    answer = (game.on_void if played.void else game.settle)(bet, in_play, played)
    return replace(answer, invalid=bet.stake - in_play) if in_play != bet.stake else answer


def carried(bet: Bet, answer: Answer) -> Bet | None:
    """The bet as it takes part in the next round, None where it has ended.

    What was above the maximum has gone back. The choice was for one round and is made again.
    """
    if answer.verdict not in (Verdict.STAYS, Verdict.NOT_WORKING):
        return None
    return Bet(bet.id, bet.game, bet.kind, bet.selection, bet.stake - answer.invalid, answer.state)


def _variant(setting: Setting, rulebook: LoadedRulebook) -> Any:
    """The variant by which the round was decided. Raises `SettlementError` where the rulebook has it not."""
    if setting.rulebook.digest != rulebook.digest:
        raise SettlementError(
            f"the record was decided by rulebook {setting.rulebook.id} with digest"
            f" {setting.rulebook.digest}, given is {rulebook.id} with digest {rulebook.digest}"
        )
    tree = rulebook.book.variants.get(setting.variant)
    if setting.game not in BETS or setting.game != rulebook.book.game or tree is None:
        raise SettlementError(f"rulebook {rulebook.id} has no {setting.game} variant {setting.variant!r}")
    game = GAMES[setting.game]
    try:
        variant = convert(tree, game.variant)
    except RuleTextError as error:
        raise SettlementError(f"rulebook {rulebook.id}, variant {setting.variant}: {error}") from error
    if setting.zero_rule and setting.zero_rule not in game.zero_rules(variant):
        raise SettlementError(f"variant {setting.variant} has no rule {setting.zero_rule!r} for zero")
    return variant


def _in_play(bet: Bet, played: Round) -> int:
    """The stake that counts (rulebook G3). One that stayed from an earlier round was measured then."""
    if bet.state:
        return bet.stake
    if bet.stake < played.minimum:
        raise SettlementError(
            f"bet {bet.id}: a stake of {bet.stake} is below the table's minimum of {played.minimum}"
        )
    return min(bet.stake, played.maximum) if played.maximum else bet.stake


# --- corrections and side games ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Adjustment:
    """One bet settled again. Both answers are shown: what is taken back, and what counts instead."""

    bet: str
    reversed: Answer
    settled: Answer

    @property
    def difference(self) -> int:
        """What the player gets (positive) or gives back (negative), minor units."""
        return self.settled.paid - self.reversed.paid


def resettle(original: list[Answer], corrected: list[Answer]) -> list[Adjustment]:
    """Reverse the answers of a record and put those of the corrected one in their place, bet by bet.

    Where a corrected answer leaves another state, later rounds of that bet are to be settled again as well.
    Raises `SettlementError` unless both lists are about the same bets.
    """
    before = {answer.bet: answer for answer in original}
    after = {answer.bet: answer for answer in corrected}
    if before.keys() != after.keys() or len(before) != len(original) or len(after) != len(corrected):
        raise SettlementError("a correction settles the same bets again, each once")
    return [Adjustment(bet, answer, after[bet]) for bet, answer in before.items()]


def findings(correction: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What a correction takes away and what it puts there, as payloads of final records.

    Raises `SettlementError` for a record that is no correction.
    """
    try:
        body, kind = correction["body"], correction["kind"]
        common = {key: body[key] for key in ("setting", "gaming_date", "stakes", "odds") if key in body}
        before, after = (
            {**correction, "kind": finding["kind"], "body": common | finding}
            for finding in (body["before"], body["after"])
        )
    except (KeyError, TypeError) as error:
        raise SettlementError(f"the record has not the form of a correction: {error}") from error
    if kind != Kind.CORRECTION:
        raise SettlementError(f"a record of kind {kind!r} is no correction")
    return before, after


def settle_correction(
    correction: Mapping[str, Any], bets: Iterable[Bet], rulebook: LoadedRulebook
) -> list[Adjustment]:
    """Settle the bets of a corrected round again: both answers of each bet, and what it gets or gives back.

    `bets` are those of the round as they were when it was played, states and choices included. Raises
    `SettlementError` as `settle` does.
    """
    placed = list(bets)
    before, after = findings(correction)
    return resettle(settle(before, placed, rulebook), settle(after, placed, rulebook))


def last_results(records: Iterable[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """The last `count` valid results among payloads of verified records, oldest first (rulebook G11).

    Voids are skipped: they neither extend nor break a run. A correction stands at the place of the record
    that it corrects, as the final record that it puts there (`findings`); one of a round that ended before
    `records` begin has no place among them. Raises `SettlementError` for what is no record.
    """
    finals: dict[tuple[str, int], Mapping[str, Any]] = {}
    for record in records:
        try:
            place, kind = (record["chain"], record["round"]), record["kind"]
            known = place in finals
        except (KeyError, TypeError) as error:
            raise SettlementError(f"the record lacks its place: {error}") from error
        if kind in (Kind.RESULT, Kind.VOID):
            finals[place] = record
        elif kind == Kind.CORRECTION and known:
            finals[place] = findings(record)[1]
    results = [record for record in finals.values() if record["kind"] == Kind.RESULT]
    return results[-count:] if count > 0 else []
