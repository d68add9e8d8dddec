"""The embedded broker, a process that can be killed. Its only argument is the port.

It keeps nothing on disk: killed, it has forgotten who had subscribed. What is published to it before the
subscriber is back would reach nobody, so it lets publishers in only then. Mosquitto needs no such help.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

from amqtt.broker import Broker
from amqtt.plugins.base import BaseAuthPlugin

from dollyd.simulators.demo.broker import SUBSCRIBER

_WAIT_S = 5.0
_PLUGIN = "dollyd.simulators.demo.embedded_broker.SubscriberFirst"


class SubscriberFirst(BaseAuthPlugin):  # type: ignore[misc]  # amqtt has no types
    """Lets everybody else wait at the door until the subscriber has subscribed."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._subscribed = asyncio.Event()

    async def authenticate(self, *, session: Any) -> bool:
        """Whether this client may come in."""
        if session.client_id != SUBSCRIBER:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._subscribed.wait(), _WAIT_S)
        return session.client_id == SUBSCRIBER or self._subscribed.is_set()

    async def on_broker_client_subscribed(self, *, client_id: str, topic: str, qos: int) -> None:  # noqa: ARG002  amqtt's names
        """Somebody subscribed."""
        if client_id == SUBSCRIBER:
            self._subscribed.set()


async def serve(port: int) -> None:
    """Listen on the loopback interface until killed."""
    listeners = {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}}
    broker = Broker({"listeners": listeners, "plugins": {_PLUGIN: {}}})
    await broker.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
