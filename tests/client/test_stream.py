"""The stream over a real broker, with a node that publishes and answers replay requests."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import aiomqtt
import pytest
from tests.client.test_site_trust import file_of
from tests.support.broker import Line, Mosquitto, free_port, listening, until
from tests.support.chains import SITE, ChainMaker, keys, signer

from dollyd.client import (
    ChainError,
    Delivered,
    FileWatermarks,
    GapError,
    MemoryWatermarks,
    NodeState,
    Patience,
    SiteTrust,
    Stream,
    WatermarkStore,
)
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.wire.judgement import Claim, Judgement
from dollyd.wire.record import Kind
from dollyd.wire.topics import Topics

TOPICS = Topics(SITE)
QUICK = Patience(answer_s=0.3, answer_max_s=1.0, gap_s=1.0, ack_s=0.2, quiet_s=1.0)
PATIENT = replace(QUICK, gap_s=30.0, quiet_s=30.0)
CONSUMER = "settlement"


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


def stream_of(
    broker: Mosquitto, store: WatermarkStore, *tables: str, patience: Patience = PATIENT, port: int = 0
) -> Stream:
    mqtt = MqttSettings((f"127.0.0.1:{port or broker.port}",), "replaced", ack_deadline_s=2.0)
    pinned = keys(signer())
    return Stream(mqtt, SITE, CONSUMER, pinned, store, tables, patience=patience, rng=Random(1))


@dataclass(slots=True)
class Node:
    """Publishes records of its chains and answers for them; `lost` are in no journal."""

    client: aiomqtt.Client
    chains: dict[str, ChainMaker] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    problem: str = ""
    asked: list[tuple[int, int]] = field(default_factory=list)

    def begin(self, table: str = "r1", chain: str = "a" * 32) -> ChainMaker:
        self.chains[chain] = ChainMaker(table, chain).begin()
        return self.chains[chain]

    async def publish(self, maker: ChainMaker, first: int, last: int) -> None:
        for entry in maker.entries[first - 1 : last]:
            await self.client.publish(TOPICS.record(maker.table, entry.kind), entry.envelope, qos=1)

    async def keep(self, topic: str, payload: bytes) -> None:
        await self.client.publish(topic, payload, qos=1, retain=True)

    async def answer(self) -> None:
        async for message in self.client.messages:
            assert isinstance(message.payload, bytes)
            asked = json.loads(message.payload)
            first, last = asked["from"], asked["to"]
            self.asked.append((first, last))
            maker = self.chains[asked["chain"]]
            topic = str(message.topic).removesuffix("/ask")
            sent = [entry for entry in maker.entries[first - 1 : last] if entry.seq not in self.lost]
            for entry in sent:
                await self.client.publish(topic, entry.envelope, qos=1)
            end = {"end": asked["id"], "chain": asked["chain"], "from": first, "to": last}
            end |= {"sent": len(sent), "problem": self.problem}
            await self.client.publish(topic, json.dumps(end), qos=1)


@asynccontextmanager
async def node_at(broker: Mosquitto, chains: dict[str, ChainMaker] | None = None) -> AsyncIterator[Node]:
    async with aiomqtt.Client(broker.host, broker.port, identifier="node", max_inflight_messages=0) as client:
        node = Node(client, chains or {})
        await client.subscribe(TOPICS.every_replay_ask("r1"), qos=1)
        await client.subscribe(TOPICS.every_replay_ask("r2"), qos=1)
        answering = asyncio.create_task(node.answer())
        try:
            yield node
        finally:
            while not answering.done():  # the library's wait_for may lose a cancel
                answering.cancel()
                await asyncio.wait({answering}, timeout=0.1)


async def take(stream: Stream, count: int, *, within_s: float = 20.0) -> list[Delivered]:
    """The next records, each done before the one after it is asked for."""
    taken: list[Delivered] = []
    async with asyncio.timeout(within_s):
        while len(taken) < count:
            delivered = await anext(stream)
            await stream.done(delivered)
            taken.append(delivered)
    return taken


def seqs(delivered: list[Delivered]) -> list[int]:
    return [one.record.seq for one in delivered]


async def nothing_more(stream: Stream, for_s: float = 0.3) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(for_s):
            await anext(stream)


async def heard_by(stream: Stream) -> None:
    await until(lambda: stream.broker != "")


# --- the plain case -----------------------------------------------------------------------------------


async def test_records_of_all_tables_come_once_and_the_consumer_is_seen(broker: Mosquitto) -> None:
    store = MemoryWatermarks()
    async with node_at(broker) as node, listening(broker, TOPICS.every_ack()) as acks:
        one, two = node.begin().play(1, 20), node.begin("r2", "b" * 32).play(1, 3)
        async with stream_of(broker, store) as stream:
            await heard_by(stream)
            await node.publish(one, 1, one.seq)
            await node.publish(two, 1, two.seq)
            await node.publish(one, 30, one.seq)  # sent again
            taken = await take(stream, one.seq + two.seq)
            await nothing_more(stream)
        assert seqs([d for d in taken if d.record.table == "r1"]) == list(range(1, one.seq + 1))
        assert [d.envelope for d in taken if d.record.table == "r2"] == two.envelopes
        assert [d.payload["seq"] for d in taken] == [d.record.seq for d in taken]
        topic = TOPICS.ack("r1", CONSUMER)
        await until(lambda: [json.loads(p)["seq"] for p in acks.payloads(topic)][-1:] == [one.seq])
        assert len(acks.payloads(topic)) < 8  # the newest, not each
        assert json.loads(acks.payloads(topic)[-1])["chain"] == one.chain
        assert store.load()[one.chain].seq == one.seq
        assert stream.stats.duplicates == one.seq - 29
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_tables_that_are_not_named_are_not_heard(broker: Mosquitto) -> None:
    async with node_at(broker) as node, stream_of(broker, MemoryWatermarks(), "r2") as stream:
        one, two = node.begin(), node.begin("r2", "b" * 32)
        await heard_by(stream)
        await node.publish(one, 1, 1)
        await node.publish(two, 1, 1)
        assert [d.record.table for d in await take(stream, 1)] == ["r2"]
        await nothing_more(stream)


async def test_a_lost_last_record_is_found_without_waiting_for_the_next(broker: Mosquitto) -> None:
    """The last ones never reach the broker's subscribers; `last` and `checkpoint` tell of them."""
    async with node_at(broker) as node, stream_of(broker, MemoryWatermarks()) as stream:
        played = node.begin().play(1, 4)
        stands = {"reason": "asked", "seq": played.seq, "head": played.prev, "finals": 4}
        played.add(Kind.CHECKPOINT, body=stands)
        await heard_by(stream)
        await node.publish(played, 1, 8)
        assert seqs(await take(stream, 8)) == list(range(1, 9))
        await node.keep(TOPICS.last("r1"), played.envelopes[9])
        assert seqs(await take(stream, 2)) == [9, 10]
        await node.keep(TOPICS.checkpoint("r1"), played.envelopes[-1])
        assert seqs(await take(stream, 4)) == [11, 12, 13, 14]


