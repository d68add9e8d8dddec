"""Sic Bo: all 216 throws against the rules as sets of throws (rulebook 6)."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from tests.support.tables import game_setup

from dollyd.daemon.core.games.sic_bo import SIC_BO
from dollyd.daemon.core.games.spec import Drawn, Outcome

SETUP = game_setup("sic-bo")
THROWS = list(product("123456", repeat=3))
WAYS = dict(zip(range(3, 19), (1, 3, 6, 10, 15, 21, 25, 27, 27, 25, 21, 15, 10, 6, 3, 1), strict=True))
TRIPLES = [(face,) * 3 for face in "123456"]
PAIRS = [
    "1-2",
    "1-3",
    "1-4",
    "1-5",
    "1-6",
    "2-3",
    "2-4",
    "2-5",
    "2-6",
    "3-4",
    "3-5",
    "3-6",
    "4-5",
    "4-6",
    "5-6",
]


def outcome(throw: tuple[str, ...]) -> Outcome:
    return SIC_BO.outcome(Drawn(throw, SETUP.variant, None, ()))


OUTCOMES = {throw: outcome(throw) for throw in THROWS}


def throws(**wanted: object) -> int:
    """How many of the 216 throws have these attributes."""
    return sum(all(one[key] == value for key, value in wanted.items()) for one in OUTCOMES.values())


def listed(key: str, word: str) -> int:
    """How many of the 216 throws name this word in a list."""
    lists: Any = [one[key] for one in OUTCOMES.values()]
    return sum(word in words for words in lists)


def test_all_216_throws_can_be_read() -> None:
    assert SIC_BO.values(None) == tuple(THROWS)
    assert len({tuple(sorted(throw)) for throw in THROWS}) == 56


def test_ways_of_every_total() -> None:
    assert Counter(one["total"] for one in OUTCOMES.values()) == WAYS


@pytest.mark.parametrize("throw", THROWS, ids="".join)
def test_a_throw_has_its_attributes(throw: tuple[str, ...]) -> None:
    one, total = OUTCOMES[throw], sum(map(int, throw))
    assert [one["die_1"], one["die_2"], one["die_3"]] == [int(face) for face in throw]
    assert one["total"] == total
    assert one["triple"] == (throw in TRIPLES)
    small, big = 4 <= total <= 10, 11 <= total <= 17
    assert one["size"] == ("none" if throw in TRIPLES else "small" if small else "big" if big else "none")
    assert one["doubles"] == [face for face in "123456" if sum(die == face for die in throw) > 1]
    assert one["two_dice"] == [pair for pair in PAIRS if pair[0] in throw and pair[2] in throw]
    assert [one[f"count_{face}"] for face in "123456"] == [throw.count(face) for face in "123456"]
    assert len(one) == 14


def test_how_many_throws_a_bet_wins() -> None:
    # The house edges of the rulebook follow from these.
    assert (throws(size="small"), throws(size="big"), throws(triple=True)) == (105, 105, 6)
    for face in "123456":
        assert [throws(**{f"count_{face}": count}) for count in range(4)] == [125, 75, 15, 1]
        assert listed("doubles", face) == 16
    for pair in PAIRS:
        assert (
            sum(pair in one["two_dice"] for one in OUTCOMES.values() if isinstance(one["two_dice"], list))
            == 30
        )


@pytest.mark.parametrize(
    ("throw", "attributes"),
    [
        pytest.param(
            "112",
            {"count_1": 2, "count_2": 1, "doubles": ["1"], "two_dice": ["1-2"], "size": "small", "total": 4},
            id="T47",
        ),
        pytest.param(
            "222",
            {"size": "none", "total": 6, "doubles": ["2"], "count_2": 3, "triple": True, "two_dice": []},
            id="T48",
        ),
        pytest.param("111", {"size": "none", "total": 3, "count_1": 3, "triple": True}, id="T49"),
        pytest.param(
            "456", {"size": "big", "total": 15, "two_dice": ["4-5", "4-6", "5-6"], "triple": False}, id="T50"
        ),
        pytest.param("343", {"size": "small", "total": 10}, id="T51-10"),
        pytest.param("344", {"size": "big", "total": 11}, id="T51-11"),
    ],
)
def test_case(throw: str, attributes: Outcome) -> None:
    assert attributes.items() <= outcome(tuple(throw)).items()


def test_sic_bo_remembers_nothing() -> None:
    assert SIC_BO.after(outcome(("1", "2", "3"))) == ()
