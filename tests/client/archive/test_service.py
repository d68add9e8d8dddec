"""Archives over a real broker: alone and side by side, with a node that publishes and answers for itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from random import Random

import pytest
from tests.client.test_site_trust import file_of
from tests.support.archives import OpenStore, count, holds
from tests.support.broker import Line, Mosquitto, listening, until
from tests.support.chains import SITE, ChainMaker, keys, signer
from tests.support.evenings import House
from tests.support.replaying import TOPICS, node_at
from tools.schemas.evening import UNRESOLVED, Evening

from dollyd.client import SiteTrust
from dollyd.client.archive.service import Archive
from dollyd.client.archive.store import Store, StoreError
from dollyd.client.stream.replay import Patience
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.wire.record import Kind

QUICK = Patience(answer_s=0.5, answer_max_s=1.0, gap_s=10.0)


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto("max_queued_messages 0\n") as running:
        yield running


@asynccontextmanager
async def archive(
    broker: Mosquitto,
    open_store: OpenStore,
    name: str = "archive",
    group: str = "",
    trust: SiteTrust | None = None,
) -> AsyncIterator[Archive]:
    """An instance that has subscribed; it ends with the block, and whatever it holds is lost."""
    mqtt = MqttSettings((broker.address,), "replaced", ack_deadline_s=5.0)
    trusted = trust or keys(signer())
    instance = Archive(mqtt, SITE, name, trusted, open_store, group=group, patience=QUICK, rng=Random(1))
    working = asyncio.create_task(instance.run())
    try:
        await until(lambda: instance._link is not None or working.done())
        yield instance
    finally:
        working.cancel()
        await asyncio.wait({working})
        if not working.cancelled():
            working.result()


async def whole(store: Store, records: int) -> None:
    """Wait until so many records are archived without a hole."""
    await until(lambda: sum(chain.complete_to for chain in store.chains()) == records, 60)


async def test_one_archive_fills_what_was_lost_and_acknowledges_what_is_whole(
    broker: Mosquitto, open_store: OpenStore
) -> None:
    maker = ChainMaker().begin().play(1, 20)
    store = open_store()
    async with node_at(broker, {maker.chain: maker}) as node, archive(broker, open_store) as instance:
        await node.publish([one for seq, one in enumerate(maker.entries, 1) if seq not in {1, 7, 8, 30}])
        await whole(store, 61)
        assert instance.stats.keeps
        async with listening(broker, TOPICS.every_ack(), name="acks") as acks:
            await until(lambda: any(json.loads(one)["seq"] == 61 for one in acks.payloads()))
    assert instance.stats.archived == 61
    assert json.loads(acks.payloads()[-1])["consumer"] == "archive"


async def test_who_pins_the_root_follows_the_trust_file_that_the_site_retains(
    broker: Mosquitto, open_store: OpenStore
) -> None:
    maker = ChainMaker().begin().play(1, 1)
    trust, store = SiteTrust(signer(8).kid, SITE), open_store()
    async with (
        node_at(broker, {maker.chain: maker}) as node,
        archive(broker, open_store, trust=trust) as instance,
    ):
        await node.publish(maker.entries)
        await until(lambda: instance.refused == {"unknown-key": 4})
        await node.keep(TOPICS.trust(), file_of(2, 1))
        await until(lambda: trust.trust is not None)
        maker.play(2, 2)
        await node.publish(maker.entries[4:])
        await whole(store, 7)
        await node.keep(TOPICS.trust(), file_of(3, 1, revoked=1))
        await until(lambda: trust.trust is not None and trust.trust.version == 3)
        await node.keep(TOPICS.trust(), file_of(2, 1))
        await until(lambda: trust.refused == 1)
        maker.play(3, 3)
        await node.publish(maker.entries[7:])
        await until(lambda: instance.refused.get("revoked", 0) >= 3)
        assert count(store, "records") == 7


async def test_the_last_record_is_missed_by_what_the_broker_keeps(
    broker: Mosquitto, open_store: OpenStore
) -> None:
    maker = ChainMaker().begin().play(1, 2)
    store = open_store()
    async with node_at(broker, {maker.chain: maker}) as node:
        await node.keep(TOPICS.last("r1"), maker.envelopes[-1])
        async with archive(broker, open_store):
            await whole(store, 7)


async def test_records_behind_the_last_final_one_are_had_from_the_node(
    broker: Mosquitto, open_store: OpenStore
) -> None:
    """An unresolved round of now, at a table that is blocked: nothing that is retained tells of it."""
    maker = Evening().open().result(1)
    final = maker.envelopes[-1]
    maker.bet(2).say(Kind.UNRESOLVED, 2, UNRESOLVED)
    store = open_store()
    async with node_at(broker, {maker.chain: maker}) as node:
        await node.keep(TOPICS.last("r1"), final)
        async with archive(broker, open_store):
            await whole(store, 8)
    rows = store.query("SELECT round, rule FROM open_rounds")
    assert [tuple(row) for row in rows] == [(2, "data-gap")]


async def test_a_lost_announcement_of_a_key_is_asked_for(broker: Mosquitto, open_store: OpenStore) -> None:
    maker = ChainMaker().begin().play(1, 1)
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(2).jwk, "reason": "yearly"})
    maker.signer = signer(2)
    maker.play(2, 3)
    store = open_store()
    async with node_at(broker, {maker.chain: maker}) as node, archive(broker, open_store) as instance:
        await node.publish([one for one in maker.entries if one.seq != 5])
        await whole(store, len(maker.entries))
    assert instance.refused["unknown-key"] > 0


async def test_what_is_not_signed_or_out_of_place_is_not_archived(
    broker: Mosquitto, open_store: OpenStore
) -> None:
    maker, stranger = ChainMaker().begin().play(1, 1), ChainMaker(chain="b" * 32, by=signer(3)).begin()
    forged = maker.envelopes[1].replace(b'"signature":"', b'"signature":"AAAA', 1)[:-6] + b'"}'
    async with node_at(broker, {maker.chain: maker}) as node, archive(broker, open_store) as instance:
        for payload in (b"{", forged, maker.envelopes[2], stranger.envelopes[0]):
            await node.say(TOPICS.record("r1", "key"), payload)
        await node.publish(maker.entries[:1])
        await until(lambda: instance.stats.archived == 1)
    assert instance.refused.keys() == {"no-record", "misplaced", "unknown-key"}


async def test_what_a_crash_loses_between_broker_and_data_base_is_a_hole_that_is_filled(
    broker: Mosquitto, open_store: OpenStore
) -> None:
    """The broker thinks that it has delivered these: nobody but the chain knows that they are missing."""
    maker = ChainMaker().begin().play(1, 100)
    store = open_store()

    class Stuck(Exception):  # noqa: N818
        pass

    def crash() -> Store:
        stuck = open_store()

        def insert(*_: object) -> int:
            raise Stuck

        stuck.insert = insert  # type: ignore[method-assign,assignment]  # a power cut in the transaction
        return stuck

    async with node_at(broker, {maker.chain: maker}) as node:
        with suppress(Stuck):
            async with archive(broker, crash, group="books"):
                await node.publish(maker.entries[:200])
                await asyncio.sleep(0.2)
        assert count(store, "records") == 0
        async with archive(broker, open_store, group="books"):
            await node.publish(maker.entries[200:])
            await whole(store, 301)
        assert node.asked


async def test_a_data_base_that_goes_away_is_waited_for(
    broker: Mosquitto, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dollyd.client.archive.service.STORE_PAUSE_S", 0.05)
    maker = ChainMaker().begin().play(1, 5)
    store, failures = open_store(), 0

    def refuse() -> Store:
        nonlocal failures
        if failures < 4:
            failures += 1
            raise StoreError("the server is starting up")
        return open_store()

    async with node_at(broker, {maker.chain: maker}) as node, archive(broker, refuse):
        await node.publish(maker.entries)
        await whole(store, 16)
    assert failures == 4


async def test_two_instances_share_the_stream_and_one_keeps(
    broker: Mosquitto, open_store: OpenStore, seed: int
) -> None:
    """Doubled, out of order, with holes; one of the two is ended in between and comes back."""
    rng = Random(seed)
    house = House(rng).play(900, rounds=30)
    entries = [entry for maker in house.chains.values() for entry in maker.entries]
    heard = [entry for entry in entries if rng.random() > 0.05] + rng.sample(entries, len(entries) // 5)
    for first in range(0, len(heard), 50):
        heard[first : first + 50] = rng.sample(heard[first : first + 50], len(heard[first : first + 50]))
    half = len(heard) // 2
    store = open_store()
    makers = {maker.chain: maker for maker in house.chains.values()}
    async with node_at(broker, makers) as node, archive(broker, open_store, "two", "books") as two:
        async with archive(broker, open_store, "one", "books") as one:
            await node.publish(heard[:half])
            await until(lambda: min(one.stats.archived, two.stats.archived) > 0)
        async with archive(broker, open_store, "one", "books") as again:
            await node.publish(heard[half:])
            for maker in makers.values():  # the last one may be among the lost
                await node.keep(TOPICS.last(maker.table), maker.envelopes[-1])
            await whole(store, len(entries))
            assert [instance.stats.keeps for instance in (two, again)].count(True) == 1
    assert [name for name, right in holds(store, house).items() if not right] == []


async def test_an_archive_ends_also_where_the_library_has_lost_what_cancelled_it(
    broker: Mosquitto, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, lost = asyncio.Event(), list[str]()

    async def acknowledge(*_: object) -> None:
        begun.set()
        if not lost:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                lost.append("as asyncio.wait_for of Python 3.11 does where an answer comes at the same time")

    monkeypatch.setattr(Archive, "_acknowledge", acknowledge)
    maker = ChainMaker().begin().play(1, 2)
    async with node_at(broker, {maker.chain: maker}) as node, archive(broker, open_store):
        await node.publish(maker.entries)
        await asyncio.wait_for(begun.wait(), 60)
    assert lost


async def test_n5_an_archive_goes_where_the_nodes_are_heard_and_comes_back_to_its_broker(
    broker: Mosquitto, open_store: OpenStore
) -> None:
    """Two brokers that do not know each other: the nodes speak at the second."""
    maker = ChainMaker().begin().play(1, 3)  # what the node has; an archive that listens asks for all of it
    store, patience = open_store(), replace(QUICK, quiet_s=2.0)
    async with Line(broker) as line, node_at(broker, {maker.chain: maker}) as node:
        with Mosquitto() as quiet:
            status = {"state": "online", "node": "node-1", "session": 1, "valid_for_s": 60}
            await node.keep(TOPICS.node_status("node-1"), json.dumps(status).encode())
            mqtt = MqttSettings((quiet.address, f"127.0.0.1:{line.port}"), "replaced", ack_deadline_s=5.0)
            instance = Archive(
                mqtt, SITE, "archive", keys(signer()), open_store, patience=patience, rng=Random(1)
            )
            working = asyncio.create_task(instance.run())
            await until(lambda: instance.stats.links == 2 and instance._link is not None)
            await node.publish(maker.entries[:10])
            await whole(store, 10)
            line.cut()  # once; it is there again at once
            await until(lambda: instance.stats.links == 3 and instance._link is not None)
            maker.play(4, 5)
            await node.publish(maker.entries[10:])
            await whole(store, maker.seq)
            working.cancel()
            await asyncio.wait({working})
            assert instance.stats.links == 3, "the other broker is not tried"
