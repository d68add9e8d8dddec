"""The stage of the roulette demo: a SlingShot 2 wheel and an odds box, processes of their own."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from dollyd.daemon.host.secret_files import write_secret
from dollyd.simulators.demo.broker import Broker
from dollyd.simulators.demo.stage import Stage, write_profile

TABLE = "roulette-1"
PERIOD_MS = 50
"""Status period of both devices, ten times faster than real ones: a game takes a second and a half."""
UNRESOLVED_VOID_AFTER_S = 3
_SILENCE_MS = 1000  # a busy laptop is no gap in the data
_PROFILE = "fi-ray-2013"

_SECTIONS = """\
[tables.{table}]
game = "roulette"
variant = "B"
rulebook = "fi-ray-2013-roulette"
profile = "{profile}.toml"
stakes = {{ minimum = 100, maximum = 100000, currency = "EUR" }}

[tables.{table}.devices.wheel]
driver = "cammegh-ss2"
role = "wheel"
port = "{directory}/wheel"
status_period_ms = {period_ms}
silence_ms = {silence_ms}
expect = {{ pockets = "37" }}

[tables.{table}.devices.odds]
driver = "tlp"
role = "odds"
port = "{directory}/odds"
status_period_ms = {period_ms}
secret_file = "odds.key"
expect = {{ serial = "OB000042" }}
"""


@dataclass(frozen=True, slots=True)
class Game:
    """A game as the wheel itself played it, and what stood between it and its record."""

    counter: int
    pocket: str
    """Empty where the game was aborted."""
    wheel_heard: bool
    broker_up: bool


class RouletteStage(Stage):
    """Broker, daemon and the two devices of a table."""

    def __init__(self, directory: Path, broker: Broker, seed: int) -> None:
        super().__init__(directory, broker, seed)
        self.games: list[Game] = []
        """The wheel's truth, in order."""
        self.wheel_heard = False
        """Set by the script: whether the daemon hears the wheel."""

    async def open(self) -> None:
        """Set the whole table up; the wheel has no power until somebody listens."""
        write_secret(self.directory / "odds.key", secrets.token_hex(16).encode("ascii"))
        write_profile(self.directory, _PROFILE, UNRESOLVED_VOID_AFTER_S)
        table = _SECTIONS.format(
            table=TABLE,
            profile=_PROFILE,
            directory=self.directory,
            period_ms=PERIOD_MS,
            silence_ms=_SILENCE_MS,
        )
        await self.set_up(table)
        odds = _simulator("odds-box", "--key-file", str(self.directory / "odds.key"))
        await self._start("odds", *odds, *self._device_options("odds"))
        wheel_command = _simulator("ss2", "--compact", "--games-per-hour", "100000", "--json")
        wheel = await self._start("wheel", *wheel_command, *self._device_options("wheel"), piped=True)
        wheel.order("power-off")
        self._followers.append(asyncio.create_task(wheel.follow(self._played)))

    def order(self, device: str, text: str) -> None:
        """An order to a simulated device (see `simulators.control`)."""
        self._children[device].order(text)

    def _device_options(self, name: str) -> tuple[str, ...]:
        port = str(self.directory / name)
        return ("--period-ms", str(PERIOD_MS), "--seed", str(self.seed), "--link", port)

    def _played(self, line: str) -> None:
        game = json.loads(line)
        pocket = (game["pocket"] or "").strip()
        self.games.append(Game(game["counter"], pocket, self.wheel_heard, self.broker_up))


def _simulator(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "dollyd.simulators", *arguments)
