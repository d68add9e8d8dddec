"""Orders of people among floods of anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.support.chains import signer
from tests.support.commands import BOSS, DEALER, order, trust
from tests.support.desk import TOPICS, at_desk

from dollyd.daemon.commands.admission import (
    ORDERS_RATE,
    REPEATS_RATE,
    SIGNATURES_OF_A_KEY,
    STRANGERS_MAX,
    WAITING_MAX,
    Admission,
)
from dollyd.daemon.link.mqtt import Message
from dollyd.simulators.clock import VirtualClock
from dollyd.wire.stamp import NS_PER_S, iso_utc

TOPIC = TOPICS.command("r1")


def message(payload: bytes, *, retain: bool = False) -> Message:
    return Message(TOPIC, payload, retain, "", b"")


def forged(number: int) -> bytes:
    """What has the form of a command and the `kid` of the dealer, and nobody's signature."""
    envelope = json.loads(DEALER.sign(order("void", later_by(number))))
    other = json.loads(replace(DEALER, key=signer(77)).sign(order("void", later_by(number))))
    return json.dumps(envelope | {"signature": other["signature"]}, separators=(",", ":")).encode()


def later_by(number: int) -> str:
    return iso_utc(VirtualClock().stamp().utc_ns + number)


async def test_attack_16_garbage_crowds_out_no_order(tmp_path: Path) -> None:
    async with at_desk(tmp_path) as bench:
        for number in range(5000):
            bench.put(b"garbage %d" % number)
        bench.put(DEALER.sign(order("void", bench.now())))
        for number in range(5000):
            bench.put(b"more %d" % number)
        assert [one.who for one in bench.desk._waiting][:2] == [DEALER.id, ""]
        bench._awaited = 1 + STRANGERS_MAX
        await bench.idle()
        assert bench.sent[0][1]["answer"] == "done", "it did not wait behind what came before"
        assert bench.desk.snapshot()["done"] == 1


async def test_attack_16_forged_orders_crowd_out_nobody_else(tmp_path: Path) -> None:
    other = replace(DEALER, id="d2", key=signer(55))
    async with at_desk(tmp_path) as bench:
        bench.trust = trust(DEALER, other)
        for number in range(SIGNATURES_OF_A_KEY.at_once + 50):
            bench.put(forged(number))
        bench.put(other.sign(order("void", bench.now())))
        bench._awaited = 1 + STRANGERS_MAX
        await bench.idle()
        assert bench.sent[0][1]["answer"] == "done"
        bench.clock.advance(NS_PER_S)  # and the person whose name was used is heard in the next moment
        bench.put(DEALER.sign(order("close", bench.now())))
        assert DEALER.id in [one.who for one in bench.desk._waiting]


def test_attack_16_orders_of_one_person_leave_room_for_those_of_another() -> None:
    clock = VirtualClock()
    waiting = Admission(trust, clock)
    said = [waiting.take("r1", message(DEALER.sign(order("void", later_by(n))))) for n in range(50)]
    assert said == [""] * ORDERS_RATE.at_once + ["too-many-of-one"] * (50 - ORDERS_RATE.at_once)
    assert waiting.take("r1", message(BOSS.sign(order("void", later_by(0), role=BOSS.role)))) == ""


def test_attack_16_what_somebody_recorded_and_repeats_takes_nothing_of_its_person() -> None:
    clock = VirtualClock()
    waiting = Admission(trust, clock)
    recorded = message(DEALER.sign(order("void", later_by(0))))
    taken = [waiting.take("r1", recorded) for _ in range(1000)]
    assert taken == [""] * REPEATS_RATE.at_once + ["too-many-of-one"] * (1000 - REPEATS_RATE.at_once)
    assert waiting.take("r1", message(DEALER.sign(order("void", later_by(1))))) == ""
    clock.advance(61 * NS_PER_S)  # past its life it is nobody's order
    while len(waiting):
        waiting.pop()
    assert waiting.take("r1", recorded) == ""
    assert [one.who for one in waiting] == [""]


def test_where_too_many_orders_wait_the_busiest_person_loses_the_last() -> None:
    clock = VirtualClock()
    people = [replace(DEALER, id=f"d{n}", key=signer(100 + n)) for n in range(8)]
    waiting = Admission(lambda: trust(*people), clock)
    said = [
        waiting.take("r1", message(one.sign(order("void", later_by(n)))))
        for one in people[:6]
        for n in range(ORDERS_RATE.at_once)
    ]
    assert said.count("queue-full") == 6 * ORDERS_RATE.at_once - WAITING_MAX
    assert waiting.take("r1", message(people[7].sign(order("void", later_by(0))))) == "queue-full"
    assert [one.who for one in waiting][-1] == "d7"
    assert len(waiting) == WAITING_MAX


def test_what_nobody_signed_waits_in_a_short_queue_and_goes_last() -> None:
    clock = VirtualClock()
    waiting = Admission(trust, clock)
    stranger = replace(DEALER, id="x", key=signer(99))
    assert waiting.take("r1", message(stranger.sign(order("void", later_by(0))))) == ""
    assert waiting.take("r1", message(DEALER.sign(order("void", later_by(0))), retain=True)) == ""
    assert waiting.take("r1", message(DEALER.sign(order("void", later_by(0))))) == ""
    assert [waiting.pop().who for _ in range(3)] == [DEALER.id, "", ""]
