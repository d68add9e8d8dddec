"""What is done now and then while the tables play: the clock watched, health told, room kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from dollyd.daemon.clock import Clock
from dollyd.daemon.core.events import ClockStepped
from dollyd.daemon.core.stamp import NS_PER_MS, NS_PER_S
from dollyd.daemon.engine import house
from dollyd.daemon.journal import Journal
from dollyd.daemon.settings import Settings
from dollyd.daemon.table import TableRunner

CLOCK_STEP_NS = 20 * NS_PER_MS
"""A clock that is slewed gains or loses 0.5 ms a second at most; more between two looks is a step."""
_LOOK_EVERY_NS = NS_PER_S
_HEALTH_EVERY_LOOKS = 5
_PRUNE_EVERY_LOOKS = 60

Tables: TypeAlias = Mapping[str, TableRunner]


class Upkeep:
    """Looks around once a second. `publish_health` is called every few looks."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        journal: Journal,
        tables: Tables,
        publish_health: Callable[[], None],
    ) -> None:
        self.loop_lag_ms = 0
        """How late the last look was: what kept the event loop busy."""
        self._settings = settings
        self._clock = clock
        self._journal = journal
        self._tables = tables
        self._publish_health = publish_health
        self._offset_ns = _utc_offset_ns(clock)

    async def run(self) -> None:
        """Look around until cancelled."""
        looks, due_ns = 0, self._clock.stamp().mono_ns
        while True:
            due_ns += _LOOK_EVERY_NS
            await self._clock.sleep_until(due_ns)
            now = self._clock.stamp()
            self.loop_lag_ms = max(0, now.mono_ns - due_ns) // NS_PER_MS
            due_ns = max(due_ns, now.mono_ns - _LOOK_EVERY_NS)
            self._look_at_the_clock()
            looks += 1
            if looks % _HEALTH_EVERY_LOOKS == 1:
                self._publish_health()
            if looks % _PRUNE_EVERY_LOOKS == 0:
                limit = self._settings.journal.captures_max_mb * 1_000_000
                await asyncio.to_thread(self._journal.prune_captures, limit)

    def _look_at_the_clock(self) -> None:
        now = self._clock.stamp()
        step_ns = _utc_offset_ns(self._clock) - self._offset_ns
        self._offset_ns += step_ns
        if abs(step_ns) > CLOCK_STEP_NS:
            for table in self._tables.values():
                table.tell(house(ClockStepped(step_ns), now))


def _utc_offset_ns(clock: Clock) -> int:
    at = clock.stamp()
    return at.utc_ns - at.mono_ns
