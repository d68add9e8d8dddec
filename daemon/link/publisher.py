"""Moves records from the journal to the broker: in order, QoS 1, never from memory alone.

    journal --entries after `sent`--> in flight (bounded) --PUBACK, in order--> cursor --> journal

The queue is the journal; only what is in flight is held here. The cursor moves when everything up to it was
acknowledged. After the loss of a link all that was in flight is unknown and is sent again from the cursor;
consumers drop repeats by chain and `seq`. A broker that may have restarted may have lost what it had
acknowledged, so a window of entries before the cursor is sent again too, unless the broker shows that it
knows the end of our last link (`broker_memory`). What goes beyond that window, and what a broker drops for an
absent subscriber, is found by the consumer's gap check and fetched by replay.

A record that the broker denies holds up the later ones of its table and the cursor, not the other tables. It
is tried again; once it is taken, those of its table follow that the stream has passed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Literal

from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.tasks import Pulse
from dollyd.daemon.journal.stream_source import Entry, Source
from dollyd.daemon.link.backoff import Backoff
from dollyd.daemon.link.broker_memory import BrokerMemory
from dollyd.daemon.link.denied import Denials
from dollyd.daemon.link.mqtt import INBOX_PACKET_MAX, Cause, LinkError, MqttLink, MqttSettings, Will
from dollyd.daemon.link.node_status import Node
from dollyd.daemon.link.outbox import Outbox, Sent
from dollyd.daemon.link.publisher_stats import PublisherStats
from dollyd.daemon.link.retained import Retained
from dollyd.daemon.link.trouble import ANOTHER_NODE
from dollyd.wire.errors import ensure
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S
from dollyd.wire.topics import Topics

REPUBLISH = 500
"""Entries sent again to a broker that may have restarted: 200 tables write about 11 a second, so 45 s of
them. The broker must save its memory more often than that (`autosave_interval` in `mosquitto.conf`)."""
RETAINED_EVERY_S = 0.05
"""Shortest time between two publishes of one retained topic; what changes faster is coalesced."""
SHORT_LINK_S = 10
SHORT_LINKS_MAX = 4
"""Links that end so soon, one after another, make the pause before the next longer, up to 3 s: a line that
flaps must not be asked for without end, nor left alone for long. What they carried is kept."""
RIVAL_S = 120
"""A link that began with another life of this node at work, and is closed within this time, was taken over.
Few brokers tell it (MQTT 3.1.1 cannot, Mosquitto 2.0 does not)."""
STATUS_WITHIN_S = 1.0
"""How long a new link waits for what the broker keeps of our status, where it has to know."""
CAUGHT_UP_AT_ONCE = 100
"""Entries read at a time for a table that waited."""
_BACKOFF = Backoff()

_LOG = Logger(__name__)


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
        on_held: Callable[[str, str], None] = lambda _table, _text: None,
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
        self._saved_cursor = source.cursor()
        self._outbox = Outbox(self._saved_cursor, republish)
        self._wake = asyncio.Event()
        self._waiting_since_ns = clock.stamp().mono_ns

        self._denials = Denials(clock, rng, backoff, self._outbox, on_held)
        self.retained = Retained(topics)
        """Published besides the records, and again after a restart of the broker."""

        self._link: MqttLink | None = None
        self._broker = ""
        self._memory = BrokerMemory(node.session)
        self._intact = False  # the broker has what it acknowledged, as far as we know
        self._rival = False  # another life of this node was at work when the link began
        self._failures = 0
        self._short_links = 0
        self._up: bool | None = None  # as told in the log; None = nothing told yet
        self._closing = False
        self._settled = asyncio.Event()
        self._leave = asyncio.Event()
        self._ended = asyncio.Event()
        self._renewing = False
        self._links = 0
        self._lost_by_cause: Counter[str] = Counter()
        self._last_error = ""

    @property
    def stats(self) -> PublisherStats:
        """How it goes, now."""
        outbox, denied = self._outbox, self._denials.topics
        waited_ns = self._clock.stamp().mono_ns - self._waiting_since_ns
        return PublisherStats(
            connected=self._link is not None,
            broker=self._broker,
            session_present=self._link is not None and self._link.session_present,
            cursor=outbox.cursor,
            queue=outbox.queue,
            waiting_ms=waited_ns // NS_PER_MS if outbox.queue else 0,
            links=self._links,
            publishes=outbox.publishes,
            repeats=outbox.repeats,
            last_error=self._last_error,
            lost=dict(self._lost_by_cause),
            retained_coalesced=self.retained.coalesced,
            denied=list(denied),
            denied_why=denied,
            denials=self._denials.count,
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
        outbox, link = self._outbox, self._link
        fresh = [entry for entry in entries if entry.id > outbox.sent]
        if not fresh:
            return
        if not outbox.queue:
            self._waiting_since_ns = self._clock.stamp().mono_ns
        outbox.newest = max(outbox.newest, fresh[-1].id)
        for entry in fresh:
            if link is None or entry.id != outbox.sent + 1 or not self._room(link):
                outbox.unread = True
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
        async with MqttLink(self._mqtt, broker, will, packet_max=INBOX_PACKET_MAX) as link:
            self.pulse.beat()
            began_ns = self._clock.stamp().mono_ns
            try:
                known = await self._known(link, broker)
                self._links += 1
                await self._publish_aside(link, will.topic, self._status("online"))
                self._resume(link, broker, known)
                await self._work(link)
            except LinkError as error:
                raise self._judged(error, began_ns) from error
            finally:
                self._link = None
                self._outbox.end()
                self._memory.said(will.payload, self._outbox.position)
                self._save_cursor()

    async def _known(self, link: MqttLink, broker: str) -> int | None:
        """Up to where this broker has everything, None where nobody knows; and whether we are alone there."""
        self._rival = False
        if broker != self._broker or not link.session_present:
            return None
        if self._intact:
            return self._outbox.position
        status = await link.retained(self._topics.node_status(self._node.name), STATUS_WITHIN_S)
        verdict = self._memory.judge(status)
        self._rival = verdict.rival > 0
        return verdict.known

    def _judged(self, error: LinkError, began_ns: int) -> LinkError:
        """What the end of a link means, with what is known of it."""
        lived_ns = self._clock.stamp().mono_ns - began_ns
        oldest = error.oldest if error.cause is Cause.MESSAGE_REFUSED else None
        if oldest is not None and oldest.topic != self._topics.node_status(self._node.name):
            self._denials.blame(oldest, error.detail)
        elif error.cause is Cause.CLOSED and self._rival and lived_ns < RIVAL_S * NS_PER_S:
            return LinkError(Cause.TAKEN_OVER, ANOTHER_NODE)
        short = lived_ns < SHORT_LINK_S * NS_PER_S and error.cause is not Cause.LEFT
        self._short_links = min(SHORT_LINKS_MAX, self._short_links + 1) if short else 0
        return error

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

    def _resume(self, link: MqttLink, broker: str, known: int | None) -> None:
        """A new link stands: go on, or begin before that where the broker may have lost what it had."""
        again = self._outbox.begin(known)
        if known is None:
            self._denials.forgive()
        self.retained.again(self._denials.release_retained())
        if again or known is None:
            self.retained.all_again()
        self._intact = True
        self._renewing = False
        self._broker = broker
        self._link = link

    def _lost(self, broker: str, error: LinkError) -> Cause:
        """Account for a link that ended or was never made; log the step from up to down, not each retry."""
        cause = error.cause
        if cause in {Cause.CLOSED, Cause.REFUSED, Cause.UNREACHABLE, Cause.TAKEN_OVER}:
            self._intact = False
        if cause is not Cause.MESSAGE_REFUSED:
            self._denials.forgive()
        if cause is Cause.LEFT:
            return cause
        self._lost_by_cause[cause] += 1
        alert = cause is Cause.TAKEN_OVER and self._last_error != cause
        self._last_error = str(cause)
        if self._up is not False or alert:
            self._up = False
            log = _LOG.error if alert else _LOG.warning
            log("broker_lost", broker=broker, **error.told, cursor=self._outbox.cursor)
        return cause

    def _progress(self) -> None:
        """The link carries more than its birth: a record or heartbeat was acknowledged."""
        self._failures = self._short_links
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
            if self._renewing and not self._outbox.in_flight and not self._closing:
                await link.disconnect()
            await self.pulse.news(self._wake)

    async def _fill(self, link: MqttLink) -> None:
        """Send from the journal. Waits for half a window to be free, so that a backlog is read in batches."""
        outbox = self._outbox
        while outbox.unread and self._room(link) * 2 >= self._window(link):
            room = self._room(link)
            entries = self._source.entries_after(outbox.sent, room)
            for entry in entries:
                self._send(link, entry)
            outbox.unread = len(entries) == room
            if self._room(link) == room:
                await asyncio.sleep(0)  # all of it is held back, and reading may go on for long
        outbox.look_for_end()
        self._look_for_end_of_repeats()
        self._note_settled()

    def _window(self, link: MqttLink) -> int:
        if self._outbox.position < self._outbox.careful_until:
            return 1
        return max(1, link.window - 1)  # one is left for retained topics and the heartbeat

    def _room(self, link: MqttLink) -> int:
        if self._renewing:
            return 0
        return max(0, min(self._window(link) - len(self._outbox.in_flight), link.room))

    def _send(self, link: MqttLink, entry: Entry) -> None:
        sent = self._outbox.take(entry)
        if sent is None:
            return
        if why := link.too_long(self._topic(entry), entry.envelope):
            self._denied(sent, why)  # before a later one of its table is on its way
            return
        link.send(
            self._topic(entry),
            entry.envelope,
            acked=partial(self._acknowledged, sent),
            denied=partial(self._denied, sent),
        )

    def _topic(self, entry: Entry) -> str:
        return self._topics.record(entry.table, entry.kind)

    def _denied(self, sent: Sent, why: str) -> None:
        """One PUBACK says no: it is out of flight, and the cursor stays before it."""
        self._denials.deny(self._topic(sent.entry), why, sent.entry.envelope, sent.entry)
        self._passed(self._outbox.deny(sent))

    def _acknowledged(self, sent: Sent) -> None:
        """Mark one PUBACK."""
        if sent.entry.table not in self._outbox.held:  # else it may be an older one, and that one still waits
            self._denials.allow(self._topic(sent.entry))
        self._progress()
        before = self._outbox.cursor
        self._passed(self._outbox.acknowledge(sent))
        if self._outbox.cursor > before:
            self._waiting_since_ns = self._clock.stamp().mono_ns

    def _passed(self, entries: Sequence[Entry]) -> None:
        """These are acknowledged, and all before them."""
        for entry in entries:
            self.retained.follow(entry)
        self._look_for_end_of_repeats()
        self._wake.set()

    def _look_for_end_of_repeats(self) -> None:
        if not self._outbox.repeating and self.retained.waiting:
            self.retained.changed.set()

    def _save_cursor(self) -> None:
        if self._saved_cursor != self._outbox.cursor:
            self._source.set_cursor(self._outbox.cursor)
            self._saved_cursor = self._outbox.cursor

    def _note_settled(self) -> None:
        if self._closing and not (self._outbox.in_flight or self._outbox.unread or self.retained.waiting):
            self._settled.set()

    # -- retained topics and status --------------------------------------------------------------------------

    async def _publish_retained(self, link: MqttLink) -> None:
        """Sweep the changed topics, one publish at a time, so that the records keep the line."""
        while True:
            self.retained.changed.clear()
            for topic in self.retained.ready(repeating=self._outbox.repeating):
                payload = self.retained.payload(topic)
                if not self._denials.keeps_back(topic):
                    await self._denials.offer(link, topic, payload)
                    self._wake.set()  # the stream may have waited for its place
                self.retained.published(topic, payload)
            self._note_settled()
            await self._clock.sleep_until(self._clock.stamp().mono_ns + int(RETAINED_EVERY_S * NS_PER_S))
            if not self.retained.ready(repeating=self._outbox.repeating):
                await self.retained.changed.wait()

    async def _try_denied(self, link: MqttLink) -> None:
        """Try again what was denied, after growing pauses."""
        while not self._closing:
            await self._denials.time_to_try()
            self.retained.again(self._denials.release_retained())
            for table in self._denials.tables_to_try():
                await self._catch_up(link, table)
            self._denials.look()

    async def _catch_up(self, link: MqttLink, table: str) -> None:
        """Send what a table holds back, in order, until the stream can go on or the broker says no."""
        outbox = self._outbox
        while True:
            first = outbox.held[table]
            entries = self._source.entries_after(first - 1, CAUGHT_UP_AT_ONCE)
            for entry in entries:
                if not outbox.behind(entry):
                    break
                if entry.table == table:
                    taken = await self._denials.offer(link, self._topic(entry), entry.envelope, record=entry)
                    self._wake.set()
                    if not taken:
                        return
                    outbox.publishes += 1
                    self._progress()
                    self.retained.follow(entry)
                if not outbox.caught_up(table, first, entry.id):
                    return  # an older one was denied meanwhile: it comes first, at the next try
                first = entry.id + 1
            else:
                if entries:
                    await asyncio.sleep(0)
                    continue
            outbox.release(table)
            self._wake.set()
            return

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
        lost, now_ns = self._lost_by_cause[Cause.TAKEN_OVER], self._clock.stamp().utc_ns
        status = self._node.status(state, now_ns, self._mqtt.keepalive_s, lost)
        self._memory.said(status, self._outbox.position)
        return status
