"""A table in play, from the bytes on the line to the records at a subscriber."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.broker import Listener, Mosquitto, listening, until
from tests.support.daemon import (
    NODE,
    TOPICS,
    Consumer,
    Daemon,
    Installation,
    finals_by_round,
    journaled,
    numbers,
    told,
    verified,
)
from tests.support.simulated_table import SimulatedTable, playing

GAMES = 5
STATE_KEYS = {
    "table",
    "time",
    "game",
    "variant",
    "phase",
    "round",
    "mode",
    "chain",
    "results",
    "manual_results",
    "blocked",
    "reload_waits",
    "devices",
    "last",
}
DEVICE_KEYS = {"device", "time", "driver", "role", "status", "cause", "identity", "frames", "link"}
HEALTH_KEYS = {
    "time",
    "clock",
    "writer",
    "journal",
    "publisher",
    "loop",
    "memory",
    "devices",
    "certificates",
    "services",
    "drops",
}
WHEEL_IDENTITY = {"firmware", "banner", "pockets", "game_modes", "mode", "status_output"}
ALWAYS_HARMLESS = {TOPICS.last("r1"), TOPICS.node_status(NODE), TOPICS.node_keys(NODE)}


async def test_b55_every_completed_game_becomes_one_result(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer, GAMES)
    table.end_play()
    results = consumer.of("result")
    assert numbers(results) == table.numbers[: len(results)]
    assert [result.round for result in results] == list(range(1, len(results) + 1))
    assert [result.body["odds"]["table"] for result in results[:3]] == [1, 2, 1]
    drawn = {draw.nonce: draw for draw in table.box.drawn}
    for result in results:
        odds, draw = result.body["odds"], drawn[result.body["odds"]["nonce"]]
        assert (odds["table"], odds["counter"]) == (draw.table, draw.counter)
        assert draw.game == f"{result.round:04}"
    course = [record.kind for record in consumer.records if record.round == 1]
    assert course == ["round", "bets-closed", "result"]
    assert [record.kind for record in consumer.records][:2] == ["key", "session"]
    assert await daemon.stop() == 0
    journal = journaled(installation)
    assert [record.envelope for record in consumer.records] == [record.envelope for record in journal]
    assert all(len(kinds) == 1 for kinds in finals_by_round(journal).values())
    assert verified(installation)["captures"] >= GAMES


async def test_the_retained_topics_tell_a_late_comer_everything(
    broker: Mosquitto, table: SimulatedTable, daemon: Daemon, consumer: Consumer, installation: Installation
) -> None:
    await playing(table, consumer, 2)
    table.end_play()  # in the middle of a game or not: the last final record stays what it is
    await until(lambda: consumer.status("wheel") == "stale")
    await until(lambda: bool(consumer.latest(TOPICS.node_health(NODE))))
    async with listening(broker, "dolly/#", name="late") as late:
        await until(lambda: {heard.topic for heard in late.heard} >= set(retained_topics()))
    assert all(heard.retain for heard in late.heard)
    payloads = {heard.topic: heard.payload for heard in late.heard}
    assert not [topic for topic in payloads if "/record/" in topic]
    finals = consumer.of("result", "void")
    assert payloads[TOPICS.last("r1")] == finals[-1].envelope
    state = json.loads(payloads[TOPICS.state("r1")])
    shown = [(entry["round"], entry["pocket"]) for entry in state["last"]]
    results = consumer.of("result")
    assert shown == [(result.round, result.body["outcome"]["pocket"]) for result in results]
    assert json.loads(payloads[TOPICS.node_keys(NODE)]) == json.loads(installation.jwks.read_text())
    status = json.loads(payloads[TOPICS.node_status(NODE)])
    assert (status["state"], status["node"], status["session"]) == ("online", NODE, 1)
    health = json.loads(payloads[TOPICS.node_health(NODE)])
    assert health["publisher"]["connected"]
    wheel = json.loads(payloads[TOPICS.device("r1", "wheel")])
    assert wheel["identity"]["pockets"] == "37"
    assert await daemon.stop() == 0
    await until(lambda: consumer.latest(TOPICS.node_status(NODE)).get("state") == "offline")


def retained_topics() -> tuple[str, ...]:
    return (
        TOPICS.last("r1"),
        TOPICS.state("r1"),
        TOPICS.device("r1", "wheel"),
        TOPICS.device("r1", "odds"),
        TOPICS.node_status(NODE),
        TOPICS.node_health(NODE),
        TOPICS.node_keys(NODE),
    )


async def test_nothing_that_predicts_a_draw_is_on_any_topic(
    table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer, 3)
    check_nothing_predictive(consumer.listener)


def check_nothing_predictive(listener: Listener) -> None:
    """Whatever is told before "no more bets" of a round is one of the things allowed, and no more."""
    results = 0
    for heard in listener.heard:
        if "/record/" in heard.topic:
            record = told(heard.payload)
            if record.kind in ("round", "bets-closed"):
                assert set(record.body) <= {"game_ref", "opened", "by", "closed"}, record.body
            results += record.kind == "result"
        elif heard.topic == TOPICS.state("r1"):
            state = json.loads(heard.payload)
            assert set(state) == STATE_KEYS
            # A game that is not over is not in the list, and the record came first.
            assert [entry["round"] for entry in state["last"]] == list(range(1, len(state["last"]) + 1))
            assert len(state["last"]) <= results
        elif "/device/" in heard.topic:
            device = json.loads(heard.payload)
            assert set(device) == DEVICE_KEYS
            assert all(type(count) is int for count in device["frames"].values())
            if device["device"] == "wheel":
                assert set(device["identity"]) <= WHEEL_IDENTITY
        elif heard.topic == TOPICS.node_health(NODE):
            assert set(json.loads(heard.payload)) == HEALTH_KEYS
        else:
            assert heard.topic in ALWAYS_HARMLESS
    assert results


async def test_no_number_is_shown_before_its_record_is_durable(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    with closing(sqlite3.connect(installation.journal, isolation_level=None)) as disk:
        disk.execute("BEGIN IMMEDIATE")  # a disk that does not answer: nothing can be committed
        durable = {record.seq for record in journaled(installation)}
        played = len(table.completed)
        await until(lambda: len(table.completed) >= played + 2, 10)
        assert {record.seq for record in consumer.records} <= durable
        assert len(shown(consumer)) <= len(consumer.of("result"))
        disk.execute("ROLLBACK")
    await until(lambda: len(consumer.of("result")) >= played + 2, 20)
    results = consumer.of("result")
    assert numbers(results) == table.numbers[: len(results)]  # and the devices were read all the time
    await until(lambda: len(shown(consumer)) >= len(results))


def shown(consumer: Consumer) -> list[Any]:
    return list(consumer.latest(TOPICS.state("r1"))["last"])


async def test_the_hold_time_of_the_profile_is_kept(
    broker: Mosquitto, consumer: Consumer, tmp_path: Path
) -> None:
    installation = Installation(tmp_path, broker.address, variant="C", hold_ms=60)
    async with SimulatedTable(tmp_path, period_ms=60) as table:
        with Daemon(installation) as daemon:
            await daemon.started()
            table.play()
            await until(lambda: len(consumer.of("result")) >= 2, 20)
    for result in consumer.of("result"):
        times = result.body["evidence"]["times"]
        held_ns = times["confirmed"]["monotonic_ns"] - times["at_rest"]["monotonic_ns"]
        assert held_ns >= 60_000_000
        assert result.time["monotonic_ns"] >= times["at_rest"]["monotonic_ns"] + 60_000_000
