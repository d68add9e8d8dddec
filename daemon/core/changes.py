"""Small changes of a table's state, each with one meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dollyd.daemon.core import decision
from dollyd.daemon.core.effects import Effect, Emit, Stepped
from dollyd.daemon.core.events import Defect, DrawFacts, Ending, GameRef
from dollyd.daemon.core.state import (
    MISSED_NAMED_MAX,
    DeviceView,
    Draw,
    Missed,
    Round,
    Setup,
    Table,
    Throw,
    WitnessState,
)
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_S, Stamp

_HOUR_NS = 3600 * NS_PER_S


def round_number(table: Table) -> int:
    """Number of the round in progress, 0 between rounds."""
    return table.round.number if table.round else 0


def with_round(table: Table, **changes: Any) -> Table:
    """The round in progress changed; nothing between rounds."""
    return replace(table, round=replace(table.round, **changes)) if table.round else table


def with_witness(table: Table, changed: WitnessState) -> Table:
    """A witness replaced by what it has shown by now."""
    if table.round is None:
        return table
    witnesses = tuple(changed if w.game == changed.game else w for w in table.round.witnesses)
    return with_round(table, witnesses=witnesses)


def ended(table: Table, device: str, ending: Ending) -> Table:
    """A device has left the game that the round waits for."""
    current = table.round
    witness = next((w for w in current.witnesses if w.game.device == device), None) if current else None
    return with_witness(table, replace(witness, ending=ending)) if witness else table


def with_defect(facts: DrawFacts, defect: Defect) -> DrawFacts:
    """One more defect of the evidence."""
    return facts if defect in facts.defects else replace(facts, defects=(*facts.defects, defect))


def view(table: Table, device: str) -> DeviceView:
    """What is known of a device."""
    return next((known for known in table.devices if known.name == device), DeviceView(device))


def with_view(table: Table, changed: DeviceView) -> Table:
    """Something new is known of a device."""
    others = [known for known in table.devices if known.name != changed.name]
    return replace(table, devices=tuple(sorted([*others, changed], key=lambda known: known.name)))


def missing(table: Table, game: GameRef) -> Table:
    """A device plays a game that has no round."""
    missed = table.missed
    games = missed.games if len(missed.games) >= MISSED_NAMED_MAX else (*missed.games, str(game))
    return replace(spin_missed(table), missed=Missed(games, missed.count + 1))


def spin_missed(table: Table) -> Table:
    """There may be a spin that belongs to no round: the next one is compared with none."""
    if table.round and table.round.first_reading:
        table = with_round(table, followed=True)
    return replace(table, wheel_direction="")


def began_while_closed(table: Table, game: GameRef) -> Table:
    """A device plays at a closed table: of no concern, unless the table is opened before it is over."""
    others = (one for one in table.running if one.device != game.device)
    return replace(spin_missed(table), running=(*others, game))


def ended_while_closed(table: Table, game: GameRef) -> Table:
    """A game that began while the table was closed is over."""
    if game not in table.running:
        return table
    return replace(table, running=tuple(one for one in table.running if one != game))


def tell_missed(table: Table, effects: tuple[Effect, ...]) -> Stepped:
    """Put the games missed so far before whatever is recorded next.

    So every game is either told, or ends after the last record: then the gap of the next restart covers it.
    """
    if not any(isinstance(effect, Emit) for effect in effects):
        return table, effects
    gap = Emit(Kind.GAP, 0, decision.missed_games(table.missed))
    return replace(table, missed=Missed()), (gap, *effects)


def open_round(setup: Setup, table: Table, witnesses: tuple[WitnessState, ...], at: Stamp) -> Stepped:
    """The next round, with the device games that it begins with."""
    number = table.number + 1
    opened = Emit(Kind.ROUND, number, decision.round_opened(witnesses[0].game if witnesses else None, at))
    table = replace(table, number=number, round=Round(number, witnesses=witnesses, opened=at))
    limit = setup.rules.round_pace_max_per_hour
    if not limit:
        return table, (opened,)
    within = tuple(ns for ns in table.paces if at.mono_ns - ns < _HOUR_NS)
    if len(within) < limit:
        return replace(table, paces=(*within, at.mono_ns)), (opened,)
    text = f"more than {limit} rounds within an hour"
    incident = Emit(Kind.INCIDENT, number, decision.incident("pace-exceeded", text))
    return replace(table, paces=(at.mono_ns,)), (opened, incident)


def next_throw(table: Table, at: Stamp) -> Table:
    """The dice are thrown again: same round, same shooter, stakes locked as they were."""
    current = table.round
    if current is None:
        return table
    return with_round(
        table,
        draw=Draw.NOT_STARTED,
        witnesses=(),
        draw_started=None,
        first_reading=None,
        at_rest=None,
        confirmed=None,
        early_draw=False,
        throw=Throw(current.throw.number + 1, awaited=at),
    )


def final(table: Table) -> Table:
    """The round has its final record."""
    if table.round is None:
        return replace(table, last_games=())
    games = tuple(w.game for w in table.round.witnesses)
    return replace(table, round=None, last_games=games, rested=table.round.at_rest or table.rested)
