"""A money wheel that speaks TLP/1 (talker `MW`): sectors with pins between them, and a clapper.

    wheel: $MWSTA,seq,state,game,sector,rpm_x10,dir,turns_x100,flags      every period
    wheel: $MWEVT,seq,game,PASS,sector,ms       `sector` is the one that comes under the pointer
    wheel: $MWRES,seq,game,sector,dir,turns_x100,flags                    every period until acknowledged

The dealer winds it up backwards (state 2), then lets go (state 3). Every pin takes a little of its speed; at
the end the clapper may push it back over the last pin. Turns count forward, from the release to the
turning point: neither the wind-up nor the back-swing changes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from dollyd.simulators.motion import WHEEL_DRAG, WHEEL_LOSS, slowing
from dollyd.simulators.tlp_device import GivenUp, TlpDevice, TlpOptions

FLAG_FEW_TURNS, FLAG_REVERSED, FLAG_ON_PIN, FLAG_HOME = 0x01, 0x02, 0x04, 0x08
FLAG_RUNAWAY, FLAG_TOUCHED, FLAG_MOTOR = 0x10, 0x20, 0x40
REQUIRED_TURNS = 4
_TURNS = (5.0, 7.5)
_WIND_UP_SECTORS = (3, 9)
_AFTER_TOUCH = (3, 20)
"""Sectors that still pass after the wheel was touched."""
_BACK_SWING_SHARE = 0.35
_RUNAWAY_SECTORS = 120
_REPAIR_S = 12.0
_OTHER_SECTORS = 52


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyWheelOptions(TlpOptions):
    """One wheel with so many sectors, numbered from 1 in the order in which they pass in direction 0."""

    sectors: int = 54
    direction: int = 0
    model: str = "MW54"
    serial: str = "MW000054"


@dataclass(slots=True)
class PlayedTurn:
    """What really happened in one game, whatever the wire said of it."""

    game: str
    sector: int | None = None
    """Where it stopped; None on a pin, or where it did not come to rest."""
    outcome: str = "aborted"
    """`completed`, `on-pin` or `aborted`."""
    passes: int = 0
    """Forward, from the release to the turning point."""
    wound_back: int = 0
    swung_back: bool = False
    direction: int = 0
    touched_at: int | None = None
    """The pass at which somebody touched it."""
    flags: int = 0
    start_ns: int = 0
    end_ns: int = 0
    boot: int = 0


class MoneyWheel(TlpDevice):
    """The model. `script` are the sectors of the first games; without one they are drawn at random."""

    def __init__(
        self, options: MoneyWheelOptions, rng: Random, now_ns: int, script: Iterable[int] = ()
    ) -> None:
        super().__init__("MW", "MONEY", options, rng, now_ns, "money-wheel", "tlp-game", "tlp-count")
        self.played: list[PlayedTurn] = []
        self._sectors = options.sectors
        self._launch_direction = options.direction
        self._script: deque[int] = deque()
        for sector in script:
            self.will_stop_at(sector)
        self._sector = rng.randint(1, options.sectors)
        self._direction = options.direction
        self._rpm = 0.0
        self._turned = 0
        self._touch_at: int | None = None
        self._turn: PlayedTurn | None = None
        self.power_on(now_ns)

    def will_stop_at(self, sector: int) -> None:
        """Script the sector of a game to come; ValueError where the wheel has no such sector."""
        if not 1 <= sector <= self._sectors:
            raise ValueError(f"no sector {sector}; this wheel has 1 to {self._sectors}")
        self._script.append(sector)

    def will_be_touched(self, at_pass: int) -> None:
        """Somebody touches the wheel at this pass of the next game."""
        self._touch_at = at_pass

    def status(self) -> tuple[str, ...]:
        """`state,game,sector,rpm_x10,dir,turns_x100,flags`."""
        speed = str(round(self._rpm * 10))
        return (
            *(str(self.state), self.game, str(self._sector), speed),
            *(str(self._direction), self._turns_x100(), self.mask),
        )

    def life(self) -> Iterator[float]:
        """Closed, opened, then game after game."""
        wait_s = 2.0
        while True:
            self.state, self._rpm = 6, 0.0
            yield wait_s
            self.clear_flags()
            self.state = 1
            yield 2.0
            try:
                while True:
                    yield from self._game()
            except GivenUp:
                self.abandon()
                wait_s = _REPAIR_S

    def abandon(self) -> None:
        """The game under way has no sector."""
        if self._turn is not None:
            self._record("aborted", None)

    def _turns_x100(self) -> str:
        """Whole hundredths that were completed: 215 of 216 passes are 3.98 turns, never 4."""
        return str(self._turned * 100 // self._sectors)

    # --- one game ------------------------------------------------------------------------------------

    def _game(self) -> Iterator[float]:
        if self.faults.take("money-52-sectors"):
            self._sectors = _OTHER_SECTORS
            self._sector = min(self._sector, self._sectors)
        self.count_up()
        self.state, self._direction, self._turned = 2, self._launch_direction, 0
        turn = self._turn = PlayedTurn(
            self.game, direction=self._direction, start_ns=self.now_ns, boot=self.boots
        )
        yield from self.wait_for_start(8.0, 12.0)
        yield from self._wind_up(turn)
        if self.faults.take("money-motor"):
            self._flag(FLAG_MOTOR, "MOTOR")
            raise GivenUp
        self.state = 3
        if self.faults.take("money-runaway"):
            yield from self._run_away(turn)
        yield from self._turn_forward(turn, *self._plan())
        yield from self._stop(turn)

    def _wind_up(self, turn: PlayedTurn) -> Iterator[float]:
        """Slowly, against the direction in which it will be let go."""
        turn.wound_back = self.rng.randint(*_WIND_UP_SECTORS)
        for _ in range(turn.wound_back):
            step_s = self.rng.uniform(0.25, 0.5)
            yield step_s
            self._pass(-1, step_s)
        self._rpm = 0.0
        yield 0.5

    def _plan(self) -> tuple[int, bool]:
        """How many sectors pass, and whether the clapper then pushes the wheel back over the last pin."""
        swings_back = self.rng.random() < _BACK_SWING_SHARE
        match self.faults.take("money-few-turns", "money-exactly-enough", "money-one-turn"):
            case "money-few-turns":
                return REQUIRED_TURNS * self._sectors - 1, swings_back
            case "money-exactly-enough":
                return REQUIRED_TURNS * self._sectors, swings_back
            case "money-one-turn":
                return self._sectors + self.rng.randrange(self._sectors), swings_back
            case _:
                pass
        passes = round(self.rng.uniform(*_TURNS) * self._sectors)
        if self._script:
            reached = self._at(passes - swings_back)
            passes += (self._script.popleft() - reached) * self._sign % self._sectors
        return passes, swings_back

    def _turn_forward(self, turn: PlayedTurn, passes: int, swings_back: bool) -> Iterator[float]:
        steps = slowing(passes, self.rng.uniform(1.2, 1.8), WHEEL_DRAG, WHEEL_LOSS)
        touch_at, self._touch_at = self._touch_at, None
        if self.faults.take("money-touched"):
            touch_at = self.rng.randint(passes // 3, passes * 2 // 3)
        reversed_at = passes // 2 if self.faults.take("money-reversed") else None
        missed_at = passes // 2 if self.faults.take("money-home-mismatch") else None
        way = 1
        while steps:
            step_s = steps.pop(0)
            yield step_s
            turn.passes += 1 if way > 0 else 0
            self._pass(way, step_s)
            if turn.passes == touch_at:
                touch_at, turn.touched_at = None, turn.passes
                self._flag(FLAG_TOUCHED, "TOUCHED")
                steps = steps[-self.rng.randint(*_AFTER_TOUCH) :]
            if turn.passes == reversed_at:
                reversed_at, way = None, -1
                self._flag(FLAG_REVERSED, "REVERSED")
            if turn.passes == missed_at:
                missed_at = None
                self._sector = self._at(1)  # a sector went by unseen
                self._flag(FLAG_HOME, "HOME")
        if swings_back and not self.flags:
            turn.swung_back = True
            yield 0.4
            self._pass(-1, 0.4)
        self._rpm, self._direction = 0.0, self._launch_direction

    def _run_away(self, turn: PlayedTurn) -> Iterator[float]:
        """The motor does not let go: faster and faster, then closed."""
        for step_s in reversed(slowing(_RUNAWAY_SECTORS, 0.5, WHEEL_DRAG, WHEEL_LOSS)):
            yield step_s
            turn.passes += 1
            self._pass(1, step_s)
            if turn.passes == _RUNAWAY_SECTORS // 2:
                self._flag(FLAG_RUNAWAY, "RUNAWAY")
        raise GivenUp

    def _stop(self, turn: PlayedTurn) -> Iterator[float]:
        yield 1.0
        on_pin = self.faults.take("money-on-pin") is not None
        if on_pin:
            self._flag(FLAG_ON_PIN, "PIN")
        if turn.passes < REQUIRED_TURNS * self._sectors:
            self._flag(FLAG_FEW_TURNS, "FEW")
        self.state = 5
        sector = "" if on_pin else str(self._sector)
        turns_x100 = self._turns_x100()
        match self.faults.take("money-sector-blank", "money-sector-off-wheel", "money-counts-differ"):
            case "money-sector-blank":
                sector = ""
            case "money-sector-off-wheel":
                sector = str(self._sectors + 1)
            case "money-counts-differ":
                turns_x100 = str(int(turns_x100) + 150)
            case _:
                pass
        self.announce_result(sector, str(self._direction), turns_x100, self.mask)
        self._record("on-pin" if on_pin else "completed", None if on_pin else self._sector)
        yield 3.0
        if self.faults.take("money-sector-changes"):
            self.announce_result(str(self._at(1)), str(self._direction), turns_x100, self.mask)
        yield self.rng.uniform(2.0, 4.0)
        self.clear_flags()

    @property
    def _sign(self) -> int:
        return -1 if self._launch_direction else 1

    def _at(self, passes: int) -> int:
        """The sector under the pointer so many forward passes from now."""
        return (self._sector - 1 + passes * self._sign) % self._sectors + 1

    def _pass(self, way: int, step_s: float) -> None:
        self._sector = self._at(way)
        self._direction = self._launch_direction if way > 0 else 1 - self._launch_direction
        self._rpm = 60 / (step_s * self._sectors)
        self._turned = self._turn.passes if self._turn is not None else 0
        self.say("EVT", self.game, "PASS", str(self._sector), self.ms(step_s))

    def _flag(self, flag: int, text: str) -> None:
        self.raise_flag(flag, text)
        if self._turn is not None:
            self._turn.flags |= flag

    def _record(self, outcome: str, sector: int | None) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn.outcome, turn.sector, turn.end_ns = outcome, sector, self.now_ns
        self.played.append(turn)
