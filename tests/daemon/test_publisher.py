from __future__ import annotations

import asyncio
import itertools
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Literal

import pytest
from structlog.testing import capture_logs
from tests.support.broker import Line, Mosquitto, free_port, listening, until
from tests.support.publishing import (
    TOPICS,
    Journal,
    Record,
    entries,
    make,
    record,
    retained,
    running,
    settings,
    statuses,
    without_repeats,
)

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.link.backoff import Backoff
from dollyd.daemon.link.mqtt import Cause
from dollyd.daemon.link.node_status import Node
from dollyd.daemon.link.publisher import RETAINED_EVERY_S, Publisher
from dollyd.wire.errors import JournalError


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_records_go_out_in_order_byte_for_byte(
    broker: Mosquitto, protocol: Literal["5", "3.1.1"]
) -> None:
    journal = Journal(newest=100)
    publisher = make(replace(settings(broker.address), protocol=protocol), journal)
    async with listening(broker, "dolly/#") as listener, running(publisher):
        await until(lambda: journal.kept == 100)
        for _ in range(100):
            publisher.notify(journal.append())
        await until(lambda: journal.kept == 200)
        await until(lambda: len(entries(listener)) == 200)
        await until(lambda: record(200).envelope in listener.payloads("/t0/last"))
    heard = [heard for heard in listener.heard if "/record/" in heard.topic]
    assert [(one.topic, one.payload) for one in heard] == [
        (TOPICS.record(one.table, one.kind), one.envelope) for one in map(record, range(1, 201))
    ]
    assert publisher.stats.repeats == 0


async def test_the_fast_path_does_not_read_the_journal(broker: Mosquitto) -> None:
    journal = Journal(newest=3)
    publisher = make(settings(broker.address), journal)
    async with running(publisher):
        await until(lambda: journal.kept == 3)
        reads = journal.reads
        for batch in (1, 5, 1):
            publisher.notify(journal.append(batch))
            await until(lambda: journal.kept == journal.newest)
        assert journal.reads == reads
        assert publisher.stats.queue == 0


async def test_a_burst_larger_than_the_window_is_read_from_the_journal(broker: Mosquitto) -> None:
    journal = Journal()
    publisher = make(settings(broker.address), journal)
    async with listening(broker, "dolly/#") as listener, running(publisher):
        await until(lambda: publisher.stats.connected)
        publisher.notify(journal.append(1000))
        await until(lambda: len(entries(listener)) == 1000)
    assert entries(listener) == list(range(1, 1001))


async def test_the_cursor_moves_on_puback_only(broker: Mosquitto) -> None:
    journal = Journal()
    publisher = make(replace(settings(broker.address), ack_deadline_s=5), journal)
    async with running(publisher):
        await until(lambda: publisher.stats.connected)
        broker.pause()
        publisher.notify(journal.append(3))
        await asyncio.sleep(0.2)
        stats = publisher.stats
        assert (journal.kept, stats.queue, stats.waiting_ms >= 150) == (0, 3, True)
        broker.resume()
        await until(lambda: journal.kept == 3)
        assert publisher.stats.waiting_ms == 0


async def test_the_cursor_leaves_no_hole(broker: Mosquitto) -> None:
    journal = Journal()
    publisher = make(replace(settings(broker.address), ack_deadline_s=5), journal)
    async with running(publisher):
        await until(lambda: publisher.stats.connected)
        broker.pause()
        publisher.notify(journal.append(3))
        first, second, third = publisher._outbox.in_flight
        publisher._acknowledged(third)
        publisher._acknowledged(second)
        assert publisher.stats.cursor == 0
        publisher._acknowledged(first)
        assert publisher.stats.cursor == 3
        broker.resume()


async def test_b25_b28_a_frozen_broker_loses_and_reorders_nothing(broker: Mosquitto) -> None:
    journal = Journal()
    publisher = make(settings(broker.address), journal)
    async with listening(broker, "dolly/#") as listener, running(publisher):
        await until(lambda: publisher.stats.connected)
        broker.pause()
        publisher.notify(journal.append(100))  # the window fills
        await until(lambda: publisher.stats.last_error == Cause.UNACKNOWLEDGED)
        assert journal.kept == 0
        broker.resume()
        await until(lambda: journal.kept == 100)
        await until(lambda: 100 in entries(listener))
    assert without_repeats(entries(listener)) == list(range(1, 101))
    assert publisher.stats.repeats == 19


