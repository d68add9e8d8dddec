"""A ball detector that speaks TLP/1 (talker `BD`): it counts laps and sees the direction, not the number.

    detector: $BDSTA,seq,state,game,laps,dir,flags                 every period
    detector: $BDEVT,seq,game,LAP,n,ms      $BDEVT,seq,game,DROP,laps,dir
    detector: $BDRES,seq,game,laps,dir,flags                       every period until acknowledged

States: 2 no ball, 3 ball in the rim, 5 dropped. `dir` is the ball's: 0 clockwise, 1 counter-clockwise. It
watches the `track` of a wheel, or has a ball of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

from dollyd.simulators.motion import BallRun, BallTrack, ball_laps
from dollyd.simulators.tlp_device import TlpDevice, TlpOptions

FLAG_NOT_SEEN, FLAG_SENSOR, FLAG_SECOND_BALL = 0x01, 0x04, 0x40
_LOOK_S = 0.1
"""How often it looks for a ball; no lap is shorter than this."""
_MISSED_LAPS = 2
_STUCK_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BallDetectorOptions(TlpOptions):
    """One detector."""

    model: str = "BD1"
    serial: str = "BD000007"


@dataclass(slots=True)
class SeenRun:
    """What the ball really did, and what was said of it."""

    game: str
    laps: int
    """As many as the ball really made."""
    direction: int
    said_laps: int | None = None
    said_direction: int | None = None
    outcome: str = "aborted"
    """`completed`: a result was sent."""
    flags: int = 0
    start_ns: int = 0
    end_ns: int = 0
    boot: int = 0


class BallDetector(TlpDevice):
    """The model. `played` is the truth, run by run. Without a `track` it makes runs of its own."""

    def __init__(
        self, options: BallDetectorOptions, rng: Random, now_ns: int, track: BallTrack | None = None
    ) -> None:
        super().__init__("BD", "BALL", options, rng, now_ns, "ball-detector", "tlp-game", "tlp-count")
        self.played: list[SeenRun] = []
        self._alone = track is None
        self._track = track or BallTrack()
        self._runs_seen = 0
        self._laps = 0
        self._direction = 0
        self._seen: SeenRun | None = None
        self.power_on(now_ns)

    def status(self) -> tuple[str, ...]:
        """`state,game,laps,dir,flags`."""
        return str(self.state), self.game, str(self._laps), str(self._direction), self.mask

    def life(self) -> Iterator[float]:
        """Run after run; what ran while it was off is not seen."""
        self.state, self._runs_seen = 2, len(self._track.runs)
        yield 1.0
        while True:
            yield from self._game()

    def abandon(self) -> None:
        """The run under way is not seen to its end."""
        if self._seen is not None:
            self._record("aborted")

    def _game(self) -> Iterator[float]:
        self.state, self._laps = 2, 0
        self.count_up()
        if self._alone:
            yield from self.wait_for_start(8.0, 12.0)
            laps = tuple(ball_laps(self.rng.randint(11, 18), self.rng))
            self._track.runs.append(BallRun(self.now_ns, laps, 1 - self._direction))
        while len(self._track.runs) == self._runs_seen:
            yield _LOOK_S
        run = self._track.runs[-1]
        self._runs_seen = len(self._track.runs)
        yield from self._watch(run)
        yield 4.0
        self.clear_flags()

    def _watch(self, run: BallRun) -> Iterator[float]:
        self._seen = SeenRun(
            self.game, len(run.laps_s), run.direction, start_ns=run.start_ns, boot=self.boots
        )
        late_s = self.elapsed_s(run.start_ns)
        fault = self.faults.take(*_FAULTS)
        if fault == "detector-sees-nothing":
            yield max(0.0, sum(run.laps_s) - late_s)
            self._record("aborted")
            return
        self.state = 3
        self._direction = 1 - run.direction if fault == "detector-wrong-direction" else run.direction
        yield from self.play(self._laps_to_see(run, late_s, fault))
        if fault == "detector-no-drop":
            yield _STUCK_S
        said = self._laps + (1 if fault == "detector-counts-differ" else 0)
        self.state = 5
        self.say("EVT", self.game, "DROP", str(self._laps), str(self._direction))
        yield 0.5
        self._seen.said_laps, self._seen.said_direction = said, self._direction
        self.announce_result(str(said), str(self._direction), self.mask)
        self._record("completed")

    def _laps_to_see(
        self, run: BallRun, late_s: float, fault: str | None
    ) -> list[tuple[float, Callable[[], None]]]:
        """The moments at which the ball passes the sensor, as a fault lets the detector see them."""
        passages: list[tuple[float, Callable[[], None]]] = []
        at_s, since_s = -late_s, -late_s
        missed = range(len(run.laps_s) // 2, len(run.laps_s) // 2 + _MISSED_LAPS)
        for place, lap_s in enumerate(run.laps_s):
            at_s += lap_s
            if fault == "detector-misses-laps" and place in missed:
                continue
            passages.append((max(0.0, at_s), partial(self._lap, at_s - since_s)))
            since_s = at_s
        if fault == "detector-one-too-many":
            passages.append((at_s - 0.05, partial(self._lap, 0.05)))
        if fault in _FLAGS:
            flag, text = _FLAGS[fault]
            passages.append((max(0.0, at_s / 2), partial(self.raise_flag, flag, text)))
        return passages

    def _lap(self, lap_s: float) -> None:
        self._laps += 1
        self.say("EVT", self.game, "LAP", str(self._laps), self.ms(lap_s))

    def _record(self, outcome: str) -> None:
        seen, self._seen = self._seen, None
        if seen is None:
            return
        seen.outcome, seen.end_ns, seen.flags = outcome, self.now_ns, self.flags
        self.played.append(seen)


_FLAGS: dict[str | None, tuple[int, str]] = {
    "detector-ball-lost": (FLAG_NOT_SEEN, "NOBALL"),
    "detector-sensor-fault": (FLAG_SENSOR, "SENSOR"),
    "detector-second-ball": (FLAG_SECOND_BALL, "SECONDBALL"),
}
_FAULTS = (
    "detector-misses-laps",
    "detector-one-too-many",
    "detector-wrong-direction",
    "detector-counts-differ",
    "detector-sees-nothing",
    "detector-no-drop",
    "detector-ball-lost",
    "detector-sensor-fault",
    "detector-second-ball",
)
