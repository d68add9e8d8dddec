"""How much may pass: so many at once, so many a second in the long run. Pure: times are handed in."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from dollyd.wire.stamp import NS_PER_S


@dataclass(frozen=True, slots=True)
class Rate:
    """`at_once` in a burst, `per_s` in the long run."""

    per_s: float
    at_once: int


class Allowance:
    """One allowance, full at first."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._left = float(rate.at_once)
        self._at_ns = 0

    def take(self, now_ns: int) -> bool:
        """Whether one more may pass; `now_ns` is monotonic."""
        gained = (now_ns - self._at_ns) * self._rate.per_s / NS_PER_S
        self._left, self._at_ns = min(self._rate.at_once, self._left + gained), now_ns
        passes = self._left >= 1
        self._left -= passes
        return passes


class Allowances:
    """One allowance a name. The `names_max` names that came last are remembered; another one begins anew."""

    def __init__(self, rate: Rate, names_max: int) -> None:
        self._rate = rate
        self._names_max = names_max
        self._of: OrderedDict[str, Allowance] = OrderedDict()

    def take(self, name: str, now_ns: int) -> bool:
        """Whether one more of this name may pass."""
        allowance = self._of.setdefault(name, Allowance(self._rate))
        self._of.move_to_end(name)
        if len(self._of) > self._names_max:
            self._of.popitem(last=False)
        return allowance.take(now_ns)
