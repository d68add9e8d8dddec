"""How often the incidents of a device or of a person are told.

A loose plug, a flag that blinks or a key that is stuck makes the same incident again and again. Of each kind,
in each round, the first few of a minute become records; the rest are counted and told as one when the minute
is over. What an incident tells of has had its effect by then, told or not; who is refused is answered.
"""

from __future__ import annotations

from dataclasses import replace

from dollyd.daemon.core import decision
from dollyd.daemon.core.changes import view
from dollyd.daemon.core.effects import Effect, Emit, Stepped, Untold
from dollyd.daemon.core.state import Repeated, Table
from dollyd.wire.record import IncidentBody, Kind
from dollyd.wire.stamp import NS_PER_S, Stamp

TOLD_MAX = 10
"""Incidents of one kind and round that a device or a person may make records of within a minute."""

_MINUTE_NS = 60 * NS_PER_S


def telling_due_ns(table: Table) -> int | None:
    """Monotonic time at which incidents that were only counted are told, or None."""
    return min((one.since_ns + _MINUTE_NS for one in table.repeated if one.count > TOLD_MAX), default=None)


def tell_sparingly(table: Table, effects: tuple[Effect, ...], at: Stamp) -> Stepped:
    """Leave out what was told often enough, and tell what was left out in a minute that is over."""
    over = tuple(one for one in table.repeated if not 0 <= at.mono_ns - one.since_ns < _MINUTE_NS)
    if not over and not any(_kind_of(effect) for effect in effects):
        return table, effects
    counted = {(one.device, one.what, one.round, one.by): one for one in table.repeated if one not in over}
    told: list[Effect] = [_left_out(table, one) for one in over if one.count > TOLD_MAX]
    for effect in effects:
        kind = _kind_of(effect)
        if kind:
            before = counted.get(kind) or Repeated(*kind[:3], at.mono_ns, by=kind[3])
            counted[kind] = replace(before, count=before.count + 1)
        if not kind or counted[kind].count <= TOLD_MAX:
            told.append(effect)
        elif kind[3] and isinstance(effect, Emit) and isinstance(effect.body, IncidentBody):
            told.append(Untold(effect.body))  # who asked is answered all the same
    return replace(table, repeated=tuple(counted.values())), tuple(told)


def _kind_of(effect: Effect) -> tuple[str, str, int, str] | None:
    """Device, kind, round and person of an incident, None for everything else and for those of the host."""
    if not isinstance(effect, Emit) or not isinstance(effect.body, IncidentBody):
        return None
    device, by = effect.body.device or "", effect.body.details.get("by", "")
    return (device, effect.body.what, effect.round, by) if device or by else None


def _left_out(table: Table, one: Repeated) -> Emit:
    text = "the same incident came more often within a minute than is told one by one"
    more = {
        "what": one.what,
        "count": str(one.count - TOLD_MAX),
    }
    more |= {"by": one.by} if one.by else {"status": view(table, one.device).status}
    return Emit(Kind.INCIDENT, one.round, decision.incident("repeated", text, one.device, more))
