"""Craps, place bets of Quebec's regulation 95.17 (rulebook section 7): two dice and the phase of the game.

Settlement needs the phase and the point as they were at the START of the roll. "Nulle" is an undecided roll,
on which stakes stay; it is never a void.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from dollyd.daemon.core.games.dice import Face, Variant, two_dice
from dollyd.daemon.core.games.spec import (
    Drawn,
    Game,
    Memory,
    Outcome,
    as_left,
    fits,
    no_odds_table,
    no_seats,
    no_shipped_layout,
    no_shooter,
    no_zero_rules,
)

POINTS = frozenset({4, 5, 6, 8, 9, 10})
SEVEN = 7


class Shape(Struct, frozen=True, forbid_unknown_fields=True):
    """What `outcome` says of craps: the roll, and the game as it stood when the dice were thrown."""

    die_1: Face
    die_2: Face
    sum: Annotated[int, Meta(ge=2, le=12)]
    pair: bool
    phase: Literal["come-out", "point"]
    """As it was before this roll."""
    point: Literal[4, 5, 6, 8, 9, 10] | UnsetType = UNSET
    """The point that was made before, in phase `point`."""


def outcome(drawn: Drawn) -> Outcome:
    """The roll, and the phase in which it was made."""
    first, second = (int(face) for face in drawn.value)
    point = dict(drawn.memory).get("point", "")
    fields: Outcome = {
        "die_1": first,
        "die_2": second,
        "sum": first + second,
        "pair": first == second,
        "phase": "point" if point else "come-out",
    }
    return fields | ({"point": int(point)} if point else {})


def _after(outcome: Outcome) -> Memory:
    total, point = outcome["sum"], outcome.get("point")
    if point is None:
        return (("point", str(total)),) if total in POINTS else ()
    return () if total in (point, SEVEN) else (("point", str(point)),)


CRAPS = Game(
    name="craps",
    roles=frozenset({"dice"}),
    variant=Variant,
    layout=None,
    shipped_layout=no_shipped_layout,
    check=fits,
    values=two_dice,
    outcome=outcome,
    shape=Shape,
    after=_after,
    began=as_left,
    needs_odds_table=no_odds_table,
    zero_rules=no_zero_rules,
    seated=no_seats,
    declined=no_shooter,
    throws=True,
)
