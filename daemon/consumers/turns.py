"""Whose turn it is among consumers that wait: a fair share for each name, however many there are.

Who had least goes first, and among equals who asked first. A name that comes begins with what each of those
that wait might have had by now, so that nobody lives on what was left in quiet hours, and names that are ever
new are not before the others. Where too many wait, the busiest goes, and among equals the one that asked
first the latest: whoever asks again is before all who only came meanwhile.

Pure: times are handed in.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

WAITING_MAX = 100
"""Names that wait at a time."""
NAMES_KEPT = 10_000
"""Names whose share is remembered, those that asked last."""


@dataclass(slots=True)
class _Name:
    since: int
    """The place of its first request among all of them."""
    share: float
    """What it had, in units of cost, on the scale of `Turns._share`."""


class Turns:
    """The names that wait."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Name] = OrderedDict()
        self._waiting: dict[str, _Name] = {}
        self._share = 0.0
        """What a name has had by now that waited all the time, were all costs divided evenly."""
        self._came = 0

    def come(self, name: str) -> str:
        """A name waits from now on; gives the one that has to go for it, itself perhaps, empty where none."""
        self._came += 1
        one = self._known.setdefault(name, _Name(self._came, self._share))
        self._known.move_to_end(name)
        if len(self._known) > NAMES_KEPT:
            self._known.popitem(last=False)
        if name not in self._waiting:
            one.share = max(one.share, self._share)
            self._waiting[name] = one
        if len(self._waiting) <= WAITING_MAX:
            return ""
        goes = max(self._waiting, key=self._order)
        del self._waiting[goes]
        return goes

    def next(self) -> str:
        """The name whose turn it is; some name waits."""
        return min(self._waiting, key=self._order)

    def charge(self, name: str, cost: int) -> None:
        """It had so much."""
        self._share += cost / max(1, len(self._waiting))
        if name in self._waiting:
            self._waiting[name].share += cost

    def leave(self, name: str) -> None:
        """It waits for nothing more; its share is remembered."""
        self._waiting.pop(name, None)

    def _order(self, name: str) -> tuple[float, int]:
        one = self._waiting[name]
        return one.share, one.since
