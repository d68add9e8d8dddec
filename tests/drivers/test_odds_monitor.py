"""The frequency monitor of odds draws (rulebook 2.8, T64)."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from random import Random

import pytest

from dollyd.drivers.protocols.odds_monitor import (
    ONES_IN_A_ROW_MAX,
    TOO_FEW,
    TOO_MANY,
    TWOS_IN_A_ROW_MAX,
    WINDOW,
    OddsMonitor,
)

ALARM_LEVEL = Fraction(6, 10_000)


def watched(tables: list[int]) -> tuple[OddsMonitor, list[str]]:
    monitor, alarms = OddsMonitor(), list[str]()
    for table in tables:
        monitor = monitor.after(table)
        alarms.append(monitor.alarm)
    return monitor, alarms


def spread(twos: int, draws: int = WINDOW) -> list[int]:
    """So many table-2 draws, as evenly as can be."""
    return [2 if number * twos // draws != (number + 1) * twos // draws else 1 for number in range(draws)]


@pytest.mark.parametrize(("twos", "alarm"), [(69, "table-2-too-seldom"), (70, "")])
def test_t64_69_of_3000_draws_alarm_and_70_do_not(twos: int, alarm: str) -> None:
    _, alarms = watched(spread(twos))
    assert alarms[:-1] == [""] * (WINDOW - 1), "too few is known when the window is full"
    assert alarms[-1] == alarm


@pytest.mark.parametrize(("twos", "alarm"), [(133, ""), (134, "table-2-too-often")])
def test_t64_too_many_of_3000_draws_alarm(twos: int, alarm: str) -> None:
    _, alarms = watched(spread(twos))
    assert alarms[-1] == alarm


def test_too_many_are_known_before_the_window_is_full() -> None:
    _, alarms = watched(spread(300))
    assert alarms.index("table-2-too-often") < WINDOW // 2


def test_t64_the_limits_are_those_of_the_alarm_level() -> None:
    def exactly(twos: int) -> Fraction:
        return Fraction(comb(WINDOW, twos) * 29 ** (WINDOW - twos), 30**WINDOW)

    few = sum((exactly(twos) for twos in range(TOO_FEW + 1)), Fraction(0))
    many = 1 - sum((exactly(twos) for twos in range(TOO_MANY)), Fraction(0))
    assert few <= ALARM_LEVEL < few + exactly(TOO_FEW + 1)
    assert many <= ALARM_LEVEL < many + exactly(TOO_MANY - 1)
    assert WINDOW / (few + many) > 2_600_000


@pytest.mark.parametrize(("table", "limit"), [(1, ONES_IN_A_ROW_MAX), (2, TWOS_IN_A_ROW_MAX)])
def test_a_run_of_one_table_is_stuck(table: int, limit: int) -> None:
    _, alarms = watched([table] * limit)
    assert alarms == [""] * (limit - 1) + ["stuck"]


def test_a_run_goes_on_over_the_end_of_a_window() -> None:
    draws = spread(100)
    draws[-4:] = [2, 2, 2, 2]
    _, alarms = watched([*draws, 2])
    assert alarms[-1] == "stuck"


def test_each_window_is_counted_by_itself() -> None:
    _, alarms = watched(spread(100) + spread(69))
    assert alarms.count("") == 2 * WINDOW - 1
    assert alarms[-1] == "table-2-too-seldom"


def test_after_an_alarm_everything_is_counted_anew() -> None:
    monitor, _ = watched([2] * TWOS_IN_A_ROW_MAX)
    assert monitor.after(1) == OddsMonitor(1, 0, -1)


def test_a_technician_ends_a_run_and_not_a_count() -> None:
    monitor, _ = watched([1] * 500 + [2] * 4)
    assert monitor.reconnected() == OddsMonitor(504, 4, 0)


def test_a_sound_generator_is_left_alone() -> None:
    rng = Random(64)
    _, alarms = watched([2 if rng.randrange(30) == 0 else 1 for _ in range(30 * WINDOW)])
    assert set(alarms) == {""}


@pytest.mark.parametrize("one_in", [18, 60])
def test_a_generator_off_by_two_thirds_is_found_within_two_windows(one_in: int) -> None:
    rng = Random(one_in)
    _, alarms = watched([2 if rng.randrange(one_in) == 0 else 1 for _ in range(2 * WINDOW)])
    assert set(alarms) - {""}
