"""The life of a round: `step(setup, table, event, at) -> (table, effects)`.

Same events, same effects, always. Two things run side by side, the betting (open, closed) and the draw (not
started, moving, at rest); their combination is the round's phase. `ACCEPTS` says which events mean something
in which phase, `handlers` what they do, `void_rules` and `throw_rules` what the facts amount to.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from dollyd.daemon.core import decision
from dollyd.daemon.core.authority import entitled
from dollyd.daemon.core.budget import overdrawn, spend
from dollyd.daemon.core.changes import final, next_throw, tell_missed, with_round
from dollyd.daemon.core.effects import AskOdds, Effect, Emit, Stepped, Untold
from dollyd.daemon.core.events import (
    Approved,
    BetsClosed,
    ClockStepped,
    Confirmed,
    CorrectionProposed,
    DeviceChanged,
    DeviceReady,
    DeviceTooFast,
    DeviceTrouble,
    DrawStarted,
    DrawUpdate,
    Event,
    Flag,
    GameEnded,
    GameStarted,
    HostIncident,
    HostStalled,
    HouseEvent,
    Inspected,
    NoneImprisoned,
    Observed,
    OddsDrawn,
    OddsFailed,
    Permitted,
    PlayHalted,
    Reading,
    ReadingContradicted,
    Restarted,
    ResultProposed,
    Seated,
    ShooterDeclined,
    TableClosed,
    TableOpened,
    ThrowRejected,
    Tick,
    VoidDeclared,
)
from dollyd.daemon.core.handlers import HANDLERS
from dollyd.daemon.core.people import drop_overtaken
from dollyd.daemon.core.rules import Case, first
from dollyd.daemon.core.state import Betting, Draw, Mark, Setup, Table
from dollyd.daemon.core.telling import tell_sparingly, telling_due_ns
from dollyd.daemon.core.throw_rules import THROW_RULES
from dollyd.daemon.core.void_rules import DOUBT_RULES, VOID_RULES
from dollyd.wire.record import FINAL_KINDS, Kind
from dollyd.wire.stamp import NS_PER_MS, Stamp

__all__ = [
    "ACCEPTS",
    "AskOdds",
    "Effect",
    "Emit",
    "Phase",
    "Stepped",
    "Untold",
    "deadline_ns",
    "phase",
    "step",
]


class Phase(StrEnum):
    """Where a table stands."""

    TABLE_CLOSED = "table-closed"
    WAITING = "waiting"
    """Open, between two rounds."""
    BETS_OPEN = "bets-open"
    SPINNING = "spinning"
    """The draw is moving and bets are still taken."""
    NO_MORE_BETS = "no-more-bets"
    AT_REST = "at-rest"
    BLOCKED = "blocked"
    """The round is unresolved; people must close it."""


_ALWAYS: frozenset[type] = frozenset(
    {
        DeviceReady,
        DeviceChanged,
        DeviceTrouble,
        DeviceTooFast,
        ClockStepped,
        Tick,
        Restarted,
        PlayHalted,
        HostIncident,
        HostStalled,
        ReadingContradicted,
        OddsDrawn,
        OddsFailed,
        Seated,
        Inspected,
        NoneImprisoned,
        CorrectionProposed,
        Approved,
    }
)
_GAME: frozenset[type] = frozenset({GameStarted, DrawUpdate, GameEnded, Observed})
_THROW: frozenset[type] = frozenset({Permitted, ThrowRejected, ShooterDeclined})

ACCEPTS: dict[Phase, frozenset[type]] = {
    Phase.TABLE_CLOSED: _ALWAYS | {TableOpened, GameStarted, Reading, Observed, GameEnded},
    Phase.WAITING: _ALWAYS | {TableClosed, GameStarted, BetsClosed, ShooterDeclined},
    Phase.BETS_OPEN: _ALWAYS | _GAME | _THROW | {DrawStarted, BetsClosed, Reading},
    Phase.SPINNING: _ALWAYS | _GAME | _THROW | {BetsClosed, Reading, VoidDeclared},
    Phase.NO_MORE_BETS: _ALWAYS | _GAME | _THROW | {DrawStarted, Reading, ResultProposed, VoidDeclared},
    Phase.AT_REST: _ALWAYS
    | _GAME
    | {BetsClosed, Confirmed, Reading, ResultProposed, ThrowRejected, VoidDeclared},
    Phase.BLOCKED: _ALWAYS | {GameStarted, ResultProposed, VoidDeclared},
}
"""Events that change something, by phase. Anything else is late or out of place and changes nothing; what a
person asked in vain becomes an incident."""

ORDERS: dict[type, str] = {
    TableOpened: "opening",
    TableClosed: "closing",
    BetsClosed: "no-more-bets",
    VoidDeclared: "void",
    Confirmed: "confirmation",
    Permitted: "permission",
    ThrowRejected: "rejection",
    Seated: "seats",
    ShooterDeclined: "decline",
    Inspected: "inspection",
    NoneImprisoned: "none-imprisoned",
    ResultProposed: "manual-result",
    CorrectionProposed: "correction",
    Approved: "approval",
}
"""What people may ask, by the name under which it is refused."""
_SAID_AGAIN = frozenset({BetsClosed, Seated})
"""Orders that may be repeated: a wheel calls no more bets, and the dealer does so too."""


def phase(table: Table) -> Phase:
    """The phase of a table, derived from its state."""
    current = table.round
    if not table.open:
        return Phase.TABLE_CLOSED
    if current is None:
        return Phase.WAITING
    if current.unresolved:
        return Phase.BLOCKED
    if current.draw is Draw.AT_REST:
        return Phase.AT_REST
    if current.betting is Betting.CLOSED:
        return Phase.NO_MORE_BETS
    return Phase.SPINNING if current.draw is Draw.MOVING else Phase.BETS_OPEN


def step(setup: Setup, table: Table, event: Event, at: Stamp) -> Stepped:
    """Advance a table by one event; the caller performs the effects, in order.

    Every event tells the time: what was due before it is decided first, so that a late `Tick` lets nobody
    void after the hold, nor an odds box answer after its time. A restart alone begins time anew.
    """
    missed_before = table.missed.count > 0
    table, due = (table, ()) if isinstance(event, Restarted) else _judge_what_is_due(setup, table, at)
    effects: tuple[Effect, ...] = ()
    if isinstance(event, HouseEvent) and (why := _not_to_be_heard(setup, table, event, at)):
        effects = due + _refused(table, event, why)
    elif type(event) in ACCEPTS[phase(table)]:
        before = table
        table, effects = HANDLERS[type(event)](setup, table, event, at)
        table, verdict = (table, ()) if table is before else _judge(setup, table, at)
        in_vain = () if effects or verdict or table != before else _in_vain(table, event)
        effects = due + effects + verdict + in_vain
    else:
        effects = due + _in_vain(table, event)
    table, effects = _proposal_overtaken(setup, table, effects)
    table, effects = tell_sparingly(table, effects, at)
    if isinstance(event, HouseEvent):
        table = _put_down(setup, table, event, effects, at)
    return tell_missed(table, effects) if missed_before else (table, effects)


def _proposal_overtaken(setup: Setup, table: Table, effects: tuple[Effect, ...]) -> Stepped:
    """What two persons were about to decide, held against the final record that came in between."""
    for effect in effects:
        if isinstance(effect, Emit) and effect.kind in FINAL_KINDS:
            table, told = drop_overtaken(setup, table, effect.kind, effect.round)
            effects += told
    return table, effects


def deadline_ns(setup: Setup, table: Table) -> int | None:
    """Monotonic time at which the next `Tick` decides or tells something, or None."""
    due = (_decision_due_ns(setup, table), telling_due_ns(table))
    return min((at_ns for at_ns in due if at_ns is not None), default=None)


def _decision_due_ns(setup: Setup, table: Table) -> int | None:
    current = table.round
    if current is None:
        return None
    if current.unresolved:
        limit_ms = setup.unresolved_void_ms
        return current.unresolved.at.mono_ns + limit_ms * NS_PER_MS if limit_ms > 0 else None
    due: list[int] = []
    case = Case(setup, table, Stamp(0, 0))
    if current.at_rest and _complete(case) and not _left_to_eye(case):
        due.append(current.at_rest.mono_ns + setup.hold_ms * NS_PER_MS)
    if current.first_reading and not case.all_heard:
        due.append(current.first_reading.mono_ns + setup.witness_timeout_ms * NS_PER_MS)
    if current.bets_closed and setup.needs_odds and current.odds is None:
        due.append(current.bets_closed.at.mono_ns + setup.odds_timeout_ms * NS_PER_MS)
    if case.draw_awaited and not current.at_rest:
        due.append(case.draw_awaited.mono_ns + setup.draw_timeout_ms * NS_PER_MS)
    return min(due, default=None)


def _not_to_be_heard(setup: Setup, table: Table, order: HouseEvent, at: Stamp) -> str:
    """Why a person may not ask this, or not again so soon; empty where they may."""
    if not entitled(type(order), order.role, setup.rules):
        return f"role {order.role} may not do this in this game"
    if overdrawn(table.accounts, _holder(order), setup.rules.records, at):
        return "asked more often than a person can in earnest"
    return ""


def _put_down(setup: Setup, table: Table, order: HouseEvent, effects: tuple[Effect, ...], at: Stamp) -> Table:
    """The records that an order has caused, to the account of who gave it."""
    records = sum(isinstance(effect, Emit) for effect in effects)
    return replace(table, accounts=spend(table.accounts, _holder(order), records, setup.rules.records, at))


def _holder(order: HouseEvent) -> str:
    """A person with one kind of order; a comma stands in no name of a device."""
    return f"{order.by},{ORDERS[type(order)]}"


def _in_vain(table: Table, event: Event) -> tuple[Effect, ...]:
    """What a person asked at the wrong time is told; what may be said twice is not."""
    if not isinstance(event, HouseEvent) or type(event) in _SAID_AGAIN:
        return ()
    return _refused(table, event, f"not possible in phase {phase(table)}")


def _refused(table: Table, event: HouseEvent, why: str) -> tuple[Effect, ...]:
    body = decision.incident(f"{ORDERS[type(event)]}-refused", why, details={"by": event.by})
    return (Emit(Kind.INCIDENT, table.number, body),)


# --- the verdict ---------------------------------------------------------------------------------


def _judge_what_is_due(setup: Setup, table: Table, at: Stamp) -> Stepped:
    """Facts were judged when they came; time alone decides something only at a deadline."""
    due_ns = _decision_due_ns(setup, table)
    return (table, ()) if due_ns is None or at.mono_ns < due_ns else _judge(setup, table, at)


def _judge(setup: Setup, table: Table, at: Stamp) -> Stepped:
    """Void by the first rule that applies, else unresolved by the first doubt, else a result if complete."""
    current = table.round
    if current is None:
        return table, ()
    case = Case(setup, table, at)
    if rule := first(VOID_RULES, case):
        void = decision.void(setup, table, current, rule, at)
        table = replace(table, inspection=rule.id) if rule.inspect else table
        return final(_turned(case, table)), (Emit(Kind.VOID, current.number, void, captured=True),)
    if current.unresolved:
        return table, ()
    if setup.game.throws and (rule := first(THROW_RULES, case)):
        rejected = decision.throw_rejected(setup, table, current, rule, at)
        return next_throw(table, at), (Emit(Kind.THROW_REJECTED, current.number, rejected, captured=True),)
    if rule := first(DOUBT_RULES, case):
        unresolved = decision.unresolved(setup, table, current, rule, at)
        blocked = with_round(_turned(case, table), unresolved=Mark(rule.id, at))
        return blocked, (Emit(Kind.UNRESOLVED, current.number, unresolved, captured=True),)
    return _result(case)


def _turned(case: Case, table: Table) -> Table:
    """The wheel has spun, whatever the round came to; an unresolved round has told so before."""
    return table if case.round.unresolved else replace(table, wheel_direction=case.spin_direction)


def _result(case: Case) -> Stepped:
    setup, table, current = case.setup, case.table, case.round
    confirmed = current.confirmed or _automatic(case)
    if not _complete(case) or confirmed is None:
        return table, ()
    current = replace(current, confirmed=confirmed)
    result = decision.result(setup, table, current, case.now)
    table = replace(
        table,
        memory=setup.game.after(result.outcome),
        manual=False,
    )
    return final(_turned(case, table)), (Emit(Kind.RESULT, current.number, result, captured=True),)


def _complete(case: Case) -> bool:
    """Nothing but the confirmation is awaited."""
    current = case.round
    at_rest = current.draw is Draw.AT_REST and current.betting is Betting.CLOSED and case.all_heard
    return at_rest and not (case.setup.needs_odds and current.odds is None)


def _left_to_eye(case: Case) -> bool:
    """A person must confirm: so the table is set, or a die leans that the profile lets the dealer read."""
    return case.setup.confirm != "auto" or case.flagged(Flag.COCKED, Flag.STACKED)


def _automatic(case: Case) -> Mark | None:
    """Confirmation by time, where nothing of the draw is left to the dealer's eye."""
    held = case.overdue(case.round.at_rest, case.setup.hold_ms)
    return Mark("auto", case.now) if held and not _left_to_eye(case) else None
