"""Every kind of simulated device by name: how it is made, what it obeys, what it knows as the truth.

One literal table, for the command line and for scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Any, TypeAlias, TypeVar

import msgspec

from dollyd.simulators.ball_detector import BallDetector, BallDetectorOptions
from dollyd.simulators.console import Console, ConsoleOptions
from dollyd.simulators.control import PoweredModel
from dollyd.simulators.dice_camera import DiceCamera, DiceCameraOptions, DiceTable
from dollyd.simulators.generators import Generator, GeneratorOptions, OneRng, TrueRng
from dollyd.simulators.layouts import boule, european, layout
from dollyd.simulators.money_wheel import MoneyWheel, MoneyWheelOptions
from dollyd.simulators.number_display import NumberDisplay, NumberDisplayOptions
from dollyd.simulators.odds_box import OddsBox, OddsBoxOptions
from dollyd.simulators.ss2 import SHORT, Lengths, Ss2Options, Ss2Wheel
from dollyd.simulators.tlp_wheel import TlpWheel, WheelOptions

T = TypeVar("T")
M = TypeVar("M")
Options: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Built:
    """A device, ready to be put on a line."""

    model: PoweredModel
    orders: Mapping[str, Callable[[str], None]]
    """What it obeys besides plug, power and faults."""
    truth: Callable[[], Sequence[Any]] = list
    """What really happened so far, dataclasses in order."""
    state: Callable[[], int] = int
    """State 1-7 of a device that plays games; 2 begins a game, 5 shows its result."""
    binary: bool = False
    """It sends bytes, not lines."""


Others: TypeAlias = Mapping[str, Built]
"""The devices before this one at the same table, by name."""
Build: TypeAlias = Callable[[Options, Random, int, Others], Built]
"""Makes a device with power on, at a monotonic time. ValueError for bad options."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of device. `plays`: it has games, which a scenario can count."""

    summary: str
    build: Build
    plays: bool = True


def _ss2(options: Options, rng: Random, now_ns: int, _: Others) -> Built:
    told = dict(options)
    told["lengths"] = SHORT if told.pop("compact", False) else Lengths()
    model = Ss2Wheel(_told(Ss2Options, told), rng, now_ns)
    orders = {
        "start": lambda _: model.press_start(),
        "number": lambda text: model.will_fall_into(f"{text.strip():>2}"),
    }
    return Built(model, orders, lambda: model.played, lambda: model.state)


def _odds_box(options: Options, rng: Random, now_ns: int, _: Others) -> Built:
    told = dict(options)
    key = told.pop("key", "")
    if not key:
        raise ValueError("an odds box needs a key")
    model = OddsBox(_told(OddsBoxOptions, told), key if isinstance(key, bytes) else key.encode(), rng, now_ns)
    return Built(model, {"table": lambda text: model.will_draw(_whole(text))}, lambda: model.drawn)


def _tlp_wheel(options: Options, rng: Random, now_ns: int, _: Others) -> Built:
    told = dict(options)
    if told.get("kind", "WHEEL") not in {"WHEEL", "BOULE"}:
        raise ValueError(f"no kind of wheel {told['kind']!r}; there are WHEEL and BOULE")
    name = told.pop("layout", "")
    usual = boule() if told.get("kind") == "BOULE" else european()
    told["pockets"] = layout(name, "clockwise") if name else usual
    model = TlpWheel(_told(WheelOptions, told), rng, now_ns)
    orders = {
        "start": lambda _: model.press_start(),
        "number": lambda text: model.will_fall_into(text.strip()),
    }
    return Built(model, orders, lambda: model.played, lambda: model.state)


def _ball_detector(options: Options, rng: Random, now_ns: int, others: Others) -> Built:
    told = dict(options)
    watches = told.pop("watches", "")
    track = _neighbour(others, watches, TlpWheel).track if watches else None
    model = BallDetector(_told(BallDetectorOptions, told), rng, now_ns, track)
    return Built(model, {"start": lambda _: model.press_start()}, lambda: model.played, lambda: model.state)


