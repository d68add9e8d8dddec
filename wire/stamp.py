"""Points in time as the core sees them: data that came with an event, never a clock that is read."""

from __future__ import annotations

from dataclasses import dataclass

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
_SECONDS_PER_DAY = 86_400
CLOCK_STEP_NS = 20 * NS_PER_MS
"""A clock that is slewed gains or loses 0.5 ms a second at most; more between two looks is a step."""
DOWN_MAX_NS = 31 * _SECONDS_PER_DAY * NS_PER_S
"""A table is hardly out of use for longer; a clock that says so is rather wrong."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """When an input reached the host.

    `mono_ns` (monotonic, since boot) is what durations and deadlines are made of. `utc_ns` (since 1970)
    is written into records for people, and never subtracted.
    """

    mono_ns: int
    utc_ns: int


def civil_date(day: int) -> tuple[int, int, int]:
    """Year, month and day of the proleptic Gregorian calendar, `day` days after 1970-01-01."""
    # Eras of 400 years that begin on 1 March make the leap day the last day of the last year.
    day += 719_468
    era, day_of_era = divmod(day, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return (
        year_of_era + era * 400 + (month <= 2),
        month,
        day_of_year - (153 * shifted_month + 2) // 5 + 1,
    )


def iso_utc(utc_ns: int) -> str:
    """RFC 3339 text with nanoseconds, e.g. `2026-11-29T18:41:20.000000005Z`."""
    seconds, fraction = divmod(utc_ns, NS_PER_S)
    day, second = divmod(seconds, _SECONDS_PER_DAY)
    year, month, day_of_month = civil_date(day)
    hour, minute = divmod(second // 60, 60)
    return f"{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second % 60:02}.{fraction:09}Z"
