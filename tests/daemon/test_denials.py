"""What the broker denies: that table waits, in order and with nothing skipped; the others go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from structlog.testing import capture_logs
from tests.support.broker import Listener, Mosquitto, listening, until
from tests.support.publishing import (
    TOPICS,
    Journal,
    entries,
    make,
    running,
    settings,
    statuses,
    without_repeats,
)

from dollyd.daemon.link.mqtt import Cause


@contextmanager
def guarded(*allowed: str) -> Iterator[Mosquitto]:
    """A broker where everybody may listen, and publish to some topics."""
    with Mosquitto(started=False) as broker:
        broker.configure(f"acl_file {broker.directory}/acl")
        write_acl(broker, *allowed)
        broker.start()
        yield broker


def write_acl(broker: Mosquitto, *allowed: str) -> None:
    new = broker.directory / "acl.new"  # never half of it: the broker may be reading
    new.write_text("\n".join(("topic read #", *map("topic write {}".format, allowed))))
    new.replace(broker.directory / "acl")


def allow(broker: Mosquitto, *topics: str) -> None:
    write_acl(broker, STATUS, *topics)
    broker.reload()


STATUS = TOPICS.node_status("node-1")
OF_T0, OF_T1 = "dolly/v1/hall/t0/#", "dolly/v1/hall/t1/#"


def of_table(listener: Listener, table: str) -> list[int]:
    return [json.loads(payload)["entry"] for payload in listener.payloads(f"/{table}/record/")]


async def test_l2_a_denied_table_waits_in_order_and_the_others_go_on() -> None:
    with guarded(STATUS, OF_T0) as broker, capture_logs() as logs:
        journal = Journal(newest=30)
        publisher = make(settings(broker.address), journal)
        async with listening(broker, "dolly/#") as listener, running(publisher):
            await until(lambda: len(of_table(listener, "t0")) == 15)
            publisher.notify(journal.append(30))
            publisher.retained.put(TOPICS.state("t1"), b"open")
            publisher.retained.put(TOPICS.state("t0"), b"open")
            await until(lambda: len(of_table(listener, "t0")) == 30)
            await until(lambda: listener.payloads("/t0/state") == [b"open"])
            await until(lambda: TOPICS.state("t1") in publisher.stats.denied)
            await asyncio.sleep(0.5)  # in which it is tried again
            stats = publisher.stats
            assert (stats.links, stats.cursor, stats.queue, stats.repeats) == (1, 0, 60, 0)
            assert TOPICS.record("t1", "bets-closed") in stats.denied
            assert of_table(listener, "t1") == []
            assert statuses(listener) == [("online", 1)]

            allow(broker, OF_T0, OF_T1)
            await until(lambda: journal.kept == 60)
            await until(lambda: listener.payloads("/t1/state") == [b"open"])
            await until(lambda: 59 in of_table(listener, "t1"))
            for table, first in (("t0", 2), ("t1", 1)):
                assert without_repeats(of_table(listener, table)) == list(range(first, 61, 2))
            assert publisher.stats.denied == []
            assert (publisher.stats.links, publisher.stats.repeats) == (1, 0)
            assert len(of_table(listener, "t0")) == 30  # nothing of it again
    told = [(log["event"], log["topic"]) for log in logs if "topic" in log]
    assert len(told) == len(set(told))  # each change once, however often it was tried
    assert ("publish_denied", TOPICS.record("t1", "bets-closed")) in told
    assert ("publish_allowed", TOPICS.record("t1", "bets-closed")) in told


async def test_a_lost_link_sends_nothing_of_the_other_tables_again_for_a_denied_one() -> None:
    with guarded(STATUS, OF_T0) as broker:
        journal = Journal(newest=200)
        publisher = make(settings(broker.address), journal, republish=10)
        async with listening(broker, "dolly/#") as listener, running(publisher):
            await until(lambda: len(of_table(listener, "t0")) == 100)
            broker.kill()
            broker.start()
            await until(lambda: publisher.stats.links == 2)
            await until(lambda: not publisher._outbox.repeating)
            assert publisher.stats.repeats <= 10
        assert journal.kept == 0
        allow(broker, OF_T0, OF_T1)
        async with listening(broker, "dolly/#") as listener, running(make(settings(broker.address), journal)):
            await until(lambda: journal.kept == 200)
            await until(lambda: set(entries(listener)) == set(range(1, 201)))
            assert without_repeats(of_table(listener, "t1")) == list(range(1, 201, 2))


async def test_after_a_restart_the_last_result_of_the_others_does_not_step_through_old_ones() -> None:
    with guarded(STATUS, OF_T0) as broker:
        journal = Journal(newest=900)
        publisher = make(
            settings(broker.address), journal
        )  # as at a start: the cursor is at the denied record
        publisher.notify(journal.entries_after(899, 1))
        async with listening(broker, "dolly/#") as listener, running(publisher):
            await until(lambda: len(of_table(listener, "t0")) == 450)
            await until(lambda: bool(listener.payloads("/t0/last")))
            shown = [json.loads(payload)["entry"] for payload in listener.payloads("/t0/last")]
    assert shown == [max(id_ for id_ in range(2, 901, 2) if id_ % 3 == 2)]


async def test_a_denied_table_does_not_hold_up_a_stop() -> None:
    with guarded(STATUS, OF_T0) as broker:
        journal = Journal(newest=10)
        publisher = make(settings(broker.address), journal)
        async with listening(broker, "dolly/#") as listener, running(publisher) as task:
            await until(lambda: len(of_table(listener, "t0")) == 5)
            await publisher.close(deadline_s=5)
            await asyncio.wait_for(task, 30)
            await until(lambda: statuses(listener)[-1][0] == "offline")


async def test_a_denied_status_is_named_and_tried_again_after_growing_pauses() -> None:
    with guarded(OF_T0) as broker, capture_logs() as logs:
        journal = Journal(newest=2)
        publisher = make(settings(broker.address), journal)
        async with running(publisher):
            await until(lambda: publisher._failures > 3)
        assert publisher.stats.last_error == Cause.DENIED
    (lost,) = [log for log in logs if log["event"] == "broker_lost"]
    assert STATUS in lost["detail"]
    assert journal.kept == 0


async def test_a_long_journal_of_a_denied_table_does_not_stop_the_loop() -> None:
    with guarded(STATUS) as broker:
        journal = Journal(newest=4000)
        publisher = make(settings(broker.address), journal)
        async with running(publisher):
            await until(lambda: len(publisher.stats.denied) > 1)
            before = journal.reads
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert journal.reads - before < 10
            await until(lambda: publisher._outbox.sent == 4000)
    assert journal.kept == 0


async def test_whatever_is_denied_and_when_nothing_is_skipped() -> None:
    rng = Random(5)
    with guarded(STATUS) as broker:
        journal = Journal(newest=50)
        async with listening(broker, "dolly/#") as listener:
            for session in range(1, 4):
                publisher = make(settings(broker.address), journal, session, republish=rng.choice([0, 20]))
                async with running(publisher):
                    for _ in range(6):
                        allow(broker, *(table for table in (OF_T0, OF_T1) if rng.random() < 0.5))
                        publisher.notify(journal.append(rng.randrange(1, 40)))
                        await asyncio.sleep(rng.random() * 0.15)
                await until(lambda: set(range(1, journal.kept + 1)) <= set(entries(listener)))
            allow(broker, OF_T0, OF_T1)
            async with running(make(settings(broker.address), journal, session=9)):
                await until(lambda: journal.kept == journal.newest)
                await until(lambda: set(entries(listener)) == set(range(1, journal.newest + 1)))
