from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import aiomqtt
import pytest
from tests.support.broker import Mosquitto, listening, until
from tests.support.chains import ChainMaker

from dollyd.daemon.consumers.replay import (
    RECORDS_A_REQUEST,
    RECORDS_A_TURN,
    RECORDS_PER_S,
    WAITING_A_TABLE,
    ReplayService,
)
from dollyd.daemon.consumers.turns import WAITING_MAX
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.journal.store import Entry, Journal
from dollyd.daemon.link.inbox import Inbox
from dollyd.daemon.link.mqtt import Cause, LinkError, Message, MqttSettings
from dollyd.daemon.link.node_status import Node
from dollyd.daemon.link.publisher import Publisher
from dollyd.wire.errors import JournalError
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_S, Stamp
from dollyd.wire.topics import Topics

TOPICS = Topics("house")
CHAIN = "a" * 32
RECORDS = 1201


class JumpingClock(SystemClock):
    """Time that goes as far as it is waited for, and no further."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0

    def stamp(self) -> Stamp:
        return Stamp(self.now_ns, self.now_ns)

    async def sleep_until(self, mono_ns: int) -> None:
        self.now_ns = max(self.now_ns, mono_ns)
        await asyncio.sleep(0)


class Line:
    """What was sent, and a link that can break."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.breaks_after = -1
        self.denied = ""

    async def send(self, topic: str, payload: bytes, correlation: bytes) -> None:
        if len(self.sent) == self.breaks_after:
            self.breaks_after = -1
            raise LinkError(Cause.CLOSED)
        if topic == self.denied:
            raise LinkError(Cause.DENIED, topic)
        self.sent.append((topic, payload, correlation))

    def ends(self) -> list[dict[str, Any]]:
        return [json.loads(payload) for _, payload, _ in self.sent if b'"end"' in payload]

    def records(self, topic: str = "") -> list[bytes]:
        return [payload for where, payload, _ in self.sent if b'"end"' not in payload and topic in where]


@pytest.fixture(scope="module")
def maker() -> ChainMaker:
    return ChainMaker("r1", CHAIN).begin().play(1, (RECORDS - 1) // 3)


@pytest.fixture
def journal(tmp_path: Path, maker: ChainMaker) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "journal.db")
    opened.append(maker.entries)
    opened.append(ChainMaker("r2", "b" * 32).begin().entries)
    yield opened
    opened.close()


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
async def service(journal: Journal, line: Line, clock: JumpingClock) -> AsyncIterator[ReplayService]:
    service = ReplayService(["r1", "r2"], TOPICS, journal, line.send, clock)
    task = asyncio.create_task(service.run())
    yield service
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


def request(first: int = 1, last: int = 10, **changes: Any) -> bytes:
    members = {"chain": CHAIN, "from": first, "to": last, "id": "q1"} | changes
    return json.dumps({key: value for key, value in members.items() if value is not None}).encode()


def ask(
    service: ReplayService,
    payload: bytes,
    *,
    table: str = "r1",
    consumer: str = "settlement",
    response_topic: str = "",
    correlation: bytes = b"",
) -> None:
    topic = TOPICS.every_replay_ask(table).replace("+", consumer)
    route = next(route for route in service.routes() if route.topic_filter == TOPICS.every_replay_ask(table))
    route.take(Message(topic, payload, False, response_topic, correlation))


async def test_records_come_verbatim_in_order_and_with_an_end(
    service: ReplayService, line: Line, maker: ChainMaker
) -> None:
    ask(service, request(5, 134), correlation=b"c")
    await until(lambda: bool(line.ends()))
    assert line.records() == maker.envelopes[4:134]
    assert line.ends() == [{"end": "q1", "chain": CHAIN, "from": 5, "to": 134, "sent": 130, "problem": ""}]
    assert {(topic, correlation) for topic, _, correlation in line.sent} == {
        (TOPICS.replay_answer("r1", "settlement"), b"c")
    }
    assert service.snapshot() == {"sent": 130, "waiting": 0, "requests": {"answered": 1}}


