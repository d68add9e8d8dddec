"""What is done now and then while tables play: clock watched, health told, chains summed up, room made."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from dollyd.daemon.core.events import ClockStepped, Event, HostIncident
from dollyd.daemon.health.halts import Halt, Halts
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.disk import Level, Limits, level
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.tasks import Pulse
from dollyd.daemon.journal.audit import Audit
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.settings.load import Settings
from dollyd.daemon.table.engine import house
from dollyd.daemon.table.runner import TableRunner
from dollyd.wire.errors import JournalError
from dollyd.wire.stamp import CLOCK_STEP_NS, DOWN_MAX_NS, NS_PER_MS, NS_PER_S, iso_utc

_LOOK_EVERY_NS = NS_PER_S
_HEALTH_EVERY_LOOKS = 5
_PRUNE_EVERY_LOOKS = 60
_NS_PER_DAY = 86_400 * NS_PER_S
_MINUTE_NS = 60 * NS_PER_S
_MB = 1_000_000
_TEXT_MAX = 500

_LOG = Logger(__name__)

Tables: TypeAlias = Mapping[str, TableRunner]


class Upkeep:
    """Looks around once a second; `publish_health` and `take_checkpoints` are called every so many looks."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        journal: Journal,
        tables: Tables,
        publish_health: Callable[[], None],
        take_checkpoints: Callable[[], None],
    ) -> None:
        self.loop_lag_ms = 0
        """How late the last look was: what kept the event loop busy."""
        self.loop_lag_max_ms = 0
        self.clock_steps = 0
        """Steps of UTC since the start."""
        self.last_step_ms = 0
        self.halts = Halts(self._tell)
        self.pulse = Pulse()
        self._settings = settings
        self._clock = clock
        self._journal = journal
        self._tables = tables
        self._publish_health = publish_health
        self._take_checkpoints = take_checkpoints
        self._offset_ns = _utc_offset_ns(clock)
        self._started_ns = clock.stamp().mono_ns
        self._level = Level.PLENTY
        self._limits = _limits(settings)
        self._pruning = False
        """The last step of pruning has not removed all."""
        self._prune_problem = ""
        self._held_by = ""
        self._synchronised = clock.quality().synchronised
        self._synchronised_told_ns = self._started_ns - _MINUTE_NS
        self._prune_waits = ""
        self._pruned: dict[str, int] = {}
        """By table the record up to which its chain was removed."""

    async def run(self) -> None:
        """Look around until cancelled."""
        looks, due_ns = 0, self._clock.stamp().mono_ns
        while True:
            due_ns += _LOOK_EVERY_NS
            await self._clock.sleep_until(due_ns)
            self.pulse.beat()
            now = self._clock.stamp()
            self.loop_lag_ms = max(0, now.mono_ns - due_ns) // NS_PER_MS
            self.loop_lag_max_ms = max(self.loop_lag_max_ms, self.loop_lag_ms)
            due_ns = max(due_ns, now.mono_ns - _LOOK_EVERY_NS)
            self._look_at_the_clock()
            await asyncio.to_thread(self._journal.check_files)
            self._look_who_holds_the_journal()
            self._tell_of_the_disk(await asyncio.to_thread(self._free_bytes))
            looks += 1
            if looks % _HEALTH_EVERY_LOOKS == 1:
                self._publish_health()
            if looks % self._settings.journal.checkpoint_every_s == 0:
                self._take_checkpoints()
            if self._pruning or looks % _PRUNE_EVERY_LOOKS == 0:
                self._pruning = await self._prune_a_step()

    def use(self, settings: Settings) -> None:
        """Go by other limits of the journal from the next look on."""
        self._settings = settings
        self._limits = _limits(settings)

    def look_at_the_disk(self) -> None:
        """What `run` does each second; to be called once before devices are heard. Raises `JournalError`."""
        self._tell_of_the_disk(self._free_bytes())

    def _look_at_the_clock(self) -> None:
        step_ns = _utc_offset_ns(self._clock) - self._offset_ns
        self._offset_ns += step_ns
        stepped, changed = abs(step_ns) > CLOCK_STEP_NS, self._synchronisation_changed()
        if stepped:
            self.clock_steps += 1
            self.last_step_ms = int(step_ns / NS_PER_MS)
        if stepped or changed:
            self._tell(ClockStepped(step_ns if stepped else 0, self._synchronised if changed else None))

    def _synchronisation_changed(self) -> bool:
        """Whether the kernel began or ceased to vouch for UTC; one that flaps is told once a minute."""
        now = self._clock.stamp().mono_ns
        is_synchronised = self._clock.quality().synchronised
        if is_synchronised == self._synchronised or now < self._synchronised_told_ns + _MINUTE_NS:
            return False
        self._synchronised, self._synchronised_told_ns = is_synchronised, now
        return True

    def _look_who_holds_the_journal(self) -> None:
        holder = self._journal.held_by
        if bool(holder) == bool(self._held_by):
            return
        self._held_by = holder
        if holder:
            _LOG.error("journal_held", by=holder, remedy="end the program, or have it give up its lock")
        else:
            _LOG.info("journal_free")
        self.halts.put(Halt.JOURNAL_HELD, holds=bool(holder))

    def audited(self, found: Audit) -> None:
        """An unsound journal is told in every chain, and lets no round begin unless the profile says so."""
        if found.problems:
            self._tell(HostIncident(Halt.JOURNAL_UNSOUND, found.problems[0][:_TEXT_MAX]))
        self.halts.put(Halt.JOURNAL_UNSOUND, holds=bool(found.problems))

    # --- room ----------------------------------------------------------------------------------------

    def _free_bytes(self) -> int:
        try:
            disk = os.statvfs(Path(self._settings.journal.path).parent)
        except OSError as error:
            raise JournalError(
                f"{self._settings.journal.path}: its disk cannot be seen: {error.strerror}"
            ) from error
        return disk.f_bavail * disk.f_frsize

    def _tell_of_the_disk(self, free_bytes: int) -> None:
        before, self._level = self._level, level(free_bytes, self._level, self._limits)
        if self._level is before:
            return
        self._journal.keep_captures = self._level is Level.PLENTY
        free_mb = free_bytes // _MB
        if before is Level.PLENTY:
            self._tell(HostIncident("captures-stopped", f"{free_mb} MB are free: raw captures are not kept"))
        elif self._level is Level.PLENTY:
            self._tell(HostIncident("captures-resumed", f"{free_mb} MB are free: raw captures are kept"))
        if self._level is Level.FULL:
            _LOG.error("disk_full", free_mb=free_mb, floor_mb=self._settings.journal.floor_mb)
            self.halts.put(Halt.DISK_FULL, holds=True)
            return
        _LOG.warning("disk_room", level=str(self._level), free_mb=free_mb)
        if before is Level.FULL:
            self.halts.put(Halt.DISK_FULL, holds=False)

    async def _prune_a_step(self) -> bool:
        """Whether there may be more to remove. Old records that cannot be removed do not stop play."""
        problem, removed = "", 0
        self._look_whether_to_prune()
        try:
            self._tell_what_was_pruned()
            removed = await asyncio.to_thread(self._prune)
            self._tell_what_was_pruned()
        except JournalError as error:
            problem = str(error)
        if problem and not self._prune_problem:
            _LOG.error("not_pruned", problem=problem)
            self._tell(HostIncident("not-pruned", problem))
        self._prune_problem = problem
        return removed > 0

    def _prune(self) -> int:
        """One step; gives how many captures and records it removed."""
        section = self._settings.journal
        removed = self._journal.prune_captures(section.captures_max_mb * _MB)
        if section.keep_days is not None and not self._prune_waits:
            removed += self._journal.prune_records(
                iso_utc(self._surely_past_ns() - section.keep_days * _NS_PER_DAY)
            )
        return removed

    def _surely_past_ns(self) -> int:
        """A time that is not ahead of the true one, whatever a clock shows that was set wrong.

        The newest record of before this start, and from there as long as this process has run and a table
        may have been out of use.
        """
        now = self._clock.stamp()
        if not self._journal.newest_utc_ns:
            return now.utc_ns
        return min(now.utc_ns, self._journal.newest_utc_ns + now.mono_ns - self._started_ns + DOWN_MAX_NS)

    def _look_whether_to_prune(self) -> None:
        """What is removed does not come back: nothing is, by a clock that nobody vouches for."""
        waits = ""
        if self._settings.journal.keep_days is not None and not self._clock.quality().synchronised:
            waits = "the clock is not synchronised: records are not removed by their age"
        if waits and not self._prune_waits:
            _LOG.warning("pruning_waits", why=waits)
            self._tell(HostIncident("pruning-waits", waits))
        self._prune_waits = waits

    def _tell_what_was_pruned(self) -> None:
        for table in self._tables.values():
            upto = self._journal.pruned_upto(table.chain)
            before = self._pruned.setdefault(table.name, upto)
            if upto > before:
                self._pruned[table.name] = upto
                _LOG.info("records_pruned", table=table.name, chain=table.chain, first=before + 1, last=upto)
                text = f"records {before + 1} to {upto} were removed by their age"
                table.tell(house(HostIncident("records-pruned", text), self._clock.stamp()))

    def _tell(self, event: Event) -> None:
        now = self._clock.stamp()
        for table in self._tables.values():
            table.tell(house(event, now))


def _utc_offset_ns(clock: Clock) -> int:
    at = clock.stamp()
    return at.utc_ns - at.mono_ns


def _limits(settings: Settings) -> Limits:
    return Limits(settings.journal.low_mb * _MB, settings.journal.floor_mb * _MB)
