"""What a wheel showed before, against what it shows now: the last number, and the counter over a lost line.

Until its next number a SlingShot 2 shows the number of the game before in every status line (device
document, part 1, section 3). A line has no checksum, so only two lines in a row that agree on another number
contradict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dollyd.daemon.core.events import GameRef
from dollyd.drivers.protocols.cammegh_ss2.lines import State, StatusLine
from dollyd.wire.stamp import Stamp


@dataclass(frozen=True, slots=True)
class LastRead:
    """A reading that was told; a frozen value."""

    game: GameRef
    counter: int
    number: str
    other: str = ""
    """Another number, which the line before showed for it."""

    def after(self, line: StatusLine) -> LastRead | None:
        """What is left of it after one more line, None once another game may have had its number."""
        following = line.counter in (self.counter, self.counter % 256 + 1)
        if not following or (line.state is State.NUMBER and line.counter != self.counter):
            return None
        if line.state is State.NUMBER:
            return self
        return replace(self, other="" if line.pocket in ("", self.number) else line.pocket)

    def contradicted_by(self, line: StatusLine) -> bool:
        """Whether this line shows the same other number as the one before it."""
        return bool(self.other) and line.state is not State.NUMBER and line.pocket == self.other


_GAME_PERIODS = 1
"""No game is shorter, not even of a wheel that is hurried through its states: the bound is a generous one."""
_BOOT_PERIODS = 60
"""Switched on, it is deaf and then closed for so long at least before it has a number again."""
_COUNTERS = 256


@dataclass(frozen=True, slots=True)
class LeftAt:
    """Where a wheel was when it was last heard; it has no serial number, so its counter is all that tells."""

    counter: int
    at_ns: int
    """Not when it was lost: a connection may have been dead before.

    Monotonic; UTC where another run of the daemon has seen it.
    """
    by_utc: bool = False
    refuted: int = -1
    """Counter of the line before, if the wheel that was lost cannot have come to it."""

    def leads_to(self, line: StatusLine, at: Stamp, period_ns: int) -> bool:
        """Whether the wheel can have come so far, by playing on or by a loss of power."""
        silent_ns = max(0, (at.utc_ns if self.by_utc else at.mono_ns) - self.at_ns)
        games = 1 + silent_ns // (_GAME_PERIODS * period_ns)
        played_on = (line.counter - self.counter) % _COUNTERS <= games
        # After a loss of power it counts from 1, and shows no number before its first game is over.
        return played_on or line.counter <= (games - _BOOT_PERIODS if line.pocket else games)