async def test_a_gap_that_cannot_be_filled_is_raised_and_other_tables_go_on(broker: Mosquitto) -> None:
    async with node_at(broker) as node, stream_of(broker, MemoryWatermarks(), patience=QUICK) as stream:
        one, two = node.begin().play(1, 3), node.begin("r2", "b" * 32).play(1, 3)
        node.lost = frozenset({5})
        await heard_by(stream)
        await node.publish(one, 1, 4)
        await node.publish(one, 6, 8)
        assert seqs(await take(stream, 4)) == [1, 2, 3, 4]
        with pytest.raises(GapError) as caught:
            await take(stream, 1)
        assert (caught.value.table, caught.value.first, caught.value.last) == ("r1", 5, 5)
        assert len(node.asked) >= 2
        await node.publish(two, 1, 1)
        assert [d.record.table for d in await take(stream, 1)] == ["r2"]
        node.lost = frozenset()
        assert seqs(await take(stream, 4)) == [5, 6, 7, 8]


async def test_a_retained_record_is_not_taken_for_one(broker: Mosquitto) -> None:
    async with node_at(broker) as node:
        played = node.begin()
        await node.keep(TOPICS.record("r1", "key"), played.envelopes[0])
        async with stream_of(broker, MemoryWatermarks()) as stream:
            await until(lambda: stream.stats.retained == 1)
            await nothing_more(stream)


