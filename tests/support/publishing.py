"""A publisher, and a journal in memory for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from tests.support.broker import Listener, Mosquitto, listening, until

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.link.backoff import Backoff
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.daemon.link.node_status import Node
from dollyd.daemon.link.publisher import Publisher
from dollyd.wire.errors import JournalError
from dollyd.wire.topics import Topics

TOPICS = Topics("hall")
QUICK = Backoff(first_s=0.05, max_s=0.2, taken_over_s=30)


@dataclass(frozen=True, slots=True)
class Record:
    id: int
    table: str
    kind: str
    final: bool
    envelope: bytes
    round: int = 0


def record(id_: int) -> Record:
    """Entry `id_` of a journal that two tables share; each third one ends a round."""
    kind = ("round", "bets-closed", "result")[id_ % 3]
    return Record(
        id_, f"t{id_ % 2}", kind, kind == "result", b'{"entry":%d,"pad":"%s"}' % (id_, b"x" * 1500), id_
    )


class Journal:
    """A journal in memory that makes its entries when asked."""

    def __init__(self, newest: int = 0) -> None:
        self.newest = newest
        self.kept = 0
        self.reads = 0
        self.broken = False

    def append(self, count: int = 1) -> list[Record]:
        first = self.newest + 1
        self.newest += count
        return [record(id_) for id_ in range(first, self.newest + 1)]

    def entries_after(self, id_: int, limit: int, /) -> Sequence[Record]:
        self.reads += 1
        return [record(later) for later in range(id_ + 1, min(id_ + limit, self.newest) + 1)]

    def cursor(self) -> int:
        return self.kept

    def set_cursor(self, id_: int, /) -> None:
        if self.broken:
            raise JournalError("no space left")
        assert id_ > self.kept
        self.kept = id_


def settings(*brokers: str) -> MqttSettings:
    return MqttSettings(brokers, "node-1", keepalive_s=2, ack_deadline_s=0.5)


def make(
    mqtt: MqttSettings,
    journal: Journal,
    session: int = 1,
    republish: int = 50,
    on_held: Callable[[str, str], None] = lambda _table, _text: None,
    backoff: Backoff = QUICK,
) -> Publisher:
    node = Node("node-1", "1.2.3", session)
    return Publisher(mqtt, TOPICS, node, journal, SystemClock(), Random(7), backoff, republish, on_held)


@asynccontextmanager
async def running(publisher: Publisher) -> AsyncIterator[asyncio.Task[None]]:
    """Cut off at the end of the block, unless it was closed."""
    task = asyncio.create_task(publisher.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


def entries(listener: Listener) -> list[int]:
    return [json.loads(payload)["entry"] for payload in listener.payloads("/record/")]


def without_repeats(ids: list[int]) -> list[int]:
    return list(dict.fromkeys(ids))


def statuses(listener: Listener) -> list[tuple[str, int]]:
    return [
        (status["state"], status["session"])
        for status in map(json.loads, listener.payloads("/node-1/status"))
    ]


async def retained(broker: Mosquitto, topic: str) -> bytes:
    async with listening(broker, topic) as listener:
        await until(lambda: bool(listener.heard))
        return listener.heard[0].payload
