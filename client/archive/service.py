"""The archive at work: takes the stream of a site, alone or as one of several instances, and fills its gaps.

    broker --shared subscription--> queue --Intake, Store--> data base <--Keeper--> replay requests, acks

The broker takes a record for delivered when it arrives here, before it is archived: what a crash loses in
between nobody delivers again. It is a hole in its chain then; the instance that keeps finds it in the data
base and asks the node for it. So it goes with whatever else is lost on the way.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from random import Random
from typing import TypeVar

from dollyd.client.archive.intake import Heard, Intake
from dollyd.client.archive.keeper import Keeper, newest
from dollyd.client.archive.store import Chain, Gap, Store, StoreError
from dollyd.client.stream.asking import Asking, end_of
from dollyd.client.stream.brokers import Brokers, together
from dollyd.client.stream.nodes import Nodes, NodeState
from dollyd.client.stream.replay import Patience
from dollyd.client.stream.site_trust import SiteTrust, trust_of
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.link.mqtt import LinkError, Message, MqttLink, MqttSettings
from dollyd.wire.errors import ensure
from dollyd.wire.jws import Keys
from dollyd.wire.key_source import KeySource, source_of
from dollyd.wire.stamp import iso_utc
from dollyd.wire.topics import NODE, TRUST, Topics, check_name
from dollyd.wire.trust import Trust

QUEUE_MAX = 2000
"""Envelopes that wait to be archived. More wait in the link's inbox; what does not fit there is replayed."""
BATCH_MAX = 500
"""Envelopes of one transaction."""
TICK_S = 0.5
"""Between two looks at gaps and acks."""
STORE_PAUSE_S = 2.0
"""Before a data base that is not there is tried again."""

_LOG = Logger(__name__)
_T = TypeVar("_T")


@dataclass(slots=True)
class ArchiveStats:
    """What was heard, and what became of it."""

    archived: int = 0
    """Records that this instance brought."""
    duplicates: int = 0
    """Records that were there already, brought by this instance or another."""
    requests: int = 0
    """For replay."""
    links: int = 0
    """Connections to a broker."""
    keeps: bool = False
    """Whether this is the instance that looks after gaps."""


@dataclass(slots=True)
class _Connection:
    """A store that is opened when it is needed, and again after trouble. Used by one task."""

    open: Callable[[], Store]
    store: Store | None = None
    told: bool = field(default=False)

    async def run(self, work: Callable[[Store], _T]) -> _T:
        """Do something with the store in a thread, as often as it takes until nothing comes in between."""
        while True:
            try:
                result = await _in_thread(lambda: self._work(work))
            except StoreError as error:
                if not self.told:
                    _LOG.warning("archive_waits", error=str(error))
                self.told = True
                await _in_thread(self.close)
                await asyncio.sleep(STORE_PAUSE_S)
            else:
                if self.told:
                    _LOG.info("archive_goes_on")
                self.told = False
                return result

    def _work(self, work: Callable[[Store], _T]) -> _T:
        if self.store is None:
            self.store = self.open()
        return work(self.store)

    def close(self) -> None:
        """Close it, if it is open."""
        store, self.store = self.store, None
        if store is not None:
            with suppress(StoreError):
                store.close()