async def test_a_fork_is_raised(broker: Mosquitto) -> None:
    async with node_at(broker) as node, stream_of(broker, MemoryWatermarks()) as stream:
        played = node.begin().play(1, 1)
        other = ChainMaker().begin()
        other.add(Kind.ROUND, 7)
        await heard_by(stream)
        await node.publish(played, 1, 3)
        await node.publish(other, 2, 2)
        with pytest.raises(ChainError, match="record 2: two different"):
            await take(stream, 4)


# --- what a broker does -------------------------------------------------------------------------------


async def test_b30_a_full_broker_queue_is_found_and_filled() -> None:
    """Every publish is acknowledged; an absent subscriber gets a tenth of them."""
    with Mosquitto("max_queued_messages 30\nmax_inflight_messages 20") as broker:
        store = MemoryWatermarks()
        async with node_at(broker) as node:
            played = node.begin().play(1, 150)
            async with stream_of(broker, store) as stream:
                await heard_by(stream)
                await node.publish(played, 1, 100)
                await take(stream, 100)
            await node.publish(played, 101, played.seq)
            await node.keep(TOPICS.last("r1"), played.envelopes[-1])
            async with stream_of(broker, store) as stream:
                taken = await take(stream, played.seq - 100)
                assert seqs(taken) == list(range(101, played.seq + 1))
                assert stream.stats.requests > 0
                await nothing_more(stream)


@pytest.mark.parametrize("kept", [True, False], ids=["last-is-kept", "next-record"])
async def test_b31_a_broker_that_lost_its_memory_is_found_out(kept: bool) -> None:
    """It acknowledged, queued for us, and died: session, queue and retained topics are gone."""
    with Mosquitto() as broker:
        store = MemoryWatermarks()
        async with node_at(broker) as node:
            played = node.begin().play(1, 20)
            async with stream_of(broker, store) as stream:
                await heard_by(stream)
                await node.publish(played, 1, 10)
                await take(stream, 10)
            await node.publish(played, 11, 50)
            chains = node.chains
        broker.kill()
        broker.start()
        async with node_at(broker, chains) as node, stream_of(broker, store) as stream:
            if kept:
                await node.keep(TOPICS.last("r1"), played.envelopes[-1])
            else:
                await heard_by(stream)
                await node.publish(played, played.seq, played.seq)
            assert seqs(await take(stream, played.seq - 10)) == list(range(11, played.seq + 1))


async def test_b31_a_broker_killed_while_the_stream_listens(broker: Mosquitto) -> None:
    async with stream_of(broker, MemoryWatermarks()) as stream:
        async with node_at(broker) as node:
            played = node.begin().play(1, 20)
            await heard_by(stream)
            await node.publish(played, 1, 30)
            await take(stream, 30)
            chains = node.chains
            broker.kill()
            await until(lambda: stream.broker == "")
            broker.start()
        async with node_at(broker, chains) as node:
            await heard_by(stream)
            await node.publish(played, 50, played.seq)
            assert seqs(await take(stream, played.seq - 30)) == list(range(31, played.seq + 1))
            assert stream.stats.links == 2


