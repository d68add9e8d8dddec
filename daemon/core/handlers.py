"""What each event does to a table: facts are noted, with their times. What they amount to is judged after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from dollyd.daemon.core import decision
from dollyd.daemon.core.bound import compared, device_changed
from dollyd.daemon.core.changes import (
    began_while_closed,
    ended,
    ended_while_closed,
    missing,
    open_round,
    round_number,
    spin_missed,
    view,
    with_defect,
    with_round,
    with_view,
    with_witness,
)
from dollyd.daemon.core.effects import AskOdds, Effect, Emit, Stepped
from dollyd.daemon.core.events import (
    Approved,
    BetsClosed,
    ClockStepped,
    Confirmed,
    CorrectionProposed,
    Defect,
    DeviceChanged,
    DeviceReady,
    DeviceTooFast,
    DeviceTrouble,
    DrawStarted,
    DrawUpdate,
    Ending,
    GameEnded,
    GameStarted,
    HostIncident,
    HostStalled,
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
from dollyd.daemon.core.odds import odds_drawn, odds_failed
from dollyd.daemon.core.people import approved, correction_proposed, none_imprisoned, result_proposed
from dollyd.daemon.core.rulebook import UNSOUND_JOURNAL
from dollyd.daemon.core.state import (
    HOST_STALLED,
    TOO_FAST,
    Betting,
    Declared,
    Draw,
    Mark,
    Setup,
    Table,
    WitnessState,
)
from dollyd.wire.record import Kind
from dollyd.wire.stamp import CLOCK_STEP_NS, DOWN_MAX_NS, Stamp, iso_utc


def _incident(table: Table, what: str, text: str, device: str = "", **details: str) -> Emit:
    return Emit(Kind.INCIDENT, round_number(table), decision.incident(what, text, device, details))


def _of_another_round(
    table: Table, event: BetsClosed | VoidDeclared | Confirmed | Permitted | ThrowRejected
) -> bool:
    """Whether a person meant another round than the one in progress, or the next where there is none."""
    return event.round not in (0, table.round.number if table.round else table.number + 1)


def _order_refused(table: Table, what: str, by: str, meant: int) -> Stepped:
    text = f"meant for round {meant}, which is not in progress"
    return table, (_incident(table, f"{what}-refused", text, by=by),)


# --- the table -----------------------------------------------------------------------------------


def _table_opened(setup: Setup, table: Table, event: TableOpened, at: Stamp) -> Stepped:
    body = decision.session(setup, "opened", event.by, at, at, event.checks)
    for game in table.running:  # under way when the table was opened: never a result, and told
        table = missing(table, game)
    return replace(table, open=True, opened_at=at, running=()), (Emit(Kind.SESSION, 0, body),)


def _table_closed(setup: Setup, table: Table, event: TableClosed, at: Stamp) -> Stepped:
    body = decision.session(setup, "closed", event.by, table.opened_at or at, at)
    return replace(table, open=False, opened_at=None), (Emit(Kind.SESSION, 0, body),)


def _restarted(setup: Setup, table: Table, event: Restarted, at: Stamp) -> Stepped:
    effects: list[Effect] = [Emit(Kind.GAP, 0, decision.downtime(event.down_since_utc, event.mono_ns))]
    effects += _clock_after(setup, table, event, at)
    if table.open:
        table = replace(table, opened_at=table.opened_at or at)
        body = decision.session(setup, "resumed", "dollyd", table.opened_at or at, at)
        effects.append(Emit(Kind.SESSION, 0, body))
    if table.round and table.round.unresolved:
        # The wait for people, or for the profile's limit, begins anew: monotonic time did.
        table = with_round(table, unresolved=replace(table.round.unresolved, at=at))
    return with_round(spin_missed(table), interrupted=True), tuple(effects)


def _clock_after(setup: Setup, table: Table, event: Restarted, at: Stamp) -> Iterator[Effect]:
    """What the last record before a start says of the clock."""
    if event.mono_ns >= 0:  # the same boot: it says exactly how far UTC moved
        step_ns = event.utc_ns - event.mono_ns
        if abs(step_ns) > CLOCK_STEP_NS:
            yield Emit(Kind.CLOCK, 0, decision.clock_change(setup, step_ns, at, cause="restart"))
    behind = iso_utc(at.utc_ns) < event.down_since_utc  # texts of one length: compared, never subtracted
    if behind:
        text = "the clock shows an earlier time than the last record; the order is that of seq"
        yield _incident(table, "clock-behind-journal", text, last_utc=event.down_since_utc)
    elif event.mono_ns < 0 and event.utc_ns > DOWN_MAX_NS:
        text = "the clock shows a time long after the last record; see whether it is right"
        yield _incident(table, "clock-ahead-of-journal", text, last_utc=event.down_since_utc)


def _inspected(_setup: Setup, table: Table, event: Inspected, _at: Stamp) -> Stepped:
    if not table.inspection:
        return table, ()
    text = f"inspected and found good after {table.inspection}"
    return replace(table, inspection=""), (_incident(table, "inspected", text, by=event.by),)


# --- devices -------------------------------------------------------------------------------------


def _device_ready(_setup: Setup, table: Table, event: DeviceReady, _at: Stamp) -> Stepped:
    before = view(table, event.device)
    identity = event.identity or before.identity
    table = with_view(table, replace(before, status="ready", cause="", identity=identity))
    told: tuple[Effect, ...] = ()
    if before.status == "init":
        text = "heard for the first time since the start"
        told = (_incident(table, "device-ready", text, event.device, **dict(identity)),)
    elif before.status != "ready":
        told = (_incident(table, "device-back", f"after {before.status}", event.device),)
    table, changed = compared(table, event.device, event.identity)
    return table, told + changed


def _device_trouble(setup: Setup, table: Table, event: DeviceTrouble, _at: Stamp) -> Stepped:
    if event.device in table.too_fast:  # what it says, and that it is closed, follows from that
        return table, ()
    before = view(table, event.device)
    table = with_view(table, replace(before, status=event.status, cause=event.cause))
    if event.device in setup.witnesses:
        table = spin_missed(table)
    if before.status == event.status:
        return table, ()
    return table, (_incident(table, f"device-{event.status}", event.cause, event.device),)


def _device_too_fast(_setup: Setup, table: Table, event: DeviceTooFast, _at: Stamp) -> Stepped:
    changed = replace(view(table, event.device), status="fault", cause=TOO_FAST)
    table = with_view(spin_missed(table), changed)
    table = replace(table, too_fast=(*table.too_fast, event.device))
    text = f"{TOO_FAST}: it causes more records than a device can in earnest"
    return with_round(table, spoilt=TOO_FAST), (_incident(table, "device-fault", text, event.device),)


def _game_started(setup: Setup, table: Table, event: GameStarted, at: Stamp) -> Stepped:
    current = table.round
    if event.game.device not in (*setup.witnesses, *setup.supporters):
        return table, ()
    if not table.open:
        return (table if event.told_at_end else began_while_closed(table, event.game)), ()
    if table.may_open and not event.joined and not event.told_at_end:
        return open_round(setup, table, (WitnessState(event.game),), at)
    if current and not current.unresolved and not event.joined:
        if all(w.game.device != event.game.device for w in current.witnesses):
            return with_round(table, witnesses=(*current.witnesses, WitnessState(event.game))), ()
        # The device is in a new game while the round waits: for the old one (lines were lost), or for the
        # odds table or the dealer. The new game has no round either way.
        table = ended(table, event.game.device, Ending.SUPERSEDED)
    return missing(table, event.game), ()


def _draw_started(setup: Setup, table: Table, event: DrawStarted, at: Stamp) -> Stepped:
    current = table.round
    if current is None or current.witness(event.game) is None or current.draw is not Draw.NOT_STARTED:
        return table, ()
    effects: tuple[Effect, ...] = ()
    if current.betting is Betting.OPEN and setup.rules.bets_close == "draw-start":
        table, effects = _close_bets(setup, table, "draw-start", at)
    elif current.betting is Betting.OPEN and setup.rules.nmb_before_draw == "required":
        table = with_round(table, early_draw=True)
        effects = (_incident(table, "order-violation", "the draw started before no more bets"),)
    return with_round(table, draw=Draw.MOVING, draw_started=at), effects


def _draw_update(_setup: Setup, table: Table, event: DrawUpdate, _at: Stamp) -> Stepped:
    before = table.round.witness(event.game) if table.round else None
    if before is None:
        return table, ()
    effects: tuple[Effect, ...] = ()
    if event.facts.relaunches > before.facts.relaunches:
        text = "the launch of the ball failed and is tried again"
        effects = (_incident(table, "relaunch", text, event.game.device),)
    return with_witness(table, replace(before, facts=event.facts)), effects


def _reading(setup: Setup, table: Table, event: Reading, at: Stamp) -> Stepped:
    current = table.round
    before = current.witness(event.game) if current else None
    if current is None or before is None:
        return ended_while_closed(table, event.game), ()
    value, facts = event.value, event.facts
    if value and value not in setup.game.values(setup.layout):
        facts = with_defect(facts, Defect.NOT_ON_WHEEL)
    if before.value and before.value != value:
        facts = with_defect(facts, Defect.NUMBER_CHANGED)
        value = before.value
    table = with_witness(table, replace(before, value=value, facts=facts))
    table = with_round(table, first_reading=current.first_reading or at)
    read = {w.game.device for w in table.round.witnesses if w.value} if table.round else set()
    if current.draw is not Draw.AT_REST and read >= set(setup.witnesses):
        table = with_round(table, draw=Draw.AT_REST, at_rest=at)
    return table, ()


def _observed(_setup: Setup, table: Table, event: Observed, _at: Stamp) -> Stepped:
    before = table.round.witness(event.game) if table.round else None
    if before is None:
        return ended_while_closed(table, event.game), ()
    return with_witness(table, replace(before, facts=event.facts, observed=True)), ()


def _game_ended(_setup: Setup, table: Table, event: GameEnded, _at: Stamp) -> Stepped:
    before = table.round.witness(event.game) if table.round else None
    if before is None:
        return ended_while_closed(table, event.game), ()
    return with_witness(table, replace(before, facts=event.facts, ending=event.ending)), ()


def _reading_contradicted(_setup: Setup, table: Table, event: ReadingContradicted, _at: Stamp) -> Stepped:
    before = table.round.witness(event.game) if table.round else None
    if before is not None:  # not final yet: the contradiction decides
        return with_witness(
            table, replace(before, facts=with_defect(before.facts, Defect.NUMBER_CHANGED))
        ), ()
    if event.game not in table.last_games:
        return table, ()
    text = "after its result the device showed another number; the record stands until people correct it"
    body = decision.incident("result-contradicted", text, event.game.device, {"shown": " ".join(event.value)})
    last_final = table.number - 1 if table.round else table.number
    return table, (Emit(Kind.INCIDENT, last_final, body),)


# --- bets ----------------------------------------------------------------------------------------


def _bets_closed(setup: Setup, table: Table, event: BetsClosed, at: Stamp) -> Stepped:
    if _of_another_round(table, event):
        return _order_refused(table, "no-more-bets", event.by, event.round)
    opened: tuple[Effect, ...] = ()
    if table.may_open and event.game is None and setup.opens_by_announcement:
        table, opened = open_round(setup, table, (), at)
    current = table.round
    if current is None or current.betting is Betting.CLOSED:
        return table, opened
    if event.game is not None and current.witness(event.game) is None:
        return table, opened
    table, closed = _close_bets(setup, table, event.by, at)
    return table, opened + closed


def _close_bets(setup: Setup, table: Table, by: str, at: Stamp) -> Stepped:
    number = round_number(table)
    table = with_round(table, betting=Betting.CLOSED, bets_closed=Mark(by, at))
    effects: tuple[Effect, ...] = (Emit(Kind.BETS_CLOSED, number, decision.bets_closed(by, at)),)
    return table, effects + ((AskOdds(number),) if setup.needs_odds else ())


# --- people --------------------------------------------------------------------------------------


def _void_declared(setup: Setup, table: Table, event: VoidDeclared, _at: Stamp) -> Stepped:
    if _of_another_round(table, event):
        return _order_refused(table, "void", event.by, event.round)
    if event.judged_role and event.judged_role not in setup.rules.void_judges:
        text = f"role {event.judged_role} may not judge that a round of this game is void"
        return table, (_incident(table, "void-refused", text, by=event.by),)
    declared = Declared(event.by, event.role, event.reason, event.judged_by, event.judged_role)
    return with_round(table, declared=declared), ()


def _confirmed(setup: Setup, table: Table, event: Confirmed, at: Stamp) -> Stepped:
    if _of_another_round(table, event):
        return _order_refused(table, "confirmation", event.by, event.round)
    current = table.round
    if current and current.betting is Betting.OPEN:
        text = "bets are still open"
    elif current and setup.needs_odds and current.odds is None:
        # Order of rulebook 2.8: no more bets, then the odds table, then the confirmation.
        text = "the odds table of this round has not been drawn"
    else:
        return with_round(table, confirmed=Mark(event.by, at)), ()
    return table, (_incident(table, "confirmation-refused", text, by=event.by),)


def _permitted(_setup: Setup, table: Table, event: Permitted, at: Stamp) -> Stepped:
    if _of_another_round(table, event):
        return _order_refused(table, "permission", event.by, event.round)
    current = table.round
    if current is None or current.draw is not Draw.NOT_STARTED:
        return table, ()
    return with_round(table, throw=replace(current.throw, permitted=Mark(event.by, at))), ()


def _throw_rejected(setup: Setup, table: Table, event: ThrowRejected, _at: Stamp) -> Stepped:
    if _of_another_round(table, event):
        return _order_refused(table, "rejection", event.by, event.round)
    current = table.round
    if current is None or not setup.game.throws or current.draw is Draw.NOT_STARTED:
        text = "there is no throw to reject"
        return table, (_incident(table, "rejection-refused", text, by=event.by),)
    rejected = Declared(event.by, event.role, event.reason)
    return with_round(table, throw=replace(current.throw, rejected=rejected)), ()


def _seated(setup: Setup, table: Table, event: Seated, _at: Stamp) -> Stepped:
    return replace(table, memory=setup.game.seated(table.memory, event.seats)), ()


def _shooter_declined(setup: Setup, table: Table, _event: ShooterDeclined, _at: Stamp) -> Stepped:
    thrown = table.round is not None and table.round.draw is not Draw.NOT_STARTED
    if thrown:  # who has thrown cannot decline
        return table, ()
    return replace(table, memory=setup.game.declined(table.memory)), ()


# --- time and the host ---------------------------------------------------------------------------


def _clock_stepped(setup: Setup, table: Table, event: ClockStepped, at: Stamp) -> Stepped:
    body = decision.clock_change(setup, event.step_ns, at, synchronised=event.synchronised)
    return table, (Emit(Kind.CLOCK, 0, body),)


def _play_halted(setup: Setup, table: Table, event: PlayHalted, _at: Stamp) -> Stepped:
    tolerated = {UNSOUND_JOURNAL} if setup.rules.unsound_journal == "tell" else set()
    reason = ",".join(one for one in event.reason.split(",") if one not in tolerated)
    if reason == table.halted:
        return table, ()
    if reason:
        text = "no new round is opened; one in progress is played to its end"
        incident = _incident(table, "play-halted", text, reason=reason)
    else:
        incident = _incident(table, "play-resumed", "new rounds are opened again", reason=table.halted)
    return replace(table, halted=reason), (incident,)


def _host_incident(_setup: Setup, table: Table, event: HostIncident, _at: Stamp) -> Stepped:
    return table, (_incident(table, event.what, event.text),)


def _host_stalled(_setup: Setup, table: Table, event: HostStalled, _at: Stamp) -> Stepped:
    text = f"the host stood still for {event.length_ms} ms: what was said meanwhile is not read"
    incident = _incident(table, HOST_STALLED, text, length_ms=str(event.length_ms))
    return with_round(spin_missed(table), spoilt=HOST_STALLED), (incident,)


def _tick(_setup: Setup, table: Table, _event: Tick, _at: Stamp) -> Stepped:
    return table, ()


HANDLERS: dict[type, Callable[[Setup, Table, Any, Stamp], Stepped]] = {
    TableOpened: _table_opened,
    TableClosed: _table_closed,
    Restarted: _restarted,
    Inspected: _inspected,
    NoneImprisoned: none_imprisoned,
    ResultProposed: result_proposed,
    CorrectionProposed: correction_proposed,
    Approved: approved,
    DeviceReady: _device_ready,
    DeviceChanged: device_changed,
    DeviceTrouble: _device_trouble,
    DeviceTooFast: _device_too_fast,
    GameStarted: _game_started,
    DrawStarted: _draw_started,
    DrawUpdate: _draw_update,
    Reading: _reading,
    Observed: _observed,
    GameEnded: _game_ended,
    ReadingContradicted: _reading_contradicted,
    BetsClosed: _bets_closed,
    OddsDrawn: odds_drawn,
    OddsFailed: odds_failed,
    VoidDeclared: _void_declared,
    Confirmed: _confirmed,
    Permitted: _permitted,
    ThrowRejected: _throw_rejected,
    Seated: _seated,
    ShooterDeclined: _shooter_declined,
    ClockStepped: _clock_stepped,
    PlayHalted: _play_halted,
    HostIncident: _host_incident,
    HostStalled: _host_stalled,
    Tick: _tick,
}
"""One function an event; `round.ACCEPTS` says in which phases it is called."""
