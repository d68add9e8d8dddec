"""The gaming date: a night at the table belongs to the evening on which it began."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dollyd.wire.stamp import NS_PER_S


@dataclass(frozen=True, slots=True)
class GamingDay:
    """From UTC nanoseconds to the gaming date `YYYY-MM-DD` (rulebook 2.11, case T65).

    A value: two of the same zone and boundary are equal. A boundary that the clock shows twice, in the night
    it is set back, counts the first time.
    """

    zone: ZoneInfo
    begins: time

    def __call__(self, utc_ns: int) -> str:
        """The gaming date at this time."""
        now = datetime.fromtimestamp(utc_ns // NS_PER_S, tz=UTC)
        local = now.astimezone(self.zone)
        first_shown = datetime.combine(local.date(), self.begins, tzinfo=self.zone).astimezone(UTC)
        begun = local.time() >= self.begins or now >= first_shown
        return (local.date() if begun else local.date() - timedelta(days=1)).isoformat()

    def span_ns(self, day: date) -> tuple[int, int]:
        """When the gaming day of this date begins and ends, UTC nanoseconds. Raises OverflowError."""
        return self._beginning_s(day) * NS_PER_S, self._beginning_s(day + timedelta(days=1)) * NS_PER_S

    def _beginning_s(self, day: date) -> int:
        boundary = datetime.combine(day, self.begins, tzinfo=self.zone)
        first, other = (int(boundary.replace(fold=fold).timestamp()) for fold in (0, 1))
        # A boundary that the clock leaves out, in the night it is set forward: the moment in which it is.
        # Before it, both ways to read the boundary differ the other way round than in the night of autumn.
        while other + 1 < first:
            middle = (first + other) // 2
            is_begun = self(middle * NS_PER_S) >= day.isoformat()
            first, other = (middle, other) if is_begun else (first, middle)
        return first


def gaming_day(timezone: str, boundary: str) -> GamingDay:
    """The gaming days of a place.

    `boundary` is the local time `HH:MM` at which a new gaming day begins; what happens before it belongs to
    the day before. Raises ValueError or KeyError (`ZoneInfoNotFoundError`) where one of the two is not valid.
    """
    return GamingDay(ZoneInfo(timezone), datetime.strptime(boundary, "%H:%M").replace(tzinfo=UTC).time())
