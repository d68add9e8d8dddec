"""Whether a device is the one that the table knows, over connections and restarts.

Who a device is stands in what it says of itself. A serial number proves it; one that has none is known by
what there is. Another one is told, and asks people: until they have inspected it no round begins, and the
round in progress has no number.
"""

from __future__ import annotations

from dataclasses import replace

from dollyd.daemon.core import decision
from dollyd.daemon.core.changes import round_number, view, with_round, with_view
from dollyd.daemon.core.effects import Emit, Stepped
from dollyd.daemon.core.events import DeviceChanged
from dollyd.daemon.core.state import Setup, Table
from dollyd.wire.record import Kind
from dollyd.wire.stamp import Stamp

DEVICE_CHANGED = "device-changed"
"""The incident, the doubt of the round in progress, and what is to be inspected."""

_BY_SERIAL = ("kind", "vendor", "model", "serial")
_WITHOUT = ("model", "pockets", "firmware")


def bound_by(identity: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The part of an identity that stays as long as the device does."""
    known = dict(identity)
    keys = _BY_SERIAL if known.get("serial") else _WITHOUT
    return tuple((key, known[key]) for key in keys if known.get(key))


def compared(table: Table, device: str, identity: tuple[tuple[str, str], ...]) -> Stepped:
    """A device says who it is: another one than before is news for people."""
    seen, now = view(table, device), dict(bound_by(identity))
    before = dict(seen.bound)
    other = [key for key in now if before.get(key, now[key]) != now[key]]
    if other or ("serial" in before and now and "serial" not in now):
        cause = ", ".join(f"{key} is {now[key]!r}, before it was {before[key]!r}" for key in other)
        return _changed(table, device, cause or "it shows no serial number, before it did", now)
    return with_view(table, replace(seen, bound=tuple(sorted((before | now).items())))), ()


def device_changed(_setup: Setup, table: Table, event: DeviceChanged, _at: Stamp) -> Stepped:
    """What a device without a serial number shows does not go on from what it showed before."""
    return _changed(table, event.device, event.cause, {})


def _changed(table: Table, device: str, cause: str, now: dict[str, str]) -> Stepped:
    table = with_view(table, replace(view(table, device), bound=tuple(sorted(now.items()))))
    incident = decision.incident(DEVICE_CHANGED, cause, device, now)
    told = Emit(Kind.INCIDENT, round_number(table), incident)
    table = with_round(table, device_changed=True)
    return replace(table, inspection=table.inspection or DEVICE_CHANGED), (told,)
