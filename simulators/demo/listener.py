"""A subscriber such as a settlement system has: takes the signed stream, keeps each record once.

Delivery is at least once: after an outage records come again. What names a record is its chain and `seq`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from dollyd.daemon.link.mqtt import LinkError, Message, MqttLink, MqttSettings
from dollyd.simulators.demo.broker import SUBSCRIBER
from dollyd.simulators.demo.stage import SITE, Stage
from dollyd.wire.jws import EnvelopeError, parse_envelope
from dollyd.wire.topics import Topics

_RETRY_S = 0.02


class Listener:
    """What was heard. `on_record` is called for each new record, in the order of arrival."""

    def __init__(self, stage: Stage, on_record: Callable[[dict[str, Any]], None]) -> None:
        self.records: list[dict[str, Any]] = []
        """Decoded, in the order of arrival."""
        self.repeats = 0
        self.damaged = 0
        """Messages that are no record, or another record under a number that was heard before."""
        self.states: dict[str, dict[str, Any]] = {}
        """Each table, as its retained topic shows it to displays."""
        self.devices: dict[tuple[str, str], dict[str, Any]] = {}
        """Each device by table and name."""
        self.connected = False
        self._envelopes: dict[tuple[str, int], bytes] = {}
        self._on_record = on_record
        self._address = f"127.0.0.1:{stage.port}"
        self._settings = MqttSettings(
            brokers=(self._address,),
            client_id=SUBSCRIBER,
            protocol="5" if stage.broker.protocol == "5" else "3.1.1",
        )
        self._topics = Topics(SITE)

    @property
    def envelopes(self) -> list[bytes]:
        """Every record once, exactly as it was sent, in the order of the chain."""
        return [self._envelopes[place] for place in sorted(self._envelopes)]

    async def run(self) -> None:
        """Listen, and connect again after each loss, until cancelled."""
        while True:
            try:
                await self._listen()
            except LinkError:
                self.connected = False
            await asyncio.sleep(_RETRY_S)

    async def _listen(self) -> None:
        topics = self._topics
        async with MqttLink(self._settings, self._address) as link:
            for topic in (topics.every_record(), topics.every_state(), topics.every_device()):
                await link.subscribe(topic)
            self.connected = True
            async for message in link.messages():
                self._take(message)

    def _take(self, message: Message) -> None:
        match message.topic.split("/")[3:]:
            case [table, "state"]:
                self.states[table] = msgspec.json.decode(message.payload)
            case [table, "device", name]:
                self.devices[table, name] = msgspec.json.decode(message.payload)
            case _:
                self._take_record(message.payload)

    def status(self, table: str, device: str) -> str:
        """State of a device as last published."""
        return str(self.devices.get((table, device), {}).get("status", "init"))

    def opens(self, table: str, device: str) -> int:
        """How often the daemon has opened a device's port."""
        link: dict[str, int] = self.devices.get((table, device), {}).get("link", {})
        return link.get("opens", 0)

    def _take_record(self, envelope: bytes) -> None:
        try:
            record = msgspec.json.decode(parse_envelope(envelope).payload)
        except EnvelopeError:
            self.damaged += 1
            return
        place = (record["chain"], record["seq"])
        if place in self._envelopes:
            self.repeats += 1
            self.damaged += self._envelopes[place] != envelope
            return
        self._envelopes[place] = envelope
        self.records.append(record)
        self._on_record(record)
