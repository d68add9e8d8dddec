"""The gaming date, over midnight and over the nights in which clocks are set (T65)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dollyd.daemon.settings.gaming_day import gaming_day
from dollyd.wire.stamp import NS_PER_S

HELSINKI = ZoneInfo("Europe/Helsinki")


def utc_ns(moment: datetime) -> int:
    return int(moment.timestamp()) * NS_PER_S


def local(text: str, fold: int = 0) -> int:
    """A local time of Helsinki; `fold=1` is its second showing in the night the clock is set back."""
    return utc_ns(datetime.fromisoformat(text).replace(tzinfo=HELSINKI, fold=fold))


@pytest.mark.parametrize(
    ("moment", "date"),
    [
        pytest.param("2026-11-02T02:15", "2026-11-01", id="T65"),
        pytest.param("2026-11-02T05:59:59", "2026-11-01", id="a-second-before"),
        pytest.param("2026-11-02T06:00", "2026-11-02", id="at-the-boundary"),
        pytest.param("2026-11-01T23:59:59", "2026-11-01", id="evening"),
        pytest.param("2026-11-02T00:00", "2026-11-01", id="midnight"),
        pytest.param("2027-01-01T03:00", "2026-12-31", id="new-year"),
        pytest.param("2028-03-01T03:00", "2028-02-29", id="leap-day"),
    ],
)
def test_what_comes_before_the_boundary_belongs_to_the_evening_before(moment: str, date: str) -> None:
    assert gaming_day("Europe/Helsinki", "06:00")(local(moment)) == date


def test_the_boundary_is_local_time() -> None:
    at_four_utc = utc_ns(datetime(2026, 11, 2, 4, 30, tzinfo=UTC))
    assert gaming_day("Europe/Helsinki", "06:00")(at_four_utc) == "2026-11-02"
    assert gaming_day("UTC", "06:00")(at_four_utc) == "2026-11-01"


def test_a_boundary_at_midnight_is_the_calendar() -> None:
    date_of = gaming_day("Europe/Helsinki", "00:00")
    assert date_of(local("2026-11-02T00:00")) == "2026-11-02"
    assert date_of(local("2026-11-01T23:59:59")) == "2026-11-01"


def test_the_night_the_clock_is_set_back_is_one_gaming_day() -> None:
    # 2026-10-25, 04:00 EEST becomes 03:00 EET: the hour from three to four comes twice.
    date_of = gaming_day("Europe/Helsinki", "06:00")
    for moment, fold in (("03:30", 0), ("03:30", 1), ("05:59", 0)):
        assert date_of(local(f"2026-10-25T{moment}", fold)) == "2026-10-24"
    assert date_of(local("2026-10-25T06:00")) == "2026-10-25"


def test_a_boundary_that_is_shown_twice_counts_the_first_time() -> None:
    date_of = gaming_day("Europe/Helsinki", "03:30")
    assert date_of(local("2026-10-25T03:29", fold=0)) == "2026-10-24"
    assert date_of(local("2026-10-25T03:30", fold=0)) == "2026-10-25"
    assert date_of(local("2026-10-25T03:10", fold=1)) == "2026-10-25", "the day does not go back"


def test_a_boundary_that_is_never_shown_counts_when_the_clock_jumps_over_it() -> None:
    # 2026-03-29, 03:00 EET becomes 04:00 EEST.
    date_of = gaming_day("Europe/Helsinki", "03:30")
    assert date_of(local("2026-03-29T02:59")) == "2026-03-28"
    assert date_of(local("2026-03-29T04:00")) == "2026-03-29"


@pytest.mark.parametrize("boundary", ["00:00", "02:30", "03:00", "03:30", "04:00", "06:00", "23:59"])
@pytest.mark.parametrize("night", ["2026-03-28", "2026-10-24"], ids=["clock-forward", "clock-back"])
def test_gaming_dates_never_go_back(night: str, boundary: str) -> None:
    date_of = gaming_day("Europe/Helsinki", boundary)
    noon = datetime.fromisoformat(f"{night}T12:00").replace(tzinfo=UTC)
    dates = [date_of(utc_ns(noon + timedelta(minutes=minute))) for minute in range(24 * 60)]
    assert dates == sorted(dates)
    assert len(set(dates)) == 2


@pytest.mark.parametrize(
    ("timezone", "boundary"),
    [
        ("Europe/Helsingfors", "06:00"),
        ("", "06:00"),
        ("Europe", "06:00"),
        ("../UTC", "06:00"),
        ("UTC", "25:00"),
        ("UTC", "6"),
        ("UTC", "06:00:00"),
    ],
)
def test_what_is_no_timezone_or_no_time_is_refused(timezone: str, boundary: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        gaming_day(timezone, boundary)


@pytest.mark.parametrize("day", ["2026-12-01", "2026-10-24", "2026-10-25", "2026-03-28", "2026-03-29"])
@pytest.mark.parametrize("boundary", ["00:00", "03:30", "06:00"])
def test_the_span_of_a_gaming_day_holds_its_times_and_no_other(day: str, boundary: str) -> None:
    """Also in the nights in which clocks are set, when a day has 23 or 25 hours."""
    date_of = gaming_day("Europe/Helsinki", boundary)
    begins, ends = date_of.span_ns(date.fromisoformat(day))
    assert date_of(begins) == date_of(ends - NS_PER_S) == day
    assert date_of(begins - NS_PER_S) < day < date_of(ends)
