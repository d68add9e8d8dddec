"""Roulette A to F: pockets and their attributes (rulebook section 2).

Pockets are texts: `0` and `00` are different outcomes, as integers they would be equal.
"""

from __future__ import annotations

from dollyd.daemon.core.games.spec import Game, Outcome
from dollyd.daemon.core.rulebook import Layout, Variant

ZEROS = frozenset({"0", "00"})


def _range_of(number: int, width: int) -> str:
    """The bet field of `width` consecutive numbers that holds `number`, e.g. 17 of width 12: `13-24`."""
    first = (number - 1) // width * width + 1
    return f"{first}-{first + width - 1}"


def outcome(layout: Layout, value: tuple[str, ...], quarters: bool) -> Outcome:
    """All attributes of one pocket; zero has none of the simple chances and is not even."""
    (pocket,) = value
    index = layout.clockwise.index(pocket)
    if pocket in ZEROS:
        fields: Outcome = {
            "pocket": pocket,
            "wheel_index": index,
            "colour": "green",
            "parity": "none",
            "half": "none",
            "dozen": "none",
            "column": "none",
            "street": "none",
        }
        return fields | ({"quarter": "none"} if quarters else {})
    number = int(pocket)
    fields = {
        "pocket": pocket,
        "wheel_index": index,
        "colour": "red" if number in layout.red else "black",
        "parity": "odd" if number % 2 else "even",
        "half": _range_of(number, 18),
        "dozen": _range_of(number, 12),
        "column": str((number - 1) % 3 + 1),
        "street": _range_of(number, 3),
    }
    return fields | ({"quarter": _range_of(number, 9)} if quarters else {})


def _values(layout: Layout) -> tuple[str, ...]:
    return layout.clockwise


def _needs_odds_table(variant: Variant) -> bool:
    return variant.odds_table_2_one_in > 0


def _is_zero(value: tuple[str, ...]) -> bool:
    return value[0] in ZEROS


ROULETTE = Game(
    name="roulette",
    roles=frozenset({"wheel"}),
    values=_values,
    outcome=outcome,
    needs_odds_table=_needs_odds_table,
    is_zero=_is_zero,
)