async def test_b31_kills_of_a_broker_with_an_old_memory_lose_nothing() -> None:
    """Killed, it comes back with the sessions of its last save, and without what it acknowledged since."""
    journal = Journal()
    records = TOPICS.every_record()
    with Mosquitto(persistence=True) as broker:
        publisher = make(settings(broker.address), journal)
        async with running(publisher):
            async with listening(broker, records):
                await until(lambda: publisher.stats.connected)
                broker.save()
            for _ in range(3):  # the listener is away, the broker has promised to keep its records
                for new in journal.append(10):
                    publisher.notify([new])
                await until(lambda: journal.kept == journal.newest)
                broker.kill()
                await until(lambda: not publisher.stats.connected)
                publisher.notify(journal.append(5))
                broker.start()
                await until(lambda: journal.kept == journal.newest)
                assert publisher.stats.session_present
            async with listening(broker, records) as listener:
                await until(lambda: len(set(entries(listener))) == 45)
    assert without_repeats(entries(listener)) == list(range(1, 46))


async def test_a_broker_killed_again_and_again_under_load() -> None:
    journal = Journal()
    with Mosquitto(persistence=True) as broker:
        publisher = make(settings(broker.address), journal)
        async with listening(broker, TOPICS.every_record()) as listener, running(publisher):
            await until(lambda: publisher.stats.connected)
            broker.save()
            for end in (broker.kill, broker.stop, broker.kill):
                for _ in range(15):
                    publisher.notify(journal.append())
                    await asyncio.sleep(0.001)
                end()
                publisher.notify(journal.append(5))
                broker.start()
                await until(lambda: journal.kept == journal.newest)
            await until(lambda: len(set(entries(listener))) == 60)
    assert without_repeats(entries(listener)) == list(range(1, 61))


async def test_b31_a_broker_that_forgot_all_is_told_again(broker: Mosquitto) -> None:
    journal = Journal(newest=100)
    publisher = make(settings(broker.address), journal)
    async with running(publisher):
        publisher.retained.put(TOPICS.state("t0"), b"open")
        publisher.retained.put(TOPICS.device("t0", "wheel"), b"ready")
        await until(lambda: journal.kept == 100 and not publisher.retained.waiting)
        broker.kill()
        await until(lambda: not publisher.stats.connected)
        publisher.retained.put(TOPICS.state("t0"), b"closed")
        broker.start()
        async with listening(broker, TOPICS.every_record()) as listener:
            await until(lambda: publisher.stats.connected and publisher.stats.links == 2)
            await until(lambda: publisher.stats.repeats == 50)
            await asyncio.sleep(0.1)
        assert entries(listener)[-1:] == [100]
        assert await retained(broker, TOPICS.state("t0")) == b"closed"
        assert await retained(broker, TOPICS.device("t0", "wheel")) == b"ready"
        assert await retained(broker, TOPICS.last("t0")) == record(98).envelope
        assert await retained(broker, TOPICS.last("t1")) == record(95).envelope
        assert json.loads(await retained(broker, TOPICS.node_status("node-1")))["state"] == "online"


async def test_last_never_steps_back_while_records_are_repeated(broker: Mosquitto) -> None:
    journal = Journal(newest=2000)
    publisher = make(settings(broker.address), journal)
    async with running(publisher):
        await until(lambda: journal.kept == 2000)
        await publisher.close(deadline_s=5)
    again = make(settings(broker.address), journal, session=2, republish=2000)
    async with listening(broker, TOPICS.every_last()) as listener, running(again):
        await until(lambda: again.stats.repeats == 2000)
        await until(lambda: len(listener.heard) >= 4)  # two retained ones, and each published once more
    assert set(listener.payloads()) == {record(1997).envelope, record(2000).envelope}


async def test_last_shows_the_correction_of_its_round_and_of_no_other(broker: Mosquitto) -> None:
    journal = Journal(newest=0)
    publisher = make(settings(broker.address), journal)
    result, void = Record(1, "t1", "result", True, b"result", 7), Record(2, "t1", "void", True, b"void", 8)
    of_before, right = (
        Record(3, "t1", "correction", False, b"of 7", 7),
        Record(4, "t1", "correction", False, b"of 8", 8),
    )
    async with listening(broker, TOPICS.every_last()) as listener, running(publisher):
        await until(lambda: publisher.stats.connected)
        for number, entry in enumerate((result, void, of_before, right), 1):
            publisher.notify([entry])
            await until(lambda wanted=number: journal.kept == wanted)  # type: ignore[misc]  # bound now
            await asyncio.sleep(0.1)  # displays are told a little later
        await until(lambda: len(listener.heard) >= 3)
    assert listener.payloads() == [b"result", b"void", b"of 8"]


