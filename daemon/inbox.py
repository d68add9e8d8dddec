"""What others send to this node: replay requests, watermarks of consumers, commands.

A link of its own, so that no flood of requests and no long answer ever stands before a record. It keeps no
session: what was asked while we were away is not done late. It has no will: the publisher's speaks for the
node.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import structlog

from dollyd.daemon.backoff import Backoff
from dollyd.daemon.clock import Clock
from dollyd.daemon.core.stamp import NS_PER_S
from dollyd.daemon.duties import Pulse
from dollyd.daemon.errors import ensure
from dollyd.daemon.mqtt import Cause, LinkError, Message, MqttLink, MqttSettings
from dollyd.daemon.publisher import SHORT_LINK_S, SHORT_LINKS
from dollyd.daemon.topics import ANY

MESSAGE_MAX_BYTES = 16_384
"""No request, watermark or signed command comes near this."""
MESSAGES_PER_S = 100
MESSAGES_AT_ONCE = 200
"""What one route takes in the long run, and in a burst; each route has its own share."""
_LOOK_EVERY_S = 5
_BACKOFF = Backoff()

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """Who takes the messages of a topic filter: one topic, or all topics one level below another (`a/b/+`).

    `take` is called in the event loop, must not wait, and never raises for what a message says. `retained`:
    whether retained messages mean something here; a retained request would be done again at every start.
    """

    topic_filter: str
    take: Callable[[Message], None]
    retained: bool = False


class _Allowance:
    """So many messages a second in the long run, so many at once."""

    def __init__(self) -> None:
        self._left = float(MESSAGES_AT_ONCE)
        self._at_ns = 0

    def take(self, now_ns: int) -> bool:
        """Whether one more may pass."""
        gained = (now_ns - self._at_ns) * MESSAGES_PER_S / NS_PER_S
        self._left, self._at_ns = min(MESSAGES_AT_ONCE, self._left + gained), now_ns
        passes = self._left >= 1
        self._left -= passes
        return passes


class Inbox:
    """Owns the second link, client id `<id>-in`. Add the routes, then `run`.

    `publisher_at` gives the broker that the records go to now, empty while there is none: who reads them
    there asks there.
    """

    def __init__(
        self,
        mqtt: MqttSettings,
        clock: Clock,
        rng: Random,
        publisher_at: Callable[[], str],
        backoff: Backoff = _BACKOFF,
    ) -> None:
        self._mqtt = replace(mqtt, client_id=f"{mqtt.client_id}-in")
        self._clock = clock
        self._rng = rng
        self._publisher_at = publisher_at
        self._backoff = backoff
        self.pulse = Pulse()
        self._routes: dict[str, Route] = {}
        self._allowances: dict[str, _Allowance] = {}
        self._link: MqttLink | None = None
        self._renew = asyncio.Event()
        self._links = 0
        self._since_ns = 0
        self._failures = 0
        self._short_links = 0
        self._up: bool | None = None  # as told in the log; None = nothing told yet
        self._last_error = ""
        self._taken = 0
        self._refused: Counter[str] = Counter()

    def add(self, route: Route) -> None:
        """Take messages for a route, from the next link on: see `reconnect`. One route a filter."""
        ensure(route.topic_filter not in self._routes, f"one route takes {route.topic_filter}")
        self._routes[route.topic_filter] = route
        self._allowances[route.topic_filter] = _Allowance()

    def remove(self, topic_filter: str) -> None:
        """Take no more messages for a route, which may come until the next link: they are unexpected."""
        del self._routes[topic_filter]

    def reconnect(self, mqtt: MqttSettings | None = None) -> None:
        """Build the link anew, with the routes of now. `mqtt`: other settings, those of the publisher."""
        if mqtt is not None:
            self._mqtt = replace(mqtt, client_id=f"{mqtt.client_id}-in")
        self._renew.set()

    async def send(self, topic: str, payload: bytes, correlation: bytes = b"") -> None:
        """Publish an answer with QoS 1 when the broker has room for it. Raises `LinkError` without a link."""
        link = self._link
        if link is None or link.error is not None:
            raise LinkError(Cause.CLOSED)
        await link.hand_over(topic, payload, correlation=correlation)

    def snapshot(self) -> dict[str, Any]:
        """For the health topic: the link, what was taken, and what was refused and why."""
        dropped = self._link.inbox_dropped if self._link is not None else 0
        return {
            "connected": self._link is not None,
            "links": self._links,
            "last_error": self._last_error,
            "taken": self._taken,
            "refused": dict(self._refused + Counter(overflow=dropped)),
        }

    async def run(self) -> None:
        """Keep a link until cancelled. Raises only errors of ours or of a route's owner."""
        while True:
            await self._pause(await self._try_brokers())

    # --- links ---------------------------------------------------------------------------------------

    async def _try_brokers(self) -> Cause:
        """Try the publisher's broker, or all in order until one gave a link; returns when that is lost."""
        links, cause = self._links, Cause.UNREACHABLE
        where = self._publisher_at()
        for broker in (where,) if where else self._mqtt.brokers:
            self.pulse.rest()  # a name server or a host may take its time
            try:
                async with MqttLink(self._mqtt, broker, keep_session=False) as link:
                    self.pulse.beat()
                    self._links += 1
                    await self._use(link, broker)
            except LinkError as error:
                cause = self._lost(broker, error, had_link=self._links > links)
            if self._links > links:
                break
        return cause

    async def _use(self, link: MqttLink, broker: str) -> None:
        """Read until the link ends; raises its `LinkError`. Not a TaskGroup: see `Publisher`."""
        self._link, self._since_ns = link, self._clock.stamp().mono_ns
        self._renew.clear()
        tasks = (
            asyncio.create_task(self._subscribe(link, broker), name="inbox-subscribe"),
            asyncio.create_task(self._read(link), name="inbox-read"),
            asyncio.create_task(self._follow_publisher(broker), name="inbox-follow"),
            asyncio.create_task(self._leave_to_renew(), name="inbox-renew"),
        )
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._link = None
            self._refused["overflow"] += link.inbox_dropped
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [end for end in ends if isinstance(end, Exception)]
        raise min(errors, key=lambda error: isinstance(error, LinkError))

    async def _subscribe(self, link: MqttLink, broker: str) -> None:
        for topic_filter in list(self._routes):  # another table may come meanwhile
            await link.subscribe(topic_filter)
        if not self._short_links:
            self._tell_up(broker)

    async def _follow_publisher(self, broker: str) -> None:
        """End a link to a broker that the records no longer go to."""
        while (where := self._publisher_at()) in {"", broker}:
            self.pulse.beat()
            now_ns = self._clock.stamp().mono_ns
            if now_ns - self._since_ns >= SHORT_LINK_S * NS_PER_S:
                self._failures = self._short_links = 0
                self._tell_up(broker)
            await self._clock.sleep_until(now_ns + _LOOK_EVERY_S * NS_PER_S)
        raise LinkError(Cause.LEFT, f"the records go to {where}")

    async def _leave_to_renew(self) -> None:
        """End the link when another one is wanted."""
        await self._renew.wait()
        raise LinkError(Cause.LEFT, "to be built anew")

    def _tell_up(self, broker: str) -> None:
        if not self._up:
            self._up = True
            _LOG.info("inbox_connected", broker=broker)

    def _lost(self, broker: str, error: LinkError, *, had_link: bool) -> Cause:
        """Account for a link that ended or was never made; log the step from up to down, not each retry."""
        cause = error.cause
        if cause is Cause.LEFT:
            self._up = None
            return cause
        lived_ns = self._clock.stamp().mono_ns - self._since_ns
        short = had_link and cause is Cause.CLOSED and lived_ns < SHORT_LINK_S * NS_PER_S
        self._short_links = self._short_links + 1 if short else 0
        if self._short_links >= SHORT_LINKS:
            cause = Cause.TAKEN_OVER  # without a kept session there is no other sign of it
        alert = cause is Cause.TAKEN_OVER and self._last_error != cause
        self._last_error = str(cause)
        if self._up is not False or alert:
            self._up = False
            log = _LOG.error if alert else _LOG.warning
            log("inbox_lost", broker=broker, cause=str(cause), detail=error.detail)
        return cause

    async def _pause(self, cause: Cause) -> None:
        taken_over = cause is Cause.TAKEN_OVER
        pause_ns = self._backoff.pause_ns(self._failures, self._rng, taken_over=taken_over)
        self._failures += 1
        self.pulse.rest()
        await self._clock.sleep_until(self._clock.stamp().mono_ns + pause_ns)

    # --- messages ------------------------------------------------------------------------------------

    async def _read(self, link: MqttLink) -> None:
        async for message in link.messages():  # each waits for its turn in the loop, also in a flood
            self._take(message)

    def _take(self, message: Message) -> None:
        above = message.topic.rpartition("/")[0]
        route = self._routes.get(message.topic) or self._routes.get(f"{above}/{ANY}")
        if route is None:
            self._refuse("unexpected", message)
        elif message.retain and not route.retained:
            self._refuse("retained", message)
        elif len(message.payload) > MESSAGE_MAX_BYTES:
            self._refuse("too-long", message)
        elif not message.retain and not self._allowances[route.topic_filter].take(
            self._clock.stamp().mono_ns
        ):
            self._refuse("too-many", message)
        else:
            self._taken += 1
            route.take(message)

    def _refuse(self, why: str, message: Message) -> None:
        if why not in self._refused:  # told once, counted on
            _LOG.warning("inbox_refuses", why=why, topic=message.topic)
        self._refused[why] += 1
