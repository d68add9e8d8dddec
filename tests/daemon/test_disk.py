"""Room on the disk: the level falls at once, rises late, and never trembles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dollyd.daemon.host.disk import Level, Limits, level

LIMITS = Limits(low_bytes=1_000, floor_bytes=100)
ROOM = [Level.FULL, Level.LOW, Level.PLENTY]


@pytest.mark.parametrize(
    ("free", "before", "after"),
    [
        (1_000, Level.PLENTY, Level.PLENTY),
        (999, Level.PLENTY, Level.LOW),
        (1_249, Level.LOW, Level.LOW),
        (1_250, Level.LOW, Level.PLENTY),
        (100, Level.LOW, Level.LOW),
        (99, Level.LOW, Level.FULL),
        (99, Level.PLENTY, Level.FULL),
        (124, Level.FULL, Level.FULL),
        (125, Level.FULL, Level.LOW),
        (1_249, Level.FULL, Level.LOW),
        (1_250, Level.FULL, Level.PLENTY),
        (0, Level.PLENTY, Level.FULL),
    ],
)
def test_the_level_falls_at_a_limit_and_rises_above_it(free: int, before: Level, after: Level) -> None:
    assert level(free, before, LIMITS) is after


@given(st.integers(0, 2_000), st.sampled_from(Level), st.integers(0, 500), st.integers(0, 500))
def test_the_level_is_settled_at_once_and_more_room_is_never_worse(
    free: int, before: Level, floor: int, above: int
) -> None:
    limits = Limits(floor + above, floor)
    now = level(free, before, limits)
    assert level(free, now, limits) is now
    assert ROOM.index(level(free + 1, before, limits)) >= ROOM.index(now)


def test_without_limits_there_is_always_room() -> None:
    assert level(0, Level.PLENTY, Limits(0, 0)) is Level.PLENTY
