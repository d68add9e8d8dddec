"""Devices at a hundred times their speed, beside a table that plays on as if it were alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.virtual_tables import Pit, Played, at_work, most_within

from dollyd.daemon.core.budget import RECORDS_AT_ONCE, RECORDS_PER_S, TABLE_SHARE
from dollyd.simulators.demo.tables import TABLES
from dollyd.simulators.kinds import KINDS
from dollyd.wire.record import Kind

FASTEST_MS = 5
"""A hundredth of a status period."""
PLAYED_MS = 16_000
ONE_INPUT = 12
"""What the input that goes beyond the budget may cause, with the fault, the loss and the new beginning."""
HEALTHY = "roulette-1"
QUICKLY_SHOWN = {"roulette-5", "craps-1"}
"""A display that announces its games, and dice with a camera."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Kind, int, int]]:
    with pytest.MonkeyPatch.context() as patches:
        return asyncio.run(healthy_beside("", tmp_path_factory.mktemp("alone"), Pit(patches)))


async def healthy_beside(fast: str, folder: Path, pit: Pit) -> list[tuple[Kind, int, int]]:
    tables = [Played(HEALTHY, folder / "healthy")]
    tables += [Played(fast, folder / "fast", FASTEST_MS, shipped=True)] if fast else []
    async with at_work(pit, *tables):
        await pit.run_for(PLAYED_MS)
    return [(draft.kind, draft.round, draft.at.mono_ns) for draft in pit.kept.of(HEALTHY)]


def test_the_tables_have_every_kind_of_device() -> None:
    used = {device.kind for shown in TABLES.values() for device in shown.evening.devices.values()}
    assert KINDS.keys() - used <= {"onerng"}, "which says what a TrueRNG says"


@pytest.mark.parametrize(
    "fast",
    [
        pytest.param(name, marks=[] if name in QUICKLY_SHOWN else pytest.mark.long)
        for name in TABLES
        if name != HEALTHY
    ],
)
def test_attack_4_a_table_a_hundred_times_too_fast_makes_few_records_and_no_results(
    fast: str, alone: list[tuple[Kind, int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pit = Pit(monkeypatch)
    beside = asyncio.run(healthy_beside(fast, tmp_path, pit))
    assert sum(kind is Kind.RESULT for kind, _, _ in beside) >= 2
    assert beside == alone, "record by record, at the same times"
    assert pit.kept.of(fast, Kind.ROUND), "it was heard"
    # A display tells of a game when it is over: the first one has no game before it to be compared with.
    unseen = pit.runners[fast].settings.setup.opens_by_announcement
    assert len(pit.kept.of(fast, Kind.RESULT)) <= int(unseen)
    per_10_s = TABLE_SHARE * (RECORDS_AT_ONCE + 10 * RECORDS_PER_S) + ONE_INPUT
    assert most_within(pit.kept.of(fast)) <= per_10_s
