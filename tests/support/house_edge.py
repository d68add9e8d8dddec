"""The house edge by enumeration: what a bet loses on average, as an exact share of its stake."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import TypeVar

Outcome = TypeVar("Outcome")
Position = TypeVar("Position", bound=Hashable)


def edge(settle_net: Callable[[Outcome], Fraction], outcomes: Iterable[Outcome]) -> Fraction:
    """Minus the mean of the player's net gain, in stakes, over equally likely outcomes.

    `settle_net` gives the gain (a loss is negative) as a multiple of the stake. An outcome that is more
    likely than another stands in `outcomes` as many times over.
    """
    nets = [settle_net(outcome) for outcome in outcomes]
    return -sum(nets, Fraction(0)) / len(nets)


def chain_edge(
    play: Callable[[Position, Outcome], Position | Fraction],
    start: Position,
    outcomes: Iterable[Outcome],
) -> Fraction:
    """The edge of a bet that lives over rounds: a Markov chain, solved exactly.

    `play` gives where the bet stands after an outcome, or, where it ends, the player's net gain in stakes.
    """
    space = list(outcomes)
    steps = {start: [play(start, outcome) for outcome in space]}
    found = [start]
    for position in found:
        for then in steps[position]:
            if not isinstance(then, Fraction) and then not in steps:
                steps[then] = [play(then, outcome) for outcome in space]
                found.append(then)
    # Gain of a position = mean over the outcomes of an end's gain or the next position's: one row each,
    # coefficients first and the constant last.
    rows = []
    for position in found:
        row = [Fraction(int(position == other)) for other in found] + [Fraction(0)]
        for then in steps[position]:
            column = len(found) if isinstance(then, Fraction) else found.index(then)
            gain = then if isinstance(then, Fraction) else Fraction(-1)
            row[column] += gain / len(space)
        rows.append(row)
    return -_first_unknown(rows)


def _first_unknown(rows: list[list[Fraction]]) -> Fraction:
    """Gauss-Jordan elimination. The matrices of chains that end have no zero pivot."""
    for pivot, row in enumerate(rows):
        row[:] = [value / row[pivot] for value in row]
        for other in rows:
            if other is not row:
                factor = other[pivot]
                other[:] = [value - factor * own for value, own in zip(other, row, strict=True)]
    return rows[0][-1]