@pytest.mark.parametrize(
    ("first", "last", "chain", "sent", "problem"),
    [
        (1, 1, CHAIN, 1, ""),
        (1, RECORDS, CHAIN, RECORDS_A_REQUEST, ""),
        (RECORDS, RECORDS, CHAIN, 1, ""),
        (RECORDS - 1, RECORDS + 1, CHAIN, 2, "beyond-the-end"),
        (RECORDS + 1, RECORDS + 1, CHAIN, 0, "beyond-the-end"),
        (1, 1, "c" * 32, 0, "unknown-chain"),
        (1, 1, "b" * 32, 0, "unknown-chain"),  # of another table
    ],
)
async def test_the_end_says_how_far_it_went(
    service: ReplayService, line: Line, first: int, last: int, chain: str, sent: int, problem: str
) -> None:
    ask(service, request(first, last, chain=chain))
    await until(lambda: bool(line.ends()))
    assert [(end["sent"], end["problem"]) for end in line.ends()] == [(sent, problem)]
    assert len(line.records()) == sent


async def test_what_retention_took_is_told(
    service: ReplayService, line: Line, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "pruned_upto", lambda _chain: 7)
    ask(service, request(5, 9))
    ask(service, request(8, 9), consumer="other")
    ask(service, request(1, 7), consumer="third")
    await until(lambda: len(line.ends()) == 3)
    ends = {end["from"]: (end["sent"], end["problem"]) for end in line.ends()}
    assert ends == {5: (2, "pruned"), 8: (2, ""), 1: (0, "pruned")}, "what is kept of a range is sent"


async def test_b44_damaged_old_records_are_told_and_stop_neither_the_service_nor_the_others(
    service: ReplayService, line: Line, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(chain: str, first: int, last: int) -> Iterator[Entry]:
        if first <= 130 <= last:
            raise JournalError("journal.db: cannot be read: database disk image is malformed")
        return whole(chain, first, last)

    whole = journal.entries
    monkeypatch.setattr(journal, "entries", read)
    ask(service, request(1, 200))
    ask(service, request(140, 160), consumer="other")
    await until(lambda: len(line.ends()) == 2)
    ends = {end["from"]: (end["sent"], end["problem"]) for end in line.ends()}
    assert ends == {1: (199, "unreadable"), 140: (21, "")}


@pytest.mark.parametrize(
    "payload",
    [
        request(surprise=1),
        request(0, 5),
        request(1, 2**53),
        request(1, 5.5),  # type: ignore[arg-type]  # that is the point
        request("1", 5),  # type: ignore[arg-type]  # that is the point
        request(True, 5),
        request(to=None),
        request(chain=""),
        request(chain="c" * 65),
        b'{"id":"q1"}',
    ],
)
async def test_a_bad_request_is_told_to_its_sender(
    service: ReplayService, line: Line, payload: bytes
) -> None:
    ask(service, payload, response_topic=TOPICS.last("r1"))
    await until(lambda: bool(line.ends()))
    ((topic, _, _),) = line.sent
    assert topic == TOPICS.replay_answer("r1", "settlement")
    assert (line.ends()[0]["end"], line.ends()[0]["problem"]) == ("q1", "bad-request")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"\xff",
        b"null",
        request() + b"x",
        request(id=17),
        request(consumer="settlement"),
    ],
)
async def test_what_is_no_request_is_told_to_its_sender(
    service: ReplayService, line: Line, payload: bytes
) -> None:
    ask(service, payload)
    await until(lambda: bool(line.ends()))
    assert line.ends()[0]["problem"] == "bad-request"
    assert line.sent[0][0] == TOPICS.replay_answer("r1", "settlement")


@pytest.mark.parametrize("name", ["", "UPPER", "x" * 41])
async def test_who_cannot_be_answered_is_counted(service: ReplayService, line: Line, name: str) -> None:
    ask(service, request(), consumer=name)
    ask(service, request())
    await until(lambda: bool(line.ends()))
    assert service.snapshot()["requests"] == {"nobody-to-answer": 1, "answered": 1}
    assert len(line.ends()) == 1


async def test_a_response_topic_may_name_where_answers_go_anyhow(service: ReplayService, line: Line) -> None:
    topic = TOPICS.replay_answer("r1", "settlement")
    ask(service, request(), response_topic=topic)
    await until(lambda: bool(line.ends()))
    assert line.ends()[0]["problem"] == ""
    assert {where for where, _, _ in line.sent} == {topic}


