"""The wheel's body: what the controller shows now, and the rotor that it turns.

Everything that takes time is a generator; each `yield` is one status period with the fields as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from dollyd.simulators.faults import Switchboard
from dollyd.simulators.ss2.options import (
    MODE_REVERSE,
    MODE_SPEED_CHANGE,
    Span,
    Ss2Options,
    pocket_texts,
)

NO_NUMBER = "  "
FLAG_NOT_DETECTED, FLAG_WITH_ROTOR, FLAG_SENSOR, FLAG_LAUNCH = 1, 2, 4, 8
_SPEED = 170
"""Usual rotor speed in tenths of rpm."""
_BRAKE_A_PERIOD = 24


class TableStopped(Exception):  # noqa: N818 - not an error: the wheel powers its rotor down
    """The game ends here, and the wheel goes to state 6."""


class Body:
    """Fields of the status line, rotor and settings. Directions: 0 clockwise, 1 counter-clockwise."""

    def __init__(self, options: Ss2Options, rng: Random) -> None:
        self.options = options
        self.rng = rng
        self.faults = Switchboard("ss2")
        self.mode = options.mode
        self.extra_modes = options.extra_modes
        self.pockets = pocket_texts(options.pockets)
        self.state = 6
        self.counter = options.first_counter
        self.number = NO_NUMBER
        self.flags = 0
        self.speed = 0
        self.direction = 0
        self.turned_pockets = 0.0
        self.dead = False
        self.power_lost = False
        self._target = _SPEED

    def status(self) -> bytes:
        """`*X;S;GGG;NN;F;RRR;D`: 19 characters and CR LF. A speed of four digits shows as 000."""
        speed = self.speed if self.speed < 1000 else 0
        return (
            f"*X;{self.state};{self.counter:03};{self.number};{self.flags:X};{speed:03};{self.direction}\r\n"
        ).encode("ascii")

    def draw(self, span: Span) -> int:
        """A length within `span`, in periods."""
        return self.rng.randint(*span)

    def other_number(self, than: str) -> str:
        """Any other number of this wheel."""
        return self.rng.choice([text for text in self.pockets if text != than])

    def pass_period(self) -> Iterator[None]:
        """One period as things are; every other generator ends up here."""
        yield
        self.turned_pockets += self.speed / 600 * self.options.period_ms / 1000 * len(self.pockets)

    def hold(self, periods: int, *, flags: int | None = None) -> Iterator[None]:
        """The rotor keeps its speed, with a little jitter; `flags` are shown where given."""
        for _ in range(periods):
            if flags is not None:
                self.flags = flags
            self.speed = self._target + self.rng.randint(-1, 1)
            yield from self.pass_period()

    def run_up(self) -> Iterator[None]:
        """From standstill to speed in state 1."""
        self._target = _SPEED + self.rng.randint(-10, 10)
        self.speed = self._target // 2
        yield from self.pass_period()

    def turn_rotor(self) -> Iterator[None]:
        """Brake to the firing place, change direction where the mode says so, speed up again."""
        yield from self._show(self.options.lengths.brake)
        if self.mode & MODE_REVERSE:
            self.direction ^= 1
        yield from self._show(self.options.lengths.spin_up)
        self._target = _SPEED + self.rng.randint(-10, 10)
        yield from self.hold(self.draw(self.options.lengths.settled))

    def change_speed(self) -> None:
        """The random change after no more bets, at most 2.0 rpm (`*T m`)."""
        if self.mode & MODE_SPEED_CHANGE:
            self._target += self.rng.randint(-20, 20)

    def brake_down(self) -> Iterator[None]:
        """The slow stop after *P 0; the state stays meanwhile."""
        for _ in range(self.draw(self.options.lengths.closing)):
            self.speed = max(0, self.speed - _BRAKE_A_PERIOD)
            yield from self.pass_period()

    def _show(self, speeds: tuple[int, ...]) -> Iterator[None]:
        for self.speed in speeds:
            yield from self.pass_period()
