"""Roulette A to F: pockets and their attributes (rulebook section 2).

Pockets are texts: `0` and `00` are different outcomes, as integers they would be equal.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from dollyd.daemon.core.games.spec import (
    Drawn,
    Game,
    Memory,
    Outcome,
    Value,
    as_left,
    fits,
    no_seats,
    no_shooter,
)
from dollyd.daemon.core.rulebook import RuleText, RuleTextError, parse

ZEROS = frozenset({"0", "00"})


class Variant(RuleText, frozen=True):
    """One version: odds n to 1 by bet, and what zero does to simple chances."""

    layout: str
    zero_rules: tuple[Literal["lose", "half", "prison", "both"], ...]
    """Which are possible; where there is more than one, the table's instructions name it."""
    odds: dict[str, int]
    odds_table_2: dict[str, int] = msgspec.field(default_factory=dict)
    odds_table_2_one_in: int = 0
    counts_zeros: bool = False
    """The record carries how many zeros came in a row (imprisoned stakes, rulebook 2.9)."""

    def __post_init__(self) -> None:
        """What one key says of another. Raises ValueError, which the parser reports with its place."""
        if bool(self.odds_table_2) != (self.odds_table_2_one_in > 0):
            raise ValueError("odds_table_2 and odds_table_2_one_in go together")
        if not self.zero_rules:
            raise ValueError("zero_rules: at least one rule")


class Layout(RuleText, frozen=True):
    """Where the pockets lie, clockwise, and which numbers are red."""

    id: str
    clockwise: tuple[str, ...]
    red: frozenset[int]


class Shape(Struct, frozen=True, forbid_unknown_fields=True):
    """What `outcome` says of roulette."""

    pocket: Annotated[str, Meta(pattern=r"^(00|0|[1-9]|[12][0-9]|3[0-6])$")]
    """`0` to `36`, and `00` where the wheel has it: text, for `0` and `00` are two pockets."""
    wheel_index: Annotated[int, Meta(ge=0, le=37)]
    """Place of the pocket, clockwise from the first one of the layout file; of no bet's concern."""
    colour: Literal["red", "black", "green"]
    """`green` for `0` and `00`."""
    parity: Literal["even", "odd", "none"]
    """`none`, as in all that follows, for `0` and `00`."""
    half: Literal["1-18", "19-36", "none"]
    dozen: Literal["1-12", "13-24", "25-36", "none"]
    column: Literal["1", "2", "3", "none"]
    """The column of 1, 4, 7 ... is `1`."""
    street: Annotated[str, Meta(pattern=r"^(none|[1-9][0-9]?-[1-9][0-9]?)$")]
    """`1-3`, `4-6` ... `34-36`."""
    quarter: Literal["1-9", "10-18", "19-27", "28-36", "none"] | UnsetType = UNSET
    """Where the cloth shows quarters."""
    zeros_in_a_row: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    """Where stakes can be imprisoned: how many rounds in a row were zero, with this; 0 where it is not."""


def parse_layout(data: bytes) -> Layout:
    """Parse and check a wheel: each pocket once, every number 1-36, 18 red (rulebook section 10).

    Raises `RuleTextError`.
    """
    layout = parse(data, Layout)
    pockets = list(layout.clockwise)
    doubled = sorted({pocket for pocket in pockets if pockets.count(pocket) > 1})
    if doubled:
        raise RuleTextError(f"clockwise: pocket {doubled[0]} occurs more than once")
    zeros = {"0"} if len(pockets) == 37 else {"0", "00"}
    if set(pockets) != zeros | {str(number) for number in range(1, 37)}:
        raise RuleTextError("clockwise: must hold 1 to 36 and 0, or 0 and 00, each once")
    if len(layout.red) != 18 or not layout.red <= set(range(1, 37)):
        raise RuleTextError("red: must name 18 of the numbers 1 to 36")
    return layout


def _range_of(number: int, width: int) -> str:
    """The bet field of `width` consecutive numbers that holds `number`, e.g. 17 of width 12: `13-24`."""
    first = (number - 1) // width * width + 1
    return f"{first}-{first + width - 1}"


def outcome(drawn: Drawn) -> Outcome:
    """All attributes of one pocket; zero has none of the simple chances and is not even."""
    (pocket,) = drawn.value
    layout: Layout = drawn.layout
    fields: Outcome = {"pocket": pocket, "wheel_index": layout.clockwise.index(pocket)}
    if pocket in ZEROS:
        fields |= dict.fromkeys(("parity", "half", "dozen", "column", "street"), "none") | {"colour": "green"}
    else:
        number = int(pocket)
        fields |= {
            "colour": "red" if number in layout.red else "black",
            "parity": "odd" if number % 2 else "even",
            "half": _range_of(number, 18),
            "dozen": _range_of(number, 12),
            "column": str((number - 1) % 3 + 1),
            "street": _range_of(number, 3),
        }
    if drawn.quarters:
        fields["quarter"] = "none" if pocket in ZEROS else _range_of(int(pocket), 9)
    if drawn.variant.counts_zeros:
        before = int(dict(drawn.memory).get("zeros", "0"))
        fields["zeros_in_a_row"] = before + 1 if pocket in ZEROS else 0
    return fields


def _after(outcome: Outcome) -> Memory:
    return (("zeros", str(outcome["zeros_in_a_row"])),) if "zeros_in_a_row" in outcome else ()


def _values(layout: Layout) -> tuple[Value, ...]:
    return tuple((pocket,) for pocket in layout.clockwise)


def _shipped_layout(variant: Variant) -> str:
    return variant.layout


def _zero_rules(variant: Variant) -> tuple[str, ...]:
    return variant.zero_rules


def _needs_odds_table(variant: Variant) -> bool:
    return variant.odds_table_2_one_in > 0


ROULETTE = Game(
    name="roulette",
    roles=frozenset({"wheel"}),
    variant=Variant,
    layout=parse_layout,
    shipped_layout=_shipped_layout,
    check=fits,
    values=_values,
    outcome=outcome,
    shape=Shape,
    after=_after,
    began=as_left,
    needs_odds_table=_needs_odds_table,
    zero_rules=_zero_rules,
    seated=no_seats,
    declined=no_shooter,
    throws=False,
)
