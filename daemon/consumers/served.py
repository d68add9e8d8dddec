"""All that the node does for those who read its records: replays, and an eye on how far they have come."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from dollyd.daemon.consumers.replay import ReplayService
from dollyd.daemon.consumers.watermarks import Limits, Watermarks
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.tasks import Pulse
from dollyd.daemon.journal.store import Entry, Journal
from dollyd.daemon.journal.writer import Draft, Writer
from dollyd.daemon.link.inbox import Inbox
from dollyd.daemon.settings.load import Settings
from dollyd.wire.record import IncidentBody, Kind, encode
from dollyd.wire.topics import Topics


class Consumers:
    """Adds its routes to the inbox; `tasks` are to be run with it."""

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        clock: Clock,
        journal: Journal,
        writer: Writer,
        inbox: Inbox,
    ) -> None:
        self._topics = topics
        self._clock = clock
        self._journal = journal
        self._writer = writer
        self._inbox = inbox
        self._replay = ReplayService(list(settings.tables), topics, journal, inbox.send, clock)
        ends = {table: journal.ends(table) for table in settings.tables}
        self._watermarks = Watermarks(ends, topics, _limits(settings), clock, self._report)
        for route in (*self._replay.routes(), *self._watermarks.routes()):
            inbox.add(route)

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What runs until the node stops, by name."""
        return {
            "inbox": self._inbox.run(),
            "replay": self._replay.run(),
            "watermarks": self._watermarks.run(),
        }

    def pulses(self) -> dict[str, Pulse]:
        """Of the tasks, those that the watchdog follows. `watermarks` waits for nothing but its clock."""
        return {"inbox": self._inbox.pulse, "replay": self._replay.pulse}

    def services(self) -> Mapping[str, Callable[[], dict[str, Any]]]:
        """What the health topic tells."""
        return {
            "inbox": self._inbox.snapshot,
            "replay": self._replay.snapshot,
            "consumers": self._watermarks.snapshot,
        }

    def add(self, table: str) -> None:
        """One more table is played here; the inbox needs a new link for it."""
        self._inbox.add(self._replay.route(table))
        self._inbox.add(self._watermarks.add(table, self._journal.ends(table)))

    def remove(self, table: str) -> None:
        """A table is no longer played here."""
        self._inbox.remove(self._topics.every_replay_ask(table))
        self._inbox.remove(self._topics.every_ack(table))
        self._watermarks.remove(table)

    def use(self, settings: Settings) -> None:
        """Judge lags by other limits."""
        self._watermarks.use(_limits(settings))

    def written(self, entries: Iterable[Entry]) -> None:
        """Records are durable."""
        self._watermarks.written(entries)

    def _report(self, table: str, body: IncidentBody) -> None:
        """An incident of no round: nothing is decided by it, so it goes past the engine."""
        self._writer.submit(Draft(table, Kind.INCIDENT, 0, encode(body), self._clock.stamp()))


def _limits(settings: Settings) -> Limits:
    return Limits(settings.mqtt.lag_records, settings.mqtt.lag_s)
