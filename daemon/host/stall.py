"""Whether the event loop was held: the machine stood still, was suspended, or gave us no time.

What is read behind that was said before, and nobody knows when. `look` is called at a steady beat, and by
whoever is about to believe that what it reads happened just now.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dollyd.daemon.host.clock import Clock
from dollyd.wire.stamp import NS_PER_MS

STALL_MS = 1_000
"""A loop that was held for so long is a loss on every line."""
OLD_MS = 200
"""What is read within this time behind a stall had been waiting."""
_BEAT_MS = 250


def boottime_ns() -> int:
    """Time since boot, that of a suspended machine included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class StallWatch:
    """Tells of each stall once, before anything that was read behind it is believed."""

    def __init__(
        self, clock: Clock, on_stall: Callable[[int], None], now_ns: Callable[[], int] = boottime_ns
    ) -> None:
        """`on_stall` is told the length in ms; it may call `look` again."""
        self._clock = clock
        self._on_stall = on_stall
        self._now_ns = now_ns
        self._looked_ns = now_ns()

    def look(self) -> None:
        """Tell of a stall since the last look, if there was one."""
        now_ns = self._now_ns()
        held_ms = (now_ns - self._looked_ns) // NS_PER_MS
        self._looked_ns = now_ns
        if held_ms >= STALL_MS + _BEAT_MS:
            self._on_stall(held_ms)

    async def run(self) -> None:
        """Look at a steady beat until cancelled."""
        self._looked_ns = self._now_ns()
        while True:
            await self._clock.sleep_until(self._clock.stamp().mono_ns + _BEAT_MS * NS_PER_MS)
            self.look()
