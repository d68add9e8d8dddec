"""A person's line to a table: what the table shows now, and a signed command with its answer."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from dollyd.client.command import Command
from dollyd.daemon.commands.desk import Answer
from dollyd.daemon.decoding import from_json
from dollyd.daemon.displays import Pending
from dollyd.daemon.mqtt import Cause, LinkError, MqttLink, MqttSettings
from dollyd.daemon.topics import Topics

STATE_WAIT_S = 5.0
ANSWER_WAIT_S = 10.0


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
                last = f"broker {broker} has no state of table {self.table} of site {self.site}"
            except msgspec.DecodeError as error:
                last = f"broker {broker}: {topic} is not the state of a table: {error}"
            except LinkError as error:
                last = f"broker {broker}: {error}"
        raise NoAnswerError(last)

    async def ask(self, envelope: bytes, command: Command) -> Answer:
        """Send a signed command, and wait for its answer. Raises `NoAnswerError`.

        The answer is the broker's word, for it is not signed; what was done stands in the records.
        """
        topics, last = Topics(self.site), ""
        reply = topics.command_reply(self.table, f"c-{secrets.token_hex(8)}")
        for broker in self.mqtt.brokers:
            try:
                async with MqttLink(self.mqtt, broker, keep_session=False) as link:
                    for topic in (reply, topics.command_reply(self.table)):
                        await link.subscribe(topic)
                    await link.hand_over(topics.command(self.table), envelope, response_topic=reply)
                    return await asyncio.wait_for(_answer(link, reply, command.nonce), ANSWER_WAIT_S)
            except TimeoutError:
                last = f"broker {broker}: no answer of table {self.table} within {ANSWER_WAIT_S:.0f} s"
            except LinkError as error:
                last = f"broker {broker}: {error}"
        raise NoAnswerError(last)


async def _first_state(link: MqttLink, topic: str) -> Shown:
    async for message in link.messages():
        if message.topic == topic:
            return from_json(message.payload, Shown)
    raise LinkError(Cause.CLOSED)


async def _answer(link: MqttLink, reply: str, nonce: str) -> Answer:
    """The first answer to this command; without MQTT 5 it comes where all answers come."""
    async for message in link.messages():
        try:
            answer = from_json(message.payload, Answer)
        except msgspec.DecodeError:
            continue  # somebody else's
        if answer.nonce == nonce or (message.topic == reply and not answer.nonce):
            return answer
    raise LinkError(Cause.CLOSED)
