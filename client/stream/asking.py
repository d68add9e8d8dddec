"""What a consumer says to the nodes: which records it misses, and how far it is.

A broker that does not let it ends no link for that: it is told once, and what was asked for is found missing.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from dollyd.client.stream.reader import Request
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.link.mqtt import MqttLink
from dollyd.wire.decoding import from_json
from dollyd.wire.stamp import iso_utc
from dollyd.wire.topics import Topics

_LOG = Logger(__name__)


class End(msgspec.Struct, frozen=True):
    """End of the answer to a request for replay; its other members are for people."""

    end: str
    chain: str
    problem: str


def end_of(payload: bytes) -> End | None:
    """What ends an answer; None where it is a record."""
    try:
        return from_json(payload, End)
    except msgspec.DecodeError:
        return None


class Asking:
    """Requests of `consumer`, and acknowledgements in the name of `group` where it has one."""

    def __init__(self, topics: Topics, consumer: str, group: str = "") -> None:
        self._topics = topics
        self._consumer = consumer
        self._group = group or consumer
        self._answers: set[str] = set()
        """Tables whose answers are subscribed to on this link."""
        self._told: set[str] = set()

    def restart(self) -> None:
        """On a new link."""
        self._answers.clear()

    async def ask(self, link: MqttLink, request: Request) -> None:
        """Have records sent again. Raises `LinkError`."""
        table = request.table
        if table not in self._answers:
            topic = self._topics.replay_answer(table, self._consumer)
            if not await link.may_subscribe(topic):
                self._tell(topic, "subscribe")
                return
            self._answers.add(table)
        asked: dict[str, Any] = {
            "chain": request.chain,
            "from": request.first,
            "to": request.last,
            "id": request.id,
        }
        await self._say(link, self._topics.replay_ask(table, self._consumer), asked)

    async def acknowledge(self, link: MqttLink, table: str, chain: str, seq: int) -> None:
        """Say that all records of a chain are done up to `seq`. Raises `LinkError`."""
        ack: dict[str, Any] = {
            "consumer": self._group,
            "chain": chain,
            "seq": seq,
            "time": iso_utc(time.time_ns()),
        }
        await self._say(link, self._topics.ack(table, self._group), ack, retain=True)

    async def _say(self, link: MqttLink, topic: str, said: dict[str, Any], *, retain: bool = False) -> None:
        why = await link.offer(topic, msgspec.json.encode(said), retain=retain)
        if why:
            self._tell(topic, why)

    def _tell(self, topic: str, why: str) -> None:
        """Log once what the broker denies."""
        if topic not in self._told:
            self._told.add(topic)
            _LOG.warning("broker_denies", topic=topic, why=why)
