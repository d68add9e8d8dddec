"""Roulette against a table written by hand: every attribute of every pocket (rulebook 2.2, 10, part b)."""

from __future__ import annotations

import pytest
from tests.support.tables import layout, roulette

from dollyd.daemon.core.games.roulette import ROULETTE, Layout
from dollyd.daemon.core.games.spec import Drawn, Memory, Outcome

EUROPEAN, AMERICAN = layout("roulette-european"), layout("roulette-american")


def outcome(
    wheel: Layout, pocket: str, *, quarters: bool = False, memory: Memory = (), variant: str = "A"
) -> Outcome:
    return ROULETTE.outcome(Drawn((pocket,), roulette(variant), wheel, memory, quarters))


# pocket colour parity half dozen column street quarter, index on the European and on the American wheel
POCKETS = """
0  green none none  none  none none  none   0  0
00 green none none  none  none none  none   -  19
1  red   odd  1-18  1-12  1    1-3   1-9    23 18
2  black even 1-18  1-12  2    1-3   1-9    6  37
3  red   odd  1-18  1-12  3    1-3   1-9    35 14
4  black even 1-18  1-12  1    4-6   1-9    4  33
5  red   odd  1-18  1-12  2    4-6   1-9    19 10
6  black even 1-18  1-12  3    4-6   1-9    10 29
7  red   odd  1-18  1-12  1    7-9   1-9    31 6
8  black even 1-18  1-12  2    7-9   1-9    16 25
9  red   odd  1-18  1-12  3    7-9   1-9    27 2
10 black even 1-18  1-12  1    10-12 10-18  18 21
11 black odd  1-18  1-12  2    10-12 10-18  14 5
12 red   even 1-18  1-12  3    10-12 10-18  33 24
13 black odd  1-18  13-24 1    13-15 10-18  12 17
14 red   even 1-18  13-24 2    13-15 10-18  25 36
15 black odd  1-18  13-24 3    13-15 10-18  2  13
16 red   even 1-18  13-24 1    16-18 10-18  21 32
17 black odd  1-18  13-24 2    16-18 10-18  8  9
18 red   even 1-18  13-24 3    16-18 10-18  29 28
19 red   odd  19-36 13-24 1    19-21 19-27  3  26
20 black even 19-36 13-24 2    19-21 19-27  24 7
21 red   odd  19-36 13-24 3    19-21 19-27  5  30
22 black even 19-36 13-24 1    22-24 19-27  28 11
23 red   odd  19-36 13-24 2    22-24 19-27  17 34
24 black even 19-36 13-24 3    22-24 19-27  20 15
25 red   odd  19-36 25-36 1    25-27 19-27  7  22
26 black even 19-36 25-36 2    25-27 19-27  36 3
27 red   odd  19-36 25-36 3    25-27 19-27  11 20
28 black even 19-36 25-36 1    28-30 28-36  32 1
29 black odd  19-36 25-36 2    28-30 28-36  30 23
30 red   even 19-36 25-36 3    28-30 28-36  15 4
31 black odd  19-36 25-36 1    31-33 28-36  26 27
32 red   even 19-36 25-36 2    31-33 28-36  1  8
33 black odd  19-36 25-36 3    31-33 28-36  22 31
34 red   even 19-36 25-36 1    34-36 28-36  9  12
35 black odd  19-36 25-36 2    34-36 28-36  34 35
36 red   even 19-36 25-36 3    34-36 28-36  13 16
"""
ROWS = [line.split() for line in POCKETS.strip().splitlines()]
CHANCES = ("colour", "parity", "half", "dozen", "column", "street")


def test_the_table_of_this_test_is_whole() -> None:
    assert [row[0] for row in ROWS] == ["0", "00", *(str(number) for number in range(1, 37))]
    assert sorted(int(row[8]) for row in ROWS if row[8] != "-") == list(range(37))
    assert sorted(int(row[9]) for row in ROWS) == list(range(38))


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] != "00"], ids=lambda row: row[0])
def test_a_pocket_of_the_european_wheel_has_its_attributes(row: list[str]) -> None:
    pocket, *chances, quarter, index, _ = row
    expected = {"pocket": pocket, "wheel_index": int(index), **dict(zip(CHANCES, chances, strict=True))}
    assert outcome(EUROPEAN, pocket) == expected
    assert outcome(EUROPEAN, pocket, quarters=True) == expected | {"quarter": quarter}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_pocket_of_the_american_wheel_has_its_attributes(row: list[str]) -> None:
    pocket, *chances, quarter, _, index = row
    expected = {"pocket": pocket, "wheel_index": int(index), **dict(zip(CHANCES, chances, strict=True))}
    assert outcome(AMERICAN, pocket) == expected
    assert outcome(AMERICAN, pocket, quarters=True) == expected | {"quarter": quarter}


