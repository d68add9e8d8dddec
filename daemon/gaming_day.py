"""The gaming date: a night at the table belongs to the evening on which it began."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dollyd.daemon.core.stamp import NS_PER_S


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


def gaming_day(timezone: str, boundary: str) -> GamingDay:
    """The gaming days of a place.

    `boundary` is the local time `HH:MM` at which a new gaming day begins; what happens before it belongs to
    the day before. Raises ValueError or KeyError (`ZoneInfoNotFoundError`) where one of the two is not valid.
    """
    return GamingDay(ZoneInfo(timezone), datetime.strptime(boundary, "%H:%M").replace(tzinfo=UTC).time())
