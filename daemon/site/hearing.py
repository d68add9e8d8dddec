"""Hears once what a broker keeps of a site: the retained topics, and nothing is said."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dollyd.daemon.commands.line import NoAnswerError
from dollyd.daemon.link.mqtt import LinkError, MqttLink, MqttSettings
from dollyd.wire.topics import Topics

WAIT_S = 5.0
"""What has not come by then does not come."""
QUIET_S = 0.5
"""Where all that is wanted has come, and no further topic for so long, there is no more."""


@dataclass(slots=True)
class HeardSite:
    """What came, by topic, and from where."""

    broker: str
    payloads: dict[str, bytes] = field(default_factory=dict)


async def hear_site(mqtt: MqttSettings, topics: Topics, wanted: AbstractSet[str] = frozenset()) -> HeardSite:
    """What the first broker that answers keeps of a site. `wanted`: topics that are waited for.

    Raises `NoAnswerError` where no broker answers.
    """
    last = ""
    for broker in mqtt.brokers:
        heard = HeardSite(broker)
        try:
            async with MqttLink(mqtt, broker, keep_session=False) as link:
                for topic in (
                    topics.every_last(),
                    topics.every_device(),
                    topics.every_node_health(),
                    topics.every_node_status(),
                    topics.every_state(),
                ):
                    await link.may_subscribe(topic)  # what a broker denies is missing in the end
                await _listen(link, heard.payloads, wanted)
        except LinkError as error:
            last = f"broker {broker}: {error}"
            continue
        return heard
    raise NoAnswerError(last)


async def _listen(link: MqttLink, payloads: dict[str, bytes], wanted: AbstractSet[str]) -> None:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + WAIT_S
    try:
        async with asyncio.timeout_at(end_s) as bound:
            async for message in link.messages():
                known = message.topic in payloads
                payloads[message.topic] = message.payload
                if not known and wanted <= payloads.keys():
                    bound.reschedule(min(end_s, loop.time() + QUIET_S))
    except TimeoutError:
        pass
