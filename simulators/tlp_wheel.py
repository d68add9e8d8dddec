"""A wheel that speaks TLP/1 (talker `WH`): roulette (kind `WHEEL`) or a boule bowl (`BOULE`, 36 cups).

    wheel: $WHSTA,seq,state,game,,rpm_x10,dir,laps,flags                  every period
    wheel: $WHEVT,seq,game,LAP,n,ms        $WHEVT,seq,game,REV,n,ms        from the launch to the number
    wheel: $WHRES,seq,game,number,rpm_x10,dir,laps,flags,pocket            every period until acknowledged

The ball slows down lap by lap, the rotor turn by turn; the rotor changes its direction each game, the ball
always runs against it. A boule bowl does not turn: speed 0, no `REV`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random

from dollyd.simulators.layouts import boule, european
from dollyd.simulators.motion import BallRun, BallTrack, ball_laps
from dollyd.simulators.tlp_device import GivenUp, TlpDevice, TlpOptions

FLAG_NOT_SEEN, FLAG_WITH_ROTOR, FLAG_SENSOR, FLAG_LAUNCH = 0x01, 0x02, 0x04, 0x08
FLAG_STOPPED, FLAG_OVER_SPEED, FLAG_SECOND_BALL, FLAG_DISAGREE = 0x10, 0x20, 0x40, 0x80
_LAPS = {"WHEEL": (11, 18), "BOULE": (6, 10)}
_FEW_LAPS = (1, 3)
_NO_MORE_BETS_LAP_S = 1.43
"""State 4 begins with the first lap that takes so long."""
_ROTOR_LOSS = 0.99
"""What a turn of the rotor leaves of its speed."""
_REPAIR_S = 12.0
_STUCK_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelOptions(TlpOptions):
    """One wheel. `pockets` clockwise from the reference mark."""

    kind: str = "WHEEL"
    """`WHEEL` or `BOULE`."""
    pockets: tuple[str, ...] = field(default_factory=european)
    model: str = "W37"
    serial: str = "SN000123"


def boule_bowl() -> WheelOptions:
    """A boule bowl with the synthetic order of cups; change fields with `dataclasses.replace`."""
    return WheelOptions(kind="BOULE", pockets=boule(), model="B36", serial="BO000036")


@dataclass(slots=True)
class PlayedSpin:
    """What really happened in one game, whatever the wire said of it."""

    game: str
    number: str | None = None
    """Where the ball came to rest; None where it did not."""
    pocket: int | None = None
    outcome: str = "aborted"
    """`completed` or `aborted`."""
    laps: int = 0
    turns: int = 0
    """Whole turns of the rotor between launch and number."""
    direction: int = 0
    """Of the rotor: 0 clockwise, 1 counter-clockwise."""
    with_rotor: bool = False
    relaunched: bool = False
    flags: int = 0
    start_ns: int = 0
    end_ns: int = 0
    boot: int = 0


class TlpWheel(TlpDevice):
    """The model. `script` are the numbers of the first games; without one they are drawn at random.

    `played` is the truth, game by game; `track` shows the runs of the ball to a detector beside the wheel.
    """

    def __init__(self, options: WheelOptions, rng: Random, now_ns: int, script: Iterable[str] = ()) -> None:
        super().__init__("WH", options.kind, options, rng, now_ns, "tlp-wheel", "tlp-game", "tlp-count")
        self.played: list[PlayedSpin] = []
        self.track = BallTrack()
        self._pockets = options.pockets
        self._kind_laps = _LAPS[options.kind]
        self._turns = options.kind == "WHEEL"
        self._script: deque[str] = deque()
        for number in script:
            self.will_fall_into(number)
        self._direction = 0
        self._rpm = 0.0
        self._laps = 0
        self._early_number = ""
        self._spin: PlayedSpin | None = None
        self.power_on(now_ns)

    def will_fall_into(self, number: str) -> None:
        """Script the number of a game to come; ValueError where the wheel has no such pocket."""
        if number not in self._pockets:
            raise ValueError(f"no pocket {number!r} on this wheel of {len(self._pockets)}")
        self._script.append(number)

    def status(self) -> tuple[str, ...]:
        """`state,game,,rpm_x10,dir,laps,flags`."""
        state, game = str(self.state), self.game
        return (
            state,
            game,
            self._early_number,
            self._speed,
            str(self._direction),
            str(self._laps),
            self.mask,
        )

    def life(self) -> Iterator[float]:
        """Closed, opened, then game after game."""
        wait_s = 2.0
        while True:
            self.state, self._rpm = 6, 0.0
            yield wait_s
            self.clear_flags()
            self.state = 1
            yield 4.0
            try:
                while True:
                    yield from self._game()
            except GivenUp:
                self.abandon()
                wait_s = _REPAIR_S

    def abandon(self) -> None:
        """The game under way has no number."""
        if self._spin is not None:
            self._record(None, None)

    @property
    def _speed(self) -> str:
        return str(round(self._rpm * 10))

    # --- one game ------------------------------------------------------------------------------------

    def _game(self) -> Iterator[float]:
        self.count_up()
        self.state, self._laps, self._early_number = 2, 0, ""
        if self.played and self.faults.take("wheel-number-early"):
            self._early_number = self.played[-1].number or self._pockets[0]
        self._direction ^= 1 if self._turns else 0
        self._spin = PlayedSpin(self.game, direction=self._direction, start_ns=self.now_ns, boot=self.boots)
        yield from self._place_bets(self._spin)
        skipped = self.faults.take("wheel-jump-2-5", "wheel-jump-3-2")
        if skipped != "wheel-jump-2-5":
            yield from self._run(self._spin)
        if skipped == "wheel-jump-3-2":
            self._record(*self._choose())
            return
        yield from self._rest(self._spin)

    def _place_bets(self, spin: PlayedSpin) -> Iterator[float]:
        """The rotor brakes, turns round and comes to speed; then the ball is launched."""
        speed = self.rng.uniform(16.0, 18.0) if self._turns else 0.0
        self._rpm *= 0.5
        yield 1.5
        self._rpm = 0.0
        yield 1.0
        self._rpm = speed / 2
        yield 1.0
        self._rpm = speed
        yield from self.wait_for_start(4.0, 7.0)
        if self.faults.take("wheel-stuck-in-2"):
            yield _STUCK_S
        fault = self.faults.take("wheel-launch-fails", "wheel-launch-given-up")
        if fault is not None:
            self._flag(FLAG_LAUNCH, "RELAUNCH")
            yield self.rng.uniform(6.0, 9.0)
            if fault == "wheel-launch-given-up":
                raise GivenUp
            spin.relaunched = True
            yield self.rng.uniform(3.0, 5.0)
            self.clear_flags()

    def _run(self, spin: PlayedSpin) -> Iterator[float]:
        """From the launch until the ball lies in a pocket: laps, turns and what may strike between them."""
        laps = ball_laps(self.rng.randint(*self._kind_laps), self.rng)
        if self.faults.take("wheel-few-laps"):
            laps = laps[-self.rng.randint(*_FEW_LAPS) :]
        struck = self.faults.take(*STRIKES)
        if struck == "wheel-ball-out":
            laps = laps[: max(1, len(laps) * 2 // 3)]
        spin.with_rotor = self.faults.take("wheel-same-direction") is not None
        ball_direction = self._direction if spin.with_rotor else 1 - self._direction
        self.track.runs.append(BallRun(self.now_ns, tuple(laps), ball_direction))
        self.state = 3
        agenda: list[tuple[float, Callable[[], None]]] = []
        at_s, bets_closed = 0.0, False
        for lap_s in laps:
            at_s += lap_s
            agenda.append((at_s, partial(self._lap, spin, lap_s)))
            if lap_s >= _NO_MORE_BETS_LAP_S and not bets_closed:
                bets_closed = True
                agenda.append((at_s, self._no_more_bets))
        if struck is not None:
            agenda.append((at_s - 0.1, partial(STRIKES[struck], self)))
        rest_s = at_s + self.rng.uniform(2.5, 5.0)
        agenda.append((rest_s, lambda: None))
        if spin.with_rotor:
            agenda.append((0.5, partial(self._flag, FLAG_WITH_ROTOR, "SAMEDIR")))
        yield from self.play(agenda + self._rotor_turns(spin, rest_s))
        if self.faults.take("wheel-stuck-in-4"):
            yield _STUCK_S

    def _rotor_turns(self, spin: PlayedSpin, until_s: float) -> list[tuple[float, Callable[[], None]]]:
        agenda: list[tuple[float, Callable[[], None]]] = []
        rpm, at_s = self._rpm, 0.0
        while rpm > 0:
            turn_s = 60 / rpm
            rpm *= _ROTOR_LOSS
            at_s += turn_s
            if at_s > until_s:
                break
            agenda.append((at_s, partial(self._turn, spin, turn_s)))
        return agenda

    def _lap(self, spin: PlayedSpin, lap_s: float) -> None:
        spin.laps += 1
        self._laps = spin.laps
        self.say("EVT", self.game, "LAP", str(spin.laps), self.ms(lap_s))

    def _turn(self, spin: PlayedSpin, turn_s: float) -> None:
        if self._rpm == 0:  # it was stopped meanwhile
            return
        spin.turns += 1
        self._rpm *= _ROTOR_LOSS
        self.say("EVT", self.game, "REV", str(spin.turns), self.ms(turn_s))

    def _no_more_bets(self) -> None:
        self.state = 4
        if self.faults.take("wheel-flag-blinks"):
            self.raise_flag(FLAG_NOT_SEEN, "NOBALL")
            self.clear_flags()

    def _rest(self, spin: PlayedSpin) -> Iterator[float]:
        """The number, repeated until acknowledged; state 5 lasts some seconds."""
        number, pocket = self._choose()
        self.state, self._early_number = 5, ""
        shown, laps = number, spin.laps
        match self.faults.take("wheel-number-blank", "wheel-number-off-wheel", "wheel-counts-differ"):
            case "wheel-number-blank":
                shown = ""
            case "wheel-number-off-wheel":
                shown = "37" if self._turns else "10"
            case "wheel-counts-differ":
                laps += 2
            case _:
                pass
        self._announce(shown, pocket, laps)
        self._record(number, pocket)
        yield 3.0
        if self.faults.take("wheel-number-changes"):
            other = self.rng.choice([place for place, text in enumerate(self._pockets) if text != number])
            self._announce(self._pockets[other], other, laps)
        yield self.rng.uniform(2.0, 4.0)
        self.clear_flags()

    def _announce(self, number: str, pocket: int, laps: int) -> None:
        self.announce_result(number, self._speed, str(self._direction), str(laps), self.mask, str(pocket))

    def _choose(self) -> tuple[str, int]:
        """Where the ball falls. Ball and rotor start anywhere, so that all pockets are as likely."""
        if not self._script:
            pocket = self.rng.randrange(len(self._pockets))
            return self._pockets[pocket], pocket
        number = self._script.popleft()
        places = [place for place, text in enumerate(self._pockets) if text == number]
        return number, self.rng.choice(places)

    def _record(self, number: str | None, pocket: int | None) -> None:
        spin, self._spin = self._spin, None
        if spin is None:
            return
        spin.number, spin.pocket, spin.end_ns = number, pocket, self.now_ns
        spin.outcome = "aborted" if number is None else "completed"
        spin.flags |= self.flags
        self.played.append(spin)

    def _flag(self, flag: int, text: str) -> None:
        self.raise_flag(flag, text)
        if self._spin is not None:
            self._spin.flags |= flag

    # --- what strikes just before the ball leaves the rim --------------------------------------------

    def ball_out(self) -> None:
        """The ball leaves the wheel; no number."""
        self._flag(FLAG_NOT_SEEN, "BALLOUT")
        raise GivenUp

    def second_ball(self) -> None:
        """A second ball in the rim; a number comes all the same."""
        self._flag(FLAG_SECOND_BALL, "SECONDBALL")

    def sensors_disagree(self) -> None:
        """The sensors do not agree; a number comes all the same."""
        self._flag(FLAG_DISAGREE, "DISAGREE")

    def sensor_fault(self) -> None:
        """A sensor fails; no number."""
        self._flag(FLAG_SENSOR, "SENSOR")
        raise GivenUp

    def rotor_stops(self) -> None:
        """The rotor stands; a number comes all the same."""
        self._rpm = 0.0
        self._flag(FLAG_STOPPED, "ROTORSTOP")

    def rotor_races(self) -> None:
        """The motor runs away; no number."""
        self._rpm = 96.0
        self._flag(FLAG_OVER_SPEED, "OVERSPEED")
        raise GivenUp

    def direction_flips(self) -> None:
        """The rotor turns round under the ball; a number comes all the same."""
        self._direction ^= 1

    def quiet_stop(self) -> None:
        """Closed without any flag."""
        raise GivenUp


STRIKES: dict[str, Callable[[TlpWheel], None]] = {
    "wheel-ball-out": TlpWheel.ball_out,
    "wheel-second-ball": TlpWheel.second_ball,
    "wheel-sensors-disagree": TlpWheel.sensors_disagree,
    "wheel-sensor-fault": TlpWheel.sensor_fault,
    "wheel-rotor-stops": TlpWheel.rotor_stops,
    "wheel-rotor-races": TlpWheel.rotor_races,
    "wheel-direction-flips": TlpWheel.direction_flips,
    "wheel-quiet-stop": TlpWheel.quiet_stop,
}
