"""A simulated wheel and odds box on real pseudo-terminals, living in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from tests.support.broker import until
from tests.support.daemon import ODDS_KEY, Consumer

from dollyd.daemon.host.clock import SystemClock
from dollyd.simulators.line import Line
from dollyd.simulators.odds_box import OddsBox, OddsBoxOptions
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.runner import Device, Model
from dollyd.simulators.ss2 import SHORT, Ss2Options, Ss2Wheel
from dollyd.simulators.ss2.options import PlayedGame

PERIOD_MS = 20
_PLAYS_AT_ONCE = replace(SHORT, idle=(10, 10))
"""Long enough in state 6 for the driver's questions."""


class SimulatedTable:
    """One table: the wheel is plugged in but dark until `play`, so that its first game is seen whole.

    `script` are the first numbers, `odds` the first odds tables.
    """

    def __init__(
        self,
        directory: Path,
        name: str = "r1",
        *,
        seed: int = 1,
        pockets: int = 37,
        script: Iterable[str] = (),
        odds: Iterable[int] = (),
        period_ms: int = PERIOD_MS,
        plugged: bool = True,
    ) -> None:
        self._clock = SystemClock()
        now_ns = self._clock.stamp().mono_ns
        options = Ss2Options(
            period_ms=period_ms, games_per_hour=100_000, lengths=_PLAYS_AT_ONCE, pockets=pockets
        )
        self.wheel = Ss2Wheel(options, Random(f"{name} {seed}"), now_ns, [f"{text:>2}" for text in script])
        self.wheel.power_off(now_ns)
        self.box = OddsBox(
            OddsBoxOptions(period_ms=period_ms), ODDS_KEY, Random(f"odds {name} {seed}"), now_ns, odds
        )
        self.wheel_port = PtyLink(directory / f"{name}-wheel")
        self.odds_port = PtyLink(directory / f"{name}-odds")
        self.wheel_line = Line(Random(f"line {name} {seed}"))
        self.odds_line = Line(Random(f"odds line {name} {seed}"))
        self.wheel_device = self._device(self.wheel, self.wheel_port, self.wheel_line)
        self._odds_device = self._device(self.box, self.odds_port, self.odds_line)
        self._plugged = plugged
        self._lives: list[asyncio.Task[None]] = []

    def _device(self, model: Model, port: PtyLink, line: Line) -> Device:
        return Device(model, port, self._clock, line)

    async def __aenter__(self) -> Self:
        if self._plugged:
            self.plug()
        self._lives = [asyncio.create_task(device.run()) for device in (self.wheel_device, self._odds_device)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for life in self._lives:
            life.cancel()
        await asyncio.wait(self._lives)
        self.unplug()

    @property
    def completed(self) -> list[PlayedGame]:
        """The games that really came to their end."""
        return [game for game in self.wheel.played if game.outcome == "completed"]

    @property
    def numbers(self) -> list[str]:
        """What really fell, as records write it."""
        return [game.pocket.strip() for game in self.completed if game.pocket is not None]

    @property
    def now_ns(self) -> int:
        return self._clock.stamp().mono_ns

    def play(self) -> None:
        """Power for the wheel: it boots, idles, and plays on and on."""
        self.wheel.power_on(self.now_ns)
        self.wheel_device.wake()

    def end_play(self) -> None:
        """No power: dark at once."""
        self.wheel.power_off(self.now_ns)

    def plug(self) -> None:
        self.wheel_port.plug()
        self.odds_port.plug()

    def unplug(self) -> None:
        self.wheel_port.unplug()
        self.odds_port.unplug()


async def playing(table: SimulatedTable, consumer: Consumer, results: int = 1) -> None:
    """Have a table play until it has given so many results; all of its games are heard."""
    await until(lambda: consumer.status("odds") == "ready" and table.wheel_port.host_is_there())
    table.play()
    await until(lambda: len(consumer.of("result")) >= results, 30)