def test_the_european_wheel_has_no_double_zero() -> None:
    assert len(ROULETTE.values(EUROPEAN)) == 37
    assert ("00",) not in ROULETTE.values(EUROPEAN)
    assert ROULETTE.values(AMERICAN) == tuple((pocket,) for pocket in AMERICAN.clockwise)
    assert len(ROULETTE.values(AMERICAN)) == 38
    with pytest.raises(ValueError, match="not in tuple"):
        outcome(EUROPEAN, "00")


def test_only_the_zeros_count_as_zeros_in_a_row() -> None:
    zeros = [row[0] for row in ROWS if outcome(AMERICAN, row[0], variant="D")["zeros_in_a_row"] == 1]
    assert zeros == ["0", "00"]


def test_zeros_in_a_row_are_what_the_game_remembers() -> None:
    memory: Memory = ()
    counted = []
    for pocket in ("0", "0", "17", "0"):
        told = outcome(EUROPEAN, pocket, variant="D", memory=memory)
        counted.append(told["zeros_in_a_row"])
        memory = ROULETTE.after(told)
    assert counted == [1, 2, 0, 1]


@pytest.mark.parametrize("variant", "ABCEF")
def test_no_other_version_remembers_anything(variant: str) -> None:
    wheel = AMERICAN if variant in "EF" else EUROPEAN
    told = outcome(wheel, "0", variant=variant)
    assert "zeros_in_a_row" not in told
    assert ROULETTE.after(told) == ()


# --- the checksums of rulebook 2.2 and 10, from the module's own answers ---------------------------------

ANSWERS = {number: outcome(EUROPEAN, str(number), quarters=True) for number in range(1, 37)}


def red(**wanted: str) -> int:
    """How many red numbers have these attributes."""
    return sum(
        answer["colour"] == "red" and all(answer[key] == value for key, value in wanted.items())
        for answer in ANSWERS.values()
    )


def test_checksums_of_colours() -> None:
    assert red() == 18
    assert sum(answer["colour"] == "black" for answer in ANSWERS.values()) == 18
    assert (red(parity="odd"), red(parity="even")) == (10, 8)
    assert red(half="1-18") == 9
    assert [red(column=column) for column in "123"] == [6, 4, 8]
    assert [red(quarter=quarter) for quarter in ("1-9", "10-18", "19-27", "28-36")] == [5, 4, 5, 4]


def test_colour_follows_parity_by_decade() -> None:
    for number, answer in ANSWERS.items():
        odd_is_red = number <= 10 or 19 <= number <= 28
        assert (answer["colour"] == "red") == (bool(number % 2) == odd_is_red), number


def test_colours_alternate_round_the_european_wheel() -> None:
    colours = [outcome(EUROPEAN, pocket)["colour"] for pocket in EUROPEAN.clockwise]
    assert colours == ["green", *["red", "black"] * 18]


def test_consecutive_numbers_lie_opposite_each_other_on_the_american_wheel() -> None:
    for odd in range(1, 37, 2):
        apart = AMERICAN.clockwise.index(str(odd)) - AMERICAN.clockwise.index(str(odd + 1))
        assert apart % 38 == 19, odd
    assert (AMERICAN.clockwise.index("00") - AMERICAN.clockwise.index("0")) % 38 == 19


# --- cases of rulebook part (b) ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pocket", "attributes"),
    [
        pytest.param(
            "17",
            {
                "colour": "black",
                "parity": "odd",
                "half": "1-18",
                "quarter": "10-18",
                "dozen": "13-24",
                "column": "2",
                "street": "16-18",
            },
            id="T2-T3",
        ),
        pytest.param("10", {"colour": "black"}, id="T23-10"),
        pytest.param("11", {"colour": "black"}, id="T23-11"),
        pytest.param("12", {"colour": "red"}, id="T23-12"),
        pytest.param("19", {"colour": "red"}, id="T24-19"),
        pytest.param("28", {"colour": "black"}, id="T24-28"),
        pytest.param("29", {"colour": "black"}, id="T24-29"),
        pytest.param(
            "36",
            {
                "dozen": "25-36",
                "column": "3",
                "quarter": "28-36",
                "colour": "red",
                "parity": "even",
                "half": "19-36",
            },
            id="T25",
        ),
        pytest.param("9", {"quarter": "1-9"}, id="T26-9"),
        pytest.param("10", {"quarter": "10-18"}, id="T26-10"),
        pytest.param("0", {"parity": "none", "column": "none", "quarter": "none"}, id="T7-T8"),
        pytest.param("00", {"pocket": "00", "colour": "green", "dozen": "none"}, id="T19-T60"),
        pytest.param("3", {"street": "1-3"}, id="T20"),
    ],
)
def test_case(pocket: str, attributes: dict[str, str]) -> None:
    assert attributes.items() <= outcome(AMERICAN, pocket, quarters=True).items()
