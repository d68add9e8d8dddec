"""A node as consumers see it: publishes records of its chains, and sends them again to whoever asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.broker import Mosquitto, ended
from tests.support.chains import SITE, ChainMaker

from dollyd.daemon.journal.store import NewEntry
from dollyd.daemon.link.mqtt import MqttLink, MqttSettings
from dollyd.wire.topics import Topics

TOPICS = Topics(SITE)
IN_FLIGHT_MAX = 200
ACKED_S = 60.0
"""A link that ends never tells of what was on its way."""


@dataclass(slots=True)
class Node:
    link: MqttLink
    chains: dict[str, ChainMaker]
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    async def publish(self, entries: Iterable[NewEntry]) -> None:
        """Publish records; at the end all are acknowledged."""
        await self._send((TOPICS.record(entry.table, entry.kind), entry.envelope) for entry in entries)

    async def keep(self, topic: str, payload: bytes) -> None:
        await self.link.publish(topic, payload, retain=True)

    async def say(self, topic: str, payload: bytes) -> None:
        await self.link.publish(topic, payload)

    async def answer(self) -> None:
        async for message in self.link.messages():
            asked = json.loads(message.payload)
            maker = self.chains[asked["chain"]]
            first, last = asked["from"], asked["to"]
            self.asked.append((asked["chain"], first, last))
            found = maker.entries[first - 1 : min(last, first + 999)]
            problem = "" if last <= len(maker.entries) else "beyond-the-end"
            end = {"end": asked["id"], "chain": maker.chain, "from": first, "to": last}
            end |= {"sent": len(found), "problem": problem}
            topic = message.topic.removesuffix("/ask")
            payloads = [*(entry.envelope for entry in found), json.dumps(end).encode()]
            await self._send((topic, payload) for payload in payloads)

    async def _send(self, messages: Iterable[tuple[str, bytes]]) -> None:
        acked = [await self.link.hand_over(topic, payload) for topic, payload in messages]
        async with asyncio.timeout(ACKED_S):
            await asyncio.gather(*acked)


@asynccontextmanager
async def node_at(broker: Mosquitto, chains: dict[str, ChainMaker]) -> AsyncIterator[Node]:
    """A node with these chains, all of which it still has, as long as the block lasts."""
    mqtt = MqttSettings((broker.address,), "node-1", ack_deadline_s=30.0, in_flight_max=IN_FLIGHT_MAX)
    async with MqttLink(mqtt, broker.address, keep_session=False) as link:
        node = Node(link, chains)
        for table in {maker.table for maker in chains.values()}:
            await link.subscribe(TOPICS.every_replay_ask(table))
        answering = asyncio.create_task(node.answer())
        try:
            yield node
        finally:
            await ended(answering)
