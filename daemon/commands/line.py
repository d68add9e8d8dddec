"""A person's line to a table: what the table shows now, and a signed command with its answer."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from dollyd.daemon.link.mqtt import Cause, LinkError, MqttLink, MqttSettings
from dollyd.daemon.table.state_topics import Pending
from dollyd.wire.answer import Answer, read_answer
from dollyd.wire.decoding import from_json
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.key_source import KeySource
from dollyd.wire.topics import Topics

STATE_WAIT_S = 5.0
ANSWER_WAIT_S = 10.0
_DESK = (
    "come as the user `desk`, for a node may give no orders: cert_file and key_file below [desk] of the "
    "configuration, or --cert-file and --key-file"
)
_OTHERS = "other"
"""Answers to other people come to the common topic, too."""


class NoAnswerError(Exception):
    """The broker or the table cannot be heard; the message says which."""


class Shown(Struct, frozen=True):
    """What a command needs of the state that a table shows; a node of another version may show more."""

    table: str
    game: str
    variant: str
    phase: str
    round: int
    chain: str
    proposal: Pending | None = None


@dataclass(frozen=True, slots=True)
class TableLine:
    """Brokers are tried in order."""

    mqtt: MqttSettings
    site: str
    table: str

    async def state(self) -> Shown:
        """What the table shows, as the broker keeps it. Raises `NoAnswerError`."""
        topic = Topics(self.site).state(self.table)
        last = ""
        for broker in self.mqtt.brokers:
            try:
                async with MqttLink(self.mqtt, broker, keep_session=False) as link:
                    await link.subscribe(topic)
                    return await asyncio.wait_for(_first_state(link, topic), STATE_WAIT_S)
            except TimeoutError:
                last = f"broker {broker} shows no state of table {self.table} of site {self.site}: "
                last += self._unseen
            except msgspec.DecodeError as error:
                last = f"broker {broker}: {topic} is not the state of a table: {error}"
            except LinkError as error:
                last = f"broker {broker}: {self._denied(error)}"
        raise NoAnswerError(last)

    async def ask(self, envelope: bytes, keys: KeySource | None = None) -> Answer:
        """Send a signed command, and wait for its answer. Raises `NoAnswerError`.

        `keys`: who may have signed it. What is forged, or answers another command, is passed over: the
        true answer may still come. Without keys the answer is the broker's word.
        """
        topics, last = Topics(self.site), ""
        reply = topics.command_reply(self.table, f"c-{secrets.token_hex(8)}")
        for broker in self.mqtt.brokers:
            refused: list[str] = []
            try:
                async with MqttLink(self.mqtt, broker, keep_session=False) as link:
                    for topic in (reply, topics.command_reply(self.table)):
                        await link.subscribe(topic)
                    await link.hand_over(topics.command(self.table), envelope, response_topic=reply)
                    return await asyncio.wait_for(
                        self._answer(link, reply, envelope, keys, refused), ANSWER_WAIT_S
                    )
            except TimeoutError:
                last = f"broker {broker}: no answer of table {self.table} within {ANSWER_WAIT_S:.0f} s"
                last += f"; what came as one was refused: {refused[0]}" if refused else ""
            except LinkError as error:
                last = f"broker {broker}: {self._denied(error)}"
        raise NoAnswerError(last)

    def _denied(self, error: LinkError) -> str:
        return f"{error}; {_DESK}" if error.cause is Cause.DENIED else str(error)

    @property
    def _unseen(self) -> str:
        """Why nothing may have come: a broker that denies a subscription need not say so."""
        user = self.mqtt.cert_file or self.mqtt.username or "no certificate"
        return (
            f"this user ({user}) may not read it: {_DESK}; or the names are wrong, or no daemon has run there"
        )

    async def _answer(
        self, link: MqttLink, reply: str, envelope: bytes, keys: KeySource | None, refused: list[str]
    ) -> Answer:
        """The first answer to this command. Without MQTT 5 it comes where all answers come.

        `refused` gets why the first one that came as its answer is none.
        """
        async for message in link.messages():
            try:
                return read_answer(message.payload, self.site, self.table, envelope, keys)
            except EnvelopeError as error:
                if not refused and (message.topic == reply or error.reason != _OTHERS):
                    refused.append(str(error))
        raise LinkError(Cause.CLOSED)


async def _first_state(link: MqttLink, topic: str) -> Shown:
    async for message in link.messages():
        if message.topic == topic:
            return from_json(message.payload, Shown)
    raise LinkError(Cause.CLOSED)
