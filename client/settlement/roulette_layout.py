"""The fields of a roulette cloth: what can be bet on, and which attribute of the outcome decides it.

Numbers stand in twelve streets of three (rulebook 2.2); splits, streets, corners and sixlines are generated
from that grid. What touches the zeros is a table, because the source text does not list it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dollyd.client.settlement.spec import SettlementError

Pockets: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the cloth: it wins where the outcome's `attribute` is one of `values`."""

    attribute: str
    values: frozenset[str]


Cloth: TypeAlias = dict[tuple[str, frozenset[str]], Field]
"""Fields by kind of bet and selection. The order in which a player names the numbers does not matter."""

AT_ZERO: dict[str, dict[str, tuple[Pockets, ...]]] = {
    "roulette-european": {
        "straight": (("0",),),
        "split": (("0", "1"), ("0", "2"), ("0", "3")),
        "street": (("0", "1", "2"), ("0", "2", "3")),
        "corner": (("0", "1", "2", "3"),),
    },
    "roulette-american": {
        "straight": (("0",), ("00",)),
        "split": (("0", "00"), ("0", "1"), ("0", "2"), ("00", "2"), ("00", "3")),
        "street": (("0", "1", "2"), ("0", "00", "2"), ("00", "2", "3")),
        "first_five": (("0", "00", "1", "2", "3"),),
    },
}
"""Inside bets with a zero, by wheel (rulebook O10, O11). Splits and streets of the single zero are those of
the New Zealand Gazette 1998, issue 16, page 381 and issue 8, page 191; the others are the common layout's."""

OUTSIDE: dict[str, dict[str, str]] = {
    "dozen": dict.fromkeys(("1-12", "13-24", "25-36"), "dozen"),
    "column": dict.fromkeys(("1", "2", "3"), "column"),
    "quarter": dict.fromkeys(("1-9", "10-18", "19-27", "28-36"), "quarter"),
    "even_money": {
        "red": "colour",
        "black": "colour",
        "even": "parity",
        "odd": "parity",
        "1-18": "half",
        "19-36": "half",
    },
}
"""Outside bets by kind: selection, and the attribute that names it in the outcome (rulebook 2.2, 2.6)."""


def _grid() -> Iterator[tuple[str, Iterable[int]]]:
    """Inside bets without a zero: kind and numbers. A street is 3 wide, 3 more is the next street."""
    for number in range(1, 37):
        starts_street, ends_street = number % 3 == 1, number % 3 == 0
        yield "straight", (number,)
        if not ends_street:
            yield "split", (number, number + 1)
        if number <= 33:
            yield "split", (number, number + 3)
        if not ends_street and number <= 32:
            yield "corner", (number, number + 1, number + 3, number + 4)
        if starts_street:
            yield "street", range(number, number + 3)
        if starts_street and number <= 31:
            yield "sixline", range(number, number + 6)


def _cloth(at_zero: dict[str, tuple[Pockets, ...]]) -> Cloth:
    inside = [(kind, frozenset(map(str, numbers))) for kind, numbers in _grid()]
    inside += [(kind, frozenset(pockets)) for kind, fields in at_zero.items() for pockets in fields]
    cloth = {(kind, pockets): Field("pocket", pockets) for kind, pockets in inside}
    for kind, fields in OUTSIDE.items():
        for selection, attribute in fields.items():
            name = frozenset({selection})
            cloth[kind, name] = Field(attribute, name)
    return cloth


CLOTHS: dict[str, Cloth] = {layout: _cloth(at_zero) for layout, at_zero in AT_ZERO.items()}
"""Cloths by the name of the wheel's layout, as the rulebook's variant names it."""


def field_of(kind: str, selection: tuple[str, ...], layout: str) -> Field:
    """The field that a bet lies on. Raises `SettlementError` with the reason where the cloth has none."""
    cloth = CLOTHS.get(layout)
    if cloth is None:
        raise SettlementError(f"no cloth is known for the wheel {layout!r}; known are {_listed(CLOTHS)}")
    field = cloth.get((kind, frozenset(selection)))
    if field is None or len(field.values) != len(selection):
        raise SettlementError(_why_not(kind, selection, cloth))
    return field


def fields_of(layout: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """All fields of a cloth by kind of bet, in the order of their lowest numbers."""
    by_kind: dict[str, list[tuple[str, ...]]] = {}
    for kind, pockets in CLOTHS[layout]:
        by_kind.setdefault(kind, []).append(tuple(sorted(pockets, key=_place)))
    return {
        kind: tuple(sorted(fields, key=lambda one: [*map(_place, one)])) for kind, fields in by_kind.items()
    }


def _why_not(kind: str, selection: tuple[str, ...], cloth: Cloth) -> str:
    named = _name(selection)
    fields = [values for known, values in cloth if known == kind]
    if not fields:
        return f"this cloth has no bet {kind!r}; it has {_listed({known for known, _ in cloth})}"
    if len(set(selection)) != len(selection):
        return f"{kind} {named} names a number twice"
    if kind in OUTSIDE:
        return f"there is no {kind} {named!r}; there are {_listed(OUTSIDE[kind])}"
    strange = [pocket for pocket in selection if ("straight", frozenset({pocket})) not in cloth]
    if strange:
        return f"{kind} {named}: the cloth has no number {strange[0]!r}"
    if len(selection) != len(fields[0]):
        return f"{kind} {named}: {len(selection)} numbers are named, it covers {len(fields[0])}"
    first = min(selection, key=_place)
    with_first = [values for values in fields if first in values]
    with_first.sort(key=lambda values: sorted(map(_place, values)))
    there_are = ", ".join(map(_name, with_first)) or "none"
    return f"{named} is no {kind}: these numbers do not lie together; with {first} there are {there_are}"


def _place(pocket: str) -> tuple[int, str]:
    """Where a pocket stands in a list: 0, 00, 1 to 36. Anything else comes last."""
    return (int(pocket), pocket) if pocket.isascii() and pocket.isdigit() else (100, pocket)


def _name(pockets: Iterable[str]) -> str:
    return "/".join(sorted(pockets, key=_place))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
