"""How long to wait before something is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from dollyd.wire.stamp import NS_PER_S


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses doubled from `first_s` to `max_s`; `taken_over_s` while two share a client id."""

    first_s: float = 0.2
    max_s: float = 30.0
    taken_over_s: float = 60.0

    def pause_ns(self, failures: int, rng: Random, *, taken_over: bool = False) -> int:
        """The pause after so many failures before this one; never the same for everybody."""
        longest_s = min(self.max_s, self.first_s * 2 ** min(failures, 30))
        return int((self.taken_over_s if taken_over else longest_s) * rng.uniform(0.5, 1.0) * NS_PER_S)
