"""Devices that cost others something: too many records, a slow disk, libraries that raise anything."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.scripted import GOOD, Script, Table, running, scripted

from dollyd.daemon.core.budget import PAUSE_MS
from dollyd.daemon.host.stall import STALL_MS
from dollyd.daemon.table import session as session_module
from dollyd.simulators.clock import settle
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S


@pytest.fixture
def table() -> Table:
    return Table()


async def test_attack_4_a_device_that_was_too_fast_is_left_alone_for_longer_each_time(table: Table) -> None:
    script = Script(None)
    session = scripted(table, script)
    async with running(session):
        waits_ms = []
        for _ in range(3):
            await settle()
            script.data(GOOD)
            dropped_ns = script.clock.stamp().mono_ns
            session.drop("too-fast")
            await settle()
            session.wake()  # plugging it in anew does not help
            await script.clock.run_for(4 * PAUSE_MS * NS_PER_MS)
            waits_ms.append((script.asked_at_ns[-1] - dropped_ns) / NS_PER_MS)
    first, second, third = waits_ms
    assert PAUSE_MS / 2 <= first <= PAUSE_MS
    assert PAUSE_MS <= second <= 2 * PAUSE_MS
    assert 2 * PAUSE_MS <= third <= 4 * PAUSE_MS


@pytest.mark.parametrize("held_ms", [900, 1_100])
async def test_attack_4_a_device_that_is_held_loses_nothing_unless_for_too_long(
    table: Table, held_ms: int
) -> None:
    script = Script(None)
    session = scripted(table, script)
    async with running(session):
        await settle()
        session.hold(held=True)
        await script.clock.run_for(held_ms * NS_PER_MS)
        session.hold(held=False)
        script.data(GOOD)
    assert script.holds == [True, False]
    old = held_ms > STALL_MS
    assert table.told == (["opened", "lost host-stalled", "opened"] if old else ["opened"])
    assert len(table.frames) == (0 if old else 1)


async def test_f5_an_open_that_never_ends_is_left_and_tried_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "OPEN_S", 0.05)
    script = Script(None)
    plain, closed, left = script.open, list[bool](), asyncio.Event()

    async def never(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    session = scripted(table, script)
    monkeypatch.setattr(script, "open", never)
    monkeypatch.setattr(script, "close", lambda: closed.append(True))
    async with running(session):
        async with asyncio.timeout(10):
            await left.wait()
        monkeypatch.setattr(script, "open", plain)
        await settle()
        assert session.cause == "hung"
        assert session.counters["failed.hung"] == 1
        assert closed
        await script.clock.run_for(NS_PER_S)
        assert table.told == ["opened"]


@pytest.mark.parametrize("error", [AttributeError("x"), KeyError(1), NotImplementedError(), AssertionError()])
@pytest.mark.parametrize("call", ["open", "write", "close", "overruns", "altered", "explain", "hold"])
async def test_f6_whatever_a_transport_raises_is_trouble_of_the_device(
    call: str, error: Exception, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> bool:
        raise error

    script = Script(None)
    session = scripted(table, script)
    async with running(session):
        await settle()
        with monkeypatch.context() as patches:
            patches.setattr(script, call, broken)
            session.send(b"?")
            session.hold(held=True)
            script.data(GOOD)
            session.drop("noise")
            await script.clock.run_for(NS_PER_S)
        await script.clock.run_for(PAUSE_MS * NS_PER_MS)
        script.data(GOOD)
        assert session.cause == ""
    assert table.told[-1] == "opened"
