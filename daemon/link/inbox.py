"""What others send to this node: replay requests, watermarks of consumers, commands.

A link of its own, so that no flood of requests and no long answer ever stands before a record. It keeps no
session: what was asked while we were away is not done late. It has no will: the publisher's speaks for the
node. Its client id is drawn anew at each start, so that nobody can take the link away.

What the broker denies, a subscription or an answer, is held alone and tried again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from dollyd.daemon.host.allowance import Allowance, Allowances, Rate
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.tasks import Pulse
from dollyd.daemon.link.backoff import Backoff
from dollyd.daemon.link.mqtt import INBOX_PACKET_MAX, Cause, LinkError, Message, MqttLink, MqttSettings
from dollyd.wire.errors import ensure
from dollyd.wire.stamp import NS_PER_S
from dollyd.wire.topics import ANY

MESSAGE_MAX_BYTES = 16_384
"""No request, watermark or signed command comes near this."""
TOPIC_RATE = Rate(per_s=100, at_once=200)
"""What is taken of one topic: of one consumer where the route has a name in it."""
ROUTE_RATE = Rate(per_s=1000, at_once=2000)
"""What one route takes of all topics together: the work that nobody can exceed."""
TOPICS_KEPT = 10_000
"""Topics whose allowance is remembered."""
DENIED_S = 60
"""How long what the broker denied is left alone."""
DENIED_MAX = 1000
SHOWN_MAX = 20
"""Denied topics in the health topic."""
STEADY_S = 10
"""A link that lived so long ends the growing pauses; behind a shorter one the next is not told as news."""
_LOOK_EVERY_S = 5
_BACKOFF = Backoff()

_LOG = Logger(__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """Who takes the messages of a topic filter: one topic, or one with a name at the end (`a/b/+`, `a/+/c`).

    `take` is called in the event loop, must not wait, and never raises for what a message says. `retained`:
    whether retained messages mean something here; a retained request would be done again at every start.
    `judges`: whether `take` has allowances of its own, since it knows better who sends than a topic does.
    """

    topic_filter: str
    take: Callable[[Message], None]
    retained: bool = False
    judges: bool = False


class Inbox:
    """Owns the second link, client id `<id>-in-<random>`. Add the routes, then `run`.

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
        self._suffix = f"-in-{secrets.token_hex(8)}"
        self._mqtt = replace(mqtt, client_id=mqtt.client_id + self._suffix)
        self._clock = clock
        self._rng = rng
        self._publisher_at = publisher_at
        self._backoff = backoff
        self.pulse = Pulse()
        self._routes: dict[str, Route] = {}
        self._allowances: dict[str, Allowance] = {}
        self._topics = Allowances(TOPIC_RATE, TOPICS_KEPT)
        self._not_heard: dict[str, None] = {}
        """Filters that the broker does not let us subscribe to."""
        self._not_said: OrderedDict[str, int] = OrderedDict()
        """Topics of answers that it does not let us publish, and until when they are left alone."""
        self._link: MqttLink | None = None
        self._renew = asyncio.Event()
        self._links = 0
        self._since_ns = 0
        self._failures = 0
        self._short = False
        self._up: bool | None = None  # as told in the log; None = nothing told yet
        self._last_error = ""
        self._taken = 0
        self._refused: Counter[str] = Counter()

    def add(self, route: Route) -> None:
        """Take messages for a route, from the next link on: see `reconnect`. One route a filter."""
        ensure(route.topic_filter not in self._routes, f"one route takes {route.topic_filter}")
        self._routes[route.topic_filter] = route
        self._allowances[route.topic_filter] = Allowance(ROUTE_RATE)

    def remove(self, topic_filter: str) -> None:
        """Take no more messages for a route, which may come until the next link: they are unexpected."""
        del self._routes[topic_filter]

    def reconnect(self, mqtt: MqttSettings | None = None) -> None:
        """Build the link anew, with the routes of now. `mqtt`: other settings, those of the publisher."""
        if mqtt is not None:
            self._mqtt = replace(mqtt, client_id=mqtt.client_id + self._suffix)
        self._renew.set()

    async def send(self, topic: str, payload: bytes, correlation: bytes = b"") -> None:
        """Publish an answer with QoS 1 when the broker has room for it. Raises `LinkError` without a link.

        With `Cause.DENIED` only this topic is refused, for `DENIED_S` from the broker's no.
        """
        link = self._link
        if link is None or link.error is not None:
            raise LinkError(Cause.CLOSED)
        if self._clock.stamp().mono_ns < self._not_said.get(topic, 0):
            raise LinkError(Cause.DENIED, topic)
        await link.hand_over(topic, payload, correlation=correlation, denied=partial(self._denied, topic))

    def _denied(self, topic: str, why: str) -> None:
        """The broker does not take an answer."""
        if topic not in self._not_said:
            _LOG.warning("answer_denied", topic=topic, why=why)
        self._not_said[topic] = self._clock.stamp().mono_ns + DENIED_S * NS_PER_S
        if len(self._not_said) > DENIED_MAX:
            self._not_said.popitem(last=False)

    def snapshot(self) -> dict[str, Any]:
        """For the health topic: the link, what was taken, and what was refused and why."""
        dropped = self._link.inbox_dropped if self._link is not None else 0
        return {
            "connected": self._link is not None,
            "links": self._links,
            "last_error": self._last_error,
            "taken": self._taken,
            "refused": dict(self._refused + Counter(overflow=dropped)),
            "denied": self._denied_topics(),
        }

    def _denied_topics(self) -> list[str]:
        now_ns = self._clock.stamp().mono_ns
        answers = [topic for topic, until_ns in self._not_said.items() if now_ns < until_ns]
        return [*self._not_heard, *answers][:SHOWN_MAX]

    async def run(self) -> None:
        """Keep a link until cancelled. Raises only errors of ours or of a route's owner."""
        while True:
            await self._try_brokers()
            await self._pause()

    # --- links ---------------------------------------------------------------------------------------

    async def _try_brokers(self) -> None:
        """Try the publisher's broker, or all in order until one gave a link; returns when that is lost."""
        links = self._links
        where = self._publisher_at()
        for broker in (where,) if where else self._mqtt.brokers:
            self.pulse.rest()  # a name server or a host may take its time
            try:
                async with MqttLink(
                    self._mqtt, broker, keep_session=False, packet_max=INBOX_PACKET_MAX
                ) as link:
                    self.pulse.beat()
                    self._links += 1
                    await self._use(link, broker)
            except LinkError as error:
                self._lost(broker, error)
            if self._links > links:
                break

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
        wanted = list(self._routes)  # another table may come meanwhile
        while True:
            denied = [one for one in wanted if one in self._routes and not await link.may_subscribe(one)]
            for topic_filter in denied:
                if topic_filter not in self._not_heard:
                    _LOG.warning("inbox_denied", topic=topic_filter)
            for topic_filter in self._not_heard.keys() - denied:
                _LOG.info("inbox_allowed", topic=topic_filter)
            self._not_heard = dict.fromkeys(denied)
            if not self._short:
                self._tell_up(broker)
            if not denied:
                return
            wanted = denied
            await self._clock.sleep_until(self._clock.stamp().mono_ns + DENIED_S * NS_PER_S)

    async def _follow_publisher(self, broker: str) -> None:
        """End a link to a broker that the records no longer go to."""
        while (where := self._publisher_at()) in {"", broker}:
            self.pulse.beat()
            now_ns = self._clock.stamp().mono_ns
            if now_ns - self._since_ns >= STEADY_S * NS_PER_S:
                self._failures, self._short = 0, False
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

    def _lost(self, broker: str, error: LinkError) -> None:
        """Account for a link that ended or was never made; log the step from up to down, not each retry."""
        cause = error.cause
        if cause is Cause.LEFT:
            self._up = None
            return
        self._short = self._clock.stamp().mono_ns - self._since_ns < STEADY_S * NS_PER_S
        self._last_error = str(cause)
        if self._up or (
            self._up is None and self._publisher_at()
        ):  # without any broker the publisher tells why
            self._up = False
            _LOG.warning("inbox_lost", broker=broker, **error.told)

    async def _pause(self) -> None:
        pause_ns = self._backoff.pause_ns(self._failures, self._rng)
        self._failures += 1
        self.pulse.rest()
        await self._clock.sleep_until(self._clock.stamp().mono_ns + pause_ns)

    # --- messages ------------------------------------------------------------------------------------

    async def _read(self, link: MqttLink) -> None:
        async for message in link.messages():  # each waits for its turn in the loop, also in a flood
            self._take(message)

    def _take(self, message: Message) -> None:
        route = self._route(message.topic)
        if route is None:
            self._refuse("unexpected", message)
        elif message.retain and not route.retained:
            self._refuse("retained", message)
        elif len(message.payload) > MESSAGE_MAX_BYTES:
            self._refuse("too-long", message)
        elif not message.retain and not self._may_pass(route, message.topic):
            self._refuse("too-many", message)
        else:
            self._taken += 1
            route.take(message)

    def _route(self, topic: str) -> Route | None:
        """Whose a topic is: as it stands, or with a name in one of its last two levels."""
        above, _, last = topic.rpartition("/")
        before = above.rpartition("/")[0]
        found = (self._routes.get(one) for one in (topic, f"{above}/{ANY}", f"{before}/{ANY}/{last}"))
        return next((route for route in found if route is not None), None)

    def _may_pass(self, route: Route, topic: str) -> bool:
        """Whether there is an allowance; who sends too much takes nothing of that of the others."""
        now_ns = self._clock.stamp().mono_ns
        return route.judges or (
            self._topics.take(topic, now_ns) and self._allowances[route.topic_filter].take(now_ns)
        )

    def _refuse(self, why: str, message: Message) -> None:
        if why not in self._refused:  # told once, counted on
            _LOG.warning("inbox_refuses", why=why, topic=message.topic)
        self._refused[why] += 1