async def test_an_intact_broker_gets_no_repeats(broker: Mosquitto) -> None:
    """A line that went dead is no sign of a broker's restart."""
    journal = Journal(newest=30)
    async with Line(broker) as line:
        publisher = make(settings(f"127.0.0.1:{line.port}"), journal)
        async with listening(broker, TOPICS.every_record()) as listener, running(publisher):
            await until(lambda: journal.kept == 30)
            line.open.clear()
            await until(lambda: not publisher.stats.connected)
            line.open.set()
            publisher.notify(journal.append())
            await until(lambda: journal.kept == 31)
    assert entries(listener) == list(range(1, 32))
    assert publisher.stats.repeats == 0


async def test_b36_a_half_open_line_is_found_within_two_keepalives(broker: Mosquitto) -> None:
    journal = Journal()
    async with Line(broker) as line:
        publisher = make(replace(settings(f"127.0.0.1:{line.port}"), keepalive_s=1), journal)
        async with listening(broker, "dolly/#") as listener, running(publisher):
            await until(lambda: publisher.stats.connected)
            line.open.clear()  # nothing is being published: only the heartbeat can notice
            await until(lambda: not publisher.stats.connected, within_s=2)
            publisher.notify(journal.append(20))
            line.open.set()
            await until(lambda: journal.kept == 20)
            await until(lambda: 20 in entries(listener))
    assert without_repeats(entries(listener)) == list(range(1, 21))


async def test_b27_a_long_outage_costs_no_memory_and_few_log_lines() -> None:
    with Mosquitto(started=False) as broker:
        journal = Journal()
        publisher = make(settings(broker.address), journal)
        with capture_logs() as logs:
            async with running(publisher):
                tracemalloc.start()
                for minute in range(300):
                    publisher.notify(journal.append(20))
                    publisher.retained.put(TOPICS.state("t0"), b"%d" % minute)
                    await asyncio.sleep(0.003)
                held_bytes, _peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert held_bytes < 200_000
                stats = publisher.stats
                assert (stats.connected, stats.queue, journal.reads) == (False, 6000, 0)
                assert stats.last_error == Cause.REFUSED
                assert [log["event"] for log in logs] == ["broker_lost"]
                broker.start()
                await until(lambda: journal.kept == 6000)
        assert [log["event"] for log in logs] == ["broker_lost", "broker_connected"]


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_b33_two_with_one_client_id_do_not_flap(
    broker: Mosquitto, protocol: Literal["5", "3.1.1"]
) -> None:
    mqtt = replace(settings(broker.address), protocol=protocol)
    mine, other = make(mqtt, Journal()), make(mqtt, Journal(), session=9)
    with capture_logs() as logs:
        status = TOPICS.every_node_status()
        async with listening(broker, status) as listener, running(mine), running(other):
            await until(lambda: Cause.TAKEN_OVER in {mine.stats.last_error, other.stats.last_error})
            heard = len(listener.heard)
            await asyncio.sleep(1)
            assert len(listener.heard) <= heard + 2
    assert sum(log["log_level"] == "error" for log in logs) == 1


async def test_b34_birth_and_will_carry_the_session_number(broker: Mosquitto) -> None:
    async with listening(broker, TOPICS.every_node_status()) as listener:
        async with running(make(settings(broker.address), Journal(), session=41)) as task:
            await until(lambda: statuses(listener) == [("online", 41)])
            task.cancel()  # without a goodbye
            await until(lambda: statuses(listener)[-1] == ("offline", 41))
        async with running(make(settings(broker.address), Journal(), session=42)):
            await until(lambda: statuses(listener)[-1] == ("online", 42))
            assert await retained(broker, TOPICS.node_status("node-1")) == listener.heard[-1].payload


