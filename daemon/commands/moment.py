"""The time by which orders are judged: that of the clock, and never behind what the journal knows.

A clock that was set back, or lost its time over a restart, would make orders good again that have expired.
The newest record of a synchronised clock says what time it is at least; from there the monotonic clock goes
on. A record whose clock was not synchronised is no evidence: it may be years ahead.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from dollyd.daemon.host.clock import Clock
from dollyd.daemon.journal.entry import payload_of
from dollyd.daemon.journal.store import Journal
from dollyd.wire.errors import JournalError
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.stamp import NS_PER_S, Stamp, iso_utc

LOOKED_BACK = 500
"""Records that are looked at for the newest time at the start."""


class Moment:
    """Owned by the desk."""

    def __init__(self, clock: Clock, journal: Journal) -> None:
        self._clock = clock
        self._least = Stamp(clock.stamp().mono_ns, _newest_ns(journal))
        """It is at least so late; the monotonic clock says how much later by now."""

    @property
    def synchronised(self) -> bool:
        """Whether somebody vouches for the clock now."""
        return self._clock.quality().synchronised

    def look(self) -> None:
        """Take note of the time, whenever there are new records."""
        self.utc()

    def utc(self, later_ns: int = 0) -> str:
        """What time it is, or will be."""
        now = self._clock.stamp()
        least_ns = self._least.utc_ns + now.mono_ns - self._least.mono_ns
        if now.utc_ns >= least_ns and self.synchronised:
            self._least = now
        return iso_utc(max(now.utc_ns, least_ns) + later_ns)


def _newest_ns(journal: Journal) -> int:
    """Zero where nothing tells; what is damaged is told by those who check the journal."""
    newest_ns = 0
    with suppress(JournalError, EnvelopeError):
        for entry in journal.entries_after(max(0, journal.last_id - LOOKED_BACK), LOOKED_BACK):
            time = payload_of(entry.envelope)["time"]
            if time["synchronised"]:
                newest_ns = max(newest_ns, _ns(time["utc"]))
    return newest_ns


def _ns(utc: str) -> int:
    """Nanoseconds since 1970 of a record's time."""
    second, _, fraction = utc.removesuffix("Z").partition(".")
    whole = datetime.fromisoformat(second).replace(tzinfo=UTC)
    return int(whole.timestamp()) * NS_PER_S + int(fraction.ljust(9, "0")[:9])
