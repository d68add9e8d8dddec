"""How many lines of a SlingShot 2 a number rests on, where two could be damaged alike."""

from __future__ import annotations

import pytest
from tests.support.wheel_lines import Ear, Game, device_setup, pocket_text

GAME = Game()


@pytest.mark.parametrize(("options", "numbers"), [({}, ["22"]), ({"three_lines": True}, [])])
def test_s2_two_lines_that_are_damaged_alike_make_another_number_unless_three_are_asked(
    options: dict[str, bool], numbers: list[str]
) -> None:
    game = Game(bare=False)
    damaged = game.line(5).replace(";23;", ";22;")
    ear = Ear(device_setup(options=options)).open_idle().hear(*game.lines("234"), damaged, damaged)
    ear.hear(*game.lines("5"), *game.next("8").lines("2"))
    assert ear.numbers == numbers


def test_s2_three_lines_are_enough_for_three_and_the_bare_number_is_one_of_them() -> None:
    three = device_setup(options={"three_lines": True})
    without = Game(bare=False)
    ear = Ear(three).open_idle().hear(*without.lines("234"), without.line(5), without.line(5))
    assert ear.numbers == []
    assert ear.hear(without.line(5)).numbers == ["23"]
    ear = Ear(three).open_idle().hear(*GAME.lines("234"), pocket_text("23"), GAME.line(5))
    assert ear.numbers == []
    assert ear.hear(GAME.line(5)).numbers == ["23"]