@pytest.mark.parametrize(
    "topic",
    [
        TOPICS.record("r1", "result"),
        TOPICS.last("r1"),
        TOPICS.state("r1"),
        TOPICS.command("r1"),
        TOPICS.command_reply("r1"),
        TOPICS.replay_ask("r1", "settlement"),
        TOPICS.replay_answer("r1", "settlement-2"),
        TOPICS.ack("r1", "settlement"),
        TOPICS.checkpoint("r1"),
        TOPICS.trust(),
        TOPICS.node_keys("node-1"),
        TOPICS.replay_answer("r2", "settlement"),
        TOPICS.replay_answer("r1", "settlement") + "/x",
        "dolly/v1/house/r1/replay/",
        "dolly/v1/house/r1/replay/+",
        "dolly/v1/house/r1/replay/#",
        "dolly/v1/other/r1/replay/settlement",
        "x/" + TOPICS.replay_answer("r1", "settlement"),
        "$SYS/broker",
        "anything",
        "/",
    ],
)
async def test_nobody_can_have_records_published_elsewhere(
    service: ReplayService, line: Line, topic: str
) -> None:
    ask(service, request(), response_topic=topic)
    await until(lambda: bool(line.ends()))
    ((where, _, _),) = line.sent
    assert where == TOPICS.replay_answer("r1", "settlement")
    assert line.ends()[0]["problem"] == "bad-request"


async def test_one_request_of_a_consumer_and_table_at_a_time(service: ReplayService, line: Line) -> None:
    ask(service, request(1, 100))
    ask(service, request(1, 100))  # the same once more is no other request
    ask(service, request(1, 50, id="q2"))
    ask(service, request(1, 1, id="q3", chain="b" * 32), table="r2")
    await until(lambda: len(line.ends()) == 3)
    assert {end["end"]: (end["sent"], end["problem"]) for end in line.ends()} == {
        "q1": (100, ""),
        "q2": (0, "busy"),
        "q3": (1, ""),
    }
    assert service.snapshot()["requests"] == {"repeated": 1, "busy": 1, "answered": 2}
    ask(service, request(1, 50, id="q2"))
    await until(lambda: len(line.ends()) == 4)
    assert line.ends()[-1]["problem"] == ""


async def test_consumers_take_turns(service: ReplayService, line: Line) -> None:
    ask(service, request(1, RECORDS_A_REQUEST), consumer="greedy")
    ask(service, request(1, 1, chain="b" * 32), table="r2", consumer="greedy")
    ask(service, request(1, RECORDS_A_TURN, id="q2"), consumer="modest")
    await until(lambda: len(line.ends()) == 3)
    assert [end["sent"] for end in line.ends()] == [RECORDS_A_TURN, 1, RECORDS_A_REQUEST]
    at = next(number for number, (_, payload, _) in enumerate(line.sent) if b'"end"' in payload)
    assert at == 2 * RECORDS_A_TURN


async def test_a_node_sends_so_many_records_a_second(
    service: ReplayService, line: Line, clock: JumpingClock
) -> None:
    for consumer in ("one", "two"):
        ask(service, request(1, 600), consumer=consumer)
    await until(lambda: len(line.ends()) == 2)
    least_s = (1200 - RECORDS_A_TURN) / RECORDS_PER_S
    assert least_s <= clock.now_ns / NS_PER_S <= least_s * 1.2


async def test_attack_8_one_consumer_that_floods_takes_its_own_share_only(
    service: ReplayService, line: Line, clock: JumpingClock
) -> None:
    """Requests for 1,000 records each, again and again, for every table; a fresh consumer wants 1,000."""
    ask(service, request(1, 1000, id="fresh"), consumer="fresh")
    answer = TOPICS.replay_answer("r1", "fresh")
    while not any(b'"end":"fresh"' in payload for _, payload, _ in line.sent[-60:]):
        for number in range(50):
            ask(service, request(1, 1000, id=f"g{clock.now_ns}-{number}"), consumer="greedy")
            ask(service, request(1, 1, chain="b" * 32, id=f"h{number}"), table="r2", consumer="greedy")
        await asyncio.sleep(0)
    assert len(line.records(answer)) == 1000
    assert clock.now_ns / NS_PER_S <= 2.5 * 1000 / RECORDS_PER_S, "half of what the node sends, at least"
    assert service.snapshot()["waiting"] <= 2 * WAITING_A_TABLE