async def test_b35_online_is_refreshed_and_ends_by_itself(broker: Mosquitto) -> None:
    publisher = make(replace(settings(broker.address), keepalive_s=1), Journal())
    async with listening(broker, TOPICS.every_node_status()) as listener, running(publisher):
        await until(lambda: len(listener.heard) == 2)
        first, second = map(json.loads, listener.payloads())
    assert (first["state"], first["version"], first["valid_for_s"]) == ("online", "1.2.3", 3)
    assert first["time"] < second["time"] < first["valid_until"] < second["valid_until"]
    between = datetime.fromisoformat(second["time"]) - datetime.fromisoformat(first["time"])
    assert timedelta(seconds=0.9) < between < timedelta(seconds=first["valid_for_s"])


async def test_a_changing_state_is_coalesced(broker: Mosquitto) -> None:
    publisher = make(settings(broker.address), Journal())
    topic = TOPICS.state("t0")
    async with listening(broker, topic) as listener, running(publisher):
        await until(lambda: publisher.stats.connected)
        began_s = time.monotonic()
        for number in range(200):
            publisher.retained.put(topic, b"%d" % number)
            await asyncio.sleep(0.001)
        await until(lambda: b"199" in listener.payloads())
    assert len(listener.heard) <= 2 + (time.monotonic() - began_s) / RETAINED_EVERY_S
    assert publisher.stats.retained_coalesced > 0
    assert listener.payloads() == sorted(listener.payloads(), key=int)


async def test_the_second_broker_is_used_while_the_first_is_down(broker: Mosquitto) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    journal = Journal(newest=5)
    publisher = make(settings(nowhere, broker.address), journal)
    async with running(publisher):
        await until(lambda: journal.kept == 5)
        assert publisher.stats.broker == broker.address


async def test_close_flushes_and_says_offline(broker: Mosquitto) -> None:
    journal = Journal()
    publisher = make(settings(broker.address), journal, session=5)
    async with listening(broker, "dolly/#") as listener, running(publisher) as task:
        await until(lambda: publisher.stats.connected)
        publisher.notify(journal.append(300))
        publisher.retained.put(TOPICS.state("t0"), b"closed")
        await publisher.close(deadline_s=5)
        await asyncio.wait_for(task, 30)
        await until(lambda: statuses(listener)[-1] == ("offline", 5))
        assert len(entries(listener)) == journal.kept == 300
        assert listener.payloads("/t0/state") == [b"closed"]
        await asyncio.sleep(0.1)
    assert [state for state, _session in statuses(listener)] == ["online", "offline"]  # and no will


@pytest.mark.parametrize("how", [Mosquitto.pause, Mosquitto.kill])
async def test_close_keeps_its_deadline(broker: Mosquitto, how: Callable[[Mosquitto], None]) -> None:
    journal = Journal()
    publisher = make(settings(broker.address), journal)
    async with running(publisher):
        await until(lambda: publisher.stats.connected)
        how(broker)
        publisher.notify(journal.append(10))
        began_s = asyncio.get_running_loop().time()
        await publisher.close(deadline_s=0.2)
        assert asyncio.get_running_loop().time() - began_s < 5


async def test_a_cursor_that_cannot_be_kept_ends_the_publisher(broker: Mosquitto) -> None:
    journal = Journal(newest=1)
    journal.broken = True
    publisher = make(settings(broker.address), journal)
    with pytest.raises(JournalError):
        await asyncio.wait_for(publisher.run(), 5)


def test_pauses_grow_to_a_cap_and_differ() -> None:
    class Asked(SystemClock):
        def __init__(self) -> None:
            super().__init__()
            self.pauses_s: list[float] = []

        async def sleep_until(self, mono_ns: int) -> None:
            self.pauses_s.append((mono_ns - self.stamp().mono_ns) / 1e9)

    async def pauses(seed: int) -> list[float]:
        clock = Asked()
        node = Node("n", "1", 1)
        publisher = Publisher(settings("b"), TOPICS, node, Journal(), clock, Random(seed), Backoff(1, 8, 60))
        for _ in range(40):
            await publisher._pause(Cause.REFUSED)
        await publisher._pause(Cause.TAKEN_OVER)
        return clock.pauses_s

    one, other = asyncio.run(pauses(1)), asyncio.run(pauses(2))
    for pause_s, longest_s in zip(one, itertools.chain((1, 2, 4), [8] * 37, (60,)), strict=True):
        assert longest_s * 0.45 < pause_s <= longest_s
    assert one != other
