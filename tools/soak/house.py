"""The house: eight tables of several kinds, their simulated devices on real ports, and the node's files."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from tests.support.daemon import ODDS_BOX, ODDS_KEY, Installation
from tools.truth import Game

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.keys.signing import new_key
from dollyd.simulators.line import Line
from dollyd.simulators.odds_box import OddsBox, OddsBoxOptions
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.runner import Device
from dollyd.simulators.ss2 import SHORT, Ss2Options, Ss2Wheel
from dollyd.simulators.tlp_wheel import TlpWheel, WheelOptions
from dollyd.wire.stamp import NS_PER_MS

SS2, TLP = "cammegh-ss2", "tlp"
PERIOD_MS = {SS2: 9, TLP: 10}
"""Between two status lines. A game of the SS2 is some 15 of them, one of the TLP wheel about 80."""
BOX_PERIOD_MS = 50
EXPECTED_PERIOD_MS = {SS2: 36, TLP: 200}
"""What the node expects: on a busy machine a line may be late without the device being at fault."""
TABLES = {
    "b1": (SS2, "B"),
    "b2": (SS2, "B"),
    "b3": (TLP, "B"),
    "c1": (SS2, "C"),
    "c2": (SS2, "C"),
    "c3": (SS2, "C"),
    "c4": (SS2, "C"),
    "c5": (TLP, "C"),
}
LOW_MB, FLOOR_MB = 30, 20
"""Room on the journal's disk below which captures are no longer kept, and no round is begun."""
DISK_MB = 100
BYTES_A_GAME = 12_000
"""Of journal, generously: a disk of so much a game never fills by itself."""
TABLE = """
[tables.{table}]
game = "roulette"
variant = "{variant}"
rulebook = "fi-ray-2013-roulette"
profile = "profile.toml"
stakes = {{ minimum = 100, maximum = 100000, currency = "EUR" }}

[tables.{table}.devices.wheel]
driver = "{driver}"
role = "wheel"
port = "{directory}/{table}-wheel"
status_period_ms = {period_ms}
silence_ms = 3000
"""
_ABSENT_NS = 100 * NS_PER_MS
"""Two looks at an absent host that are closer than this see one absence."""
_QUICK = replace(
    SHORT, idle=(10, 10), before_game=(1, 1), start_key=(1, 1), rim=(2, 2), no_more_bets=(4, 5), result=(4, 5)
)
"""Games as short as they can be, and long enough in state 6 for the driver's questions."""


class PlayedTable:
    """A table at work; its wheel is dark until `play`. It knows the truth, and when nobody could hear it."""

    def __init__(
        self,
        directory: Path,
        name: str,
        driver: str,
        variant: str,
        seed: int,
        periods_ms: Mapping[str, int] = PERIOD_MS,
    ) -> None:
        self.name = name
        self.driver = driver
        self._clock = SystemClock()
        now_ns = self._clock.stamp().mono_ns
        rng = Random(f"{name} {seed}")
        period_ms = periods_ms[driver]
        self._wheel = _ss2(rng, now_ns, period_ms) if driver == SS2 else _tlp(rng, now_ns, period_ms)
        self._wheel.power_off(now_ns)
        self._box: OddsBox | None = None
        self.ports = {"wheel": PtyLink(directory / f"{name}-wheel")}
        self.wheel_line = Line(Random(f"line {name} {seed}"))
        self._wheel_device = Device(self._wheel, self.ports["wheel"], self._clock, self.wheel_line)
        self._wheel_device.observe = self._look
        self._devices = [self._wheel_device]
        if variant == "B":
            self._box = OddsBox(
                OddsBoxOptions(period_ms=BOX_PERIOD_MS), ODDS_KEY, Random(f"odds {name} {seed}"), now_ns
            )
            self.ports["odds"] = PtyLink(directory / f"{name}-odds")
            line = Line(Random(f"odds line {name} {seed}"))
            self._devices.append(Device(self._box, self.ports["odds"], self._clock, line))
        self._absent_ns: list[tuple[int, int]] = []
        self._lives: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for port in self.ports.values():
            port.plug()
        self._lives = [asyncio.create_task(device.run()) for device in self._devices]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for life in self._lives:
            life.cancel()
        await asyncio.wait(self._lives)
        for port in self.ports.values():
            port.unplug()

    @property
    def played(self) -> int:
        """Games played so far; those that lost their power are among them."""
        return len(self._wheel.played)

    @property
    def games(self) -> Sequence[Game]:
        """What was really played, in order."""
        if isinstance(self._wheel, TlpWheel):
            return [
                Game(int(spin.game), spin.number or "", spin.start_ns, spin.end_ns)
                for spin in self._wheel.played
            ]
        return [
            Game(game.counter, (game.pocket or "").strip(), game.start_ns, game.end_ns)
            for game in self._wheel.played
        ]

    @property
    def drawn(self) -> dict[str, int]:
        """The odds tables that the box drew, by nonce; empty where there is no box."""
        return {draw.nonce: draw.table for draw in self._box.drawn} if self._box is not None else {}

    @property
    def heard(self) -> bool:
        """Whether somebody has every port open."""
        return all(port.host_is_there() for port in self.ports.values())

    def was_unheard(self, game: Game) -> bool:
        """Whether nobody had the wheel's port open at some moment of the game."""
        return any(since <= game.end_ns and game.start_ns <= until for since, until in self._absent_ns)

    def play(self) -> None:
        """Power for the wheel: it plays on and on."""
        self._wheel.power_on(self._clock.stamp().mono_ns)
        self._wheel_device.wake()

    def spoil(self, fault: str) -> None:
        """Have the wheel show a fault once, in its next game; see `simulators.faults`."""
        self._wheel.faults.set(fault)

    def end_play(self) -> None:
        """No power: dark at once."""
        self._wheel.power_off(self._clock.stamp().mono_ns)

    def _look(self) -> None:
        if self.ports["wheel"].host_is_there():
            return
        now_ns = self._clock.stamp().mono_ns
        if self._absent_ns and now_ns - self._absent_ns[-1][1] < _ABSENT_NS:
            self._absent_ns[-1] = (self._absent_ns[-1][0], now_ns)
        else:
            self._absent_ns.append((now_ns, now_ns))