class Archive:
    """One instance. `name` is its own; instances that share the stream name the same `group`.

    `keys` as for `Stream`: a `SiteTrust` follows the site's trust file as the broker retains it. `open_store`
    makes a connection to the data base, whose schema is there; it may raise `StoreError`, which is waited
    out. `stats` and `refused` tell what became of what was heard.
    """

    def __init__(
        self,
        mqtt: MqttSettings,
        site: str,
        name: str,
        keys: Keys | KeySource,
        open_store: Callable[[], Store],
        *,
        group: str = "",
        patience: Patience | None = None,
        rng: Random | None = None,
    ) -> None:
        ensure(check_name(name) and (not group or check_name(group)), "names of archives fit a topic")
        self.stats = ArchiveStats()
        self._topics = Topics(site)
        self._name = name
        self._group = group
        # The library is sure of a dead line after two spans of silence: of ours they must be less than two.
        keepalive_s = max(1, mqtt.keepalive_s * 3 // 5)
        self._mqtt = replace(
            mqtt, client_id=f"dollyd-{site}-{name}-{secrets.token_hex(16)}", keepalive_s=keepalive_s
        )
        self._rng = rng or Random()  # noqa: S311  spreads retries, keeps no secret
        self._writing, self._keeping = _Connection(open_store), _Connection(open_store)
        self._site_trust = keys if isinstance(keys, SiteTrust) else None
        self._trusted = source_of(keys)
        self._intake = Intake(site, keys, self._announced, live=True)
        patience = patience or Patience()
        self._keeper = Keeper(patience, self._rng)
        self._brokers = Brokers(mqtt.brokers, patience.quiet_s, self._rng)
        self._nodes = Nodes()
        self._queue: asyncio.Queue[Heard] = asyncio.Queue(QUEUE_MAX)
        self._link: MqttLink | None = None
        self._acked: dict[str, tuple[str, int]] = {}
        """By table, what was acknowledged on this link."""
        self._asking = Asking(self._topics, name, group)

    @property
    def refused(self) -> dict[str, int]:
        """Envelopes that were not archived, by reason."""
        return dict(self._intake.refused)

    async def run(self) -> None:
        """Archive until cancelled. An error of ours, or of the data base's making, is raised."""
        try:
            await together(self._connect(), self._write(), self._keep())
        finally:
            for connection in (self._writing, self._keeping):
                await _in_thread(connection.close)

    # --- what comes in ---------------------------------------------------------------------------

    async def _connect(self) -> None:
        """Keep a link until cancelled."""
        await self._brokers.keep(self._use)

    async def _use(self, broker: str) -> None:
        """Subscribe and listen; raises the `LinkError` that ends the link.

        No session is kept: Mosquitto 2.0 was seen to send nothing more to a member of a group that came back
        to one. What went by meanwhile is missing in the chains, and asked for.
        """
        async with MqttLink(self._mqtt, broker, keep_session=False) as link:
            self.stats.links += 1
            self._brokers.linked()
            self._asking.restart()
            self._acked.clear()
            self._keeper.restart()
            try:
                await together(link.wait_lost(), self._listen(link, broker), self._look_for_nodes())
            finally:
                self._link = None

    async def _listen(self, link: MqttLink, broker: str) -> None:
        topics = self._topics
        records = topics.every_record()
        # The last records are retained: from them is known how far a chain goes.
        shared = topics.shared(self._group, records) if self._group else records
        first = [topics.every_node_status(), *([topics.trust()] if self._site_trust else [])]
        for topic_filter in (*first, topics.every_last(), topics.every_checkpoint(), shared):
            await link.subscribe(topic_filter)
        self._link = link
        self._brokers.listens(broker, link)
        async for message in link.messages():
            self._brokers.heard()
            await self._hear(message)
            if self._site_trust is not None:
                self._site_trust.warn_if_old(iso_utc(time.time_ns()))

    async def _look_for_nodes(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            states = self._nodes.states(time.monotonic()).values()
            self._brokers.look(online=NodeState.ONLINE in states)

    async def _hear(self, message: Message) -> None:
        """Sort a message by its topic: `.../<site>/` and then what `Topics` says."""
        match self._topics.below_site(message.topic):
            case [level] if level == TRUST and self._site_trust is not None:
                self._site_trust.offer(message.payload)
            case [level, node, "status"] if level == NODE:
                now_s, utc_s = time.monotonic(), time.time()
                self._nodes.take(node, message.payload, now_s, utc_s, retained=message.retain)
            case [table, "record", kind]:
                await self._queue.put(Heard(message.payload, table, kind))
            case [table, "last" | "checkpoint"]:
                await self._queue.put(Heard(message.payload, table))
            case [table, "replay", _]:
                await self._hear_answer(table, message.payload)

    async def _hear_answer(self, table: str, payload: bytes) -> None:
        end = end_of(payload)
        if end is None:
            await self._queue.put(Heard(payload, table))
        else:
            self._keeper.ended(end.chain, end.end, end.problem, time.monotonic())

    # --- what is written -------------------------------------------------------------------------

    async def _write(self) -> None:
        """Archive what was heard, a batch a transaction; a batch is held until it is durable."""
        while True:
            batch = [await self._queue.get()]
            while len(batch) < BATCH_MAX and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            taken, new = await self._writing.run(partial(self._archive, batch))
            self.stats.archived += new
            self.stats.duplicates += taken - new

    def _archive(self, batch: list[Heard], store: Store) -> tuple[int, int]:
        entries = self._intake.take(batch)
        suspects = self._intake.suspects
        return len(entries), store.insert(entries, suspects) if entries or suspects else 0

    def _announced(self, chain: str) -> list[tuple[str, str]]:
        """Asked by the intake, in the thread that has the store."""
        store = self._writing.store
        return store.announced(chain) if store is not None else []

    # --- what is missing -------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Where no other instance does it: look after gaps, and tell the site how far all is archived."""
        while True:
            await asyncio.sleep(TICK_S)
            found = await self._keeping.run(partial(_look, trust_of(self._trusted)))
            if self.stats.keeps != (found is not None):
                self.stats.keeps = found is not None
                _LOG.info("archive_keeps" if self.stats.keeps else "archive_keeps_no_longer", name=self._name)
            link = self._link
            if found is None or link is None:
                continue
            gaps, chains = found
            requests, untrue = self._keeper.requests(gaps, time.monotonic())
            for chain in untrue:
                await self._keeping.run(methodcaller("forget_heard", chain))
            requests += self._keeper.probes(gaps, chains, time.monotonic())
            with suppress(LinkError):  # told by whoever listens; all is asked again on the next link
                for request in requests:
                    self.stats.requests += 1
                    await self._asking.ask(link, request)
                await self._acknowledge(link, chains)

    async def _acknowledge(self, link: MqttLink, chains: list[Chain]) -> None:
        """Say how far each table is archived without a hole: one consumer, however many instances."""
        for table, chain in newest(chains).items():
            mark = (chain.chain, chain.complete_to)
            if self._acked.get(table) != mark:
                await self._asking.acknowledge(link, table, *mark)
                self._acked[table] = mark


def _look(trust: Trust | None, store: Store) -> tuple[list[Gap], list[Chain]] | None:
    """Gaps and chains as they are now; None where another instance looks after them."""
    if not store.hold():
        return None
    store.advance(trust)
    return store.gaps(), store.chains()


async def _in_thread(work: Callable[[], _T]) -> _T:
    """In a thread, which is waited for also when we are cancelled: nothing is closed under its hands."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise
