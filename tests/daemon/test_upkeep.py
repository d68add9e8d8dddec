"""Room on the disk as tables are told of it, and pruning in small steps; the clock is in test_clock."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.daemon.test_settings import refused, written
from tests.support.broker import until
from tests.support.simulated import SETUP, SimulatedTable, protocols

from dollyd.daemon.core.events import HostIncident, PlayHalted
from dollyd.daemon.health.upkeep import Upkeep
from dollyd.daemon.journal.audit import Audit
from dollyd.daemon.settings.sections import JournalSection
from dollyd.daemon.table.capture import rederive
from dollyd.daemon.table.engine import Input, house
from dollyd.simulators.clock import VirtualClock
from dollyd.wire.errors import JournalError
from dollyd.wire.record import Kind
from dollyd.wire.round_rules import RoundRules
from dollyd.wire.stamp import NS_PER_S, iso_utc

MB = 1_000_000


class Host:
    """A journal and a table that note what they are told, and a disk with as much room as a test says."""

    def __init__(self, section: JournalSection, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free_mb = 1_000
        self.told: list[tuple[str, str]] = []
        self.steps: list[dict[str, Any]] = []
        self.pruned: list[str] = []
        self.old_records = 0
        self.unreadable = False
        self.captures_limits: list[int] = []
        self.journal = SimpleNamespace(
            keep_captures=True,
            held_by="",
            newest_utc_ns=0,
            pruned_upto=lambda _chain: 0,
            check_files=lambda: None,
            prune_captures=self._prune_captures,
            prune_records=self._prune_records,
        )
        self.clock = VirtualClock()
        self.looked = asyncio.Event()
        monkeypatch.setattr(os, "statvfs", self._statvfs)
        settings = SimpleNamespace(journal=section)
        tables = {"r1": SimpleNamespace(name="r1", chain="c", tell=self._tell)}
        self.upkeep = Upkeep(
            cast("Any", settings),
            self.clock,
            cast("Any", self.journal),
            cast("Any", tables),
            lambda: None,
            self.looked.set,
        )

    def _statvfs(self, path: Path) -> Any:
        return SimpleNamespace(f_bavail=self.free_mb, f_frsize=MB)

    def _tell(self, item: Input) -> None:
        event = msgspec.json.decode(item.text)
        if event["event"] == "ClockStepped":
            self.steps.append(event)
            return
        self.told.append((event["event"], event.get("what") or event["reason"]))

    def _prune_captures(self, max_bytes: int) -> int:
        self.captures_limits.append(max_bytes)
        return 0

    def _prune_records(self, before_utc: str) -> int:
        self.pruned.append(before_utc)
        if self.unreadable:
            raise JournalError("old records cannot be read")
        removed = min(1_000, self.old_records)
        self.old_records -= removed
        return removed

    def has(self, free_mb: int) -> list[tuple[str, str]]:
        """What is told when so much is free."""
        self.free_mb = free_mb
        self.told.clear()
        self.upkeep.look_at_the_disk()
        return list(self.told)

    async def run_for(self, looks: int) -> None:
        task = asyncio.create_task(self.upkeep.run())
        for _ in range(looks):
            await until(lambda: self.clock.next_wake_ns() is not None)
            self.clock.advance(NS_PER_S)
            await until(self.looked.is_set)
            self.looked.clear()
        await until(lambda: self.clock.next_wake_ns() is not None)
        task.cancel()
        await asyncio.wait({task})


def section(**changes: Any) -> JournalSection:
    return JournalSection("journal.db", checkpoint_every_s=1, low_mb=200, floor_mb=50, **changes)


def test_b48_less_and_less_room_is_told_once_a_level_and_so_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(section(), monkeypatch)
    assert host.has(200) == []
    assert host.journal.keep_captures
    assert host.has(199) == [("HostIncident", "captures-stopped")]
    assert not host.journal.keep_captures
    assert host.has(51) == []
    assert host.has(49) == [("PlayHalted", "disk-full")]
    assert host.has(20) == []
    assert host.has(60) == []  # not yet a quarter more than the floor
    assert host.has(63) == [("PlayHalted", "")]
    assert not host.journal.keep_captures
    assert host.has(250) == [("HostIncident", "captures-resumed")]
    assert host.journal.keep_captures
    assert host.has(10) == [("HostIncident", "captures-stopped"), ("PlayHalted", "disk-full")]
    assert host.has(500) == [("HostIncident", "captures-resumed"), ("PlayHalted", "")]


async def test_n14_no_round_begins_while_another_program_holds_the_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(section(), monkeypatch)
    host.journal.held_by = "sqlitebrowser (pid 812)"
    await host.run_for(2)
    assert host.told[-1:] == [("PlayHalted", "journal-held")]
    host.journal.held_by = ""
    await host.run_for(2)
    assert host.told[-2:] == [("PlayHalted", "journal-held"), ("PlayHalted", "")]


def test_a_disk_that_cannot_be_seen_is_a_failure_of_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(section(), monkeypatch)

    def gone(_path: Path) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "statvfs", gone)
    with pytest.raises(JournalError, match="Input/output error"):
        host.upkeep.look_at_the_disk()


def test_what_the_host_says_is_in_the_captures_and_derived_again() -> None:
    table = SimulatedTable(48)
    table.start()
    halted = 0
    for _ in range(60):
        table.run(7)
        reason = "" if table.engine.table.halted else "disk-full"
        halted += reason != "" and table.engine.table.round is not None
        table.feed(house(PlayHalted(reason), table.at()))
        table.feed(house(HostIncident("captures-stopped", "9 MB are free"), table.at()))
    assert halted > 5
    results = table.of_kind(Kind.RESULT)
    assert any(b'"event\\":\\"PlayHalted' in record.capture for record in results)
    for record in results:
        again = [one for one in rederive(SETUP, protocols(), record.capture) if one.capture]
        assert again[-1].body == record.body
    gaps = [msgspec.json.decode(record.body) for record in table.of_kind(Kind.GAP)]
    assert sum(gap["count"] for gap in gaps) > 2
    rules = RoundRules()
    assert not [why for one in table.records if (why := rules.take(one.kind, one.round, "auto"))]


async def test_old_records_go_in_a_step_a_second_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(section(keep_days=30), monkeypatch)
    host.old_records = 2_500
    start = host.clock.stamp()
    await host.run_for(66)
    # The first step comes after a minute; then one each second until a step finds nothing.
    month_ns = 30 * 86_400 * NS_PER_S
    assert host.pruned == [iso_utc(start.utc_ns + look * NS_PER_S - month_ns) for look in range(60, 64)]
    assert set(host.captures_limits) == {500 * MB}


async def test_old_records_that_cannot_be_removed_are_told_once_and_stop_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(section(keep_days=30), monkeypatch)
    host.unreadable = True
    await host.run_for(185)
    assert len(host.pruned) == 3
    assert host.told == [("HostIncident", "not-pruned")]
    host.unreadable = False
    await host.run_for(61)
    host.unreadable = True
    await host.run_for(61)
    assert host.told == [("HostIncident", "not-pruned")] * 2


async def test_n6_records_are_not_removed_by_a_clock_that_is_years_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(section(keep_days=365), monkeypatch)
    newest_ns = host.clock.stamp().utc_ns
    host.journal.newest_utc_ns = newest_ns
    host.clock.step_utc(73 * 365 * 86_400 * NS_PER_S)
    await host.run_for(61)
    (before,) = host.pruned
    assert before < iso_utc(newest_ns - 300 * 86_400 * NS_PER_S)


async def test_n6_nothing_is_removed_while_the_clock_is_not_synchronised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(section(keep_days=365), monkeypatch)
    host.clock.synchronised = False
    await host.run_for(185)
    assert host.pruned == []
    assert host.told.count(("HostIncident", "pruning-waits")) == 1
    host.clock.synchronised = True
    await host.run_for(61)
    assert len(host.pruned) == 1


async def test_n6_what_was_removed_is_told_with_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(section(keep_days=365), monkeypatch)
    upto = iter([0, 34, *[34] * 100])
    host.journal.pruned_upto = lambda _chain: next(upto)
    with capture_logs() as logs:
        await host.run_for(121)
    assert host.told == [("HostIncident", "records-pruned")]
    assert [(one["first"], one["last"]) for one in logs if one["event"] == "records_pruned"] == [(1, 34)]


async def test_f9_the_first_synchronisation_is_a_clock_record_and_one_that_flaps_is_told_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(section(), monkeypatch)
    host.steps.clear()
    for look in range(60):
        host.clock.synchronised = look % 2 == 1
        await host.run_for(1)
    assert [(event["step_ns"], event["synchronised"]) for event in host.steps] == [(0, False)]


async def test_records_are_kept_for_ever_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(section(), monkeypatch)
    await host.run_for(61)
    assert host.pruned == []
    assert host.captures_limits == [500 * MB]


def test_a_floor_above_the_low_mark_is_refused(tmp_path: Path) -> None:
    change = "floor_mb = 50 ", "floor_mb = 201 "
    assert refused(written(tmp_path, change)).key == "journal.floor_mb"


def test_f11_an_unsound_journal_is_told_and_halts_until_it_is_found_sound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(section(), monkeypatch)
    host.upkeep.audited(Audit(time="", records=5, problems=("record 16 is missing",)))
    assert host.told == [("HostIncident", "journal-unsound"), ("PlayHalted", "journal-unsound")]
    host.upkeep.audited(Audit(time="", records=5))
    assert host.told[-1] == ("PlayHalted", "")
