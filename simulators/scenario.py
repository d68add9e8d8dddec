"""Scenario files: a whole evening at a table in TOML, checked to the last order before anything starts.

    name = "..."                    games = 40                 games_of = "wheel"
    period_ms = 500                 seed = 1                   longest_s = 7200 (optional)

    [devices.wheel]                 kind = "tlp-wheel"         link = "wheel"
    options = { ... }               those of the kind, see `simulators.kinds`

    [[orders]]                      at_game = 5 | at_s = 60 | every_game = true
    device = "wheel"                state = 2                  after_s = 1.5
    order = "fault wheel-few-laps"

`games_of` names the device whose games are counted; a game begins with its state 2. An order is obeyed
`after_s` after that device came to `state`. Seconds are those of a device with a status period of
500 ms; with a shorter one everything goes as much faster.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from dollyd.simulators.kinds import KINDS
from dollyd.wire.errors import ConfigError

Positive = Annotated[int, Meta(gt=0)]
Seconds = Annotated[float, Meta(ge=0)]
FileName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
_SECONDS_A_GAME = 240
_WHERE = re.compile(r"(.*) - at `(?:key in )?\$\.?(.*)`")


class DeviceEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One device of the table; `link` is the name of its port in the directory, its own name where empty."""

    kind: str
    link: FileName | None = None
    seed: int | None = None
    """Of its own dice; made of the scenario's where it is not given."""
    options: dict[str, Any] = field(default_factory=dict)


class OrderEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One order, and when it is given: by time, in one game, or in every game."""

    device: str
    order: str
    at_s: Seconds | None = None
    at_game: Positive | None = None
    every_game: bool = False
    state: Annotated[int, Meta(ge=1, le=6)] = 2
    after_s: Seconds = 0


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """An evening. `file` is the path that error texts name."""

    name: str
    games: Positive
    games_of: str
    devices: dict[FileName, DeviceEntry]
    orders: tuple[OrderEntry, ...] = ()
    period_ms: Annotated[int, Meta(ge=5)] = 500
    seed: int = 1
    longest_s: Positive | None = None
    """The evening ends then, whatever became of its games."""
    file: str = ""

    @property
    def longest_seconds(self) -> float:
        """`longest_s`, or more than any such evening takes."""
        return self.longest_s or self.games * _SECONDS_A_GAME

    def wrong(self, key: str, problem: str, remedy: str) -> ConfigError:
        """An error in this file."""
        return ConfigError(self.file, key, problem, remedy)


def load(path: Path, period_ms: int | None = None) -> Scenario:
    """Read and check a scenario file, without making any device. Raises `ConfigError`.

    `period_ms`: another status period than the file's.
    """
    try:
        tree = tomllib.loads(path.read_bytes().decode("utf-8")) | {"file": str(path)}
        if period_ms is not None:
            tree["period_ms"] = period_ms
        scenario = msgspec.convert(tree, Scenario)
    except OSError as error:
        raise ConfigError(
            str(path), "", f"cannot be read: {error.strerror}", "give a readable file"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(str(path), "", f"is not TOML: {error}", "mend the line that it names") from error
    except msgspec.ValidationError as error:
        found = _WHERE.fullmatch(str(error))
        problem, key = (found[1], found[2]) if found else (str(error), "")
        raise ConfigError(str(path), key, problem, "see the head of simulators/scenario.py") from error
    _check_devices(scenario)
    _check_orders(scenario)
    return scenario


def _check_devices(scenario: Scenario) -> None:
    links: dict[str, str] = {}
    for name, device in scenario.devices.items():
        if device.kind not in KINDS:
            raise scenario.wrong(
                f"devices.{name}.kind", f"no kind {device.kind!r}", f"give one of {', '.join(KINDS)}"
            )
        link = device.link or name
        if link in links:
            raise scenario.wrong(
                f"devices.{name}.link", f"{link!r} is the port of {links[link]} too", "give each its own"
            )
        links[link] = name
    playing = [name for name, device in scenario.devices.items() if KINDS[device.kind].plays]
    if scenario.games_of not in playing:
        remedy = f"give one of {', '.join(playing)}" if playing else "add a device that plays games"
        raise scenario.wrong("games_of", f"{scenario.games_of!r} plays no games here", remedy)


def _check_orders(scenario: Scenario) -> None:
    for place, entry in enumerate(scenario.orders):
        times = [entry.at_s is not None, entry.at_game is not None, entry.every_game]
        if sum(times) != 1:
            raise scenario.wrong(
                f"orders[{place}]", "needs one time", "give one of at_s, at_game and every_game = true"
            )
        if entry.device not in scenario.devices:
            raise scenario.wrong(
                f"orders[{place}].device",
                f"no device {entry.device!r}",
                f"give one of {', '.join(scenario.devices)}",
            )
        if entry.at_game is not None and entry.at_game > scenario.games:
            raise scenario.wrong(
                f"orders[{place}].at_game",
                f"there are only {scenario.games} games",
                "give an earlier game, or raise games",
            )
