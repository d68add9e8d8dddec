"""The number that was read last, while the wheel still shows it: a second reading of a game that is over.

Until its next number a SlingShot 2 shows the number of the game before in every status line (device
document, part 1, section 3). A line has no checksum, so only two lines in a row that agree on another number
contradict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dollyd.daemon.core.events import GameRef
from dollyd.drivers.protocols.cammegh_ss2_lines import State, StatusLine


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
