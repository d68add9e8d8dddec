"""What the dice games share: faces, and readings of two or three dice."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from dollyd.daemon.core.games.spec import Value
from dollyd.daemon.core.rulebook import RuleText

FACES = ("1", "2", "3", "4", "5", "6")


Face: TypeAlias = Annotated[int, Meta(ge=1, le=6)]


class Variant(RuleText, frozen=True):
    """Odds of a dice game, by bet: `n` or `n:m` as text where they are no whole number."""

    odds: dict[str, int | str]


def values_of(count: int, _layout: Any = None) -> tuple[Value, ...]:
    """Every throw of `count` dice, in order of the dice."""
    return tuple(product(FACES, repeat=count))


def two_dice(_layout: Any) -> tuple[Value, ...]:
    """Every throw of two dice."""
    return values_of(2)


def three_dice(_layout: Any) -> tuple[Value, ...]:
    """Every throw of three dice."""
    return values_of(3)
