"""The signed records of a site, as an async iterator: each one verified, once, in the order of its chain.

    async with Stream(mqtt, "house", "settlement", keys, store) as stream:
        async for delivered in stream:
            ...                              # make it durable: then
            await stream.done(delivered)

The broker may drop, repeat and disorder; what it lost is asked for from the node by replay. What cannot be
had is raised, never passed over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from random import Random
from types import TracebackType
from typing import Self

from dollyd.client.stream.asking import Asking, end_of
from dollyd.client.stream.brokers import Brokers, together
from dollyd.client.stream.delivered import Delivered, StreamStats
from dollyd.client.stream.nodes import Nodes, NodeState
from dollyd.client.stream.reader import Reader, Start
from dollyd.client.stream.replay import ChainError, GapError, Patience
from dollyd.client.stream.site_trust import SiteTrust
from dollyd.client.stream.watermark import Watermark, WatermarkStore, session_of
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.link.mqtt import LinkError, Message, MqttLink, MqttSettings
from dollyd.wire.errors import ensure
from dollyd.wire.jws import Keys
from dollyd.wire.key_source import KeySource
from dollyd.wire.stamp import iso_utc
from dollyd.wire.topics import ANY, NODE, TRUST, Topics, check_name

TICK_S = 0.1
"""Between two looks at gaps and acks; what is only out of order is not asked for meanwhile."""
CLOSE_S = 2.0
"""For the last acks when the stream is closed."""

_LOG = Logger(__name__)


class Stream:
    """The records of `tables`, or of all tables of the site where none is named.

    `mqtt`: how to reach the brokers; its client id is replaced by `dollyd-<site>-<consumer>-<random>`, whose
    random part is kept with the watermarks: two that run at once need two stores, and two names. `keys`: the
    keys that are trusted, by `kid` or as a `KeySource`; a `SiteTrust` follows the site's trust file as the
    broker retains it. `store`: what is done already. `start`: where a consumer without watermark of a table
    begins: with its chain, or now (for `now` the node's key in use must be among `keys`).

    Iterating raises `GapError` (records could not be had) and `ChainError` (records contradict each other).
    Nothing of that chain is delivered past it; iterate on for the other tables. Where people find that the
    records of a gap are lost for good, `accept_loss` goes on behind it; where they find that a chain is the
    table's though it does not fit behind the one before it, `accept_chain` does. `any_chain` gives such
    chains, too: for a witness, which tells of them.
    """

    def __init__(
        self,
        mqtt: MqttSettings,
        site: str,
        consumer: str,
        keys: Keys | KeySource,
        store: WatermarkStore,
        tables: Collection[str] = (),
        *,
        start: Start = "beginning",
        patience: Patience | None = None,
        rng: Random | None = None,
        any_chain: bool = False,
    ) -> None:
        ensure(check_name(consumer), f"consumer name {consumer!r} fits a topic")
        self.nodes = Nodes()
        self._topics = Topics(site)
        # The library is sure of a dead line after two spans of silence: of ours they must be less than two.
        keepalive_s = max(1, mqtt.keepalive_s * 3 // 5)
        self._mqtt = replace(
            mqtt, client_id=f"dollyd-{site}-{consumer}-{session_of(store)}", keepalive_s=keepalive_s
        )
        self._tables = tuple(tables)
        self._site_trust = keys if isinstance(keys, SiteTrust) else None
        self._store = store
        self._patience = patience or Patience()
        self._rng = rng or Random()  # noqa: S311  spreads retries, keeps no secret
        watermarks = {
            chain: mark for chain, mark in store.load().items() if not tables or mark.table in tables
        }
        self._reader = Reader(
            site, keys, watermarks, start=start, patience=self._patience, rng=self._rng, any_chain=any_chain
        )
        self._news = asyncio.Event()
        self._link: MqttLink | None = None
        self._broker = ""
        self._brokers = Brokers(mqtt.brokers, self._patience.quiet_s, self._rng)
        self._asking = Asking(self._topics, consumer)
        self._acks: dict[str, Watermark] = {}
        self._acks_due: set[str] = set()
        self._acks_at_s = 0.0
        self._running: asyncio.Task[None] | None = None

    @property
    def stats(self) -> StreamStats:
        """What was heard, and what became of it."""
        return self._reader.stats

    @property
    def broker(self) -> str:
        """The broker that the stream listens to, empty while there is none."""
        return self._broker if self._link is not None else ""

    def node(self, name: str) -> NodeState:
        """Whether a node is there, now. An `online` that was not said again in time has expired."""
        return self.nodes.state(name, time.monotonic())

    async def __aenter__(self) -> Self:
        """Begin to listen; a broker that is not there is waited for."""
        self._running = asyncio.create_task(self._run(), name="stream")
        self._running.add_done_callback(lambda _task: self._news.set())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publish the last acks and leave; the broker goes on queueing for us."""
        link, running = self._link, self._running
        ensure(running is not None, "a stream is entered before it is left")
        if running is None:
            return
        if link is not None:
            with suppress(LinkError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._publish_acks(link)
                    await link.disconnect()
        running.cancel()
        await asyncio.wait({running})
        failure = None if running.cancelled() else running.exception()
        if failure is not None and kind is None:
            raise failure

    def __aiter__(self) -> Self:
        """The stream itself."""
        return self

    async def __anext__(self) -> Delivered:
        """The next record. Raises `GapError` and `ChainError`."""
        running = self._running
        while running is not None:
            self._news.clear()
            delivered = self._reader.next()
            if delivered is not None:
                return delivered
            if running.done():
                break
            await self._news.wait()
        if running is not None and not running.cancelled():
            running.result()  # ends by an error of ours only, which is raised here
        raise StopAsyncIteration

    async def done(self, delivered: Delivered) -> None:
        """What the record leads to is durable, and so is that of every record of its chain before it.

        Keeps the watermark, and tells it to the site: of many, the newest once a second.
        """
        self._keep(delivered.watermark)

    async def accept_loss(self, gap: GapError) -> bool:
        """Go on behind a gap, now and after a restart: people have decided that its records are lost.

        Never to be done by a program of itself: what stood there is not settled by anybody. To be called when
        all that was delivered is done. The record behind the gap is taken at its word for what came before
        it, and for the key whose turn it is, where that is trusted.

        False, and nothing is changed, where some of the records have come meanwhile.
        """
        mark = self._reader.accept_loss(gap)
        if mark is None:
            return False
        self._keep(mark)
        _LOG.warning("loss_accepted", table=gap.table, chain=gap.chain, first=gap.first, last=gap.last)
        self._news.set()
        return True

    async def accept_chain(self, error: ChainError) -> bool:
        """Follow a chain that was refused, now and after a restart: people say that it is their table's.

        A table gets a chain that does not name the one before it where its journal was lost with the disk, or
        its box was replaced; and where somebody has stolen the key. Never to be done by a program of itself.
        The chain before it ends where it was followed to.

        False, and nothing is changed, where the chain was refused for another reason.
        """
        mark = self._reader.accept_chain(error)
        if mark is None:
            return False
        self._store.save(mark)
        _LOG.warning("chain_accepted", table=error.table, chain=error.chain, why=error.why)
        self._news.set()
        return True

    def _keep(self, mark: Watermark) -> None:
        self._store.save(mark)
        self._acks[mark.table] = mark
        self._acks_due.add(mark.table)

    # -- links -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Keep a link until cancelled, or closed."""
        await self._brokers.keep(self._use)

    async def _use(self, broker: str) -> None:
        async with MqttLink(self._mqtt, broker, keep_session=not self._brokers.fresh) as link:
            self.stats.links += 1
            self._brokers.linked()
            try:
                self._asking.restart()
                self._acks_due.update(self._acks)
                self._reader.restart()
                await together(link.wait_lost(), self._listen(link), self._tend(link, broker))
            finally:
                self._link = None

    # -- what comes in ---------------------------------------------------------------------------------------

    async def _listen(self, link: MqttLink) -> None:
        async for message in link.messages():
            self._brokers.heard()
            self._hear(message)
            self._news.set()

    def _hear(self, message: Message) -> None:
        """Sort a message by its topic: `.../<site>/` and then what `Topics` says."""
        match self._topics.below_site(message.topic):
            case [level] if level == TRUST and self._site_trust is not None:
                self._site_trust.offer(message.payload)
            case [level, node, "status"] if level == NODE:
                self.nodes.take(node, message.payload, time.monotonic(), time.time(), retained=message.retain)
            case [table, "record", kind]:
                self._reader.hear(table, message.payload, kind=kind, kept=message.retain)
            case [table, "last" | "checkpoint"]:
                self._reader.hear(table, message.payload, kept=True)
            case [table, "replay", _]:
                self._hear_answer(table, message.payload)

    def _hear_answer(self, table: str, payload: bytes) -> None:
        end = end_of(payload)
        if end is None:
            self._reader.hear(table, payload)
        else:
            self._reader.ended(end.chain, end.end, end.problem, time.monotonic())

    # -- what goes out ---------------------------------------------------------------------------------------

    async def _tend(self, link: MqttLink, broker: str) -> None:
        """Subscribe; then look after gaps and acks."""
        for topic_filter in self._filters():
            await link.subscribe(topic_filter)
        self._link, self._broker = link, broker
        self._brokers.listens(broker, link)
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            if self._site_trust is not None:
                self._site_trust.warn_if_old(iso_utc(time.time_ns()))
            for request in self._reader.requests(now_s):
                await self._asking.ask(link, request)
            self._news.set()  # a gap may have been given up
            if now_s - self._acks_at_s >= self._patience.ack_s:
                self._acks_at_s = now_s
                await self._publish_acks(link)
            self._brokers.look(online=NodeState.ONLINE in self.nodes.states(now_s).values())

    def _filters(self) -> list[str]:
        """What to subscribe to; what is kept comes first, so that `now` is where the tables are now."""
        topics = self._topics
        first = [topics.every_node_status(), *([topics.trust()] if self._site_trust else [])]
        if not self._tables:
            return [*first, topics.every_last(), topics.every_checkpoint(), topics.every_record(ANY)]
        kept = [topic for table in self._tables for topic in (topics.last(table), topics.checkpoint(table))]
        return [*first, *kept, *map(topics.every_record, self._tables)]

    async def _publish_acks(self, link: MqttLink) -> None:
        for table in sorted(self._acks_due):
            mark = self._acks[table]
            await self._asking.acknowledge(link, table, mark.chain, mark.seq)
            if self._acks[table] is mark:
                self._acks_due.discard(table)