async def test_attack_8_too_many_consumers_are_dropped_and_counted(
    service: ReplayService, line: Line
) -> None:
    for number in range(WAITING_MAX + 50):
        ask(service, request(1, 1), consumer=f"c{number}")
    await until(lambda: len(line.ends()) == WAITING_MAX)
    assert service.snapshot()["requests"] == {"dropped": 50, "answered": WAITING_MAX}


async def test_l1_an_answer_that_the_broker_denies_ends_those_of_its_consumer_only(
    service: ReplayService, line: Line
) -> None:
    line.denied = TOPICS.replay_answer("r1", "stranger")
    ask(service, request(1, 500), consumer="stranger")
    ask(service, request(1, 500), consumer="settlement")
    await until(lambda: bool(line.ends()))
    assert (line.ends()[0]["sent"], line.ends()[0]["problem"]) == (500, "")
    assert service.snapshot()["requests"] == {"denied": 1, "answered": 1}


async def test_a_lost_link_ends_the_answers_and_not_the_service(service: ReplayService, line: Line) -> None:
    line.breaks_after = 10
    ask(service, request(1, 100))
    await until(lambda: service.snapshot()["requests"] == {"link-lost": 1})
    ask(service, request(1, 100, id="q2"))
    await until(lambda: bool(line.ends()))
    assert (line.ends()[0]["end"], line.ends()[0]["sent"]) == ("q2", 100)


class _Source:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def entries_after(self, id_: int, limit: int, /) -> list[Entry]:
        return self._journal.entries_after(id_, limit)

    def cursor(self) -> int:
        return self._journal.cursor("publisher")

    def set_cursor(self, id_: int, /) -> None:
        self._journal.set_cursor("publisher", id_)


@asynccontextmanager
async def node(broker: Mosquitto, journal: Journal) -> AsyncIterator[None]:
    """A publisher, and an inbox with replays."""
    mqtt, clock, rng = MqttSettings((broker.address,), "node-1"), SystemClock(), Random(1)
    publisher = Publisher(mqtt, TOPICS, Node("node-1", "0", 1), _Source(journal), clock, rng)
    inbox = Inbox(mqtt, clock, rng, publisher.broker_in_use)
    service = ReplayService(["r1"], TOPICS, journal, inbox.send, clock)
    for route in service.routes():
        inbox.add(route)
    tasks = [asyncio.create_task(run) for run in (publisher.run(), inbox.run(), service.run())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_b30_what_a_full_broker_queue_dropped_comes_by_replay(tmp_path: Path) -> None:
    maker = ChainMaker("r1", CHAIN).begin()
    for number in range(1499):
        maker.add(Kind.INCIDENT, body={"what": str(number)})
    journal = Journal.open(tmp_path / "journal.db")
    journal.append(maker.entries)
    with Mosquitto("max_queued_messages 1000\nmax_inflight_messages 20") as broker:
        away = aiomqtt.Client(broker.host, broker.port, identifier="settlement", clean_session=False)
        async with away:
            await away.subscribe("dolly/#", qos=1)
        async with node(broker, journal):
            await until(lambda: journal.cursor("publisher") == 1500, 20)  # each one acknowledged
            async with listening(broker, "dolly/#", name="settlement") as listener:
                await until(lambda: len(listener.heard) >= 1000)  # one of them the status of the node
                await asyncio.sleep(0.2)
                heard = listener.payloads("/record/")
                assert len(heard) < 1100
                seqs = {json.loads(parse_envelope(envelope).payload)["seq"] for envelope in heard}
                missing = sorted(set(range(1, 1501)) - seqs)
                asked = request(missing[0], missing[-1])
                async with aiomqtt.Client(broker.host, broker.port, identifier="asker") as client:
                    await client.publish(TOPICS.replay_ask("r1", "settlement"), asked, qos=1)
                answers = TOPICS.replay_answer("r1", "settlement")
                await until(lambda: any(b'"end"' in payload for payload in listener.payloads(answers)), 20)
                _, *records, end = listener.payloads(answers)  # the first one is the question
    journal.close()
    assert json.loads(end)["problem"] == ""
    assert records == maker.envelopes[missing[0] - 1 : missing[-1]]
    assert set(heard) | set(records) == set(maker.envelopes)
