"""Things that slow down: a ball in a rim lap by lap, a wheel with pins sector by sector.

A run is worked out backwards from where it stops, so that its end can be chosen:

    v(before)^2 = (v(after)^2 + loss) * exp(2 * drag)          one step, lap or sector, earlier

`drag` is the air (grows with speed), `loss` what each step takes whatever the speed: rolling friction, a pin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

BALL_DRAG, BALL_LOSS = 0.04, 0.045
WHEEL_DRAG, WHEEL_LOSS = 0.004, 0.4


def slowing(steps: int, last_s: float, drag: float, loss: float) -> list[float]:
    """Seconds of each step, first to last; each is longer than the one before, the last takes `last_s`."""
    squared = 1 / last_s**2
    times = []
    for _ in range(steps):
        times.append(1 / math.sqrt(squared))
        squared = (squared + loss) * math.exp(2 * drag)
    return times[::-1]


def ball_laps(laps: int, rng: Random) -> list[float]:
    """Seconds of each lap of a ball that leaves the rim after `laps`; the last takes about 2 s."""
    return slowing(laps, rng.uniform(1.9, 2.3), BALL_DRAG, BALL_LOSS)


@dataclass(frozen=True, slots=True)
class BallRun:
    """One run of a ball in the rim, as whoever stands beside the wheel can see it."""

    start_ns: int
    laps_s: tuple[float, ...]
    direction: int
    """0 clockwise, 1 counter-clockwise: of the ball, not of the rotor."""


@dataclass(slots=True)
class BallTrack:
    """The rim that a wheel and a ball detector share; the wheel adds, the detector looks."""

    runs: list[BallRun] = field(default_factory=list)
