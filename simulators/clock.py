"""Virtual time: a clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools

from dollyd.daemon.host.clock import Quality
from dollyd.simulators.faults import Switchboard
from dollyd.wire.stamp import NS_PER_S, Stamp

START_MONO_NS = 1_000 * NS_PER_S
START_UTC_NS = 1_800_000_000 * NS_PER_S
"""2027-01-15T08:00:00Z: any fixed instant will do."""
_JUMP_NS = 3600 * NS_PER_S
_SETTLE_ROUNDS = 20
"""Turns of the event loop given to whoever was woken, so that chains of callbacks come to rest."""


class VirtualClock:
    """The `Clock` protocol of `dollyd.daemon.host.clock` without real time.

    Sync tests use `stamp` and `advance`. Async tests use `run_for`, which moves from sleeper to sleeper and
    lets each do its work at its own instant.
    """

    def __init__(
        self, mono_ns: int = START_MONO_NS, utc_ns: int = START_UTC_NS, boot: str = "boot-1"
    ) -> None:
        self.boot = boot
        self.synchronised = True
        self.error_bound_us = 500
        self.faults = Switchboard("clock")
        self._mono_ns = mono_ns
        self._utc_offset_ns = utc_ns - mono_ns
        self._order = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def stamp(self) -> Stamp:
        """Both clocks, read together."""
        jump_ns = _JUMP_NS if self.faults.on("clock-jump") else 0
        return Stamp(self._mono_ns, self._mono_ns + self._utc_offset_ns + jump_ns)

    def quality(self) -> Quality:
        """As set: `synchronised` and `error_bound_us` (-1 where not synchronised)."""
        return Quality(self.synchronised, self.error_bound_us if self.synchronised else -1)

    def step_utc(self, step_ns: int) -> None:
        """Move UTC against the monotonic clock, as a time service or an operator does."""
        self._utc_offset_ns += step_ns

    async def sleep_until(self, mono_ns: int) -> None:
        """Wait until the monotonic clock shows `mono_ns`."""
        if mono_ns <= self._mono_ns:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (mono_ns, next(self._order), woken))
        await woken

    def next_wake_ns(self) -> int | None:
        """When the first sleeper is due, or None."""
        while self._sleepers and self._sleepers[0][2].done():  # cancelled
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def advance(self, ns: int) -> None:
        """Jump ahead; whoever is due wakes in order of time, and finds the clock already at the end."""
        self._move_to(self._mono_ns + ns)

    async def run_for(self, ns: int) -> None:
        """Move ahead from sleeper to sleeper; each wakes at its own instant and runs before the next."""
        end_ns = self._mono_ns + ns
        await settle()
        while (due_ns := self.next_wake_ns()) is not None and due_ns <= end_ns:
            self._move_to(due_ns)
            await settle()
        self._move_to(end_ns)
        await settle()

    def _move_to(self, mono_ns: int) -> None:
        while (due_ns := self.next_wake_ns()) is not None and due_ns <= mono_ns:
            heapq.heappop(self._sleepers)[2].set_result(None)
        self._mono_ns = max(self._mono_ns, mono_ns)


async def settle() -> None:
    """Let every task that can run do so, without letting time pass."""
    for _ in range(_SETTLE_ROUNDS):
        await asyncio.sleep(0)
