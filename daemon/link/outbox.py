"""Which records go to the broker next, and up to where it has them: positions in the journal. Pure.

    0 ... cursor ... position ..... sent ..... newest
                       (in flight)    (unread)

All up to `reached` has been acknowledged at some time, but for the tables that are held. A broker may have
lost what it acknowledged; then a link begins a window before `reached`, and `position` says how far it is.
Whatever ends a link, the next one goes on from there: progress is kept over links of any length.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from dollyd.daemon.journal.stream_source import Entry


@dataclass(slots=True, eq=False)
class Sent:
    """One record on its way."""

    entry: Entry
    acked: bool = False


class Outbox:
    """The positions of one publisher. `window`: entries sent again to a broker that may have lost them."""

    def __init__(self, cursor: int, window: int) -> None:
        self.cursor = cursor
        """Everything up to here was acknowledged: what the journal keeps."""
        self.newest = cursor
        self.sent = cursor
        self.position = cursor
        """What this link has had acknowledged without a hole, or what held before it."""
        self.reached = cursor
        self.unread = True
        """The journal may hold entries past `sent`."""
        self.in_flight: deque[Sent] = deque()
        self.held: dict[str, int] = {}
        """Id from which on the records of a table wait, by table."""
        self.careful_until = 0
        """Up to this entry they are sent one by one: one of them may have ended a link."""
        self.repeating = True
        """What is acknowledged may be older than what was acknowledged before."""
        self.publishes = 0
        self.repeats = 0
        """Of `publishes`, those that had been sent before."""
        self._highest_sent = cursor
        self._window_max = self._window = window
        self._old: int | None = None  # the newest entry at the first link: maybe sent before our start
        self._repeat_until = 0
        self._start = self._reached_before = cursor
        self._guessed = False

    @property
    def queue(self) -> int:
        """Entries past the cursor that are known of."""
        return max(0, self.newest - self.cursor)

    # --- links ---------------------------------------------------------------------------------------

    def begin(self, known: int | None) -> int:
        """A link begins; gives how many entries before `reached` it sends again.

        `known`: up to where the broker is known to have everything; None where nobody knows.
        """
        self._guessed = known is None
        window = self._window if known is None else min(self._window_max, max(0, self.reached - known))
        self._start = self.sent = self.position = max(0, self.reached - window)
        self._reached_before = self.reached
        if self._old is None:
            self._old = self.newest
        self._repeat_until = max(self.reached, self._old)
        self.repeating = self.unread = True
        self.in_flight.clear()
        return self.reached - self._start

    def end(self) -> None:
        """The link has ended. One too short for its repeats halves those of the next: no standstill."""
        self.in_flight.clear()
        if not self._guessed:
            return
        if not (self.repeating or self.unread):
            self._window = self._window_max
        elif self.reached - self._reached_before >= self._window:
            self._window = min(self._window_max, max(1, 2 * self._window))
        elif self.position > self._start:
            self._window //= 2
        self._guessed = False

    # --- records -------------------------------------------------------------------------------------

    def take(self, entry: Entry) -> Sent | None:
        """The next entry of the journal: to be sent, or None where its table is held."""
        self.sent = entry.id
        self.newest = max(self.newest, entry.id)
        if self.holds(entry):
            return None
        sent = Sent(entry)
        self.in_flight.append(sent)
        self.publishes += 1
        self.repeats += entry.id <= self._highest_sent
        self._highest_sent = max(self._highest_sent, entry.id)
        return sent

    def acknowledge(self, sent: Sent) -> list[Entry]:
        """One was acknowledged; gives those that are through now, in order."""
        sent.acked = True
        return self._pass()

    def deny(self, sent: Sent) -> list[Entry]:
        """The broker does not take one: its table waits from there. Gives those that are through now."""
        self.in_flight.remove(sent)
        self.hold(sent.entry)
        return self._pass()

    def look_for_end(self) -> None:
        """Repeats are over when there is nothing more to send."""
        if not self.unread and not self.in_flight:
            self.repeating = False

    def _pass(self) -> list[Entry]:
        passed = []
        while self.in_flight and self.in_flight[0].acked:
            entry = self.in_flight.popleft().entry
            self.position = max(self.position, entry.id)
            self.reached = max(self.reached, self.position)
            passed.append(entry)
        if self.position >= self._repeat_until:
            self.repeating = False
        self._move_cursor()
        return passed

    def _move_cursor(self) -> None:
        self.cursor = max(self.cursor, min([self.reached, *(first - 1 for first in self.held.values())]))

    # --- tables that wait ----------------------------------------------------------------------------

    def holds(self, entry: Entry) -> bool:
        """Whether it waits, or is what the others of its table wait for."""
        return entry.id >= self.held.get(entry.table, entry.id + 1)

    def hold(self, entry: Entry) -> None:
        """Hold back the records of a table from this one on."""
        self.held[entry.table] = min(entry.id, self.held.get(entry.table, entry.id))
        if entry.id <= self.careful_until:
            self.careful_until = 0

    def behind(self, entry: Entry) -> bool:
        """Whether the stream has passed this entry, so that a held one must be sent on its own."""
        return entry.id <= max(self.sent, self.reached)

    def caught_up(self, table: str, first: int, upto: int) -> bool:
        """What a table held back from `first` up to here is acknowledged; False: an older one waits."""
        if self.held[table] < first:
            return False
        self.held[table] = upto + 1
        self._move_cursor()
        return True

    def release(self, table: str) -> None:
        """A table waits no longer: the stream takes its next entry."""
        del self.held[table]
        self._move_cursor()
