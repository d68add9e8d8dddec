"""What the broker does not let this node publish: held back, tried again, and told once.

A record is never passed over: those of its table wait behind it (`Outbox.held`); the other tables go on. A
retained topic is passed over until it is tried again.

Most brokers say no in a PUBACK. Some end the link instead, over a message that is too long for them. The same
oldest message on two such links is the one: it is denied, and not tried again before the broker may have
changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.journal.stream_source import Entry
from dollyd.daemon.link.backoff import Backoff
from dollyd.daemon.link.mqtt import MqttLink, Unanswered
from dollyd.daemon.link.outbox import Outbox
from dollyd.wire.stamp import NS_PER_S

SHOWN_MAX = 20
"""Topics in the health topic."""

_LOG = Logger(__name__)


class Denials:
    """Of one publisher. `on_held(table, text)` is called when a table begins to wait."""

    def __init__(
        self,
        clock: Clock,
        rng: Random,
        backoff: Backoff,
        outbox: Outbox,
        on_held: Callable[[str, str], None],
    ) -> None:
        self.count = 0
        """Topics that were denied since the start, each as often as it began."""
        self._clock = clock
        self._rng = rng
        self._backoff = backoff
        self._outbox = outbox
        self._on_held = on_held
        self._why: dict[str, str] = {}
        self._retained: dict[str, None] = {}
        self._blamed: str | int = 0  # a retained topic, or the id of a record
        self._offered: Entry | None = None
        self._final: set[str] = set()  # topics and tables that would end the link again
        self._some = asyncio.Event()
        self._tries = 0
        self._tried_ns = 0

    @property
    def topics(self) -> dict[str, str]:
        """What is denied now, and why, for people."""
        return {topic: self._why[topic] for topic in sorted(self._why)[:SHOWN_MAX]}

    def keeps_back(self, topic: str) -> bool:
        """Whether a retained topic waits to be tried again."""
        return topic in self._retained

    def deny(self, topic: str, why: str, payload: bytes, record: Entry | None = None) -> None:
        """The broker has said no, to a record or else to a retained topic."""
        text = f"{len(payload)} bytes: {why}"
        if topic not in self._why:
            self.count += 1
            _LOG.warning("publish_denied", topic=topic, why=why, bytes=len(payload))
        self._why[topic] = text
        if record is None:
            self._retained[topic] = None
        else:
            begins = record.table not in self._outbox.held
            self._outbox.hold(record)
            if begins:
                self._on_held(record.table, f"{topic}: {text}")
        self._some.set()

    def allow(self, topic: str) -> None:
        """The broker has said yes."""
        if self._why.pop(topic, None) is not None:
            _LOG.info("publish_allowed", topic=topic)

    async def offer(self, link: MqttLink, topic: str, payload: bytes, *, record: Entry | None = None) -> bool:
        """Publish what may be denied, retained if no record; whether it was taken. Raises `LinkError`."""
        if record is not None:
            self._offered = record
        why = await link.offer(topic, payload, retain=record is None)
        if not why:
            self.allow(topic)
        else:
            self.deny(topic, why, payload, record)
        return not why

    # --- links that ended over a message -------------------------------------------------------------

    def blame(self, oldest: Unanswered, why: str) -> None:
        """A link ended over a message: this one, unless it is another one at the next such end."""
        candidates = [sent.entry for sent in self._outbox.in_flight]
        candidates += [self._offered] if self._offered else []
        record = next((entry for entry in candidates if entry.envelope is oldest.payload), None)
        which = oldest.topic if record is None else record.id
        if self._blamed == which:
            self.deny(oldest.topic, why, oldest.payload, record)
            self._final.add(oldest.topic if record is None else record.table)
        else:
            self._outbox.careful_until = record.id if record is not None else 0
        self._blamed = which

    def forgive(self) -> None:
        """The broker may be another, or have other limits: what ended links may be tried again."""
        self._final.clear()

    # --- another try ---------------------------------------------------------------------------------

    async def time_to_try(self) -> None:
        """Wait until something is held back, and then for a pause that grows as long as that goes on."""
        await self._some.wait()
        now_ns = self._clock.stamp().mono_ns
        if now_ns - self._tried_ns > 2 * self._backoff.max_s * NS_PER_S:
            self._tries = 0
        self._tried_ns = now_ns + self._backoff.pause_ns(self._tries, self._rng)
        self._tries += 1
        await self._clock.sleep_until(self._tried_ns)

    def tables_to_try(self) -> list[str]:
        """Tables whose first record that waits may be tried again."""
        return [table for table in self._outbox.held if table not in self._final]

    def release_retained(self) -> list[str]:
        """Keep back no retained topic any more that may be tried again; gives which it were."""
        released = [topic for topic in self._retained if topic not in self._final]
        for topic in released:
            del self._retained[topic]
        self.look()
        return released

    def look(self) -> None:
        """Whether anything is left to be tried."""
        if not self._outbox.held and not self._retained:
            self._some.clear()
