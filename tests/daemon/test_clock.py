"""Clocks that step, are wrong, or go back: durations are never negative, and order is never that of UTC."""

from __future__ import annotations

import asyncio
import re
import time
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.broker import until
from tests.support.simulated import SETUP, SimulatedTable, protocols

from dollyd.daemon.core.events import ClockStepped
from dollyd.daemon.health.upkeep import Upkeep
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.settings.sections import JournalSection
from dollyd.daemon.table.capture import rederive
from dollyd.daemon.table.engine import Engine, Input, NewRecord, house
from dollyd.simulators.clock import VirtualClock
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S, Stamp

HOUR_NS = 3600 * NS_PER_S
TOLD_IN_UTC = frozenset({"utc", "gaming_date", "opened_at", "closed_at", "capture"})
"""What a step may change in a record; the capture's digest, since its lines tell UTC too."""
steps = st.sampled_from([HOUR_NS, -HOUR_NS, NS_PER_S, -NS_PER_S])


@cache
def inputs() -> tuple[Input, ...]:
    """All that a table was told in some rounds."""
    table = SimulatedTable(49)
    table.start()
    table.run(400)
    assert len(table.of_kind(Kind.RESULT)) > 8
    return tuple(table.inputs)


def decided(told: list[Input]) -> list[NewRecord]:
    engine = Engine(SETUP, protocols())
    return [record for item in told for record in engine.feed(item).records]


@cache
def undisturbed() -> list[tuple[Kind, int, int, Any]]:
    return decisions(decided(list(inputs())))


def without_utc(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(r"/\d{13,}/", "/session/", value)  # named after the time at which the port was opened
    if isinstance(value, dict):
        return {key: without_utc(one) for key, one in value.items() if key not in TOLD_IN_UTC}
    return [without_utc(one) for one in value] if isinstance(value, list) else value


def decisions(records: list[NewRecord]) -> list[tuple[Kind, int, int, Any]]:
    """What was decided when, but for `clock` records and the time of day."""
    return [
        (record.kind, record.round, record.at.mono_ns, without_utc(msgspec.json.decode(record.body)))
        for record in records
        if record.kind is not Kind.CLOCK
    ]


def moments(value: Any) -> list[int]:
    """Every monotonic time in a body."""
    if isinstance(value, dict):
        own = [value["monotonic_ns"]] if "monotonic_ns" in value else []
        return own + [ns for one in value.values() for ns in moments(one)]
    return []


@given(st.dictionaries(st.integers(0, len(inputs()) - 1), steps, max_size=12))
@settings(max_examples=15, deadline=None)
def test_b49_steps_between_any_two_frames_change_no_decision_and_no_order(stepped: dict[int, int]) -> None:
    told: list[Input] = []
    offset_ns = 0
    for place, item in enumerate(inputs()):
        step_ns = stepped.get(place, 0)
        offset_ns += step_ns
        at = Stamp(item.at.mono_ns, item.at.utc_ns + offset_ns)
        if step_ns and told:
            told.append(house(ClockStepped(step_ns), Stamp(told[-1].at.mono_ns, at.utc_ns)))
        told.append(Input(item.op, at, item.device, item.text))
    records = decided(told)
    assert decisions(records) == undisturbed()
    clocks = [msgspec.json.decode(record.body)["step_ns"] for record in records if record.kind is Kind.CLOCK]
    assert clocks == [step_ns for place, step_ns in sorted(stepped.items()) if place]
    for record in records:
        if record.kind is Kind.RESULT:
            times = msgspec.json.decode(record.body)["evidence"]["times"]
            ns = moments({name: times[name] for name in ("opened", "draw_started", "at_rest", "confirmed")})
            assert ns == sorted(ns)
            again = [one for one in rederive(SETUP, protocols(), record.capture) if one.capture]
            assert again[-1].body == record.body


async def test_b49_a_step_is_told_to_every_table_and_a_slew_is_not() -> None:
    clock = VirtualClock()
    told: list[str] = []
    tables = {
        name: SimpleNamespace(tell=lambda item, name=name: told.append(f"{name} {item.text}"))
        for name in ("r1", "r2")
    }
    looks: list[int] = []
    section = JournalSection(".", low_mb=0, floor_mb=0, checkpoint_every_s=1)
    upkeep = Upkeep(
        cast("Any", SimpleNamespace(journal=section)),
        clock,
        cast("Any", SimpleNamespace(prune_captures=lambda _: 0, check_files=lambda: None, held_by="")),
        cast("Any", tables),
        lambda: None,
        lambda: looks.append(1),
    )
    task = asyncio.create_task(upkeep.run())
    for step_ns in (HOUR_NS, 0, -HOUR_NS, 15 * NS_PER_MS, -NS_PER_S):
        await until(lambda: clock.next_wake_ns() is not None)
        clock.step_utc(step_ns)
        clock.advance(NS_PER_S)
        await until(lambda: bool(looks))
        looks.clear()
    task.cancel()
    await asyncio.wait({task})
    steps_told = [msgspec.json.decode(line.split(" ", 1)[1])["step_ns"] for line in told]
    assert steps_told == [one for one in (HOUR_NS, -HOUR_NS, -NS_PER_S) for _ in tables]


@pytest.mark.parametrize("back_ns", [NS_PER_MS, HOUR_NS])
async def test_b51_a_monotonic_clock_that_goes_back_is_counted_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, back_ns: int
) -> None:
    kernel_ns = [2 * HOUR_NS]
    monkeypatch.setattr(time, "monotonic_ns", lambda: kernel_ns[0])
    clock = SystemClock()
    before_ns = clock.stamp().mono_ns
    kernel_ns[0] -= back_ns
    assert clock.stamp().mono_ns == before_ns
    assert clock.went_back == 1
    kernel_ns[0] += 5
    assert clock.stamp().mono_ns == before_ns + 5  # durations go on, or a table would stand for an hour
    assert clock.went_back == 1
    await asyncio.wait_for(clock.sleep_until(before_ns), 30)
    kernel_ns[0] -= 1
    assert clock.stamp().mono_ns == before_ns + 5
    assert clock.went_back == 2
