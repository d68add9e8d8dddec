"""The journal with a watch and a measure beside it, for the health topic."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from dollyd.daemon.journal.durations import Durations
from dollyd.daemon.journal.store import Entry, Journal, NewEntry


class MeasuredJournal(Journal):
    """Counts what its commits took, and what was removed.

    The process's own monotonic clock: a commit is timed in the writer's thread, where tests have no clock.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.commits = Durations()
        """From the begin of a transaction to the end of its fsync."""
        self.captures_pruned = self.records_pruned = 0

    def append(self, entries: Sequence[NewEntry]) -> list[Entry]:
        """See `Journal.append`."""
        began_ns = time.monotonic_ns()
        written = super().append(entries)
        self.commits.note(max(0, time.monotonic_ns() - began_ns))
        return written

    def prune_captures(self, max_bytes: int) -> int:
        """See `Journal.prune_captures`."""
        pruned = super().prune_captures(max_bytes)
        self.captures_pruned += pruned
        return pruned

    def prune_records(self, before_utc: str) -> int:
        """See `Journal.prune_records`."""
        pruned = super().prune_records(before_utc)
        self.records_pruned += pruned
        return pruned

    def captures_bytes(self) -> int:
        """What the kept captures take at most, compressed; `JournalError` where the disk cannot be read."""
        oldest = "(SELECT upto - length(data) FROM capture ORDER BY upto LIMIT 1)"
        return self._number(f"SELECT ifnull((SELECT max(upto) FROM capture) - {oldest}, 0)")  # noqa: S608  no input in it