async def test_b32_repeats_and_disorder_on_the_wire(broker: Mosquitto, seed: int) -> None:
    """DUP is 0 on repeats: only chain and number tell them."""
    rng = Random(seed)
    async with node_at(broker) as node, stream_of(broker, MemoryWatermarks()) as stream:
        played = node.begin().play(1, 40)
        await heard_by(stream)
        order = [seq for seq in range(1, played.seq + 1) for _ in range(rng.choice((0, 1, 1, 2)))]
        order.sort(key=lambda seq: seq + rng.uniform(0, 10))
        for seq in (*order, played.seq):
            await node.publish(played, seq, seq)
        assert seqs(await take(stream, played.seq)) == list(range(1, played.seq + 1))
        await nothing_more(stream)


async def test_b34_b35_nodes_over_a_broker(broker: Mosquitto) -> None:
    def status(state: str, session: int, **more: object) -> bytes:
        return json.dumps({"state": state, "node": "n1", "session": session} | more).encode()

    topic = TOPICS.node_status("n1")
    async with node_at(broker) as node:
        long_ago = {"valid_for_s": 30, "valid_until": "2020-01-01T00:00:00.000000000Z"}
        await node.keep(topic, status("online", 3, **long_ago))  # node and broker died together
        async with stream_of(broker, MemoryWatermarks()) as stream:
            assert stream.node("n1") is NodeState.UNKNOWN
            await until(lambda: stream.node("n1") is NodeState.EXPIRED)
            await node.keep(topic, status("online", 4, valid_for_s=30))
            await until(lambda: stream.node("n1") is NodeState.ONLINE)
            await node.keep(topic, status("offline", 3))  # the will of the session before
            await until(lambda: stream.nodes.ignored == 1)
            assert stream.node("n1") is NodeState.ONLINE
            await node.keep(topic, status("offline", 4))
            await until(lambda: stream.node("n1") is NodeState.OFFLINE)


async def test_b36_a_deaf_line_is_found_in_less_than_two_keepalives(broker: Mosquitto) -> None:
    async with Line(broker) as line, node_at(broker) as node:
        played = node.begin().play(1, 10)
        mqtt = MqttSettings(
            (f"127.0.0.1:{line.port}", broker.address), "x", keepalive_s=5, ack_deadline_s=1.0
        )
        patient = replace(PATIENT, quiet_s=60)
        stream = Stream(mqtt, SITE, CONSUMER, keys(signer()), MemoryWatermarks(), patience=patient)
        async with stream:
            await heard_by(stream)
            await node.publish(played, 1, 10)
            await take(stream, 10)
            await asyncio.sleep(QUICK.ack_s * 2)  # the last ack is out: from here on only silence
            line.open.clear()
            deaf_s = time.monotonic()
            await node.publish(played, 11, played.seq)
            taken = await take(stream, played.seq - 10)
            assert time.monotonic() - deaf_s < 2 * mqtt.keepalive_s
            assert seqs(taken) == list(range(11, played.seq + 1))
            await until(lambda: stream.broker == broker.address)
        line.open.set()


async def test_the_next_broker_is_tried_where_no_node_is_heard(broker: Mosquitto) -> None:
    """The first of the list is back; the nodes still use the second."""
    with Mosquitto() as second:
        async with node_at(second) as node:
            played = node.begin()
            nowhere = f"127.0.0.1:{free_port()}"
            mqtt = MqttSettings((nowhere, broker.address, second.address), "x")
            stream = Stream(mqtt, SITE, CONSUMER, keys(signer()), MemoryWatermarks(), patience=QUICK)
            status = json.dumps({"state": "online", "node": "n1", "session": 1, "valid_for_s": 30})
            await node.keep(TOPICS.node_status("n1"), status.encode())
            async with stream:
                await until(lambda: stream.broker == broker.address)
                await until(lambda: stream.broker == second.address)
                await node.publish(played, 1, 1)
                assert seqs(await take(stream, 1)) == [1]


