"""Whose turn it is among consumers, in virtual time: no name and no number of names starves another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from dollyd.daemon.consumers.replay import RECORDS_A_TURN, RECORDS_PER_S
from dollyd.daemon.consumers.turns import WAITING_MAX, Turns

COST = 1 + RECORDS_A_TURN
TURN_S = COST / RECORDS_PER_S
HONEST = "honest"
PATIENCE_S = 60
"""How long a consumer waits for a gap to become smaller before it raises it."""


def waits_of_the_honest(flood: Callable[[int], list[str]], asks_every_s: float, for_s: float) -> list[float]:
    """Seconds between the turns of a consumer that asks every so often, among names that come each turn."""
    turns, asked_s, had_s, waits = Turns(), -asks_every_s, 0.0, list[float]()
    for number in range(WAITING_MAX):
        turns.come(f"early-{number}")
    for turn in range(int(for_s / TURN_S)):
        now_s = turn * TURN_S
        if now_s - asked_s >= asks_every_s:
            asked_s = now_s
            turns.come(HONEST)
        for name in flood(turn):
            turns.come(name)
        name = turns.next()
        turns.charge(name, COST)
        if name == HONEST:
            waits.append(now_s - had_s)
            had_s = now_s
    return [*waits, for_s - had_s]


def ever_new(a_second: int) -> Callable[[int], list[str]]:
    names = count()
    return lambda _turn: [f"new-{next(names)}" for _ in range(int(a_second * TURN_S))]


def again_and_again(number: int) -> Callable[[int], list[str]]:
    names = count()
    return lambda _turn: [f"again-{next(names) % number}" for _ in range(26)]


@pytest.mark.parametrize(
    "flood",
    [ever_new(50), ever_new(500), again_and_again(1), again_and_again(30), again_and_again(300)],
    ids=["50 new a second", "500 new a second", "one", "30", "300"],
)
@pytest.mark.parametrize("asks_every_s", [5.0, 15.0])
def test_attack_8_names_without_number_starve_nobody_who_asks_again(
    flood: Callable[[int], list[str]], asks_every_s: float
) -> None:
    waits = waits_of_the_honest(flood, asks_every_s, 150)
    assert len(waits) > 1
    assert max(waits) < PATIENCE_S


def test_what_was_had_in_quiet_hours_is_not_paid_for_later() -> None:
    turns = Turns()
    turns.come("old")
    for _ in range(1000):
        turns.charge(turns.next(), COST)
    turns.come("new")
    had = []
    for _ in range(10):
        had.append(turns.next())
        turns.charge(had[-1], COST)
    assert sorted(had) == ["new"] * 5 + ["old"] * 5


def test_who_left_and_comes_again_has_no_new_share() -> None:
    turns = Turns()
    turns.come("patient")
    turns.come("restless")
    had = []
    for _ in range(10):
        had.append(turns.next())
        turns.charge(had[-1], COST)
        turns.leave("restless")
        turns.come("restless")
    assert had.count("patient") >= 5
