"""The positions of a publisher, without a broker: any links, any losses, any denials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.publishing import record

from dollyd.daemon.link.broker_memory import STATUSES_KEPT, BrokerMemory, Verdict
from dollyd.daemon.link.node_status import Node
from dollyd.daemon.link.outbox import Outbox, Sent

WINDOW = 500


def carry(outbox: Outbox, newest: int, publishes: int) -> list[int]:
    """A link that is cut after so many publishes, the last ones unacknowledged; gives what went."""
    went: list[int] = []
    while len(went) < publishes and outbox.sent < newest:
        sent = outbox.take(record(outbox.sent + 1))
        assert sent is not None
        went.append(sent.entry.id)
        if len(went) <= publishes - 2:
            outbox.acknowledge(sent)
    return went


@pytest.mark.parametrize("publishes", [3, 10, 400])
@pytest.mark.parametrize("proof", [True, False])
def test_f3_a_backlog_drains_over_links_of_any_length(publishes: int, proof: bool) -> None:
    """Also where the broker never shows that it has what it acknowledged."""
    outbox = Outbox(cursor=1000, window=WINDOW)
    outbox.newest = newest = 2800
    links = sent = 0
    while outbox.cursor < newest - 2:
        outbox.begin(outbox.position if proof and links else None)
        sent += len(carry(outbox, newest, publishes))
        outbox.end()
        links += 1
        assert links < 20 + WINDOW + (1 if proof else 3) * 1800 / (publishes - 2)
    assert outbox.repeats <= (WINDOW if proof else 1800 * 3) + 2 * links
    assert outbox.publishes == sent


def test_f3_a_link_that_lives_gets_the_whole_window_again() -> None:
    outbox = Outbox(cursor=1000, window=WINDOW)
    for _ in range(12):
        outbox.begin(None)
        carry(outbox, 5000, 3)
        outbox.end()
    for _ in range(12):
        outbox.begin(None)
        carry(outbox, 50_000, 1100)
        outbox.end()
    assert outbox.begin(None) == WINDOW


def test_f3_a_broker_that_forgot_gets_the_window_and_one_that_knows_gets_what_it_lacks() -> None:
    outbox = Outbox(cursor=1000, window=WINDOW)
    assert outbox.begin(None) == WINDOW
    carry(outbox, 1600, 1200)
    outbox.end()
    assert outbox.begin(outbox.position) == 0
    assert outbox.begin(outbox.reached - 20) == 20
    assert outbox.begin(3) == WINDOW  # a broker that saves once an hour: a bound all the same


@dataclass(frozen=True)
class Broker:
    """A broker of the test: what it has, in the order in which it came."""

    has: list[int]
    denies: set[str]


@given(st.integers(0, 2**32))
def test_whatever_ends_links_and_whatever_is_denied_nothing_is_passed_over(seed: int) -> None:
    rng = Random(seed)
    outbox, broker = Outbox(cursor=0, window=rng.choice([0, 5, 50])), Broker([], set())
    newest = 0
    for _ in range(rng.randrange(1, 12)):
        newest += rng.randrange(30)
        before = outbox.cursor
        outbox.begin(outbox.position if rng.random() < 0.5 else None)
        broker.denies.clear()
        broker.denies.update(table for table in ("t0", "t1") if rng.random() < 0.3)
        _run(outbox, broker, newest, rng)
        outbox.end()
        assert outbox.cursor >= before
        assert set(range(1, outbox.cursor + 1)) <= set(broker.has)
    broker.denies.clear()
    outbox.begin(None)
    _run(outbox, broker, newest, Random(1), cut=False)
    assert outbox.cursor == newest
    for table in (0, 1):
        first_time = list(dict.fromkeys(id_ for id_ in broker.has if id_ % 2 == table))
        assert first_time == sorted(first_time)


def _run(outbox: Outbox, broker: Broker, newest: int, rng: Random, *, cut: bool = True) -> None:
    """One link: some entries, and what waits, until it is cut."""
    left = rng.randrange(60) if cut else 10_000
    for table in list(outbox.held):
        left = _catch_up(outbox, broker, table, newest, left)
    while left > 0 and outbox.sent < newest:
        left -= 1
        sent = outbox.take(record(outbox.sent + 1))
        if sent is not None:
            _answer(outbox, broker, sent)
    if outbox.sent == newest:
        outbox.unread = False
        outbox.look_for_end()


def _answer(outbox: Outbox, broker: Broker, sent: Sent) -> None:
    if sent.entry.table in broker.denies:
        outbox.deny(sent)
    else:
        broker.has.append(sent.entry.id)
        outbox.acknowledge(sent)


def _catch_up(outbox: Outbox, broker: Broker, table: str, newest: int, left: int) -> int:
    first = outbox.held[table]
    while first <= newest and outbox.behind(record(first)):
        if left == 0 or table in broker.denies:
            return left
        left -= 1
        if record(first).table == table:
            broker.has.append(first)
        assert outbox.caught_up(table, first, first)
        first += 1
    outbox.release(table)
    return left


def test_l2_a_table_that_is_denied_from_an_older_record_on_waits_for_that_one() -> None:
    outbox = Outbox(cursor=0, window=0)
    outbox.hold(record(7))
    outbox.hold(record(3))
    assert not outbox.caught_up("t1", 7, 7)
    assert outbox.held == {"t1": 3}


# --- what a broker shows of its memory -----------------------------------------------------------


def statuses(session: int, count: int) -> Iterable[bytes]:
    node = Node("node-1", "1", session)
    return [node.status("online", utc_ns, 10) for utc_ns in range(count)]


def test_f3_our_own_status_says_what_the_broker_has() -> None:
    memory = BrokerMemory(session=7)
    will, *beats = statuses(7, 3)
    memory.said(will, 10)
    memory.said(beats[0], 50)
    memory.said(will, 80)
    assert memory.judge(will) == Verdict(known=80)
    assert memory.judge(beats[0]) == Verdict(known=50)
    assert memory.judge(beats[1]) == memory.judge(None) == memory.judge(b"{") == Verdict()


@pytest.mark.parametrize(
    ("session", "state", "rival"),
    [(6, "online", 6), (8, "online", 8), (8, "offline", 8), (6, "offline", 0), (7, "online", 0)],
)
def test_f4_another_life_at_work_is_the_proof_and_an_old_will_is_none(
    session: int, state: str, rival: int
) -> None:
    status = Node("node-1", "1", session).status("online" if state == "online" else "offline", 5, 10)
    assert BrokerMemory(session=7).judge(status).rival == rival


def test_what_is_remembered_is_bounded() -> None:
    memory = BrokerMemory(session=7)
    for number, status in enumerate(statuses(7, STATUSES_KEPT + 1)):
        memory.said(status, number)
    assert len(memory._positions) == STATUSES_KEPT