async def test_b25_a_broker_that_sends_nothing_more_is_left_for_a_fresh_session(broker: Mosquitto) -> None:
    """Mosquitto 2.0 was seen to stall a session that it had kept: a line that lives, and nothing on it."""
    async with node_at(broker) as node, stream_of(broker, MemoryWatermarks(), patience=QUICK) as stream:
        await heard_by(stream)
        played = node.begin().play(1, 2)
        await node.publish(played, 1, 2)
        assert seqs(await take(stream, 2)) == [1, 2]
        await until(lambda: stream.stats.links >= 2)
        await node.keep(TOPICS.last("r1"), played.envelopes[-1])
        assert seqs(await take(stream, played.seq - 2)) == list(range(3, played.seq + 1))


async def test_a_restart_goes_on_behind_what_was_done(broker: Mosquitto, tmp_path: Path) -> None:
    path = tmp_path / "marks.json"
    async with node_at(broker) as node:
        played = node.begin().play(1, 10)
        async with stream_of(broker, FileWatermarks(path)) as stream:
            await heard_by(stream)
            await node.publish(played, 1, played.seq)
            assert seqs(await take(stream, 12)) == list(range(1, 13))
            assert (await anext(stream)).record.seq == 13  # taken, and never done
        await node.keep(TOPICS.last("r1"), played.envelopes[-1])
        async with stream_of(broker, FileWatermarks(path)) as stream:
            assert seqs(await take(stream, played.seq - 12)) == list(range(13, played.seq + 1))


async def test_what_goes_wrong_inside_is_raised_and_not_waited_for(broker: Mosquitto) -> None:
    class Broken:
        def judge(self, _claim: Claim, /) -> Judgement:
            raise RuntimeError("the key store is gone")

    async def play() -> None:
        stream = Stream(MqttSettings((broker.address,), "x"), SITE, CONSUMER, Broken(), MemoryWatermarks())
        async with node_at(broker) as node, stream:
            await heard_by(stream)
            await node.publish(node.begin(), 1, 1)
            await take(stream, 1)

    with pytest.raises(RuntimeError, match="gone"):
        await play()


async def test_who_pins_the_root_follows_the_trust_file_that_the_site_retains(broker: Mosquitto) -> None:
    trust = SiteTrust(signer(8).kid, SITE)
    mqtt = MqttSettings((broker.address,), "replaced", ack_deadline_s=2.0)
    stream = Stream(mqtt, SITE, CONSUMER, trust, MemoryWatermarks(), patience=PATIENT, rng=Random(1))
    async with node_at(broker) as node, stream:
        await heard_by(stream)
        maker = node.begin()
        await node.publish(maker, 1, 1)  # by a key that nobody has named yet: asked for again once one has
        await node.keep(TOPICS.trust(), file_of(1, 1))
        maker.play(1, 2)
        await node.publish(maker, 2, maker.seq)
        assert seqs(await take(stream, maker.seq)) == list(range(1, maker.seq + 1))
        await node.keep(TOPICS.trust(), file_of(2, 1, revoked=1))
        await until(lambda: trust.trust is not None and trust.trust.version == 2)
        before = stream.stats.unsigned
        maker.play(3, 3)
        await node.publish(maker, maker.seq, maker.seq)
        await until(lambda: stream.stats.unsigned > before)


async def test_attack_15_nobody_takes_the_session_of_a_consumer(broker: Mosquitto) -> None:
    """A client that says the id by which the consumer could be known, in a loop: nothing is disturbed."""
    async with node_at(broker) as node, stream_of(broker, MemoryWatermarks()) as stream:
        maker = node.begin()
        await heard_by(stream)
        await node.publish(maker, 1, 1)
        await take(stream, 1)
        for _ in range(5):
            thief = aiomqtt.Client(
                broker.host, broker.port, identifier=f"dollyd-{SITE}-{CONSUMER}", timeout=5
            )
            async with thief:
                pass
        maker.play(1, 3)
        await node.publish(maker, 2, len(maker.entries))
        delivered = await take(stream, len(maker.entries) - 1)
        assert [one.record.seq for one in delivered] == list(range(2, len(maker.entries) + 1))
        assert stream.stats.links == 1
