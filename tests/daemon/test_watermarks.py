from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from dollyd.daemon.consumers.watermarks import (
    CAUGHT_UP,
    CONSUMERS_MAX,
    INCIDENT_EVERY_S,
    LAGS,
    SHOWN_MAX,
    Limits,
    Watermarks,
)
from dollyd.daemon.journal.store import Entry
from dollyd.daemon.link.mqtt import Message
from dollyd.simulators.clock import VirtualClock
from dollyd.wire.record import IncidentBody
from dollyd.wire.stamp import NS_PER_S
from dollyd.wire.topics import Topics

TOPICS = Topics("house")
OLD, NOW = "a" * 32, "b" * 32
LIMITS = Limits(records=100, seconds=30)


class Node:
    """Watermarks of tables `r1` (two chains) and `r2`, looked at once a second of virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.seq = 1000
        self.incidents: list[tuple[str, IncidentBody]] = []
        self.marks = Watermarks(
            {"r1": {OLD: 50, NOW: self.seq}, "r2": {"c" * 32: 10}},
            TOPICS,
            LIMITS,
            self.clock,
            lambda table, body: self.incidents.append((table, body)),
        )

    @property
    def said(self) -> list[str]:
        return [body.what for _, body in self.incidents]

    def play(self, records: int = 1) -> None:
        self.seq += records
        self.marks.written([Entry(1, "r1", NOW, self.seq, "round", 0, False, b"")])

    def wait(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.clock.advance(NS_PER_S)
            self.marks.look()

    def ack(self, seq: int, consumer: str = "settlement", chain: str = NOW, table: str = "r1") -> None:
        self.hear(
            TOPICS.ack(table, consumer), {"consumer": consumer, "chain": chain, "seq": seq, "time": "now"}
        )

    def hear(self, topic: str, ack: dict[str, Any] | bytes) -> None:
        payload = ack if isinstance(ack, bytes) else json.dumps(ack).encode()
        table = topic.split("/")[3]
        route = next(r for r in self.marks.routes() if r.topic_filter == TOPICS.every_ack(table))
        route.take(Message(topic, payload, True, "", b""))

    def shown(self) -> dict[str, Any]:
        snapshot = self.marks.snapshot()
        return {f"{one['table']}/{one['consumer']}": one for one in snapshot["consumers"]}


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_consumer_is_known_from_its_ack_on(node: Node) -> None:
    assert node.marks.snapshot() == {"known": 0, "lagging": 0, "consumers": [], "refused": {}}
    node.ack(990)
    node.wait(5)
    assert node.shown()["r1/settlement"] == {
        "table": "r1",
        "consumer": "settlement",
        "chain": NOW,
        "seq": 990,
        "lag_records": 10,
        "lag_s": 5,
        "lags": False,
    }
    node.ack(1000)
    assert node.shown()["r1/settlement"]["lag_s"] == 0
    assert node.incidents == []


def test_a_lag_in_records_is_an_incident_once_and_its_end_another(node: Node) -> None:
    node.ack(1000)
    with capture_logs() as logs:
        node.play(100)
        node.wait()
        assert node.said == []
        node.play()
        node.wait(3)
        assert node.said == [LAGS]
        table, body = node.incidents[0]
        assert table == "r1"
        assert body.details == {
            "consumer": "settlement",
            "chain": NOW,
            "seq": "1000",
            "lag_records": "101",
            "lag_s": "1",
        }
        assert node.marks.snapshot()["lagging"] == 1
        node.ack(1001)  # below the limit is not caught up
        node.wait(INCIDENT_EVERY_S)
        assert node.said == [LAGS]
        node.ack(1101)
        node.wait()
        assert node.said == [LAGS, CAUGHT_UP]
    assert [log["event"] for log in logs] == ["settlement_lags", "settlement_caught_up"]
    node.wait(INCIDENT_EVERY_S * 2)
    assert node.said == [LAGS, CAUGHT_UP]


def test_a_lag_in_time_is_one_too(node: Node) -> None:
    node.ack(1000)
    node.play()
    node.wait(LIMITS.seconds + 1)
    assert node.said == []
    node.wait()
    assert node.said == [LAGS]
    assert node.incidents[0][1].details["lag_records"] == "1"


def test_who_is_always_a_little_behind_does_not_lag(node: Node) -> None:
    for _ in range(LIMITS.seconds * 5):
        node.play(2)
        node.ack(node.seq - 4)
        node.wait()
    assert node.said == []
    assert node.shown()["r1/settlement"]["lag_records"] == 4


def test_the_records_of_later_chains_are_behind_too(node: Node) -> None:
    node.ack(40, chain=OLD)
    assert node.shown()["r1/settlement"]["lag_records"] == 10 + 1000
    node.ack(1000)
    assert node.shown()["r1/settlement"]["lag_records"] == 0
    node.marks.written([Entry(1, "r1", "d" * 32, 1, "key", 0, False, b"")])  # a third chain
    assert node.shown()["r1/settlement"]["lag_records"] == 1
    node.ack(1, chain="d" * 32)
    assert node.shown()["r1/settlement"]["lag_records"] == 0


GOOD = {"consumer": "settlement", "chain": NOW, "seq": 1000, "time": "now"}


@pytest.mark.parametrize(
    ("why", "ack"),
    [
        ("unknown-chain", GOOD | {"chain": "f" * 32}),
        ("unknown-chain", GOOD | {"chain": "c" * 32}),  # of another table
        ("beyond-the-end", GOOD | {"seq": 1001}),
        ("bad", GOOD | {"consumer": "other"}),
        ("bad", GOOD | {"surprise": 1}),
        ("bad", GOOD | {"seq": -1}),
        ("bad", GOOD | {"seq": "1000"}),
        ("bad", GOOD | {"chain": "f" * 65}),
        ("bad", b"[]"),
        ("bad", b"\xff"),
    ],
)
def test_what_cannot_be_is_counted_and_ignored(node: Node, why: str, ack: dict[str, Any] | bytes) -> None:
    node.ack(900)
    node.hear(TOPICS.ack("r1", "settlement"), ack)
    assert node.marks.snapshot()["refused"] == {why: 1}
    assert node.shown()["r1/settlement"]["seq"] == 900


def test_a_name_that_no_topic_has_is_refused(node: Node) -> None:
    node.hear("dolly/v1/house/r1/ack/UPPER", GOOD | {"consumer": "UPPER"})
    assert node.marks.snapshot()["refused"] == {"bad": 1}


def test_consumers_are_bounded_and_the_slowest_are_shown(node: Node) -> None:
    for number in range(CONSUMERS_MAX + 1):
        node.ack(1000 - number, f"c{number}")
    node.ack(1000, "c1")  # a known one goes on
    snapshot = node.marks.snapshot()
    assert snapshot["known"] == CONSUMERS_MAX
    assert snapshot["refused"] == {"too-many-consumers": 1}
    assert len(snapshot["consumers"]) == SHOWN_MAX
    assert snapshot["consumers"][0]["consumer"] == f"c{CONSUMERS_MAX - 1}"
    node.ack(10, table="r2", chain="c" * 32)
    assert node.marks.snapshot()["known"] == CONSUMERS_MAX + 1


def test_an_empty_ack_makes_a_consumer_unknown(node: Node) -> None:
    node.ack(1)
    node.hear(TOPICS.ack("r1", "settlement"), b"")
    node.wait(LIMITS.seconds * 2)
    assert (node.marks.snapshot()["known"], node.said) == (0, [])


def test_nobody_fills_a_chain_with_lags(node: Node) -> None:
    for _ in range(300):
        for number in range(5):
            node.ack(0, f"c{number}")
        node.wait()
        for number in range(5):
            node.hear(TOPICS.ack("r1", f"c{number}"), b"")
    assert 1 < len(node.said) <= 300 / INCIDENT_EVERY_S + 1
