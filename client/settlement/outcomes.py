"""What an outcome says of itself: dice and pockets are read, what follows from them is derived again.

A record says `pocket`, and `colour`, and `parity`. Bets are paid by all of them, yet only one was drawn. Here
the others are computed from it, and a record that lacks or contradicts one of them settles nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from dollyd.client.settlement.spec import SettlementError
from dollyd.daemon.core.games.boule import BOULE
from dollyd.daemon.core.games.craps import CRAPS, POINTS
from dollyd.daemon.core.games.dice import FACES
from dollyd.daemon.core.games.money_wheel import Variant as MoneyWheel
from dollyd.daemon.core.games.roulette import ROULETTE, ZEROS, Layout, Variant, parse_layout
from dollyd.daemon.core.games.sic_bo import SIC_BO
from dollyd.daemon.core.games.spec import Drawn, Memory, Outcome, Value
from dollyd.daemon.core.games.tuplanoppa import TUPLANOPPA

PLACES = frozenset({"wheel_index", "cup", "sector"})
"""Where on the wheel it was drawn: of no bet's concern, and a matter of the house's own wheel."""
T = TypeVar("T", str, int)


def agreed(outcome: Mapping[str, Any], game: str, variant: Any) -> Outcome:
    """The outcome with everything that a bet goes by derived from what was drawn.

    Raises `SettlementError` where the outcome lacks a member, or says something else than what was drawn.
    """
    derived = _derived(outcome, game, variant)
    for name, value in derived.items():
        if name in PLACES:
            continue
        if name not in outcome:
            raise SettlementError(f"the outcome lacks {name}")
        if type(outcome[name]) is not type(value) or outcome[name] != value:
            drawn = f"{name} {outcome[name]!r}, by what was drawn it is {value!r}"
            raise SettlementError(f"the outcome contradicts itself: {drawn}")
    return derived


def _derived(outcome: Mapping[str, Any], game: str, variant: Any) -> Outcome:
    match game:
        case "roulette":
            return _roulette(outcome, variant)
        case "boule":
            number = _one_of(outcome, "number", tuple(map(str, range(1, 10))))
            return BOULE.outcome(Drawn((number, "0"), variant, None, ()))
        case "money-wheel":
            return _money_wheel(outcome, variant)
        case "tuplanoppa":
            return TUPLANOPPA.outcome(Drawn(_dice(outcome, 2), variant, None, ()))
        case "sic-bo":
            return SIC_BO.outcome(Drawn(_dice(outcome, 3), variant, None, ()))
        case "craps":
            return CRAPS.outcome(Drawn(_dice(outcome, 2), variant, None, _point(outcome)))
    raise SettlementError(f"nobody knows how an outcome of {game} is made up")


def _roulette(outcome: Mapping[str, Any], variant: Variant) -> Outcome:
    layout = _layout(variant.layout)
    pocket = _one_of(outcome, "pocket", layout.clockwise)
    memory: Memory = ()
    if variant.counts_zeros and pocket in ZEROS:
        count = _member(outcome, "zeros_in_a_row", int)
        if count < 1:
            raise SettlementError(f"the outcome contradicts itself: {pocket}, yet {count} zeros in a row")
        memory = (("zeros", str(count - 1)),)
    return ROULETTE.outcome(Drawn((pocket,), variant, layout, memory, "quarter" in outcome))


def _money_wheel(outcome: Mapping[str, Any], variant: MoneyWheel) -> Outcome:
    """Which symbol is in which sector only the layout of that very wheel tells."""
    return {"symbol": _one_of(outcome, "symbol", tuple(variant.odds))}


def _dice(outcome: Mapping[str, Any], count: int) -> Value:
    faces = tuple(str(_member(outcome, f"die_{number}", int)) for number in range(1, count + 1))
    for face in faces:
        if face not in FACES:
            raise SettlementError(f"the outcome has a die that shows {face}")
    return faces


def _point(outcome: Mapping[str, Any]) -> Memory:
    if "point" not in outcome:
        return ()
    point = _member(outcome, "point", int)
    if point not in POINTS:
        raise SettlementError(f"the outcome has the point {point}, which is none")
    return (("point", str(point)),)


def _member(outcome: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = outcome.get(name)
    if type(value) is not kind:
        raise SettlementError(f"the outcome has no {name}" if value is None else f"{name} is {value!r}")
    return value


def _one_of(outcome: Mapping[str, Any], name: str, values: tuple[str, ...]) -> str:
    value = _member(outcome, name, str)
    if value not in values:
        raise SettlementError(f"the outcome has {name} {value!r}, which this game has not")
    return value


@cache
def _layout(name: str) -> Layout:
    """A shipped wheel. Only which pockets there are and which are red is asked of it."""
    return parse_layout(files("dollyd").joinpath("config", "layouts", f"{name}.toml").read_bytes())
