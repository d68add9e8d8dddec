"""What the broker does not let this node publish: held back, tried again, and told once.

A record is never passed over. Those of its table wait behind it; the other tables go on.
"""

from __future__ import annotations

import asyncio
from random import Random

import structlog

from dollyd.daemon.backoff import Backoff
from dollyd.daemon.clock import Clock
from dollyd.daemon.core.stamp import NS_PER_S
from dollyd.daemon.mqtt import MqttLink
from dollyd.daemon.stream_source import Entry

SHOWN_MAX = 20
"""Topics in the health topic."""

_LOG = structlog.get_logger(__name__)


class Denials:
    """Of one publisher."""

    def __init__(self, clock: Clock, rng: Random, backoff: Backoff) -> None:
        self.over = False
        """A record that was denied has been taken: what waits may go, in order."""
        self._clock = clock
        self._rng = rng
        self._backoff = backoff
        self._topics: set[str] = set()
        self._records: dict[str, Entry] = {}
        self._retained: dict[str, None] = {}
        self._some = asyncio.Event()
        self._tries = 0
        self._tried_ns = 0

    @property
    def topics(self) -> list[str]:
        """What is denied now, for people."""
        return sorted(self._topics)[:SHOWN_MAX]

    @property
    def records(self) -> list[Entry]:
        """The first record of each table that was denied."""
        return list(self._records.values())

    def holds(self, entry: Entry) -> bool:
        """Whether it is a record that was denied, or waits behind one."""
        first = self._records.get(entry.table)
        return first is not None and entry.id >= first.id

    def may_pass(self, id_: int) -> bool:
        """Whether an entry comes before all records that were denied."""
        return all(id_ < entry.id for entry in self._records.values())

    def keeps_back(self, topic: str) -> bool:
        """Whether a retained topic waits to be tried again."""
        return topic in self._retained

    def deny(self, topic: str, why: str, record: Entry | None = None) -> None:
        """The broker has said no, to a record or else to a retained topic."""
        if topic not in self._topics:
            self._topics.add(topic)
            _LOG.warning("publish_denied", topic=topic, why=why)
        if record is None:
            self._retained[topic] = None
        else:
            first = self._records.setdefault(record.table, record)
            self._records[record.table] = min(first, record, key=lambda entry: entry.id)
        self._some.set()

    def allow(self, topic: str) -> None:
        """The broker has said yes."""
        if topic in self._topics:
            self._topics.discard(topic)
            _LOG.info("publish_allowed", topic=topic)

    async def offer(self, link: MqttLink, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Publish what may be denied; tells whether it was taken. Raises `LinkError`."""
        why = await link.offer(topic, payload, retain=retain)
        if not why:
            self.allow(topic)
        elif retain:
            self.deny(topic, why)
        return not why

    async def time_to_try(self) -> None:
        """Wait until something is held back, and then for a pause that grows as long as that goes on."""
        await self._some.wait()
        now_ns = self._clock.stamp().mono_ns
        if now_ns - self._tried_ns > 2 * self._backoff.max_s * NS_PER_S:
            self._tries = 0
        self._tried_ns = now_ns + self._backoff.pause_ns(self._tries, self._rng)
        self._tries += 1
        await self._clock.sleep_until(self._tried_ns)

    def release_retained(self) -> dict[str, None]:
        """Keep back no retained topic any more; gives which it were."""
        released, self._retained = self._retained, {}
        self._look()
        return released

    def release_records(self) -> int:
        """Hold back no record any more; gives the id of the first."""
        first = min(entry.id for entry in self._records.values())
        self._records, self.over = {}, False
        self._look()
        return first

    def _look(self) -> None:
        if not self._records and not self._retained:
            self._some.clear()
