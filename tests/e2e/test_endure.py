"""The course of an evening in which everything happens; the evening itself is `make endure`."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice
from random import Random

import pytest
from tools.endure.act import Strikes
from tools.endure.course import Account, Turns, deck, table_of
from tools.endure.troubles import NOT_MADE, TROUBLES

NUMBERS = {
    *(f"F{number}" for number in range(1, 13)),
    *(f"N{number}" for number in range(1, 15) if number != 12),
}


def test_every_number_happens_or_it_is_said_why_not() -> None:
    made = [one.number for one in TROUBLES]
    assert max(Counter(made).values()) == 1
    assert {*made, *NOT_MADE} == NUMBERS
    assert not NOT_MADE.keys() & set(made)


@pytest.mark.parametrize("kind", Strikes)
def test_a_seed_is_a_course_and_each_trouble_comes_once_before_any_comes_again(kind: Strikes) -> None:
    own = {one.number for one in TROUBLES if one.strikes is kind}
    first = list(islice(deck(Random(3), kind, TROUBLES), 3 * len(own)))
    assert first == list(islice(deck(Random(3), kind, TROUBLES), 3 * len(own)))
    assert first != list(islice(deck(Random(4), kind, TROUBLES), 3 * len(own)))
    assert [number for number, _, _ in first] == list(range(3 * len(own)))
    for begin in range(0, 3 * len(own), len(own)):
        assert {one.number for _, one, _ in first[begin : begin + len(own)]} == own


def test_the_table_says_what_was_left_out_and_how_long_each_took() -> None:
    text = table_of({"F5": Account(2, 11.7)}, {"N11": "there is no PostgreSQL"})
    (line,) = (line for line in text.splitlines() if line.startswith("F5 "))
    assert line.split()[-5:] == ["2", "11.7", "s", "60", "s"]
    assert "left out: there is no PostgreSQL" in text
    assert all(number in text for number in NUMBERS)


async def test_tables_are_struck_together_and_the_house_alone() -> None:
    turns, under_way, most = Turns(), Counter[Strikes](), Counter[Strikes]()

    async def strike(kind: Strikes) -> None:
        async with turns.take(kind):
            under_way[kind] += 1
            most[kind] = max(most[kind], under_way[kind])
            assert not under_way[Strikes.HOUSE] or under_way.total() == 1
            for _ in range(3):
                await asyncio.sleep(0)
            under_way[kind] -= 1

    kinds = [Strikes.TABLE, Strikes.TABLE, Strikes.HOUSE, Strikes.TABLE, Strikes.HOUSE, Strikes.TABLE]
    await asyncio.gather(*map(strike, kinds))
    assert most == {Strikes.TABLE: 2, Strikes.HOUSE: 1}
