"""Money wheel (Big Six, Lyckohjul): equal sectors with symbols (rulebook section 4).

The regulation counts sectors by odds, not by symbol. What is bet on is a symbol, so both are data: the layout
names the symbol of each sector, the rulebook the odds of each symbol and how many sectors each odds has.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Annotated

from msgspec import Meta, Struct

from dollyd.daemon.core.games.spec import (
    Drawn,
    Game,
    Outcome,
    Value,
    as_left,
    no_odds_table,
    no_seats,
    no_shipped_layout,
    no_shooter,
    no_zero_rules,
    nothing_remembered,
)
from dollyd.daemon.core.rulebook import RuleText, RuleTextError, parse


class Variant(RuleText, frozen=True):
    """Odds n to 1 by symbol, and how many sectors there are of each odds."""

    odds: dict[str, int]
    sectors_by_odds: dict[str, int]


class Layout(RuleText, frozen=True):
    """The symbols of the sectors, in the order in which they pass the pointer in direction 0."""

    id: str
    sectors: tuple[str, ...]


class Shape(Struct, frozen=True, forbid_unknown_fields=True):
    """What `outcome` says of the money wheel."""

    sector: Annotated[int, Meta(ge=1)]
    """The sector, from 1; of no bet's concern."""
    symbol: str
    """What is bet on: a symbol of the rulebook's `odds`."""


def parse_layout(data: bytes) -> Layout:
    """Parse the sectors of a wheel. Raises `RuleTextError`."""
    layout = parse(data, Layout)
    if not layout.sectors:
        raise RuleTextError("sectors: a wheel has at least one")
    return layout


def check(variant: Variant, layout: Layout) -> None:
    """Refuse a layout with other counts than the rulebook's, or a symbol that returns more than was staked.

    Raises `RuleTextError` with the computed figure (rulebook 4, MW-1).
    """
    symbols = Counter(layout.sectors)
    for symbol in symbols:
        if symbol not in variant.odds:
            raise RuleTextError(f"sectors: symbol {symbol!r} has no odds in the rulebook")
    for symbol, count in symbols.items():
        returned = Fraction(count * (variant.odds[symbol] + 1), len(layout.sectors))
        if returned > 1:
            percent = f"{float(100 * returned):.2f}"
            raise RuleTextError(
                f"sectors: symbol {symbol!r} returns {percent} % of the stakes, more than 100 %"
            )
    by_odds: Counter[str] = Counter()
    for symbol, count in symbols.items():
        by_odds[str(variant.odds[symbol])] += count
    if by_odds != Counter(variant.sectors_by_odds):
        raise RuleTextError(f"sectors: {dict(by_odds)} by odds, the rulebook has {variant.sectors_by_odds}")


def outcome(drawn: Drawn) -> Outcome:
    """The sector and its symbol; never the odds alone."""
    (text,) = drawn.value
    sector = int(text)
    return {"sector": sector, "symbol": drawn.layout.sectors[sector - 1]}


def _values(layout: Layout) -> tuple[Value, ...]:
    return tuple((str(sector),) for sector in range(1, len(layout.sectors) + 1))


MONEY_WHEEL = Game(
    name="money-wheel",
    roles=frozenset({"wheel"}),
    variant=Variant,
    layout=parse_layout,
    shipped_layout=no_shipped_layout,
    check=check,
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
