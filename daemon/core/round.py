"""The life of a round: `step(setup, table, event, at) -> (table, effects)`.

Same events, same effects, always. Two things run side by side, the betting (open, closed) and the draw (not
started, moving, at rest); their combination is the round's phase. `ACCEPTS` says which events mean something
in which phase: everything that affects the course of a round is in this file, what its facts amount to is in
`void_rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from dollyd.daemon.core import decision
from dollyd.daemon.core.events import (
    BetsClosed,
    ClockStepped,
    Confirmed,
    Defect,
    DeviceReady,
    DeviceTrouble,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Event,
    GameEnded,
    GameRef,
    GameStarted,
    OddsDrawn,
    OddsFailed,
    Reading,
    ReadingContradicted,
    Restarted,
    TableClosed,
    TableOpened,
    Tick,
    VoidDeclared,
)
from dollyd.daemon.core.record import Body, Kind
from dollyd.daemon.core.stamp import NS_PER_MS, Stamp
from dollyd.daemon.core.state import (
    MISSED_NAMED_MAX,
    Betting,
    Declared,
    DeviceView,
    Draw,
    Mark,
    Missed,
    Round,
    Setup,
    Table,
    WitnessState,
)
from dollyd.daemon.core.void_rules import DOUBT_RULES, VOID_RULES, Case, first


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


@dataclass(frozen=True, slots=True)
class Emit:
    """Write this record. `captured`: its evidence carries the digest of the raw capture."""

    kind: Kind
    round: int
    body: Body
    captured: bool = False


@dataclass(frozen=True, slots=True)
class AskOdds:
    """Have the odds table of this round drawn."""

    round: int


Effect = Emit | AskOdds
Stepped = tuple[Table, tuple[Effect, ...]]

_ALWAYS: frozenset[type] = frozenset(
    {DeviceReady, DeviceTrouble, ClockStepped, Tick, Restarted, ReadingContradicted, OddsFailed}
)
_GAME: frozenset[type] = frozenset({GameStarted, DrawUpdate, GameEnded})
_ODDS: frozenset[type] = frozenset({OddsDrawn})

ACCEPTS: dict[Phase, frozenset[type]] = {
    Phase.TABLE_CLOSED: _ALWAYS | {TableOpened},
    Phase.WAITING: _ALWAYS | {TableClosed, GameStarted},
    Phase.BETS_OPEN: _ALWAYS | _GAME | _ODDS | {DrawStarted, BetsClosed, Reading},
    Phase.SPINNING: _ALWAYS | _GAME | _ODDS | {BetsClosed, Reading, VoidDeclared},
    Phase.NO_MORE_BETS: _ALWAYS | _GAME | _ODDS | {DrawStarted, Reading, VoidDeclared},
    Phase.AT_REST: _ALWAYS | _GAME | _ODDS | {Confirmed, Reading, VoidDeclared},
    Phase.BLOCKED: _ALWAYS | {GameStarted, VoidDeclared},
}
"""Events that change something, by phase. Anything else is late or out of place and changes nothing; what a
person asked in vain becomes an incident."""


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
    table, due = (table, ()) if isinstance(event, Restarted) else _judge(setup, table, at)
    if type(event) in ACCEPTS[phase(table)]:
        table, effects = _HANDLERS[type(event)](setup, table, event, at)
        table, verdict = _judge(setup, table, at)
        effects = due + effects + verdict
    else:
        effects = due + _refused(table, event)
    return _tell_missed(table, effects) if missed_before else (table, effects)


def deadline_ns(setup: Setup, table: Table) -> int | None:
    """Monotonic time at which the next `Tick` decides something, or None."""
    current = table.round
    if current is None:
        return None
    due: list[int] = []
    odds_awaited = setup.needs_odds and current.odds is None
    if current.unresolved:
        if setup.unresolved_void_ms > 0:
            due.append(current.unresolved.at.mono_ns + setup.unresolved_void_ms * NS_PER_MS)
    else:
        if current.at_rest and setup.confirm == "auto" and not odds_awaited:
            due.append(current.at_rest.mono_ns + setup.hold_ms * NS_PER_MS)
        if current.bets_closed and odds_awaited:
            due.append(current.bets_closed.at.mono_ns + setup.odds_timeout_ms * NS_PER_MS)
        if current.bets_closed and not current.at_rest:
            due.append(current.bets_closed.at.mono_ns + setup.draw_timeout_ms * NS_PER_MS)
    return min(due, default=None)


# --- what each event does ------------------------------------------------------------------------


def _refused(table: Table, event: Event) -> tuple[Effect, ...]:
    if not isinstance(event, VoidDeclared | Confirmed):
        return ()
    what = "void-refused" if isinstance(event, VoidDeclared) else "confirmation-refused"
    text = f"not possible in phase {phase(table)}"
    return (Emit(Kind.INCIDENT, table.number, decision.incident(what, text, details={"by": event.by})),)


def _table_opened(setup: Setup, table: Table, event: TableOpened, at: Stamp) -> Stepped:
    body = decision.session(setup, "opened", event.by, at, at)
    return replace(table, open=True, opened_at=at), (Emit(Kind.SESSION, 0, body),)


def _table_closed(setup: Setup, table: Table, event: TableClosed, at: Stamp) -> Stepped:
    body = decision.session(setup, "closed", event.by, table.opened_at or at, at)
    return replace(table, open=False, opened_at=None), (Emit(Kind.SESSION, 0, body),)


def _restarted(setup: Setup, table: Table, event: Restarted, at: Stamp) -> Stepped:
    effects: list[Effect] = [Emit(Kind.GAP, 0, decision.downtime(event.down_since_utc))]
    if table.open:
        table = replace(table, opened_at=table.opened_at or at)
        body = decision.session(setup, "resumed", "dollyd", table.opened_at or at, at)
        effects.append(Emit(Kind.SESSION, 0, body))
    if table.round and table.round.unresolved:
        # The wait for people, or for the profile's limit, begins anew: monotonic time did.
        table = _with_round(table, unresolved=replace(table.round.unresolved, at=at))
    return _with_round(table, interrupted=True), tuple(effects)


def _device_ready(_setup: Setup, table: Table, event: DeviceReady, _at: Stamp) -> Stepped:
    before = _view(table, event.device)
    table = _with_view(
        table, replace(before, status="ready", cause="", identity=event.identity or before.identity)
    )
    if before.status in ("init", "ready"):
        return table, ()
    body = decision.incident("device-back", f"after {before.status}", event.device)
    return table, (Emit(Kind.INCIDENT, _round_number(table), body),)


def _device_trouble(_setup: Setup, table: Table, event: DeviceTrouble, _at: Stamp) -> Stepped:
    before = _view(table, event.device)
    table = _with_view(table, replace(before, status=event.status, cause=event.cause))
    if before.status == event.status:
        return table, ()
    body = decision.incident(f"device-{event.status}", event.cause, event.device)
    return table, (Emit(Kind.INCIDENT, _round_number(table), body),)


def _game_started(setup: Setup, table: Table, event: GameStarted, at: Stamp) -> Stepped:
    current = table.round
    if event.game.device not in setup.witnesses:
        return table, ()
    if current is None and not event.joined:
        number = table.number + 1
        opened = Round(number, witnesses=(WitnessState(event.game),), opened=at)
        body = decision.round_opened(event.game, at)
        return replace(table, number=number, round=opened), (Emit(Kind.ROUND, number, body),)
    if current and not current.unresolved and not event.joined:
        if all(w.game.device != event.game.device for w in current.witnesses):
            witnesses = (*current.witnesses, WitnessState(event.game))
            return _with_round(table, witnesses=witnesses), ()
        # The device is in a new game while the round waits: for the old one (lines were lost), or for the
        # odds table or the dealer. The new game has no round either way.
        table = _ended(table, event.game.device, Ending.SUPERSEDED)
    return replace(table, missed=_add_missed(table.missed, event.game)), ()


def _draw_started(_setup: Setup, table: Table, event: DrawStarted, at: Stamp) -> Stepped:
    current = _of(table, event.game)
    if current is None or current.draw is not Draw.NOT_STARTED:
        return table, ()
    return _with_round(table, draw=Draw.MOVING, draw_started=at), ()


def _bets_closed(setup: Setup, table: Table, event: BetsClosed, at: Stamp) -> Stepped:
    current = table.round if event.game is None else _of(table, event.game)
    if current is None or current.betting is Betting.CLOSED:
        return table, ()
    body = decision.bets_closed(event.by, at)
    table = _with_round(table, betting=Betting.CLOSED, bets_closed=Mark(event.by, at))
    effects: tuple[Effect, ...] = (Emit(Kind.BETS_CLOSED, current.number, body),)
    return table, effects + ((AskOdds(current.number),) if setup.needs_odds else ())


def _draw_update(_setup: Setup, table: Table, event: DrawUpdate, _at: Stamp) -> Stepped:
    before = table.round.witness(event.game) if table.round else None
    if before is None:
        return table, ()
    effects: tuple[Effect, ...] = ()
    if event.facts.relaunches > before.facts.relaunches:
        body = decision.incident(
            "relaunch", "the launch of the ball failed and is tried again", event.game.device
        )
        effects = (Emit(Kind.INCIDENT, _round_number(table), body),)
    return _with_witness(table, replace(before, facts=event.facts)), effects


def _reading(setup: Setup, table: Table, event: Reading, at: Stamp) -> Stepped:
    current = table.round
    before = current.witness(event.game) if current else None
    if current is None or before is None:
        return table, ()
    value, facts = event.value, event.facts
    if before.value and before.value != value:
        facts = _with_defect(facts, Defect.NUMBER_CHANGED)
        value = before.value
    table = _with_witness(table, replace(before, value=value, facts=facts))
    current = table.round
    read = {w.game.device for w in current.witnesses if w.value} if current else set()
    if current and current.draw is not Draw.AT_REST and read >= set(setup.witnesses):
        table = _with_round(table, draw=Draw.AT_REST, at_rest=at)
    return table, ()


def _game_ended(_setup: Setup, table: Table, event: GameEnded, _at: Stamp) -> Stepped:
    before = table.round.witness(event.game) if table.round else None
    if before is None:
        return table, ()
    return _with_witness(table, replace(before, facts=event.facts, ending=event.ending)), ()


def _reading_contradicted(_setup: Setup, table: Table, event: ReadingContradicted, _at: Stamp) -> Stepped:
    before = table.round.witness(event.game) if table.round else None
    if before is not None:  # not final yet: the contradiction decides
        return _with_witness(
            table, replace(before, facts=_with_defect(before.facts, Defect.NUMBER_CHANGED))
        ), ()
    if event.game not in table.last_games:
        return table, ()
    text = "after its result the device showed another number; the record stands until people correct it"
    body = decision.incident("result-contradicted", text, event.game.device, {"shown": " ".join(event.value)})
    last_final = table.number - 1 if table.round else table.number
    return table, (Emit(Kind.INCIDENT, last_final, body),)


def _odds_drawn(_setup: Setup, table: Table, event: OddsDrawn, at: Stamp) -> Stepped:
    current = table.round
    if current is None or event.round != current.number or current.odds or current.odds_failed:
        return table, ()
    if current.betting is Betting.OPEN:
        body = decision.incident("order-violation", "odds table drawn before no more bets", event.device)
        return _with_round(table, odds_early=True), (Emit(Kind.INCIDENT, current.number, body),)
    return _with_round(table, odds=event, odds_at=at), ()


def _odds_failed(_setup: Setup, table: Table, event: OddsFailed, _at: Stamp) -> Stepped:
    current = table.round
    body = decision.incident("odds-refused", event.cause, event.device, {"round": str(event.round)})
    if current is None or event.round != current.number:
        return table, (Emit(Kind.INCIDENT, 0, body),)
    # An answer that came and was then contradicted is no answer: fail closed.
    return _with_round(table, odds=None, odds_failed=event.cause), (
        Emit(Kind.INCIDENT, current.number, body),
    )


def _void_declared(setup: Setup, table: Table, event: VoidDeclared, _at: Stamp) -> Stepped:
    if event.role not in setup.rules.void_declarers:
        text = f"role {event.role} may not declare a void of this game"
        body = decision.incident("void-refused", text, details={"by": event.by})
        return table, (Emit(Kind.INCIDENT, _round_number(table), body),)
    return _with_round(table, declared=Declared(event.by, event.role, event.reason)), ()


def _confirmed(setup: Setup, table: Table, event: Confirmed, at: Stamp) -> Stepped:
    if setup.needs_odds and table.round and table.round.odds is None:
        # Order of rulebook 2.8: no more bets, then the odds table, then the confirmation.
        text = "the odds table of this round has not been drawn"
        body = decision.incident("confirmation-refused", text, details={"by": event.by})
        return table, (Emit(Kind.INCIDENT, table.round.number, body),)
    return _with_round(table, confirmed=Mark(event.by, at)), ()


def _clock_stepped(_setup: Setup, table: Table, event: ClockStepped, _at: Stamp) -> Stepped:
    return table, (Emit(Kind.CLOCK, 0, decision.clock_step(event.step_ns)),)


def _tick(_setup: Setup, table: Table, _event: Tick, _at: Stamp) -> Stepped:
    return table, ()


_HANDLERS: dict[type, Callable[[Setup, Table, Any, Stamp], Stepped]] = {
    TableOpened: _table_opened,
    TableClosed: _table_closed,
    Restarted: _restarted,
    DeviceReady: _device_ready,
    DeviceTrouble: _device_trouble,
    GameStarted: _game_started,
    DrawStarted: _draw_started,
    BetsClosed: _bets_closed,
    DrawUpdate: _draw_update,
    Reading: _reading,
    GameEnded: _game_ended,
    ReadingContradicted: _reading_contradicted,
    OddsDrawn: _odds_drawn,
    OddsFailed: _odds_failed,
    VoidDeclared: _void_declared,
    Confirmed: _confirmed,
    ClockStepped: _clock_stepped,
    Tick: _tick,
}


# --- the verdict ---------------------------------------------------------------------------------


def _judge(setup: Setup, table: Table, at: Stamp) -> Stepped:
    """Void by the first rule that applies, else unresolved by the first doubt, else a result if complete."""
    current = table.round
    if current is None:
        return table, ()
    case = Case(setup, current, at)
    if rule := first(VOID_RULES, case):
        void = decision.void(setup, table, current, rule, at)
        return _final(table, current), (Emit(Kind.VOID, current.number, void, captured=True),)
    if current.unresolved:
        return table, ()
    if rule := first(DOUBT_RULES, case):
        unresolved = decision.unresolved(setup, table, current, rule, at)
        blocked = _with_round(table, unresolved=Mark(rule.id, at))
        return blocked, (Emit(Kind.UNRESOLVED, current.number, unresolved, captured=True),)
    confirmed = current.confirmed or _automatic(case)
    if current.draw is not Draw.AT_REST or confirmed is None or (setup.needs_odds and current.odds is None):
        return table, ()
    current = replace(current, confirmed=confirmed)
    value = current.witnesses[0].value
    zeros = table.zeros + 1 if setup.game.is_zero(value) else 0
    table = replace(table, zeros=zeros)
    result = decision.result(setup, table, current, at)
    return _final(table, current), (Emit(Kind.RESULT, current.number, result, captured=True),)


def _automatic(case: Case) -> Mark | None:
    if case.setup.confirm != "auto" or case.round.at_rest is None:
        return None
    held = case.since_ns(case.round.at_rest) >= case.setup.hold_ms * NS_PER_MS
    return Mark("auto", case.now) if held else None


def _final(table: Table, current: Round) -> Table:
    return replace(table, round=None, last_games=tuple(w.game for w in current.witnesses))


# --- small changes of the state ------------------------------------------------------------------


def _round_number(table: Table) -> int:
    return table.round.number if table.round else 0


def _of(table: Table, game: GameRef) -> Round | None:
    """The round in progress, if this device game belongs to it."""
    return table.round if table.round and table.round.witness(game) else None


def _with_round(table: Table, **changes: Any) -> Table:
    return replace(table, round=replace(table.round, **changes)) if table.round else table


def _with_witness(table: Table, changed: WitnessState) -> Table:
    if table.round is None:
        return table
    witnesses = tuple(changed if w.game == changed.game else w for w in table.round.witnesses)
    return _with_round(table, witnesses=witnesses)


def _ended(table: Table, device: str, ending: Ending) -> Table:
    current = table.round
    witness = next((w for w in current.witnesses if w.game.device == device), None) if current else None
    return _with_witness(table, replace(witness, ending=ending)) if witness else table


def _with_defect(facts: DrawFacts, defect: Defect) -> DrawFacts:
    return facts if defect in facts.defects else replace(facts, defects=(*facts.defects, defect))


def _view(table: Table, device: str) -> DeviceView:
    return next((view for view in table.devices if view.name == device), DeviceView(device))


def _with_view(table: Table, changed: DeviceView) -> Table:
    others = [view for view in table.devices if view.name != changed.name]
    return replace(table, devices=tuple(sorted([*others, changed], key=lambda view: view.name)))


def _add_missed(missed: Missed, game: GameRef) -> Missed:
    games = missed.games if len(missed.games) >= MISSED_NAMED_MAX else (*missed.games, str(game))
    return Missed(games, missed.count + 1)


def _tell_missed(table: Table, effects: tuple[Effect, ...]) -> Stepped:
    """Put the games missed so far before whatever is recorded next.

    So every game is either told, or ends after the last record: then the gap of the next restart covers it.
    """
    if not any(isinstance(effect, Emit) for effect in effects):
        return table, effects
    gap = Emit(Kind.GAP, 0, decision.missed_games(table.missed))
    return replace(table, missed=Missed()), (gap, *effects)
