"""How long something took: last, longest, and a histogram that never grows."""

from __future__ import annotations

from bisect import bisect_left

from dollyd.wire.stamp import NS_PER_S

BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
"""Upper bounds of the buckets; a last one takes what is longer."""
_NS_PER_US = 1000


class Durations:
    """Noted by one thread, read by any."""

    def __init__(self) -> None:
        self.last_us = 0
        self.max_us = 0
        self.count = 0
        self.sum_us = 0
        self.buckets = [0] * (len(BOUNDS_MS) + 1)
        """How many took at most the bound and more than the one before."""

    def note(self, duration_ns: int) -> None:
        """One more."""
        self.last_us = duration_ns // _NS_PER_US
        self.max_us = max(self.max_us, self.last_us)
        self.count += 1
        self.sum_us += self.last_us
        self.buckets[bisect_left(BOUNDS_MS, duration_ns * 1000 / NS_PER_S)] += 1
