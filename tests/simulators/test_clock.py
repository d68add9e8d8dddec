"""The virtual clock: order of waking, cancellation, steps of UTC."""

from __future__ import annotations

import asyncio

from dollyd.daemon.host.clock import Clock, Quality
from dollyd.simulators.clock import START_MONO_NS, VirtualClock
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S


def test_is_a_clock_that_stands_until_moved() -> None:
    clock: Clock = VirtualClock()
    assert clock.stamp() == clock.stamp()


def test_step_moves_utc_only() -> None:
    clock = VirtualClock()
    before = clock.stamp()
    clock.step_utc(-3 * NS_PER_S)
    assert clock.stamp().mono_ns == before.mono_ns
    assert clock.stamp().utc_ns == before.utc_ns - 3 * NS_PER_S


def test_unsynchronised_clock_vouches_for_nothing() -> None:
    clock = VirtualClock()
    clock.synchronised = False
    assert clock.quality() == Quality(synchronised=False, error_bound_us=-1)


async def test_sleepers_wake_each_at_its_own_instant() -> None:
    clock = VirtualClock()
    woken: list[tuple[str, int]] = []

    async def ticker(name: str, period_ns: int, times: int) -> None:
        for _ in range(times):
            await clock.sleep_until(clock.stamp().mono_ns + period_ns)
            woken.append((name, (clock.stamp().mono_ns - START_MONO_NS) // NS_PER_MS))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ticker("slow", 300 * NS_PER_MS, 2))
        tasks.create_task(ticker("fast", 200 * NS_PER_MS, 3))
        await clock.run_for(NS_PER_S)
    assert woken == [("fast", 200), ("slow", 300), ("fast", 400), ("slow", 600), ("fast", 600)]
    assert clock.stamp().mono_ns == START_MONO_NS + NS_PER_S


async def test_a_jump_wakes_everybody_due_in_order_of_time() -> None:
    clock = VirtualClock()
    woken: list[int] = []

    async def sleeper(after_ns: int) -> None:
        await clock.sleep_until(START_MONO_NS + after_ns)
        woken.append(after_ns)

    async with asyncio.TaskGroup() as tasks:
        for after_ns in (30, 10, 20):
            tasks.create_task(sleeper(after_ns))
        await asyncio.sleep(0)
        clock.advance(40)
    assert woken == [10, 20, 30]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep_until(START_MONO_NS + 10))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clock.next_wake_ns() is None
    await clock.run_for(20)
