"""Times as text, against the standard library's calendar."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dollyd.wire.stamp import NS_PER_S, civil_date, iso_utc

EPOCH = date(1970, 1, 1)
FIRST_DAY = (date.min - EPOCH).days
LAST_DAY = (date.max - EPOCH).days


def test_every_day_of_four_centuries_has_its_date() -> None:
    first = (date(1800, 1, 1) - EPOCH).days
    for day in range(first, first + 146_097 + 366):
        expected = EPOCH + timedelta(days=day)
        assert civil_date(day) == (expected.year, expected.month, expected.day)


@given(st.integers(FIRST_DAY, LAST_DAY))
def test_any_day_has_its_date(day: int) -> None:
    expected = EPOCH + timedelta(days=day)
    assert civil_date(day) == (expected.year, expected.month, expected.day)


@given(st.datetimes(timezones=st.just(UTC)), st.integers(0, 999))
def test_any_instant_reads_as_the_standard_library_writes_it(moment: datetime, nanoseconds: int) -> None:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    whole = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    assert iso_utc(microseconds * 1_000 + nanoseconds) == f"{whole}{nanoseconds:03}Z"


@pytest.mark.parametrize(
    ("utc_ns", "text"),
    [
        pytest.param(0, "1970-01-01T00:00:00.000000000Z", id="epoch"),
        pytest.param(-1, "1969-12-31T23:59:59.999999999Z", id="a-moment-before"),
        pytest.param(1_795_977_680 * NS_PER_S + 5, "2026-11-29T18:41:20.000000005Z", id="nanoseconds"),
        pytest.param(951_782_400 * NS_PER_S, "2000-02-29T00:00:00.000000000Z", id="leap-day-of-2000"),
        pytest.param(4_107_542_400 * NS_PER_S, "2100-03-01T00:00:00.000000000Z", id="no-leap-day-in-2100"),
        pytest.param(2_147_483_648 * NS_PER_S, "2038-01-19T03:14:08.000000000Z", id="past-32-bits"),
    ],
)
def test_known_instants(utc_ns: int, text: str) -> None:
    assert iso_utc(utc_ns) == text
