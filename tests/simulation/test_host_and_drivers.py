"""A machine that stands still, and libraries that raise anything: at a table of every game, every device."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.virtual_tables import Pit, Played, at_work

from dollyd.daemon.host.stall import OLD_MS
from dollyd.simulators.demo.tables import TABLES
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_MS

STALLED_MS = 3_000
LONGEST_PAUSE_MS = 10_000


def bodies(pit: Pit, table: str, *kinds: Kind) -> list[Any]:
    return [msgspec.json.decode(draft.body) for draft in pit.kept.of(table, *kinds)]


async def until_a_round(pit: Pit, table: str) -> None:
    """Play until a round is in progress."""
    for _ in range(1_000):
        current = pit.runners[table].engine.table.round
        if current is not None and not current.unresolved:
            return
        await pit.run_for(20)
    raise AssertionError("no round began")


@pytest.mark.parametrize("table", TABLES)
def test_n10_a_stall_is_a_loss_on_every_line_and_no_round_rests_on_what_was_read_behind_it(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pit = Pit(monkeypatch)

    async def evening() -> int:
        async with at_work(pit, Played(table, tmp_path / "files")):
            await until_a_round(pit, table)
            before = len(pit.kept.drafts)
            await pit.stand_still(STALLED_MS)
            woken_ns = pit.clock.stamp().mono_ns
            await pit.run_for(OLD_MS)
            behind = [draft for draft in pit.kept.drafts[before:] if draft.kind is Kind.RESULT]
            assert behind == [], "what is read behind a stall is old"
            await pit.run_for(25_000)
        return woken_ns

    woken_ns = asyncio.run(evening())
    stalls = [body for body in bodies(pit, table, Kind.INCIDENT) if body["what"] == "host-stalled"]
    assert len(stalls) == 1, "told once"
    assert STALLED_MS <= int(stalls[0]["details"]["length_ms"]) <= STALLED_MS + 300
    assert "host-stalled" in [body["rule"] for body in bodies(pit, table, Kind.UNRESOLVED)]
    for name, session in pit.runners[table].sessions.items():
        assert pit.ports[f"{table}-{name}"].opens == 1, "the port stays open"
        assert session.counters["old_bytes"] or not session.counters["bytes"] or name == "console", name
    results = pit.kept.of(table, Kind.RESULT)
    assert [draft for draft in results if draft.at.mono_ns > woken_ns + OLD_MS * NS_PER_MS], "it plays on"


TROUBLE = [
    AttributeError("no such member"),
    KeyError("iface"),
    RecursionError(),
    MemoryError(),
    UnicodeError(),
]


@pytest.mark.parametrize("table", TABLES)
def test_f6_whatever_the_library_of_a_device_raises_loses_that_device_for_a_while(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pit = Pit(monkeypatch)

    async def evening() -> None:
        async with at_work(pit, Played(table, tmp_path / "files")):
            await until_a_round(pit, table)
            ports = list(pit.ports.values())
            for port, trouble in zip(ports, TROUBLE, strict=False):
                port.trouble = trouble
            await pit.run_for(2_000)
            sessions = pit.runners[table].sessions
            assert {session.cause for session in sessions.values() if session.counters["bytes"]} == {
                "driver-error"
            }
            for port in ports:
                port.trouble = None
            await pit.run_for(LONGEST_PAUSE_MS + 12_000)
            assert all(session.cause == "" for session in sessions.values() if session.counters["bytes"])

    asyncio.run(evening())
    results = pit.kept.of(table, Kind.RESULT)
    assert results[-1].at.mono_ns > pit.kept.drafts[-1].at.mono_ns - 12_000 * NS_PER_MS, "it plays again"
