from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import aiomqtt
import pytest
from structlog.testing import capture_logs
from tests.support.broker import Mosquitto, until
from tests.support.site_broker import site_of

from dollyd.daemon.host.clock import Clock, SystemClock
from dollyd.daemon.link.backoff import Backoff
from dollyd.daemon.link.inbox import MESSAGE_MAX_BYTES, TOPIC_RATE, Inbox, Route
from dollyd.daemon.link.mqtt import Cause, LinkError, Message, MqttLink, MqttSettings
from dollyd.simulators.clock import VirtualClock
from dollyd.wire.topics import Topics

TOPICS = Topics("hall")
REQUESTS, ACKS = TOPICS.replay_ask("t1", "settlement"), TOPICS.every_ack("t1")
QUICK = Backoff(first_s=0.05, max_s=0.2, taken_over_s=30)


class HastyClock(SystemClock):
    """Real time, and no patience for long waits."""

    async def sleep_until(self, mono_ns: int) -> None:
        await asyncio.sleep(min(0.02, max(0, mono_ns - self.stamp().mono_ns) / 1e9))


@dataclass(slots=True)
class Taken:
    messages: list[Message] = field(default_factory=list)

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@asynccontextmanager
async def running(
    *brokers: Mosquitto, publisher_at: list[str] | None = None, clock: Clock | None = None
) -> AsyncIterator[tuple[Inbox, Taken]]:
    """An inbox with a route for requests and one for watermarks, on its own. It need not have a link yet."""
    mqtt = MqttSettings(tuple(b.address for b in brokers), "node-1", keepalive_s=2, ack_deadline_s=0.5)
    where = publisher_at or [""]
    inbox, taken = Inbox(mqtt, clock or SystemClock(), Random(1), lambda: where[0], QUICK), Taken()
    inbox.add(Route(TOPICS.every_replay_ask("t1"), taken.messages.append))
    inbox.add(Route(ACKS, taken.messages.append, retained=True))
    task = asyncio.create_task(inbox.run())
    try:
        yield inbox, taken
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


async def tell(broker: Mosquitto, *messages: tuple[str, bytes], retain: bool = False) -> None:
    async with aiomqtt.Client(broker.host, broker.port, identifier="teller", timeout=5) as client:
        for topic, payload in messages:
            await client.publish(topic, payload, qos=1, retain=retain)


async def ready(broker: Mosquitto, taken: Taken) -> None:
    """Wait until the inbox hears; its two routes are subscribed in order."""
    while b"heard" not in taken.payloads:
        await tell(broker, (TOPICS.ack("t1", "nobody"), b"heard"))
        await asyncio.sleep(0.02)
    taken.messages.clear()


async def test_messages_reach_the_route_of_their_topic(broker: Mosquitto) -> None:
    async with running(broker) as (inbox, taken):
        await ready(broker, taken)
        ack = TOPICS.ack("t1", "settlement")
        await tell(broker, (REQUESTS, b"1"), (TOPICS.replay_answer("t1", "x"), b"2"), (ack, b"3"))
        await until(lambda: b"3" in taken.payloads)
        assert [(m.topic, m.payload) for m in taken.messages] == [(REQUESTS, b"1"), (ack, b"3")]
        assert inbox.snapshot()["refused"] == {}


async def test_a_retained_request_is_never_done_again(broker: Mosquitto) -> None:
    ack = TOPICS.ack("t1", "settlement")
    await tell(broker, (REQUESTS, b"old"), (ack, b"watermark"), retain=True)
    with capture_logs() as logs:
        async with running(broker) as (inbox, taken):
            await ready(broker, taken)
            assert inbox.snapshot()["refused"] == {"retained": 1}
            await tell(broker, (REQUESTS, b"new"))
            await until(lambda: b"new" in taken.payloads)
            assert inbox.snapshot()["taken"] >= 3
    assert [log["topic"] for log in logs if log["event"] == "inbox_refuses"] == [REQUESTS]


async def test_retained_watermarks_are_taken(broker: Mosquitto) -> None:
    ack = TOPICS.ack("t1", "settlement")
    await tell(broker, (ack, b"watermark"), retain=True)
    async with running(broker) as (_, taken):
        await until(lambda: taken.payloads == [b"watermark"])
        assert taken.messages[0].retain


async def test_a_flood_on_one_route_is_bounded_counted_and_leaves_the_other_alone(broker: Mosquitto) -> None:
    with capture_logs() as logs:
        async with running(broker, clock=VirtualClock()) as (inbox, taken):
            await ready(broker, taken)
            before = inbox.snapshot()["taken"]
            flood = [(REQUESTS, b"%d" % number) for number in range(TOPIC_RATE.at_once * 3)]
            await tell(broker, *flood, (REQUESTS, b"x" * (MESSAGE_MAX_BYTES + 1)))
            await tell(broker, (TOPICS.ack("t1", "settlement"), b"still heard"))
            await until(lambda: b"still heard" in taken.payloads)
            snapshot = inbox.snapshot()
            refused = snapshot["refused"]
            assert refused == {"too-many": 2 * TOPIC_RATE.at_once, "too-long": 1}
            assert snapshot["taken"] - before == TOPIC_RATE.at_once + 1
    assert sorted(log["why"] for log in logs if log["event"] == "inbox_refuses") == ["too-long", "too-many"]


