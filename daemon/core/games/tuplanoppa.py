"""Tuplanoppa: two dice (rulebook section 5), and whose turn it is to throw.

A player throws until he throws a seven; then the dice go clockwise to the next who takes part in the round.
Who sits where and who declines is told by the dealer; without it nobody is named.
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
    fits,
    no_odds_table,
    no_shipped_layout,
    no_zero_rules,
)

SEVEN = 7


class Shape(Struct, frozen=True, forbid_unknown_fields=True):
    """What `outcome` says of Tuplanoppa."""

    die_1: Face
    die_2: Face
    sum: Annotated[int, Meta(ge=2, le=12)]
    pair: bool
    under_over: Literal["under", "seven", "over"]
    seats: list[str] | UnsetType = UNSET
    """The seats that take part, clockwise, where the dealer has told them."""
    shooter: str | UnsetType = UNSET
    """The seat that threw, empty where all declined and the dealer did; with `seats` only."""


def outcome(drawn: Drawn) -> Outcome:
    """All attributes of a throw, with the shooter and the seats in play where they are known."""
    first, second = (int(face) for face in drawn.value)
    total = first + second
    memory = dict(drawn.memory)
    fields: Outcome = {
        "die_1": first,
        "die_2": second,
        "sum": total,
        "pair": first == second,
        "under_over": "seven" if total == SEVEN else "under" if total < SEVEN else "over",
    }
    if memory.get("seats"):
        fields["seats"] = memory["seats"].split()
        fields["shooter"] = memory.get("shooter", "")
    return fields


def seated(memory: Memory, seats: tuple[str, ...]) -> Memory:
    """The seats that take part in the round, clockwise.

    The shooter stays if he is among them; else the dice go on clockwise, past those who are not.
    """
    if not seats:
        return ()
    known = dict(memory)
    before, shooter = tuple(known.get("seats", "").split()), known.get("shooter", "")
    if shooter not in seats:
        absent = tuple(seat for seat in before if seat not in seats)
        shooter = _next(before, shooter, absent) or seats[0]
    return _memory(seats, shooter)


def declined(memory: Memory) -> Memory:
    """The shooter passes the dice on. Where all have declined there is no shooter: the dealer draws."""
    known = dict(memory)
    seats, shooter = tuple(known.get("seats", "").split()), known.get("shooter", "")
    if not shooter:
        return memory
    passed = (*known.get("declined", "").split(), shooter)
    return _memory(seats, _next(seats, shooter, passed), passed)


def _after(outcome: Outcome) -> Memory:
    seats, shooter = outcome.get("seats"), outcome.get("shooter")
    if not isinstance(seats, list) or not isinstance(shooter, str):
        return ()
    return _memory(tuple(seats), _next(tuple(seats), shooter) if outcome["sum"] == SEVEN else shooter)


def _began(outcome: Outcome | None, _left: Memory) -> Memory | None:
    """Who sat there and threw, as the dealer had told for this very round; a void names nobody."""
    if outcome is None:
        return None
    seats, shooter = outcome.get("seats"), outcome.get("shooter")
    if not isinstance(seats, list) or not isinstance(shooter, str):
        return ()
    return _memory(tuple(seats), shooter)


def _next(seats: tuple[str, ...], shooter: str, passed: tuple[str, ...] = ()) -> str:
    """The next seat clockwise that has not declined, empty where there is none."""
    start = seats.index(shooter) + 1 if shooter in seats else 0
    return next((seat for seat in seats[start:] + seats[:start] if seat not in passed), "")


def _memory(seats: tuple[str, ...], shooter: str, passed: tuple[str, ...] = ()) -> Memory:
    memory: Memory = (("seats", " ".join(seats)), ("shooter", shooter))
    return (*memory, ("declined", " ".join(passed))) if passed else memory


TUPLANOPPA = Game(
    name="tuplanoppa",
    roles=frozenset({"dice"}),
    variant=Variant,
    layout=None,
    shipped_layout=no_shipped_layout,
    check=fits,
    values=two_dice,
    outcome=outcome,
    shape=Shape,
    after=_after,
    began=_began,
    needs_odds_table=no_odds_table,
    zero_rules=no_zero_rules,
    seated=seated,
    declined=declined,
    throws=True,
)
