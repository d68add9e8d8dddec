"""The tables of `dollyd demo --all`: a configuration that is shipped as an example, and an evening at it.

Each evening is a scenario as in `config/examples/scenarios`: devices by name, orders by game and state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dollyd.simulators.kinds import KINDS
from dollyd.simulators.scenario import DeviceEntry, OrderEntry, Scenario

ODDS_KEY = "shared by box and host"
PERIOD_MS = 50
"""Status period of the devices, ten times faster than real ones."""
_WHEEL_PERIOD_MS, _MONEY_WHEEL_PERIOD_MS = 40, 30
"""Their games are longer."""
_NOMINAL_PERIOD_MS = 500
"""At this period a second of a scenario lasts a second."""
_HEARD_AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the demo. `example` is a file of `config/examples`, which names the table as well."""

    example: str
    evening: Scenario

    @property
    def reader(self) -> str:
        """The simulated device that knows what really came."""
        return self.evening.games_of


def _evening(
    name: str,
    games: int,
    games_of: str,
    devices: dict[str, DeviceEntry],
    *orders: OrderEntry,
    period_ms: int = PERIOD_MS,
) -> Scenario:
    """Whatever plays has no power until the daemon has found its port."""
    playing = [device for device, entry in devices.items() if KINDS[entry.kind].plays]
    dark = [_first(device, "power-off") for device in playing]
    heard_s = _HEARD_AFTER_S * _NOMINAL_PERIOD_MS / period_ms
    light = [OrderEntry(device, "power-on", at_s=heard_s) for device in playing]
    return Scenario(name, games, games_of, devices, (*dark, *light, *orders), period_ms)


def _device(kind: str, /, **options: Any) -> DeviceEntry:
    return DeviceEntry(kind, options=options)


def _ss2() -> DeviceEntry:
    return _device("ss2", compact=True, games_per_hour=100_000)


def _first(device: str, order: str) -> OrderEntry:
    return OrderEntry(device, order, at_s=0)


def _each(device: str, order: str, state: int, after_s: float) -> OrderEntry:
    return OrderEntry(device, order, every_game=True, state=state, after_s=after_s)


def _in_game(game: int, device: str, order: str, state: int = 2, after_s: float = 0) -> OrderEntry:
    return OrderEntry(device, order, at_game=game, state=state, after_s=after_s)


TABLES: dict[str, Table] = {
    "roulette-1": Table(
        "roulette-b",
        _evening(
            "roulette B with an odds box",
            7,
            "wheel",
            {"wheel": _ss2(), "odds": _device("odds-box", serial="OD000017", key=ODDS_KEY)},
            _first("odds", "table 1"),
            _first("odds", "table 2"),
            _in_game(3, "wheel", "fault ball-lost"),
        ),
    ),
    "roulette-2": Table(
        "roulette-b-host-generator",
        _evening(
            "roulette B, the host draws",
            7,
            "wheel",
            {"wheel": _ss2(), "odds": _device("truerng", bytes_per_s=100_000)},
            _in_game(3, "wheel", "fault quiet-stop"),
        ),
    ),
    "roulette-3": Table(
        "roulette-c-ball-detector",
        _evening(
            "roulette C with a ball detector",
            5,
            "wheel",
            {"wheel": _device("tlp-wheel"), "ball": _device("ball-detector", watches="wheel")},
            _in_game(2, "wheel", "fault wheel-few-laps"),
            period_ms=_WHEEL_PERIOD_MS,
        ),
    ),
    "roulette-4": Table(
        "roulette-d-two-witnesses",
        _evening(
            "roulette D with two readers",
            5,
            "wheel",
            {
                "wheel": _device("tlp-wheel", serial="SN000124"),
                "display": _device("number-display", watches="wheel"),
            },
            _in_game(2, "wheel", "fault wheel-same-direction"),
            period_ms=_WHEEL_PERIOD_MS,
        ),
    ),
    "roulette-5": Table(
        "roulette-a-display",
        _evening(
            "roulette A with a display",
            6,
            "wheel",
            {
                "wheel": _device("tlp-wheel"),  # nothing of it but its display is connected
                "display": _device("number-display", watches="wheel"),
                "ball": _device("ball-detector", watches="wheel", serial="BD000008"),
                "console": _device("console", serial="CN000005", badge="dealer-5"),
            },
            _each("console", "key NMB", 2, 6),
            _each("console", "key CONFIRM", 5, 3),
            _in_game(2, "wheel", "fault wheel-few-laps"),
            _in_game(4, "console", "key VOID", 4, 1),
            period_ms=_WHEEL_PERIOD_MS,
        ),
    ),
    "boule-1": Table(
        "boule",
        _evening(
            "boule",
            5,
            "bowl",
            {"bowl": _device("tlp-wheel", kind="BOULE", serial="BO000036")},
            _in_game(2, "bowl", "fault wheel-second-ball"),
            period_ms=_WHEEL_PERIOD_MS,
        ),
    ),
    "money-wheel-1": Table(
        "money-wheel",
        _evening(
            "money wheel",
            6,
            "wheel",
            {"wheel": _device("money-wheel")},
            _in_game(2, "wheel", "fault money-few-turns"),
            _in_game(4, "wheel", "fault money-on-pin"),
            period_ms=_MONEY_WHEEL_PERIOD_MS,
        ),
    ),
    "tuplanoppa-1": Table(
        "tuplanoppa",
        _evening(
            "tuplanoppa B",
            9,
            "camera",
            {
                "camera": _device("dice-camera", serial="DC000001"),
                "console": _device("console", serial="CN000008", badge="dealer-8"),
            },
            _each("console", "key NMB", 2, 1),
            _each("console", "key PERMIT", 2, 2),
            _in_game(3, "camera", "fault dice-cocked"),
            _in_game(6, "console", "key REJECT", 3, 0.2),
        ),
    ),
    "sic-bo-1": Table(
        "sic-bo",
        _evening(
            "sic bo",
            7,
            "camera",
            {
                "camera": _device("dice-camera", dice=3, serial="DC000003"),
                "console": _device("console", serial="CN000009", badge="dealer-9"),
            },
            _each("console", "key NMB", 2, 1),
            _in_game(3, "camera", "fault dice-stacked"),
        ),
    ),
    "craps-1": Table(
        "craps",
        _evening(
            "craps",
            15,
            "camera-1",
            {
                "camera-1": _device("dice-camera", serial="DC000011"),
                "camera-2": _device("dice-camera", shares="camera-1", serial="DC000012"),
            },
            *(
                _first("camera-1", f"faces {faces}")
                for faces in ("3 1", "2 3", "1 1", "6 6", "2 2", "6 5", "5 4", "4 3")
            ),
            _in_game(3, "camera-1", "fault dice-outside"),
            _in_game(10, "camera-2", "fault dice-misread"),
        ),
    ),
}
"""By the name that the example gives the table."""
