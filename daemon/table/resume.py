"""The state with which a table goes on: after a restart, or under another configuration."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from dollyd.daemon.core.bound import bound_by
from dollyd.daemon.core.events import OddsDrawn, Restarted
from dollyd.daemon.core.state import DeviceView, Mark, Round, Setup, Table
from dollyd.daemon.journal.entry import utc_ns
from dollyd.daemon.journal.store import Tail
from dollyd.daemon.journal.tail import BY_CONFIGURATION
from dollyd.daemon.table.engine import Engine
from dollyd.drivers.spec import DeviceProtocol
from dollyd.wire.record import Odds
from dollyd.wire.stamp import Stamp


def carried_over(old: Engine, setup: Setup, kept: Container[str]) -> Table:
    """The state of a table between two rounds, under another setup, with those devices that are `kept`."""
    table = replace(
        old.table,
        last_games=tuple(game for game in old.table.last_games if game.device in kept),
        running=tuple(game for game in old.table.running if game.device in kept),
        devices=tuple(view for view in old.table.devices if view.name in kept),
    )
    if any(name not in kept for name in setup.witnesses):  # another wheel has another last spin
        table = replace(table, wheel_direction="")
    if any(device.role == "odds" and device.name not in kept for device in setup.devices):
        table = replace(table, odds_counter=-1)  # another box counts its own draws
    if old.setup.game is not setup.game:  # what one game remembers means nothing to another
        table = replace(table, memory=(), wheel_direction="", proposal=None)
    return table


def opens_by_itself(tail: Tail | None) -> bool:
    """Whether the table waits for nobody: it never was open, or was taken out of the configuration open."""
    if tail is None:
        return True
    if tail.session is None:
        return not tail.closed_before
    return not tail.session_open and tail.session["body"]["by"] == BY_CONFIGURATION


def closed_by_people(tail: Tail | None) -> bool:
    """Whether people had closed the table at the end of a chain."""
    return tail is not None and not tail.session_open and not opens_by_itself(tail)


def restored(setup: Setup, tail: Tail, at: Stamp) -> Table:
    """The state of a table as its journal tells it; a round under way was interrupted.

    Which way the wheel turned last is not asked of it: spins may have been missed.
    """
    current = None
    if tail.open_round is not None:
        current = Round(tail.open_round, opened=None, interrupted=True)
        if tail.doubt is not None:
            current = _unresolved(current, tail.doubt["body"], at)
    return Table(
        open=tail.session_open,
        opened_at=_opened_at(tail, at) if tail.session_open else None,
        number=tail.last_round,
        inspection=tail.inspection,
        round=current,
        devices=tuple(
            DeviceView(bound.name, bound=bound_by(tuple(tail.devices[bound.name].identity.items())))
            for bound in sorted(setup.devices, key=lambda device: device.name)
            if bound.name in tail.devices
        ),
        memory=setup.game.after(tail.results[-1]["body"]["outcome"]) if tail.results else (),
        odds_counter=tail.odds_counter,
        manual=bool(tail.results) and tail.results[-1]["body"].get("mode") == "manual",
    )


def restarted(tail: Tail, at: Stamp, boot: str) -> Restarted:
    """What a table is told after a start: how long ago its last record was, by each clock that can say."""
    mono_ns = at.mono_ns - tail.last_mono_ns if tail.last_boot == boot != "unknown" else -1
    return Restarted(tail.last_utc, at.utc_ns - utc_ns(tail.last_utc), max(-1, mono_ns))


def remind(protocols: Mapping[str, DeviceProtocol], tail: Tail) -> None:
    """Tell devices in which game the journal has seen them last."""
    for name, known in tail.devices.items():
        if name in protocols and known.game:
            protocols[name].remember(known.game, utc_ns(known.utc))


def _unresolved(current: Round, body: Mapping[str, Any], at: Stamp) -> Round:
    """A round as its record tells it: people may still decide it, by the odds table drawn for it."""
    current = replace(current, unresolved=Mark(body["rule"], at))
    if "odds" not in body:
        return current
    told = msgspec.convert(body["odds"], Odds)
    drawn = OddsDrawn(told.device, current.number, told.table, told.counter, told.nonce, told.proof)
    return replace(current, odds=drawn, odds_at=Stamp(told.drawn.monotonic_ns, utc_ns(told.drawn.utc)))


def _opened_at(tail: Tail, at: Stamp) -> Stamp:
    """When the session began, as its record says; its monotonic time belongs to an earlier run."""
    return Stamp(at.mono_ns, utc_ns(tail.session["body"]["opened_at"]) if tail.session else at.utc_ns)
