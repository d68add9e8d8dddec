"""Messages that are too long for a broker, or for us: named, counted, and in nobody's way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from tests.support.broker import Listener, Mosquitto, listening, until
from tests.support.publishing import TOPICS, Journal, Record, make, record, running, settings

from dollyd.daemon.link.mqtt import Cause, LinkError, MqttLink

LONG = 9
"""The entry that no broker of these tests takes; it is of table t1."""


class LongJournal(Journal):
    """Its ninth entry is 20 kB long."""

    def append(self, count: int = 1) -> list[Record]:
        return [grown(entry) for entry in super().append(count)]

    def entries_after(self, id_: int, limit: int, /) -> Sequence[Record]:
        return [grown(entry) for entry in super().entries_after(id_, limit)]


_LONG = replace(record(LONG), envelope=b'{"entry":9,"pad":"%s"}' % (b"x" * 20_000))


def grown(entry: Record) -> Record:
    return _LONG if entry.id == LONG else entry


def of_table(listener: Listener, table: str) -> list[int]:
    return [json.loads(payload)["entry"] for payload in listener.payloads(f"/{table}/record/")]


@pytest.fixture(params=["max_packet_size 10000", "message_size_limit 10000"])
def narrow(request: pytest.FixtureRequest) -> Iterator[Mosquitto]:
    """One says its limit at the connect; one ends the link by a reason that the library does not know."""
    with Mosquitto(request.param) as broker:
        yield broker


async def test_n4_a_record_that_the_broker_never_takes_holds_its_table_only(narrow: Mosquitto) -> None:
    journal = LongJournal(newest=60)
    held: list[tuple[str, str]] = []
    publisher = make(settings(narrow.address), journal, on_held=lambda *held_: held.append(held_))
    topic = TOPICS.record("t1", _LONG.kind)
    with capture_logs() as logs:
        async with listening(narrow, "dolly/#") as listener, running(publisher):
            publisher.retained.put(TOPICS.state("t1"), b"open")
            await until(lambda: len(set(of_table(listener, "t0"))) == 30)
            await until(lambda: b"open" in listener.payloads("/t1/state"))
            publisher.notify(journal.append(40))
            await until(lambda: len(set(of_table(listener, "t0"))) == 50)
            await asyncio.sleep(0.6)  # in which it is tried again where a PUBACK can say no
            stats = publisher.stats
            assert max(of_table(listener, "t1")) < 9 + 20  # what was on its way with it, and no more
            assert (stats.connected, stats.cursor, stats.denials) == (True, 8, 1)
            assert stats.denied == [topic]
            assert stats.denied_why[topic].startswith("20020 bytes: ")
            assert stats.links <= 3
            assert Cause.TAKEN_OVER not in stats.lost
    denied = [log for log in logs if log["event"] == "publish_denied"]
    assert [(log["topic"], log["bytes"]) for log in denied] == [(topic, 20020)]
    assert [table for table, _text in held] == ["t1"]
    assert topic in held[0][1]


async def test_n4_what_ended_links_is_tried_again_when_the_broker_may_have_changed(
    narrow: Mosquitto,
) -> None:
    journal = LongJournal(newest=30)
    publisher = make(settings(narrow.address), journal)
    async with running(publisher):
        await until(lambda: publisher.stats.cursor == 8 and publisher.stats.denials == 1)
        narrow.stop()
        narrow.configure()
        narrow.start()
        async with listening(narrow, TOPICS.every_record()) as listener:
            await until(lambda: journal.kept == 30)
            await until(lambda: 29 in of_table(listener, "t1"))
        assert publisher.stats.denied == []
    heard = list(dict.fromkeys(of_table(listener, "t1")))
    assert heard[heard.index(9) :] == list(range(9, 30, 2))


async def test_attack_9_a_trust_file_that_is_too_long_stops_no_record(narrow: Mosquitto) -> None:
    journal = Journal(newest=90)
    publisher = make(settings(narrow.address), journal)
    publisher.retained.put(TOPICS.trust(), b"x" * 20_000)
    publisher.retained.put(TOPICS.state("t0"), b"open")
    async with listening(narrow, "dolly/#") as listener, running(publisher):
        await until(lambda: journal.kept == 90)
        await until(lambda: listener.payloads("/t0/state") == [b"open"])
        await until(lambda: publisher.stats.denied == [TOPICS.trust()])
        links = publisher.stats.links
        assert links <= 3
        publisher.notify(journal.append(10))
        await until(lambda: journal.kept == 100)
        assert publisher.stats.links == links
        assert publisher.stats.denied_why[TOPICS.trust()].startswith("20000 bytes: ")
        assert Cause.TAKEN_OVER not in publisher.stats.lost
        publisher.retained.put(TOPICS.trust(), b"shorter")
        publisher.reconnect()  # as a reload does
        await until(lambda: listener.payloads("/trust") == [b"shorter"])
        await until(lambda: publisher.stats.denied == [])


async def test_attack_14_what_is_longer_than_we_take_stays_at_the_broker() -> None:
    with Mosquitto() as broker:
        mqtt = replace(settings(broker.address), client_id="reader", ack_deadline_s=5)
        sender = replace(mqtt, client_id="sender")
        async with (
            MqttLink(mqtt, broker.address, keep_session=False, packet_max=32 * 1024) as reader,
            MqttLink(sender, broker.address, keep_session=False) as link,
        ):
            await reader.subscribe("x")
            for size in (40_000, 30_000):
                await link.publish("x", b"x" * size)
            assert len((await anext(reader.messages())).payload) == 30_000


async def test_n4_a_message_beyond_the_limit_that_nobody_expected_ends_the_link_by_name() -> None:
    with Mosquitto("max_packet_size 10000") as broker:
        async with MqttLink(settings(broker.address), broker.address) as link:
            assert link.takes_bytes == 10_000
            await link.publish("x", b"x" * 9_900)
            with pytest.raises(LinkError) as caught:
                await link.publish("x", b"x" * 10_000)
    assert caught.value.cause is Cause.DENIED
    assert caught.value.detail == "x: the broker takes 10000 bytes"
