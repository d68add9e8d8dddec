"""Boule: 36 cups with the numbers 1 to 9, four of each (rulebook section 3).

The order of the cups differs from maker to maker: it is an input of commissioning, never guessed. A reading
is the number and the index of its cup, so that a reader that slipped shows.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dollyd.daemon.core.games.spec import (
    Drawn,
    Game,
    Outcome,
    Value,
    as_left,
    fits,
    no_odds_table,
    no_seats,
    no_shipped_layout,
    no_shooter,
    no_zero_rules,
    nothing_remembered,
)
from dollyd.daemon.core.rulebook import RuleText, RuleTextError, parse

CUPS = 36
NUMBERS = range(1, 10)
WITHOUT_CHANCES = 5
"""Pays straight up only; it is not even odd."""
RED = frozenset({2, 4, 7, 9})


class Variant(RuleText, frozen=True):
    """Odds n to 1."""

    odds: dict[str, int]


class Layout(RuleText, frozen=True):
    """The numbers of the cups, clockwise from the reference mark."""

    id: str
    clockwise: tuple[int, ...]


class Shape(Struct, frozen=True, forbid_unknown_fields=True):
    """What `outcome` says of boule; `none` for the 5, which has no simple chances."""

    number: Annotated[str, Meta(pattern=r"^[1-9]$")]
    """`1` to `9`, as text."""
    cup: Annotated[int, Meta(ge=0, le=35)]
    """The cup, clockwise from the reference mark; of no bet's concern."""
    colour: Literal["red", "black", "none"]
    parity: Literal["even", "odd", "none"]
    half: Literal["1-4", "6-9", "none"]


def parse_layout(data: bytes) -> Layout:
    """Parse and check the order of the cups: four of each number. Raises `RuleTextError`."""
    layout = parse(data, Layout)
    for number in NUMBERS:
        if (count := layout.clockwise.count(number)) != CUPS // len(NUMBERS):
            raise RuleTextError(f"clockwise: number {number} occurs {count} times, it must be 4")
    if len(layout.clockwise) != CUPS:
        raise RuleTextError(f"clockwise: {len(layout.clockwise)} cups, it must be {CUPS}")
    return layout


def outcome(drawn: Drawn) -> Outcome:
    """All attributes of a number and its cup."""
    text, cup = drawn.value
    number = int(text)
    if number == WITHOUT_CHANCES:
        return {"number": text, "cup": int(cup), "colour": "none", "parity": "none", "half": "none"}
    return {
        "number": text,
        "cup": int(cup),
        "colour": "red" if number in RED else "black",
        "parity": "odd" if number % 2 else "even",
        "half": "1-4" if number < WITHOUT_CHANCES else "6-9",
    }


def _values(layout: Layout) -> tuple[Value, ...]:
    return tuple((str(number), str(cup)) for cup, number in enumerate(layout.clockwise))


BOULE = Game(
    name="boule",
    roles=frozenset({"wheel"}),
    variant=Variant,
    layout=parse_layout,
    shipped_layout=no_shipped_layout,
    check=fits,
    values=_values,
    outcome=outcome,
    shape=Shape,
    after=nothing_remembered,
    began=as_left,
    needs_odds_table=no_odds_table,
    zero_rules=no_zero_rules,
    seated=no_seats,
    declined=no_shooter,
    throws=False,
)
