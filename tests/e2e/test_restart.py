"""Ends and beginnings: of the daemon, of the broker, and of both."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.broker import Mosquitto, listening, until
from tests.support.daemon import (
    STOP_S,
    Consumer,
    Daemon,
    Installation,
    dollyd,
    finals_by_round,
    journaled,
    numbers,
    verified,
)
from tests.support.simulated_table import SimulatedTable, playing


async def test_a_restart_in_mid_round_ends_that_round_without_a_number(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    closed = len(consumer.of("bets-closed"))
    await until(lambda: len(consumer.of("bets-closed")) > closed, 20)
    spinning = consumer.of("bets-closed")[-1].round
    began_s = time.monotonic()
    assert await daemon.stop() == 0
    assert time.monotonic() - began_s < STOP_S
    assert not [r for r in journaled(installation) if r.round == spinning and r.kind == "result"]
    daemon.start()
    await daemon.started()
    await until(lambda: bool(consumer.of("result")) and consumer.of("result")[-1].round > spinning, 30)
    course = [
        (record.kind, record.body.get("rule"))
        for record in consumer.records
        if record.round == spinning and record.kind != "incident"  # devices are heard again
    ]
    assert course == [
        ("round", None),
        ("bets-closed", None),
        ("unresolved", "restart-in-mid-round"),
        ("void", "unrecoverable"),
    ]
    assert "daemon-down" in [gap.body["cause"] for gap in consumer.of("gap")]
    assert await daemon.stop() == 0
    finals = finals_by_round(journaled(installation))
    assert all(len(kinds) == 1 for kinds in finals.values())
    assert verified(installation)["rounds"] == len(finals)


async def test_b29_what_was_journaled_while_the_broker_was_down_survives_a_kill(
    broker: Mosquitto, installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    broker.kill()
    told = len(consumer.records)
    await until(lambda: len(journaled(installation)) >= told + 8, 20)
    daemon.kill()
    table.end_play()
    consumer.listener.connected.clear()
    broker.start()
    await until(consumer.listener.connected.is_set)
    daemon.start()
    await until(lambda: len(consumer.records) >= len(journaled(installation)) > told + 8, 20)
    assert await daemon.stop() == 0
    assert [r.envelope for r in consumer.records] == [r.envelope for r in journaled(installation)]
    verified(installation)


async def test_t61_a_long_outage_of_the_broker_costs_no_record(
    broker: Mosquitto, installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    broker.stop()
    games = len(table.completed)
    await until(lambda: len(table.completed) >= games + 6, 20)
    consumer.listener.connected.clear()
    broker.start()
    await until(lambda: len(numbers(consumer.records)) >= games + 6, 40)
    table.end_play()
    assert numbers(consumer.records) == table.numbers[: len(numbers(consumer.records))]
    assert daemon.running
    assert len(daemon.logged("broker_lost")) == 1
    assert await daemon.stop() == 0
    assert [r.envelope for r in consumer.records] == [r.envelope for r in journaled(installation)]


async def test_b31_a_broker_that_forgot_what_it_acknowledged_gets_it_again(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer, broker: Mosquitto
) -> None:
    await playing(table, consumer)
    broker.kill()  # without persistence: everything is gone, the retained topics too
    broker.start()
    async with listening(broker, "dolly/#", name="late") as late:
        newcomer = Consumer(late)
        await until(lambda: len(newcomer.of("result")) >= 2, 20)
        await until(lambda: newcomer.status("wheel") == "ready")
    assert newcomer.records[0].seq == 1


async def test_two_daemons_never_share_a_journal(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    second = dollyd("run", "--config", installation.config)
    assert second.returncode == 78
    (line,) = second.stderr.splitlines()
    assert str(installation.config) in line
    assert "journal.path" in line
    assert "another dollyd" in line
    await playing(table, consumer)
    assert await daemon.stop() == 0
    assert verified(installation)["ok"]


async def test_a_stop_before_the_broker_was_ever_there_is_quick_too(
    tmp_path: Path, broker: Mosquitto, installation: Installation
) -> None:
    broker.kill()
    with Daemon(installation) as daemon:
        await daemon.started()
        began_s = time.monotonic()
        assert await daemon.stop() == 0
        assert time.monotonic() - began_s < STOP_S
