"""What the journal holds of a round that is to be corrected, earlier corrections included."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from dollyd.daemon.core.events import Original
from dollyd.daemon.journal.store import Entry, Journal
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import (
    BODIES,
    CorrectionBody,
    Finding,
    Kind,
    Record,
    ResultBody,
    Stakes,
    VoidBody,
)

_ROUNDS_LOOKED_AT = 256
"""Rounds among which the result before is looked for: there may be voids between."""


def read_original(journal: Journal, chain: str, number: int) -> Original | None:
    """The round as it counts now; None where the journal has no final record of it (any more)."""
    finals = journal.finals_upto(chain, number, _ROUNDS_LOOKED_AT)
    if not finals or finals[0].round != number:
        return None
    upto = number
    corrections: dict[int, Entry] = {}
    later: set[int] = set()
    for entry in journal.entries(chain, finals[-1].seq):
        if entry.kind == Kind.CORRECTION:
            corrections[entry.round] = entry
        elif entry.final and entry.round > number:
            upto = max(upto, entry.round)
            if entry.kind == Kind.RESULT:
                later.add(entry.round)
    for round_number, entry in corrections.items():
        if round_number > number:
            counts = _finding(_body(entry)).kind == Kind.RESULT
            later = later | {round_number} if counts else later - {round_number}
    original = _body(finals[0])
    last = corrections.get(number, finals[0])
    stakes, odds = _stakes(journal, chain, finals[0], original), original.odds
    before = (_finding(_body(corrections.get(e.round, e))).outcome for e in islice(finals, 1, None))
    return Original(
        seq=last.seq,
        finding=_finding(_body(last)),
        setting=original.setting,
        gaming_date=original.gaming_date,
        stakes=stakes,
        odds=None if isinstance(odds, msgspec.UnsetType) else odds,
        outcome_before=next((outcome for outcome in before if isinstance(outcome, dict)), None),
        newest=not later,
        upto=upto,
    )


def _body(entry: Entry) -> Any:
    record = msgspec.json.decode(parse_envelope(entry.envelope).payload, type=Record)
    return msgspec.json.decode(record.body, type=BODIES[Kind(entry.kind)])


def _finding(body: ResultBody | VoidBody | CorrectionBody) -> Finding:
    match body:
        case CorrectionBody():
            return body.after
        case ResultBody():
            return Finding(kind=Kind.RESULT, outcome=body.outcome)
        case VoidBody():
            return Finding(kind=Kind.VOID, rule=body.rule, stake_policy=body.stake_policy)


def _stakes(journal: Journal, chain: str, final: Entry, body: ResultBody | VoidBody) -> Stakes | None:
    """The limits of the round; a void names none, so the session in which it was played does."""
    if isinstance(body, ResultBody):
        return body.stakes
    session = journal.session_before(chain, final.seq)
    return _body(session).stakes if session is not None else None
