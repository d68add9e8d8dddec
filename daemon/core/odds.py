"""Draws of the odds table (rulebook 2.8): which one counts for a round, and that none is hidden.

A draw stands in the record of its round. One that came too late for it is an incident with its proof;
one that was never heard, or was lost with the process, shows as a jump of the box's counter at the next draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dollyd.daemon.core import decision
from dollyd.daemon.core.changes import with_round
from dollyd.daemon.core.effects import Effect, Emit, Stepped
from dollyd.daemon.core.events import OddsDrawn, OddsFailed
from dollyd.daemon.core.state import Betting, Round, Setup, Table
from dollyd.wire.record import Kind, Moment, Odds
from dollyd.wire.stamp import NS_PER_MS, Stamp

DRAWN_LATER = "odds-drawn"
"""The incident of a draw that counts for a round which was unresolved when it came."""
REFUSED = "odds-refused"
"""The incident of a draw that failed, or was contradicted."""


def odds_drawn(setup: Setup, table: Table, event: OddsDrawn, at: Stamp) -> Stepped:
    """The box has drawn: for the round in progress, or for nothing."""
    current = table.round
    if current is not None and current.odds == event:
        return table, ()
    effects = _counted(table, event)
    table = replace(table, odds_counter=event.counter)
    if current is None or event.round != current.number or not _wanted(setup, current, at):
        return table, (*effects, _incident(table, "odds-unused", "drawn, and counts for no round", event))
    if current.betting is Betting.OPEN:
        early = _incident(table, "order-violation", "odds table drawn before no more bets", event)
        return with_round(table, odds_early=True), (*effects, early)
    if current.unresolved:
        text = "the odds table of this round, drawn after it became unresolved"
        effects = (*effects, _incident(table, DRAWN_LATER, text, event))
    return with_round(table, odds=event, odds_at=at), effects


def odds_failed(_setup: Setup, table: Table, event: OddsFailed, _at: Stamp) -> Stepped:
    """No usable answer; one that came and was then contradicted is no answer either: fail closed."""
    body = decision.incident(REFUSED, event.cause, event.device, {"round": str(event.round)})
    number = _number(table, event)
    if not number:
        return table, (Emit(Kind.INCIDENT, 0, body),)
    return with_round(table, odds=None, odds_failed=event.cause), (Emit(Kind.INCIDENT, number, body),)


def odds_told_later(incident: Mapping[str, Any], drawn: Moment) -> Odds:
    """The draw that a body of `odds-drawn` tells of, as the record of its round has it."""
    told = incident["details"]
    return Odds(
        table=int(told["table"]),
        device=incident["device"],
        counter=int(told["counter"]),
        nonce=told["nonce"],
        proof=told["proof"],
        drawn=drawn,
    )


def counter_told(body: Mapping[str, Any]) -> int | None:
    """The box's counter of which the body of an incident or of a round's record tells, None where of none."""
    told = body.get("odds") or body.get("details", {})
    return int(told["counter"]) if {"counter", "proof"} <= told.keys() else None


def _counted(table: Table, event: OddsDrawn) -> tuple[Effect, ...]:
    """Whether the box has drawn once since the last draw that is known."""
    before = table.odds_counter
    if before < 0 or event.counter == before + 1:
        return ()
    text = "the box's counter did not go on by one: draws between stand in no record, or it is another box"
    return (_incident(table, "odds-counter-jump", text, event, before=str(before)),)


def _wanted(setup: Setup, current: Round, at: Stamp) -> bool:
    """Whether the round has room for a draw, and this is in time: people may need it to decide by hand."""
    if current.odds or current.odds_failed:
        return False
    closed = current.bets_closed
    in_time = closed is not None and at.mono_ns - closed.at.mono_ns < setup.odds_timeout_ms * NS_PER_MS
    return in_time or not current.unresolved


def _incident(table: Table, what: str, text: str, event: OddsDrawn, **more: str) -> Emit:
    details = {
        "round": str(event.round),
        "table": str(event.table),
        "counter": str(event.counter),
        "nonce": event.nonce,
        "proof": event.proof,
    }
    body = decision.incident(what, text, event.device, details | more)
    return Emit(Kind.INCIDENT, _number(table, event), body)


def _number(table: Table, event: OddsDrawn | OddsFailed) -> int:
    """The round in progress, if that is the one that is meant, else 0: the details name it."""
    return event.round if table.round and table.round.number == event.round else 0
