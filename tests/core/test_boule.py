"""Boule against a table written by hand: every number in every cup (rulebook 3)."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.tables import game_setup, rule_text

from dollyd.daemon.core.games.boule import BOULE, parse_layout
from dollyd.daemon.core.games.spec import Drawn, Outcome
from dollyd.daemon.core.rulebook import RuleTextError

SETUP = game_setup("boule")
# number colour parity half
NUMBERS = """
1 black odd  1-4
2 red   even 1-4
3 black odd  1-4
4 red   even 1-4
5 none  none none
6 black even 6-9
7 red   odd  6-9
8 black even 6-9
9 red   odd  6-9
"""
ROWS = {line.split()[0]: line.split()[1:] for line in NUMBERS.strip().splitlines()}
TEXT = rule_text("layouts", "boule-synthetic").decode()


def outcome(number: str, cup: int) -> Outcome:
    return BOULE.outcome(Drawn((number, str(cup)), SETUP.variant, SETUP.layout, ()))


def test_there_are_36_cups_four_of_each_number() -> None:
    readings = BOULE.values(SETUP.layout)
    assert [cup for _, cup in readings] == [str(index) for index in range(36)]
    assert Counter(number for number, _ in readings) == dict.fromkeys("123456789", 4)


@pytest.mark.parametrize("reading", BOULE.values(SETUP.layout), ids="-".join)
def test_a_cup_has_its_number_and_attributes(reading: tuple[str, str]) -> None:
    number, cup = reading
    assert SETUP.layout.clockwise[int(cup)] == int(number)
    colour, parity, half = ROWS[number]
    expected = {"number": number, "cup": int(cup), "colour": colour, "parity": parity, "half": half}
    assert outcome(number, int(cup)) == expected


def test_five_has_no_attribute_and_is_not_even_odd() -> None:
    assert {outcome("5", 4)[key] for key in ("colour", "parity", "half")} == {"none"}


def test_t34_seven_is_red_odd_and_high() -> None:
    assert {"colour": "red", "parity": "odd", "half": "6-9"}.items() <= outcome("7", 6).items()


def test_t35_two_is_red_and_even_and_low() -> None:
    assert {"colour": "red", "parity": "even", "half": "1-4"}.items() <= outcome("2", 1).items()


def test_boule_remembers_nothing() -> None:
    assert BOULE.after(outcome("7", 6)) == ()


def test_t36_a_number_five_times_and_another_three_is_refused() -> None:
    assert TEXT.count(" 1, 2, 3,") == 4
    wrong = TEXT.replace(" 1, 2, 3,", " 1, 2, 2,", 1)
    with pytest.raises(RuleTextError, match="number 2 occurs 5 times, it must be 4"):
        parse_layout(wrong.encode())


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        pytest.param("[\n    1, 2", "[\n    2", "number 1 occurs 3 times", id="35-cups"),
        pytest.param("[\n    1, 2", "[\n    1, 0, 2", "37 cups, it must be 36", id="a-cup-without-number"),
        pytest.param("[\n    1, 2", '[\n    "1", 2', "clockwise", id="a-text"),
        pytest.param("id = ", 'maker = "x"\nid = ', "maker", id="unknown-key"),
    ],
)
def test_other_wrong_layouts_are_refused(old: str, new: str, names: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(RuleTextError, match=names):
        parse_layout(TEXT.replace(old, new).encode())
