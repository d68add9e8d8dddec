"""Everything that a node publishes in play is on a channel of the AsyncAPI document, and fits its schema."""

from __future__ import annotations

import asyncio
import re

import yaml
from tests.packaging.test_schemas import ASYNCAPI, problems
from tests.support.broker import until
from tests.support.daemon import NODE, TOPICS, Consumer, Daemon
from tests.support.simulated_table import SimulatedTable, playing
from typer.testing import CliRunner

from dollyd.daemon.cli import application
from dollyd.wire.jws import parse_envelope

CHANNELS = yaml.safe_load(ASYNCAPI.read_text("ascii"))["channels"]
ADDRESSES = {
    name: re.compile(re.sub(r"\{[a-z]+\}", "[^/]+", channel["address"])) for name, channel in CHANNELS.items()
}


def unfit(topic: str, payload: bytes) -> list[str]:
    """What is wrong with a message: no schema of its channel takes it."""
    name = next((name for name, address in ADDRESSES.items() if address.fullmatch(topic)), None)
    if name is None:
        return ["no channel"]
    messages = list(CHANNELS[name]["messages"])
    if all(message.startswith("record-") for message in messages):
        if found := problems("envelope", payload):
            return found
        payload = parse_envelope(payload).payload
    tried = [problems(message, payload) for message in messages]
    return [] if [] in tried else min(tried, key=len)


async def test_what_is_published_fits(table: SimulatedTable, daemon: Daemon, consumer: Consumer) -> None:
    """And `dollyd status` puts it in words."""
    await playing(table, consumer, 2)
    await until(lambda: bool(consumer.latest(TOPICS.node_health(NODE))))
    installed = daemon.installation
    words = ["status", "--config", str(installed.config), "--keys", str(installed.jwks)]
    said = await asyncio.to_thread(CliRunner().invoke, application, words)
    assert "last: result of round " in said.output, said.output
    assert "(signature checked)" in said.output
    assert "nobody knows" not in said.output
    assert "STALE" not in said.output
    table.end_play()
    assert await daemon.stop() == 0
    heard = [message for message in consumer.listener.heard if message.payload]
    wrong = {(message.topic, *unfit(message.topic, message.payload)) for message in heard}
    assert {one for one in wrong if len(one) > 1} == set()
    seen = {
        name for name, address in ADDRESSES.items() for message in heard if address.fullmatch(message.topic)
    }
    assert {"record", "last", "state", "device", "checkpoint"} <= seen
    assert {"node_status", "node_health", "node_keys"} <= seen
