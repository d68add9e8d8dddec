r"""Driver `winning-number-line`: any wheel with a display output.

     7\r\n     17\r\n     00\n\r     two characters and a line end, once a game

There is no state and no checksum: each line is one draw, and it proves a number, nothing else. Pair it with a
ball detector, or let the dealer confirm. It speaks once a game, so its silence means nothing.

Survives: doubled lines and line ends, noise (counted), numbers that are not on the wheel.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from dollyd.daemon.core.events import (
    Defect,
    DeviceEvent,
    DeviceReady,
    DeviceTrouble,
    DrawFacts,
    DrawUpdate,
    GameRef,
    GameStarted,
    Reading,
    ReadingContradicted,
)
from dollyd.drivers.framing import AnyFrame, BadFrame
from dollyd.drivers.spec import NOTHING, DeviceSetup, Option, Order, Said, Status
from dollyd.wire.stamp import NS_PER_MS, Stamp

REPEAT_MS = 2_000
"""No wheel draws twice within this time: lines so close are of one draw."""
OPTIONS = {"repeat_ms": Option("milliseconds within which lines are of one draw", REPEAT_MS, 100, 30_000)}

_NUMBER = re.compile(rb" [0-9]|[1-3][0-9]|00")


@dataclass(frozen=True, slots=True)
class LineState:
    """Everything that the driver remembers; a frozen value."""

    connected: bool = False
    status: Status = Status.INIT
    session: str = ""
    games: int = 0
    game: GameRef | None = None
    """The last draw, while a line may still belong to it."""
    number: str = ""
    contradicted: bool = False
    heard_at_ns: int = 0


class WinningNumberLineProtocol:
    """The display's language without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        self._setup = setup
        self._repeat_ns = int(setup.options.get("repeat_ms", REPEAT_MS)) * NS_PER_MS
        self._state = LineState()
        self.counters: Counter[str] = Counter()

    @property
    def status(self) -> Status:
        """`init` until the first number: whether anything is connected cannot be known before."""
        return self._state.status

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """It says nothing of itself."""
        return ()

    def snapshot(self) -> Any:
        """The whole state as a frozen value."""
        return self._state

    def restore(self, snapshot: Any) -> None:
        """Take a state back, possibly through JSON."""
        self._state = msgspec.convert(snapshot, LineState) if isinstance(snapshot, dict) else snapshot

    def deadline_ns(self) -> int | None:
        """Nothing is ever due."""
        return None

    def opened(self, at: Stamp) -> Said:
        """A new session."""
        self._state = LineState(connected=True, session=str(at.utc_ns // NS_PER_MS))
        return NOTHING

    def remember(self, _game: str, _utc_ns: int) -> None:
        """It has no counter."""

    def lost(self, cause: str, _at: Stamp) -> Said:
        """The port is gone."""
        self._state = replace(self._state, connected=False, status=Status.LOST, game=None)
        return Said((DeviceTrouble(self._setup.name, Status.LOST, cause),))

    def tick(self, _at: Stamp) -> Said:
        """Nothing is ever due."""
        return NOTHING

    def order(self, _order: Order, _at: Stamp) -> Said:
        """A display takes no orders."""
        return NOTHING

    def received(self, frame: AnyFrame, at: Stamp) -> Said:
        """One line."""
        if not self._state.connected or isinstance(frame, BadFrame) or not _NUMBER.fullmatch(frame.raw):
            self.counters["bad"] += 1
            return NOTHING
        number, state = frame.raw.decode("ascii").strip(), self._state
        self._state = replace(state, heard_at_ns=at.mono_ns, status=Status.READY)
        if state.game and at.mono_ns - state.heard_at_ns <= self._repeat_ns:
            return self._again(state.game, number)
        self.counters["numbers"] += 1
        ready: tuple[DeviceEvent, ...] = ()
        if state.status is not Status.READY:
            ready = (DeviceReady(self._setup.name),)
        return Said((*ready, *self._draw(number)))

    def _again(self, game: GameRef, number: str) -> Said:
        """A line too soon for another draw."""
        if number == self._state.number:
            self.counters["repeated"] += 1
            return NOTHING
        self.counters["contradicted"] += 1
        if self._state.contradicted:
            return NOTHING
        self._state = replace(self._state, contradicted=True)
        return Said((ReadingContradicted(game, (number,)),))

    def _draw(self, number: str) -> tuple[DeviceEvent, ...]:
        games = self._state.games + 1
        game = GameRef(self._setup.name, self._state.session, f"{games:04}")
        self._state = replace(self._state, games=games, game=game, number=number, contradicted=False)
        started = GameStarted(game, told_at_end=True)
        if (number,) in self._setup.readings:
            return (started, Reading(game, (number,), DrawFacts()))
        return (started, DrawUpdate(game, DrawFacts(defects=(Defect.NOT_ON_WHEEL,))))
