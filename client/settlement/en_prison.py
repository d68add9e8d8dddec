"""En prison, roulette variant D: what becomes of a stake that zero has imprisoned (rulebook 2.9).

The state of a stake is `{"need", "run", "original"}`: how many rounds in a row its chance must still win,
how many zeros came last without another number between them, and the stake in minor units. An imprisoned
stake can neither be removed nor changed. It is freed without profit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from typing import Literal

from dollyd.client.settlement.spec import (
    Answer,
    Bet,
    Choice,
    Round,
    SettlementError,
    State,
    Verdict,
    loses,
    returned,
    rounded,
    stays,
)
from dollyd.daemon.core.rulebook import PrisonLoss


class Came(Enum):
    """A round as an even chance sees it."""

    ZERO = auto()
    OWN = auto()
    OPPOSITE = auto()


@dataclass(frozen=True, slots=True)
class Cell:
    """How deep a stake sits: wins in a row still needed, and the current run of zeros."""

    need: int
    run: int


FIRST_ZERO = Cell(need=1, run=1)
CELLS = frozenset({FIRST_ZERO, Cell(need=2, run=2), Cell(need=1, run=0), Cell(need=2, run=1)})
"""P1, P2, Q and P2' of the rulebook."""


def after(cell: Cell, came: Came, loss: PrisonLoss) -> Cell | Literal[Verdict.LOSES, Verdict.RETURNED]:
    """One round of the state machine: the next cell, or how the stake ends."""
    if came is Came.OPPOSITE:
        return Verdict.LOSES
    if came is Came.OWN:
        return Cell(cell.need - 1, run=0) if cell.need > 1 else Verdict.RETURNED
    lost = cell.run == 2 if loss == "three_in_a_row" else cell.need == 2
    return Verdict.LOSES if lost else Cell(need=2, run=cell.run + 1)


def imprison(bet: Bet, stake: int) -> Answer:
    """The first zero: the stake stays, imprisoned."""
    return stays(bet, _state(FIRST_ZERO, stake))


def settle_imprisoned(bet: Bet, came: Came, played: Round) -> Answer:
    """One round of an imprisoned stake.

    Under `both` the player chooses when zero has come twice in a row: a `QUARTER` of the original stake back,
    or `STAY`. Raises `SettlementError` where that choice is missing, or the state is none of en prison.
    """
    cell, original = _read(bet)
    then = after(cell, came, played.prison_loss)
    if then is Verdict.LOSES:
        return loses(bet)
    if then is Verdict.RETURNED:
        return returned(bet, original)
    if played.zero_rule == "both" and then.run == 2 and _chosen(bet) is Choice.QUARTER:
        quarter = rounded(Fraction(original, 4), played.rounding)
        return Answer(bet.id, Verdict.PART_RETURNED, returned=quarter)
    return stays(bet, _state(then, original))


def _chosen(bet: Bet) -> Choice:
    if bet.choice not in (Choice.QUARTER, Choice.STAY):
        raise SettlementError(f"bet {bet.id}: zero came twice in a row; the player chooses quarter or stay")
    return bet.choice


def _state(cell: Cell, original: int) -> State:
    return {"need": cell.need, "run": cell.run, "original": original}


def _read(bet: Bet) -> tuple[Cell, int]:
    match bet.state:
        case {"need": int(need), "run": int(run), "original": int(original), **others} if not others:
            cell = Cell(need, run)
            if cell in CELLS and original > 0:
                return cell, original
    raise SettlementError(f"bet {bet.id}: {dict(bet.state)} is no state of an imprisoned stake")
