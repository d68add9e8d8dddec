"""The gaming date: a night at the table belongs to the evening on which it began."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from dollyd.daemon.core.stamp import NS_PER_S


def gaming_day(timezone: str, boundary: str) -> Callable[[int], str]:
    """A function from UTC nanoseconds to the gaming date `YYYY-MM-DD` (rulebook 2.11, case T65).

    `boundary` is the local time `HH:MM` at which a new gaming day begins; what happens before it belongs to
    the day before. A boundary that the clock shows twice, in the night it is set back, counts the first time.
    Raises ValueError or KeyError (`ZoneInfoNotFoundError`) where one of the two is not valid.
    """
    zone = ZoneInfo(timezone)
    begins = datetime.strptime(boundary, "%H:%M").replace(tzinfo=UTC).time()

    def date_of(utc_ns: int) -> str:
        now = datetime.fromtimestamp(utc_ns // NS_PER_S, tz=UTC)
        local = now.astimezone(zone)
        first_shown = datetime.combine(local.date(), begins, tzinfo=zone).astimezone(UTC)
        begun = local.time() >= begins or now >= first_shown
        return (local.date() if begun else local.date() - timedelta(days=1)).isoformat()

    return date_of
