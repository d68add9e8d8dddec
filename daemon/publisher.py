"""Moves records from the journal to the broker: in order, QoS 1, never from memory alone.

    journal --entries after `sent`--> in flight (bounded) --PUBACK, in order--> cursor --> journal

The queue is the journal; only what is in flight is held here. The cursor moves when everything up to it was
acknowledged. After the loss of a link all that was in flight is unknown and is sent again from the cursor;
consumers drop repeats by chain and `seq`. A broker that may have restarted may have lost what it had
acknowledged, so a window of entries before the cursor is sent again too. What goes beyond that window, and
what a broker drops for an absent subscriber, is found by the consumer's gap check and fetched by replay.

A record that the broker denies holds up the later ones of its table and the cursor, not the other tables. It
is tried again; once it is taken, a new link sends everything from the cursor on.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal

import msgspec
import structlog

from dollyd.daemon.backoff import Backoff
from dollyd.daemon.clock import Clock
from dollyd.daemon.core.stamp import NS_PER_MS, NS_PER_S
from dollyd.daemon.denials import Denials
from dollyd.daemon.duties import Pulse
from dollyd.daemon.errors import ensure
from dollyd.daemon.mqtt import Cause, LinkError, MqttLink, MqttSettings, Will
from dollyd.daemon.node_status import offline, online
from dollyd.daemon.publisher_stats import PublisherStats
from dollyd.daemon.retained import Retained
from dollyd.daemon.stream_source import Entry, Source
from dollyd.daemon.topics import Topics

REPUBLISH = 500
"""Entries sent again to a broker that may have restarted: 200 tables write about 11 a second, so 45 s of
them. The broker must save its memory more often than that (`autosave_interval` in `mosquitto.conf`)."""
RETAINED_EVERY_S = 0.05
"""Shortest time between two publishes of one retained topic; what changes faster is coalesced."""
SHORT_LINK_S = 10
SHORT_LINKS = 3
"""Few brokers tell a takeover (MQTT 3.1.1 cannot, Mosquitto 2.0 does not): so many links in a row that began
with our session kept and were closed so soon are one. A restarting broker forgets, or refuses in between."""
_BACKOFF = Backoff()

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Node:
    """Who publishes. `session` grows with each start, so that an old will is told from a new birth."""

    name: str
    version: str
    session: int


@dataclass(slots=True)
class _Sent:
    entry: Entry
    acked: bool = False


class Publisher:
    """Owns the link. Lives in the event loop; only `run` waits for the broker.

    `brokers` of the settings are tried in order, again from the first after each loss.
    """

    def __init__(
        self,
        mqtt: MqttSettings,
        topics: Topics,
        node: Node,
        source: Source,
        clock: Clock,
        rng: Random,
        backoff: Backoff = _BACKOFF,
        republish: int = REPUBLISH,
    ) -> None:
        ensure(republish >= 0, "a window of entries is not negative")
        self._mqtt = mqtt
        self._topics = topics
        self._node = node
        self._source = source
        self._clock = clock
        self.pulse = Pulse()
        self._rng = rng
        self._backoff = backoff
        self._republish = republish

        self._cursor = self._saved_cursor = self._newest = self._highest_sent = source.cursor()
        self._sent = self._reached = self._cursor  # reached: acknowledged up to here, or held back
        self._old: int | None = None  # the newest entry at the first link
        self._unread = True  # the journal may hold entries past `_sent`
        self._in_flight: deque[_Sent] = deque()
        self._wake = asyncio.Event()
        self._waiting_since_ns = clock.stamp().mono_ns

        self._denials = Denials(clock, rng, backoff)
        self.retained = Retained(topics)
        """Published besides the records, and again after a restart of the broker."""

        self._link: MqttLink | None = None
        self._broker = ""
        self._suspect = True  # the broker may have lost what it acknowledged
        self._repeat_until = 0
        self._repeated = asyncio.Event()
        self._failures = 0
        self._short_links = 0
        self._up: bool | None = None  # as told in the log; None = nothing told yet
        self._closing = False
        self._settled = asyncio.Event()
        self._leave = asyncio.Event()
        self._ended = asyncio.Event()
        self._renewing = False
        self._links = self._publishes = self._repeats = 0
        self._lost_by_cause: Counter[str] = Counter()
        self._last_error = ""

    @property
    def stats(self) -> PublisherStats:
        """How it goes, now."""
        queue = max(0, self._newest - self._cursor)
        waited_ns = self._clock.stamp().mono_ns - self._waiting_since_ns
        return PublisherStats(
            connected=self._link is not None,
            broker=self._broker,
            session_present=self._link is not None and self._link.session_present,
            cursor=self._cursor,
            queue=queue,
            waiting_ms=waited_ns // NS_PER_MS if queue else 0,
            links=self._links,
            publishes=self._publishes,
            repeats=self._repeats,
            last_error=self._last_error,
            lost=dict(self._lost_by_cause),
            retained_coalesced=self.retained.coalesced,
            denied=self._denials.topics,
        )

    def broker_in_use(self) -> str:
        """Where the records go now, as configured; empty while there is no link."""
        return self._broker if self._link is not None else ""

    def notify(self, entries: Sequence[Entry]) -> None:
        """Entries are durable in the journal: publish them.

        When the publisher is caught up they go to the socket before this returns; otherwise they are read
        from the journal when their turn comes. Told of the journal's newest entry at a start, it has `queue`
        right before there is a link.
        """
        fresh = [entry for entry in entries if entry.id > self._sent]
        if not fresh:
            return
        if self._newest <= self._cursor:
            self._waiting_since_ns = self._clock.stamp().mono_ns
        self._newest = max(self._newest, fresh[-1].id)
        link = self._link
        for entry in fresh:
            if link is None or entry.id != self._sent + 1 or not self._room(link):
                self._unread = True
                break
            self._send(link, entry)
        self._note_settled()
        self._wake.set()

    async def run(self) -> None:
        """Keep a link and the stream until cancelled or closed. Raises only errors of the journal or ours.

        Cancelled without `close`, it drops the line, and the will says `offline`.
        """
        try:
            while not self._closing:
                cause = await self._try_brokers()
                if not self._closing:
                    await self._pause(cause)
        finally:
            self._settled.set()
            self._ended.set()

    def reconnect(self, mqtt: MqttSettings | None = None) -> None:
        """Build the link anew, from the first broker and with the certificates of now (they are files).

        `mqtt`: other settings from now on. What is in flight is acknowledged first. Without a link there is
        nothing to do: the next one will.
        """
        self._mqtt = mqtt or self._mqtt
        if self._link is not None:
            self._renewing = True
            self._wake.set()

    async def close(self, deadline_s: float) -> None:
        """Wait at most `deadline_s` for the last acknowledgements, say `offline` and disconnect: `run` ends.

        Without a link it returns at once: the journal keeps what is left, and the will has spoken.
        """
        self._closing = True
        self._note_settled()
        if self._link is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), deadline_s)
        self._leave.set()
        if self._link is not None:
            await self._ended.wait()

    # -- links -----------------------------------------------------------------------------------------------

    async def _try_brokers(self) -> Cause:
        """Try the brokers in order until one gave a link; returns when that is lost, or none was had."""
        links, cause = self._links, Cause.UNREACHABLE
        for broker in self._mqtt.brokers:
            try:
                await self._use(broker)
            except LinkError as error:
                cause = self._lost(broker, error)
            if self._links > links or self._closing:
                break
        return cause

    async def _use(self, broker: str) -> None:
        will = Will(self._topics.node_status(self._node.name), self._status("offline"))
        self.pulse.rest()  # a name server or a host may take its time
        async with MqttLink(self._mqtt, broker, will) as link:
            self.pulse.beat()
            self._links += 1
            began_ns = self._clock.stamp().mono_ns
            try:
                await self._publish_aside(link, will.topic, self._status("online"))
                self._resume(link, broker)
                await self._work(link)
            finally:
                self._link = None
                self._in_flight.clear()
                self._save_cursor()
                lived_ns = self._clock.stamp().mono_ns - began_ns
                short = link.session_present and lived_ns < SHORT_LINK_S * NS_PER_S
                self._short_links = self._short_links + 1 if short else 0

    async def _work(self, link: MqttLink) -> None:
        """Do everything that the link is for until it ends; raises its `LinkError`.

        Not a TaskGroup: that of Python 3.11 can drop our own cancellation when a task of it fails meanwhile.
        """
        tasks = (
            asyncio.create_task(link.wait_lost(), name="publisher-link"),
            asyncio.create_task(self._stream(link), name="publisher-stream"),
            asyncio.create_task(self._publish_retained(link), name="publisher-retained"),
            asyncio.create_task(self._try_denied(link), name="publisher-denied"),
            asyncio.create_task(self._beat(link), name="publisher-beat"),
            asyncio.create_task(self._say_goodbye(link), name="publisher-goodbye"),
        )
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        # One link has one LinkError, whichever task met it first; anything else is worse and goes first.
        errors = [end for end in ends if isinstance(end, Exception)]
        raise min(errors, key=lambda error: isinstance(error, LinkError))

    def _resume(self, link: MqttLink, broker: str) -> None:
        """A new link stands: go on, or begin before that where the broker may have lost what it had."""
        self._suspect |= not link.session_present or broker != self._broker
        if self._denials.over:  # from the first record that was held back
            self._reached = min(self._cursor, self._denials.release_records() - 1)
        self.retained.again(self._denials.release_retained())
        if self._suspect:
            self.retained.all_again()
        self._sent = max(0, self._reached - self._republish) if self._suspect else self._reached
        if (
            self._old is None
        ):  # what is there may have been sent before: `last` does not step through it again
            self._old = self._newest
        self._repeat_until = max(self._reached, self._old)
        self._repeated.clear()
        self._unread = True
        self._renewing = False
        self._broker = broker
        self._link = link

    def _lost(self, broker: str, error: LinkError) -> Cause:
        """Account for a link that ended or was never made; log the step from up to down, not each retry."""
        cause = error.cause
        if cause in {Cause.CLOSED, Cause.REFUSED, Cause.UNREACHABLE}:
            self._suspect = True
        if cause is not Cause.CLOSED:
            self._short_links = 0
        elif self._short_links >= SHORT_LINKS:
            cause = Cause.TAKEN_OVER
        if cause is Cause.LEFT:
            return cause
        self._lost_by_cause[cause] += 1
        alert = cause is Cause.TAKEN_OVER and self._last_error != cause
        self._last_error = str(cause)
        if self._up is not False or alert:
            self._up = False
            log = _LOG.error if alert else _LOG.warning
            log("broker_lost", broker=broker, cause=str(cause), detail=error.detail, cursor=self._cursor)
        return cause

    def _progress(self) -> None:
        """The link carries more than its birth: a record or heartbeat was acknowledged."""
        self._failures = 0
        if self._link is not None and not self._up:
            self._up = True
            _LOG.info("broker_connected", broker=self._broker, session_present=self._link.session_present)

    async def _pause(self, cause: Cause) -> None:
        if cause is Cause.LEFT:  # on our own wish
            return
        taken_over = cause is Cause.TAKEN_OVER
        pause_ns = self._backoff.pause_ns(self._failures, self._rng, taken_over=taken_over)
        self._failures += 1
        self.pulse.rest()
        await self._clock.sleep_until(self._clock.stamp().mono_ns + pause_ns)

    # -- records ---------------------------------------------------------------------------------------------

    async def _stream(self, link: MqttLink) -> None:
        while True:
            self._wake.clear()
            await self._fill(link)
            self._save_cursor()
            if self._renewing and not self._in_flight and not self._closing:
                await link.disconnect()
            await self.pulse.news(self._wake)

    async def _fill(self, link: MqttLink) -> None:
        """Send from the journal. Waits for half a window to be free, so that a backlog is read in batches."""
        while self._unread and self._room(link) * 2 >= self._window(link):
            room = self._room(link)
            entries = self._source.entries_after(self._sent, room)
            for entry in entries:
                self._send(link, entry)
            self._unread = len(entries) == room
            if self._room(link) == room:
                await asyncio.sleep(0)  # all of it is held back, and reading may go on for long
        if not self._unread and not self._in_flight:
            self._end_repeats()
        self._note_settled()

    def _window(self, link: MqttLink) -> int:
        return max(1, link.window - 1)  # one is left for retained topics and the heartbeat

    def _room(self, link: MqttLink) -> int:
        if self._renewing:
            return 0
        return min(self._window(link) - len(self._in_flight), link.room)

    def _send(self, link: MqttLink, entry: Entry) -> None:
        self._sent = entry.id
        self._newest = max(self._newest, entry.id)
        if self._denials.holds(entry):
            return
        sent = _Sent(entry)
        self._in_flight.append(sent)
        self._publishes += 1
        self._repeats += entry.id <= self._highest_sent
        self._highest_sent = max(self._highest_sent, entry.id)
        link.send(
            self._topic(entry),
            entry.envelope,
            acked=partial(self._acknowledged, sent),
            denied=partial(self._denied, sent),
        )

    def _topic(self, entry: Entry) -> str:
        return self._topics.record(entry.table, entry.kind)

    def _denied(self, sent: _Sent, why: str) -> None:
        """One PUBACK says no: it is out of flight, and the cursor stays before it."""
        self._denials.deny(self._topic(sent.entry), why, sent.entry)
        self._in_flight.remove(sent)
        self._pass_acknowledged()

    def _acknowledged(self, sent: _Sent) -> None:
        """Mark one PUBACK."""
        sent.acked = True
        self._denials.allow(self._topic(sent.entry))
        self._progress()
        self._pass_acknowledged()

    def _pass_acknowledged(self) -> None:
        """Move the cursor over what is acknowledged without a hole."""
        while self._in_flight and self._in_flight[0].acked:
            entry = self._in_flight.popleft().entry
            self._reached = max(self._reached, entry.id)
            if entry.id > self._cursor and self._denials.may_pass(entry.id):
                self._cursor = entry.id
                self._waiting_since_ns = self._clock.stamp().mono_ns
            self.retained.follow(entry)
            if entry.id >= self._repeat_until:
                self._end_repeats()
        self._wake.set()

    def _end_repeats(self) -> None:
        self._suspect = False
        self._repeated.set()

    def _save_cursor(self) -> None:
        if self._saved_cursor != self._cursor:
            self._source.set_cursor(self._cursor)
            self._saved_cursor = self._cursor

    def _note_settled(self) -> None:
        if self._closing and not (self._in_flight or self._unread or self.retained.waiting):
            self._settled.set()

    # -- retained topics and status --------------------------------------------------------------------------

    async def _publish_retained(self, link: MqttLink) -> None:
        """Sweep the changed topics, one publish at a time, so that the records keep the line."""
        await self._repeated.wait()  # or `last` would step through old results again
        while True:
            self.retained.changed.clear()
            for topic in self.retained.waiting:
                payload = self.retained.payload(topic)
                if not self._denials.keeps_back(topic):
                    await self._denials.offer(link, topic, payload, retain=True)
                    self._wake.set()  # the stream may have waited for its place
                self.retained.published(topic, payload)
            self._note_settled()
            await self._clock.sleep_until(self._clock.stamp().mono_ns + int(RETAINED_EVERY_S * NS_PER_S))
            if not self.retained.waiting:
                await self.retained.changed.wait()

    async def _try_denied(self, link: MqttLink) -> None:
        """Try again what was denied, after growing pauses; a record that is taken now needs a new link."""
        while not self._closing:
            await self._denials.time_to_try()
            self.retained.again(self._denials.release_retained())
            for entry in self._denials.records:
                if await self._denials.offer(link, self._topic(entry), entry.envelope):
                    self._denials.over = True
                    self.reconnect()
                self._wake.set()

    async def _beat(self, link: MqttLink) -> None:
        """Refresh `online`. The deadline of its PUBACK also finds a dead line within 2 keepalives."""
        while True:
            await self._clock.sleep_until(self._clock.stamp().mono_ns + self._mqtt.keepalive_s * NS_PER_S)
            if self._closing:
                return
            await self._publish_aside(link, self._topics.node_status(self._node.name), self._status("online"))
            self._progress()

    async def _say_goodbye(self, link: MqttLink) -> None:
        await self._leave.wait()
        await self._publish_aside(link, self._topics.node_status(self._node.name), self._status("offline"))
        await link.disconnect()

    async def _publish_aside(self, link: MqttLink, topic: str, payload: bytes) -> None:
        """Publish a status; the stream may have waited for its place."""
        await link.publish(topic, payload, retain=True)
        self._wake.set()

    def _status(self, state: Literal["online", "offline"]) -> bytes:
        node, now_ns = self._node, self._clock.stamp().utc_ns
        if state == "online":
            status = online(node.name, node.session, node.version, now_ns, self._mqtt.keepalive_s)
        else:
            status = offline(node.name, node.session, node.version, now_ns)
        return msgspec.json.encode(status)
