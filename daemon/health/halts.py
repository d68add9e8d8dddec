"""Why the host lets no new round begin; each reason comes and goes without the others."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from dollyd.daemon.core.events import PlayHalted
from dollyd.daemon.core.rulebook import UNSOUND_JOURNAL


class Halt(StrEnum):
    """A reason to let no new round begin."""

    DISK_FULL = "disk-full"
    JOURNAL_HELD = "journal-held"
    JOURNAL_UNSOUND = UNSOUND_JOURNAL
    SELF_CHECK = "self-check"


class Halts:
    """The reasons that hold now. `tell` gets the event for all tables when they change."""

    def __init__(self, tell: Callable[[PlayHalted], None]) -> None:
        self._tell = tell
        self._reasons: set[Halt] = set()

    @property
    def event(self) -> PlayHalted:
        """What a table is to be told now; play goes on where the reason is empty."""
        return PlayHalted(",".join(sorted(self._reasons)))

    def put(self, reason: Halt, *, holds: bool) -> None:
        """A reason holds, or does not hold any more."""
        before = self.event
        self._reasons = self._reasons | {reason} if holds else self._reasons - {reason}
        if self.event != before:
            self._tell(self.event)
