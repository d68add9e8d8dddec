"""The games of a wheel: 6 - 1 - 2 - 3 - 4 - 5 - 2 ..., what is shown of them, and what really happened."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from dollyd.simulators.ss2.body import (
    FLAG_LAUNCH,
    FLAG_SENSOR,
    FLAG_WITH_ROTOR,
    NO_NUMBER,
    Body,
    TableStopped,
)
from dollyd.simulators.ss2.options import (
    EXTRA_NO_RETRY,
    EXTRA_STATE_7,
    MODE_BONUS,
    MODE_DELAY_5_TO_1,
    MODE_NO_BARE_NUMBER,
    MODE_WAIT_FOR_START,
    PlayedGame,
    Span,
    Ss2Options,
)
from dollyd.simulators.ss2.strikes import IN_NO_MORE_BETS

COUNTER_MAX = 256
_PERIODS_PER_HOUR = 7200
_LONG_WAIT = 1200
_ON_NO_WHEEL = "37"
_BONUS_LICENCE_SHOWN_DAYS = 30


@dataclass(slots=True)
class _Underway:
    counter: int
    start_ns: int
    flags: int = 0
    relaunched: bool = False


class Play(Body):
    """A wheel with power on: `tick` moves it by one period, `late_lines` are what comes between two ticks."""

    def __init__(self, options: Ss2Options, rng: Random, script: Iterable[str]) -> None:
        super().__init__(options, rng)
        self.script: deque[str] = deque()
        for pocket in script:
            self.will_fall_into(pocket)
        self.played: list[PlayedGame] = []
        self.wins: Counter[str] = Counter()
        self.misfires = 0
        self.session = 0
        self.sensor_events = False
        self.late_lines: list[tuple[float, bytes]] = []
        """Fraction of the period after the status line, and the line."""
        self._now_ns = 0
        self._underway: _Underway | None = None
        self._periods = 0
        self._open_asked = False
        self._start_asked = False
        self._course: Iterator[None] = iter(())

    def will_fall_into(self, pocket: str) -> None:
        """Script the number of a game to come, as the wheel writes it; ValueError where it has none such.

        Without a script, numbers are drawn at random.
        """
        if pocket not in self.pockets:
            raise ValueError(f"no pocket {pocket!r} on a wheel of {len(self.pockets)}")
        self.script.append(pocket)

    def power_up(self) -> None:
        """Counter and number are lost, settings in flash are kept; the first counter may be an option."""
        self.session += 1
        self.counter = self.options.first_counter if self.session == 1 else 1
        self.number, self.flags, self.speed, self.direction = NO_NUMBER, 0, 0, 0
        self.dead = self.power_lost = False
        self._course = self._life(self.options.lengths.idle)

    def power_down(self, now_ns: int) -> None:
        """The game underway is lost."""
        self._now_ns = now_ns
        self._record("aborted", None)
        self._course = iter(())

    def tick(self, now_ns: int) -> None:
        """One period passes."""
        self._now_ns = now_ns
        next(self._course)
        if self._underway is not None:
            self._underway.flags |= self.flags
        self._periods += 1

    def open_table(self) -> bool:
        """*P 1: leave state 6. False where the table is open."""
        self._open_asked = self.state == 6
        return self._open_asked

    def close_table(self) -> bool:
        """*P 0: brake in the present state, then 6 until the next *P 1. False where it cannot be."""
        if self.state == 6 or (self.state == 4 and self.flags & FLAG_SENSOR):
            return False
        self._course = self._close()
        return True

    def restart(self) -> bool:
        """*R: back to state 1, the game starts over under the same counter. False in state 6."""
        if self.state == 6:
            return False
        self._leave_game()
        self.flags = 0
        self._course = self._life(None)
        return True

    def press_start(self) -> None:
        """The start key, *u 1 or *K: launches in state 2, and is forgotten elsewhere."""
        self._start_asked = self.state == 2

    def _life(self, idle: Span | None) -> Iterator[None]:
        while True:
            if idle is not None:
                yield from self._idle(idle, attended=self.options.attended)
            try:
                yield from self._before_game()
                while True:
                    yield from self._game()
            except TableStopped:
                idle = self.options.lengths.repair

    def _close(self) -> Iterator[None]:
        yield from self.brake_down()
        yield from self._idle((0, 0), attended=False)
        yield from self._life(None)

    def _idle(self, length: Span, *, attended: bool) -> Iterator[None]:
        self._leave_game()
        self.state, self.speed, self.direction = 6, 0, 0
        self._open_asked = False
        left = self.draw(length)
        while not self._open_asked and (left > 0 or not attended):
            yield from self.pass_period()
            left -= 1
        self.flags = 0

    def _before_game(self) -> Iterator[None]:
        self.state = 1
        yield from self.run_up()
        yield from self.hold(self.draw(self.options.lengths.before_game) - 1)
        if self.faults.take("sensor-in-1"):
            self._begin()
            yield from self.hold(8, flags=FLAG_SENSOR)
            raise TableStopped

    def _game(self) -> Iterator[None]:
        self._begin()
        yield from self._place_bets()
        lost = self.faults.take("jump-2-5", "jump-3-2", "jump-4-2", "result-missing")
        if lost != "jump-2-5":
            yield from self._rim()
        if lost not in {"jump-2-5", "jump-3-2"}:
            yield from self._no_more_bets()
        pocket = self.script.popleft() if self.script else self.rng.choice(self.pockets)
        if lost in {"jump-3-2", "jump-4-2"}:
            self._record("completed", pocket)
            self.number = pocket
        else:
            yield from self._land(pocket, show_result=lost != "result-missing")
        self._count_up()
        missing_periods = self._missing_periods()
        if self.mode & MODE_DELAY_5_TO_1 and missing_periods > 0:
            self.state = 1
            yield from self.hold(missing_periods)

    def _begin(self) -> None:
        if self._underway is None:
            self._underway = _Underway(self.counter, self._now_ns)
            self._periods = 0

    def _place_bets(self) -> Iterator[None]:
        self.state, self._start_asked = 2, False
        if self.faults.take("stuck-in-2"):
            yield from self.hold(_LONG_WAIT)
        by_itself = self.options.attended or not self.mode & MODE_WAIT_FOR_START
        left = self.draw(self.options.lengths.start_key)
        while not self._start_asked and (left > 0 or not by_itself):
            yield from self.hold(1)
            left -= 1
        if self.faults.take("host-close-in-2"):
            yield from self.brake_down()
            raise TableStopped
        yield from self.turn_rotor()
        yield from self._misfires()

    def _misfires(self) -> Iterator[None]:
        fault = self.faults.take("ball-with-rotor", "launch-failed", "launch-given-up")
        if fault is None:
            return
        self.misfires += 1
        if fault == "ball-with-rotor":
            yield from self.hold(12, flags=FLAG_WITH_ROTOR)
        yield from self.hold(self.draw(self.options.lengths.failed_launch), flags=FLAG_LAUNCH)
        if fault == "launch-given-up" or self.extra_modes & EXTRA_NO_RETRY:
            raise TableStopped
        yield from self.turn_rotor()
        self.flags = 0
        if self._underway is not None:
            self._underway.relaunched = True

    def _rim(self) -> Iterator[None]:
        self.state = 3
        lingers = self.faults.take("flag-8-in-3", "flag-8-stays")
        self.flags = FLAG_LAUNCH if lingers else 0
        self._bonus(1, 2)
        if lingers == "flag-8-in-3":
            yield from self.hold(2)
            self.flags = 0
        yield from self.hold(self.draw(self.options.lengths.rim))
        if lingers == "flag-8-stays":
            yield from self.hold(6)  # longer than the 3 s that the maker lets pass
        self.flags = 0

    def _no_more_bets(self) -> Iterator[None]:
        self.state = 4
        self.change_speed()
        self._bonus(3, 6)
        periods = self.draw(self.options.lengths.no_more_bets)
        yield from self.hold(periods // 2)
        struck = self.faults.take(*IN_NO_MORE_BETS)
        if struck is not None:
            yield from IN_NO_MORE_BETS[struck](self)
        yield from self.hold(periods - periods // 2)
        if self.extra_modes & EXTRA_STATE_7:
            self.state = 7
            yield from self.hold(self.draw(self.options.lengths.state_7))

    def _land(self, pocket: str, *, show_result: bool) -> Iterator[None]:
        """The bare number in the last period before state 5, then the lines of state 5."""
        shown, bare = pocket, pocket
        match self.faults.take("bare-differs", "bare-missing", "number-blank", "number-off-wheel"):
            case "bare-differs":
                bare = self.other_number(pocket)
            case "bare-missing":
                bare = ""
            case "number-blank":
                shown, bare = NO_NUMBER, ""
            case "number-off-wheel":
                shown = bare = _ON_NO_WHEEL
            case _:
                pass
        self._announce(bare)
        yield from self.hold(1)
        if show_result:
            yield from self._result(pocket, shown)
        else:
            self._record("completed", pocket)
            self.number = shown

    def _announce(self, bare: str) -> None:
        if self.sensor_events:
            events = "".join(f"*bs {sensor}\r\n" for sensor in (1, 2, 3)) + f"*bn {bare}\r\n"
            self.late_lines.append((0.02, events.encode("ascii")))
        if bare and self.options.port == 1 and not self.mode & MODE_NO_BARE_NUMBER:
            self.late_lines.append((self.rng.uniform(0.03, 0.97), f"{bare}\r\n".encode("ascii")))

    def _result(self, pocket: str, shown: str) -> Iterator[None]:
        self.state = 5
        self.flags = FLAG_SENSOR if self.faults.take("flag-in-result") else 0
        self._record("completed", pocket)
        self._bonus(4, 5)
        periods = self.draw(self.options.lengths.result)
        if not self.mode & MODE_DELAY_5_TO_1:
            periods = max(periods, self._missing_periods())
        other, wrong = self.other_number(pocket), self.faults.take("number-flips", "number-changes")
        for period in range(periods):
            strikes = period == 2 if wrong == "number-flips" else wrong is not None and period >= periods // 2
            self.number = other if strikes else shown
            yield from self.hold(1)
        self.flags = 0

    def _missing_periods(self) -> int:
        """What a game must still last so that there are no more than `*T h` in an hour."""
        return _PERIODS_PER_HOUR // self.options.games_per_hour - self._periods

    def _count_up(self) -> None:
        fault = self.faults.take("counter-jump", "counter-repeat")
        step = {"counter-jump": 5, "counter-repeat": 0}.get(fault or "", 1)
        self.counter = (self.counter - 1 + step) % COUNTER_MAX + 1

    def _leave_game(self) -> None:
        """To 6 or 1 before the game's time: only a game with a result uses up its counter."""
        if self.state == 5:
            self._count_up()
        self._record("aborted", None)

    def _record(self, outcome: str, pocket: str | None) -> None:
        game, self._underway = self._underway, None
        if game is None:
            return
        self.played.append(
            PlayedGame(
                game.counter,
                pocket,
                outcome,
                game.start_ns,
                self._now_ns,
                game.flags | self.flags,
                game.relaunched,
                self.session,
            )
        )
        if pocket is not None:
            self.wins[pocket] += 1

    def _bonus(self, *channels: int) -> None:
        if not self.mode & MODE_BONUS:
            return
        days = self.options.bonus_days
        for place, channel in enumerate(channels, start=1):
            value = self.rng.randrange(256) if days else 999
            licence = f";{days:02}" if days <= _BONUS_LICENCE_SHOWN_DAYS else ""
            self.late_lines.append((place / 100, f"*Y;{channel};{value:03}{licence}\r\n".encode("ascii")))
