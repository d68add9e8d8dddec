"""Refused commands as incidents of the chain: the first ones of a minute each, the rest as one number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dollyd.daemon.core.events import HostIncident
from dollyd.daemon.host.clock import Clock
from dollyd.wire.stamp import NS_PER_S

WHAT = "command-refused"
TOLD_A_MINUTE = 10
"""A table; more are counted only, or whoever may send could fill its chain."""
_WINDOW_NS = 60 * NS_PER_S
_LOOK_EVERY_NS = NS_PER_S
_TEXT_MAX = 300


@dataclass(slots=True)
class _Minute:
    since_ns: int
    told: int = 0
    more: int = 0


class Refusals:
    """Tells `report` of a table's refusals; `run` closes the minutes."""

    def __init__(self, clock: Clock, report: Callable[[str, HostIncident], None]) -> None:
        self._clock = clock
        self._report = report
        self._minutes: dict[str, _Minute] = {}

    def note(self, table: str, why: str) -> None:
        """A command was refused."""
        self.look()
        minute = self._minutes.setdefault(table, _Minute(self._clock.stamp().mono_ns))
        if minute.told < TOLD_A_MINUTE:
            minute.told += 1
            self._report(table, HostIncident(WHAT, why[:_TEXT_MAX]))
        else:
            minute.more += 1

    async def run(self) -> None:
        """Look once a second until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.stamp().mono_ns + _LOOK_EVERY_NS)
            self.look()

    def look(self) -> None:
        """Sum up the minutes that are over."""
        now_ns = self._clock.stamp().mono_ns
        self._end([table for table, one in self._minutes.items() if now_ns - one.since_ns >= _WINDOW_NS])

    def sum_up(self) -> None:
        """Sum up all minutes, before a stop."""
        self._end(list(self._minutes))

    def _end(self, tables: list[str]) -> None:
        for table in tables:
            more = self._minutes.pop(table).more
            if more:
                self._report(table, HostIncident(WHAT, f"{more} more within a minute"))
