"""The times of the protocol, and how much of them a test allows."""

from __future__ import annotations

from dollyd.wire.stamp import NS_PER_MS

PERIOD_NS = 500 * NS_PER_MS
LEAST_NS, MOST_NS = PERIOD_NS * 8 // 10, PERIOD_NS * 12 // 10
"""A period, 20 % less or more."""
STALE_NS = 3 * PERIOD_NS
ANSWER_NS = 500 * NS_PER_MS
"""Within this time `HEL` answers `QRY` (4.1)."""
DRAW_NS = 1_000 * NS_PER_MS
"""Within this time an odds box answers (4.3)."""
LATE_NS = 1_100 * NS_PER_MS
"""Two repetitions would have come."""
UNASKED_NS = 750 * NS_PER_MS
"""An answer or a repetition would have come."""
SOON_NS = 250 * NS_PER_MS
"""At once; sooner than the next repetition."""
SLACK_NS = 300 * NS_PER_MS
