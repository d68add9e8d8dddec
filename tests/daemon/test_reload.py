"""When a table's change comes: between two rounds, with nothing unwritten, and no stakes imprisoned."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from tests.support.broker import until

from dollyd.daemon.table import reload
from dollyd.daemon.table.reload import TableChanges
from dollyd.wire.errors import ConfigError


class Floor:
    """One table, r1, and everything that may stand against its change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.round: Any = SimpleNamespace(number=7)
        self.unwritten = True
        self.imprisoned = True
        self.changed: list[str] = []
        self.told: list[bool] = []
        runner = SimpleNamespace(
            settings="old",
            engine=SimpleNamespace(table=self),
            set_reload_waits=lambda *, waits: self.told.append(waits),
        )
        writer = SimpleNamespace(has_chain=lambda _: True, holds=lambda _: self.unwritten)
        journal = SimpleNamespace(tail=lambda _: None)
        monkeypatch.setattr(reload, "plays_another", lambda *_: True)
        monkeypatch.setattr(reload, "check_version_change", self._check)
        parts = ("dollyd.toml", {"r1": runner}, journal, writer, self._carry_out)
        self.changes = TableChanges(*(cast("Any", part) for part in parts))

    def _check(self, file: str, *_: Any) -> None:
        if self.imprisoned:
            raise ConfigError(file, "tables.r1.variant", "stakes may be imprisoned", "make sure")

    async def _carry_out(self, name: str, new: Any) -> None:
        self.changed.append(f"{name} {new}")


async def settled(changes: TableChanges) -> None:
    changes.look()
    for _ in range(5):
        await asyncio.sleep(0)


async def test_t63_a_change_waits_for_the_round_its_records_and_imprisoned_stakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    floor = Floor(monkeypatch)
    with capture_logs() as logs:
        task = asyncio.create_task(floor.changes.run())
        floor.changes.want(cast("Any", {"r1": "new"}))
        await settled(floor.changes)
        floor.round = None
        await settled(floor.changes)
        floor.unwritten = False
        await settled(floor.changes)
    assert (floor.changes.waiting, floor.changed) == (["r1"], [])
    assert [one["event"] for one in logs].count("reload_waits") == 1
    floor.imprisoned = False
    await settled(floor.changes)
    await until(lambda: floor.changed == ["r1 new"])
    assert floor.changes.waiting == []
    assert floor.told == [True, False]
    task.cancel()
    await asyncio.wait({task})


async def test_a_later_configuration_takes_the_place_of_one_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    floor = Floor(monkeypatch)
    task = asyncio.create_task(floor.changes.run())
    floor.changes.want(cast("Any", {"r1": "new"}))
    await settled(floor.changes)
    floor.changes.want(cast("Any", {"r1": "old"}))
    floor.round, floor.unwritten, floor.imprisoned = None, False, False
    await settled(floor.changes)
    assert floor.changed == []
    floor.changes.want({})
    await settled(floor.changes)
    assert floor.changed == ["r1 None"]
    task.cancel()
    await asyncio.wait({task})