def _ss2(rng: Random, now_ns: int, period_ms: int) -> Ss2Wheel:
    options = Ss2Options(period_ms=period_ms, games_per_hour=100_000, lengths=_QUICK)
    return Ss2Wheel(options, rng, now_ns)


def _tlp(rng: Random, now_ns: int, period_ms: int) -> TlpWheel:
    return TlpWheel(WheelOptions(period_ms=period_ms), rng, now_ns)


@dataclass(slots=True)
class Keys:
    """Which key files the configuration names."""

    key: Path
    next_key: Path | None = None


class House(Installation):
    """The node's directory, with the journal on a disk of its own where there is one."""

    def __init__(
        self,
        directory: Path,
        broker: str,
        disk: Path | None,
        tables: Mapping[str, tuple[str, str]] = TABLES,
        expected_ms: Mapping[str, int] = EXPECTED_PERIOD_MS,
    ) -> None:
        super().__init__(directory, broker, ())
        self.keys = Keys(self.signing_key)
        before = f'[journal]\npath = "{self.journal}"\n'
        if disk is not None:
            self.journal = disk / "journal.db"
        limits = f"captures_max_mb = 10\nlow_mb = {LOW_MB}\nfloor_mb = {FLOOR_MB}\n" if disk else ""
        self.reconfigure(before, f'[journal]\npath = "{self.journal}"\n{limits}')
        self.reconfigure("[mqtt]\n", "[mqtt]\nkeepalive_s = 4\n")
        with self.config.open("a") as config:
            for table, (driver, variant) in tables.items():
                text = TABLE + (ODDS_BOX if variant == "B" else "")
                config.write(
                    text.format(
                        table=table,
                        driver=driver,
                        variant=variant,
                        directory=directory,
                        period_ms=expected_ms[driver],
                    )
                )

    def rotate(self) -> str:
        """Make another key and name it in the configuration, as an operator does; gives its `kid`."""
        old = self._signing
        if self.keys.next_key is not None:
            self.keys.key = self.keys.next_key
        self.keys.next_key = self.directory / f"key-{self.keys.key.stem}-next.pem"
        signer = new_key(self.keys.next_key)
        self.reconfigure(old, self._signing)
        return signer.kid

    @property
    def _signing(self) -> str:
        following = f'next_key = "{self.keys.next_key}"\n' if self.keys.next_key else ""
        return f'key = "{self.keys.key}"\n{following}'


def count_journaled(house: Installation) -> int:
    """How many records the journal holds now."""
    with closing(sqlite3.connect(f"{house.journal.as_uri()}?mode=ro", uri=True)) as journal:
        return int(journal.execute("SELECT count(*) FROM entry").fetchone()[0])