def _number_display(options: Options, _rng: Random, now_ns: int, others: Others) -> Built:
    told = dict(options)
    wheel = _neighbour(others, told.pop("watches", ""), TlpWheel)
    return Built(NumberDisplay(_told(NumberDisplayOptions, told), now_ns, wheel.played), {})


def _money_wheel(options: Options, rng: Random, now_ns: int, _: Others) -> Built:
    model = MoneyWheel(_told(MoneyWheelOptions, options), rng, now_ns)
    orders = {
        "start": lambda _: model.press_start(),
        "sector": lambda text: model.will_stop_at(_whole(text)),
        "touch": lambda text: model.will_be_touched(_whole(text)),
    }
    return Built(model, orders, lambda: model.played, lambda: model.state)


def _dice_camera(options: Options, rng: Random, now_ns: int, others: Others) -> Built:
    told = dict(options)
    dice, shares = told.pop("dice", 2), told.pop("shares", "")
    if dice not in {1, 2, 3}:
        raise ValueError(f"no camera for {dice} dice; give 1, 2 or 3")
    if shares:
        table = _neighbour(others, shares, DiceCamera).table
    else:
        table = DiceTable(dice, rng, attended=bool(told.get("attended", True)))
    model = DiceCamera(_told(DiceCameraOptions, told), rng, now_ns, table)
    orders = {
        "start": lambda _: model.press_start(),
        "faces": lambda text: table.will_show(tuple(_whole(face) for face in text.split())),
    }
    return Built(model, orders, lambda: model.played, lambda: model.state)


def _console(options: Options, rng: Random, now_ns: int, _: Others) -> Built:
    model = Console(_told(ConsoleOptions, options), rng, now_ns)

    def press(text: str) -> None:
        key, _, round_shown = text.partition(" ")
        model.press(key, round_shown)

    return Built(model, {"key": press, "badge": model.put_on}, lambda: model.played)


def _generator(make: Callable[[GeneratorOptions, Random, int], Generator]) -> Build:
    def build(options: Options, rng: Random, now_ns: int, _: Others) -> Built:
        told = {name: value for name, value in options.items() if name != "period_ms"}
        return Built(make(_told(GeneratorOptions, told), rng, now_ns), {}, binary=True)

    return build


KINDS: dict[str, Kind] = {
    "ss2": Kind("Cammegh SlingShot 2 roulette wheel", _ss2),
    "odds-box": Kind("box that draws the odds table (TLP/1, OD)", _odds_box, plays=False),
    "tlp-wheel": Kind("roulette wheel or boule bowl (TLP/1, WH)", _tlp_wheel),
    "ball-detector": Kind("counts the laps of the ball (TLP/1, BD)", _ball_detector),
    "number-display": Kind("display output of a wheel: the number alone", _number_display, plays=False),
    "money-wheel": Kind("money wheel (TLP/1, MW)", _money_wheel),
    "dice-camera": Kind("reads two or three dice (TLP/1, DC)", _dice_camera),
    "console": Kind("keys and badge of the dealer (TLP/1, CN)", _console, plays=False),
    "truerng": Kind("TrueRNG random generator", _generator(TrueRng), plays=False),
    "onerng": Kind("OneRNG random generator", _generator(OneRng), plays=False),
}
"""The devices, by the names that command line and scenarios use."""


def _told(options_type: type[T], told: Options) -> T:
    """Options of a kind; ValueError naming the first that it does not have, or that is of another type."""
    known = {entry.name for entry in fields(options_type)}  # type: ignore[arg-type]  # options are dataclasses
    for name in told:
        if name not in known:
            raise ValueError(f"no option {name!r}; there are {', '.join(sorted(known))}")
    return msgspec.convert(told, options_type)


def _neighbour(others: Mapping[str, Built], name: str, model: type[M]) -> M:
    """The model of a device before this one at the table."""
    found = others[name].model if name in others else None
    if not isinstance(found, model):
        raise ValueError(f"no {model.__name__} named {name!r} before this device")  # noqa: TRY004 - the file is wrong
    return found


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None