async def test_answers_go_out_with_what_the_asker_sent_along(broker: Mosquitto) -> None:
    async with running(broker) as (inbox, taken):
        with pytest.raises(LinkError):
            await inbox.send("answers", b"too early")
        await ready(broker, taken)
        client = aiomqtt.Client(broker.host, broker.port, protocol=aiomqtt.ProtocolVersion.V5)
        async with client:
            await client.subscribe("answers", qos=1)
            await inbox.send("answers", b"here", b"\x00\x01")
            heard = await asyncio.wait_for(anext(aiter(client.messages)), 5)
    assert (heard.payload, heard.qos, heard.retain) == (b"here", 1, False)
    assert getattr(heard.properties, "CorrelationData", None) == b"\x00\x01"


async def test_a_lost_broker_is_told_once_and_found_again(broker: Mosquitto) -> None:
    with capture_logs() as logs:
        async with running(broker) as (inbox, taken):
            await ready(broker, taken)
            broker.kill()
            await asyncio.sleep(0.6)  # several attempts
            assert not inbox.snapshot()["connected"]
            broker.start()
            await ready(broker, taken)
    assert [log["event"] for log in logs][:2] == ["inbox_connected", "inbox_lost"]
    assert sum(log["event"] == "inbox_lost" for log in logs) == 1


async def test_the_inbox_is_where_the_records_go(broker: Mosquitto) -> None:
    with Mosquitto() as second:
        where = [second.address]
        async with running(broker, second, publisher_at=where, clock=HastyClock()) as (inbox, taken):
            await ready(second, taken)
            where[0] = broker.address
            await ready(broker, taken)
            assert inbox.snapshot()["links"] == 2


async def test_attack_15_the_client_id_of_an_inbox_cannot_be_known(broker: Mosquitto) -> None:
    """Whoever takes the ids that could be guessed ends no link; nor do two nodes of one name each other's."""
    async with running(broker) as (mine, heard), running(broker) as (other, _):
        await ready(broker, heard)
        for guess in ("node-1-in", "node-1"):
            async with aiomqtt.Client(broker.host, broker.port, identifier=guess, timeout=5):
                pass
        await tell(broker, (REQUESTS, b"still heard"))
        await until(lambda: b"still heard" in heard.payloads)
        assert [one.snapshot()["links"] for one in (mine, other)] == [1, 1]


async def test_attack_8_a_flood_under_one_name_leaves_the_others_their_share(broker: Mosquitto) -> None:
    async with running(broker, clock=VirtualClock()) as (inbox, taken):
        await ready(broker, taken)
        flood = [(REQUESTS, b"x") for _ in range(TOPIC_RATE.at_once * 3)]
        other = TOPICS.replay_ask("t1", "other")
        await tell(broker, *flood, (other, b"of another"))
        await until(lambda: b"of another" in taken.payloads)
        assert inbox.snapshot()["refused"] == {"too-many": 2 * TOPIC_RATE.at_once}


async def test_l1_a_denied_subscription_holds_that_one_alone_and_is_tried_again(
    broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def may_subscribe(link: MqttLink, topic_filter: str) -> bool:
        return topic_filter not in denied and await allowed(link, topic_filter)

    allowed, denied = MqttLink.may_subscribe, {TOPICS.every_replay_ask("t1")}
    monkeypatch.setattr(MqttLink, "may_subscribe", may_subscribe)
    with capture_logs() as logs:
        async with running(broker, clock=HastyClock()) as (inbox, taken):
            await ready(broker, taken)
            assert inbox.snapshot()["denied"] == [TOPICS.every_replay_ask("t1")]
            denied.clear()
            while b"asked" not in taken.payloads:
                await tell(broker, (REQUESTS, b"asked"))
            assert (inbox.snapshot()["denied"], inbox.snapshot()["links"]) == ([], 1)
    told = [(log["event"], log.get("topic")) for log in logs]
    assert [one for one in told if "denied" in one[0] or "allowed" in one[0]] == [
        ("inbox_denied", TOPICS.every_replay_ask("t1")),
        ("inbox_allowed", TOPICS.every_replay_ask("t1")),
    ]


async def test_l1_a_denied_answer_ends_no_link() -> None:
    with Mosquitto(started=False) as broker:
        site = site_of(broker)
        broker.start()
        inbox = Inbox(site.settings("display"), SystemClock(), Random(1), lambda: "", QUICK)
        running_inbox = asyncio.create_task(inbox.run())
        await until(lambda: bool(inbox.snapshot()["connected"]))
        topic = Topics("house").replay_answer("r1", "display")
        with capture_logs() as logs:
            await inbox.send(topic, b"x")
            await until(lambda: inbox.snapshot()["denied"] == [topic])
            with pytest.raises(LinkError) as caught:
                await inbox.send(topic, b"x")
        assert caught.value.cause is Cause.DENIED
        assert inbox.snapshot()["connected"]
        assert [(log["event"], log["topic"]) for log in logs] == [("answer_denied", topic)]
        running_inbox.cancel()
        await asyncio.wait({running_inbox})


async def test_a_broken_promise_of_a_route_ends_the_inbox(broker: Mosquitto) -> None:
    def broken(_message: Message) -> None:
        raise ZeroDivisionError

    mqtt = MqttSettings((broker.address,), "node-1")
    inbox = Inbox(mqtt, SystemClock(), Random(1), lambda: "", QUICK)
    inbox.add(Route("a", broken))
    await tell(broker, ("a", b"x"), retain=True)
    running_inbox = asyncio.create_task(inbox.run())
    await until(lambda: inbox.snapshot()["refused"] == {"retained": 1})
    await tell(broker, ("a", b"x"))
    with pytest.raises(ZeroDivisionError):
        await running_inbox
