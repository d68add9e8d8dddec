"""What is published of an outcome is what a game can say: every member, and every value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec
import pytest
from tests.support.tables import TEXTS, rule_text, rulebook

from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.names import NAMES
from dollyd.daemon.core.games.spec import Drawn, Memory
from dollyd.daemon.core.rulebook import convert

MEMORIES: dict[str, tuple[Memory, ...]] = {
    "roulette": ((), (("zeros", "2"),)),
    "tuplanoppa": ((), (("seats", "1 2"), ("shooter", "2")), (("seats", "1"), ("shooter", ""))),
    "craps": ((), *((("point", str(point)),) for point in (4, 5, 6, 8, 9, 10))),
}


def outcomes(name: str) -> Iterator[dict[str, Any]]:
    """Everything that a game can say of a reading, in every variant, on every wheel."""
    game, (book, _, _, shipped) = GAMES[name], TEXTS[name]
    for tree in rulebook(book).variants.values():
        variant = convert(tree, game.variant)
        wheel = game.shipped_layout(variant) or shipped
        layout = game.layout(rule_text("layouts", wheel)) if game.layout is not None else None
        for value, memory, quarters in product(game.values(layout), MEMORIES.get(name, ((),)), (False, True)):
            yield game.outcome(Drawn(value, variant, layout, memory, quarters))


def test_every_game_has_a_name_for_displays() -> None:
    assert NAMES.keys() == GAMES.keys()
    assert all("en" in names for names in NAMES.values())


@pytest.mark.parametrize("name", GAMES)
def test_every_outcome_has_the_shape_that_is_published_and_every_member_comes(name: str) -> None:
    shape, told = GAMES[name].shape, set[str]()
    for outcome in outcomes(name):
        read = msgspec.convert(outcome, shape, strict=True)
        assert msgspec.to_builtins(read) == outcome
        told |= outcome.keys()
    assert told == {field.name for field in msgspec.structs.fields(shape)}
