"""SIGHUP: another configuration while tables play; only what changed is touched, and no round."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator

import pytest
from tests.support.broker import Mosquitto, listening, until
from tests.support.daemon import (
    TABLE,
    TOPICS,
    Consumer,
    Daemon,
    Installation,
    finals_by_round,
    journaled,
    numbers,
    verified,
)
from tests.support.simulated_table import SimulatedTable, playing

PLAY_S = 30


def hang_up(daemon: Daemon) -> None:
    os.kill(daemon.pid, signal.SIGHUP)


async def played(consumer: Consumer, table: str = "r1", rounds: int = 1) -> None:
    """Wait for so many more results of a table."""

    def results() -> int:
        return sum(record.table == table for record in consumer.of("result"))

    wanted = results() + rounds
    await until(lambda: results() >= wanted, PLAY_S)


async def in_mid_round(consumer: Consumer) -> int:
    closed = len(consumer.of("bets-closed"))
    await until(lambda: len(consumer.of("bets-closed")) > closed, PLAY_S)
    return consumer.of("bets-closed")[-1].round


def opens(consumer: Consumer, device: str, table: str = "r1") -> int:
    return int(consumer.latest(TOPICS.device(table, device))["link"]["opens"])


@pytest.fixture
async def second(installation: Installation) -> AsyncIterator[SimulatedTable]:
    """The devices of another table, which is not in the configuration yet."""
    async with SimulatedTable(installation.directory, "r2") as simulated:
        yield simulated


def nothing_lost(installation: Installation, table: SimulatedTable) -> None:
    """No game without its result, no round with two; no time without a record; the chain is whole.

    A wheel that is opened anew in mid-game, or shows its last one still, gives no number of it: that is told.
    """
    records = [record for record in journaled(installation) if record.table == "r1"]
    fallen, played_on = numbers(records), iter(table.numbers)
    assert all(number in played_on for number in fallen), "in order, and none twice"
    gaps = [record.body["cause"] for record in records if record.kind == "gap"]
    assert fallen == table.numbers[: len(fallen)] or gaps
    assert all(kinds == ["result"] for kinds in finals_by_round(records).values())
    assert set(gaps) <= {"no-round-open"}
    assert not [record for record in records if record.kind == "unresolved"]
    verified(installation)


async def test_a_change_of_a_device_waits_for_the_end_of_the_round_and_touches_no_other(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer, 1)
    odds_opens = opens(consumer, "odds")
    await in_mid_round(consumer)
    installation.reconfigure("silence_ms = 3000", "silence_ms = 3500")
    hang_up(daemon)
    rounds: list[str] = []

    def waits_for_a_round() -> bool:  # it may wait for the disk before
        rounds.extend(re.findall(r"round (\d+) has not ended", "\n".join(daemon.logged("reload_waits"))))
        return bool(rounds)

    await until(waits_for_a_round)
    await until(lambda: consumer.latest(TOPICS.state("r1"))["reload_waits"] is True)
    spinning = int(rounds[-1])
    await until(lambda: bool(daemon.logged("table_reloaded")), PLAY_S)
    await played(consumer, rounds=2)
    (incident,) = [one for one in consumer.of("incident") if one.body["what"] == "reconfigured"]
    assert incident.body["text"].endswith("devices: wheel")
    before, after = (
        [r.round for r in consumer.of("result") if (r.seq > incident.seq) is later] for later in (False, True)
    )
    assert before[-1] == spinning
    assert after[0] == spinning + 1
    await until(lambda: consumer.latest(TOPICS.state("r1"))["reload_waits"] is False)
    assert opens(consumer, "odds") == odds_opens
    assert len(consumer.of("session")) == 1
    table.end_play()
    assert await daemon.stop() == 0
    nothing_lost(installation, table)


async def test_other_terms_close_the_session_and_open_another_without_a_gap(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer, 1)
    installation.reconfigure("maximum = 100000", "maximum = 200000")
    hang_up(daemon)
    await until(lambda: len(consumer.of("session")) == 3, PLAY_S)
    await played(consumer, rounds=2)
    opened, closed, again = consumer.of("session")
    assert [one.body["event"] for one in (opened, closed, again)] == ["opened", "closed", "opened"]
    assert [one.body["stakes"]["maximum"] for one in (closed, again)] == [100_000, 200_000]
    assert again.seq == closed.seq + 1
    assert consumer.of("result")[-1].body["stakes"]["maximum"] == 200_000
    assert opens(consumer, "wheel") == 1
    table.end_play()
    assert await daemon.stop() == 0
    nothing_lost(installation, table)


async def test_a_table_comes_goes_and_comes_back_while_another_plays(
    installation: Installation,
    table: SimulatedTable,
    second: SimulatedTable,
    daemon: Daemon,
    consumer: Consumer,
) -> None:
    await playing(table, consumer, 1)
    alone = installation.config.read_text()
    section = TABLE.format(
        table="r2", variant="A", directory=installation.directory, period_ms=200, silence_ms=3000
    )
    installation.config.write_text(alone + section)
    hang_up(daemon)
    await until(lambda: bool(daemon.logged("table_reloaded")))
    await until(second.wheel_port.host_is_there)
    second.play()
    await played(consumer, "r2", 2)
    installation.config.write_text(alone)
    hang_up(daemon)
    await until(lambda: len(daemon.logged("table_reloaded")) == 2, PLAY_S)
    # A wheel that goes dark before it has counted its game comes back as another one.
    told = sum(record.table == "r2" for record in consumer.of("result"))
    await until(lambda: len(second.completed) >= told, PLAY_S)
    second.end_play()
    await until(lambda: consumer.listener.payloads(TOPICS.state("r2"))[-1] == b"")
    installation.config.write_text(alone + section)
    hang_up(daemon)
    await until(lambda: len(daemon.logged("table_reloaded")) == 3)
    # Without power a wheel begins to count from 1 again: heard from game 2 on it may be another one.
    await until(second.wheel_port.host_is_there)
    second.play()
    await played(consumer, "r2")
    await played(consumer)
    table.end_play()
    second.end_play()
    assert await daemon.stop() == 0
    nothing_lost(installation, table)
    records = [record for record in journaled(installation) if record.table == "r2"]
    assert len({record.chain for record in records}) == 1
    events = [record.body["event"] for record in records if record.kind == "session"]
    assert events == ["opened", "closed", "opened"]
    assert all(len(kinds) == 1 for kinds in finals_by_round(records).values())


MISTAKES = {
    "unknown-key": ("silence_ms = 3000", "silence_ms = 3500\nsilence = 1", "tables.r1.devices.wheel.silence"),
    "site": ('site = "house"', 'site = "mansion"', "site"),
    "node": ('node = "box1"', 'node = "box2"', "node"),
    "journal": ("journal.db", "other.db", "journal.path"),
    "key": ("signing.pem", "lost.pem", "signing.key"),
    "no-path": ("[mqtt]", '[mqtt]\npassword_file = "a\\u0000b"', "mqtt.password_file"),
    "long-path": ("[mqtt]", f'[mqtt]\nca_file = "{"x" * 300}"', "mqtt.ca_file"),
}


async def test_of_a_configuration_with_a_mistake_nothing_is_taken(
    installation: Installation, daemon: Daemon, consumer: Consumer
) -> None:
    good = installation.config.read_text()
    for number, (old, new, key) in enumerate(MISTAKES.values(), 1):
        # Good changes beside the mistake: they must not be taken either.
        more = f'[metrics]\nfile = "{installation.directory}/metrics"\n[mqtt]'
        changed = good.replace(old, new).replace("[mqtt]", more).replace("maximum = 100000", "maximum = 7000")
        installation.config.write_text(changed)
        hang_up(daemon)
        await until(lambda count=number: len(daemon.logged("reload_refused")) == count)  # type: ignore[misc]  # bound now
        assert f"{installation.config}: {key}: " in daemon.logged("reload_refused")[-1]
    assert not daemon.logged("reloaded")
    assert not (installation.directory / "metrics").exists()
    installation.config.write_text(good)
    hang_up(daemon)
    await until(lambda: bool(daemon.logged("reloaded")))
    assert "tables_to_change=0" in daemon.logged("reloaded")[0]
    assert await daemon.stop() == 0
    records = journaled(installation)
    assert {r.body["what"] for r in records if r.kind == "incident"} <= {"device-ready"}
    assert [record.kind for record in records].count("session") == 1


async def test_another_broker_and_a_metrics_file_are_taken_at_once(
    broker: Mosquitto,
    installation: Installation,
    table: SimulatedTable,
    daemon: Daemon,
    consumer: Consumer,
) -> None:
    await playing(table, consumer, 1)
    metrics = installation.directory / "metrics"
    with Mosquitto() as other:
        async with listening(other, "dolly/#", name="other") as listener:
            heard = Consumer(listener)
            more = f'brokers = ["{other.address}"]\n[metrics]\nfile = "{metrics}"'
            installation.reconfigure(f'brokers = ["{broker.address}"]', more)
            hang_up(daemon)
            await played(heard)
            await until(metrics.exists)
            table.end_play()
            assert await daemon.stop() == 0
            assert heard.records[0].seq == 1
            assert [r.envelope for r in heard.records] == [r.envelope for r in journaled(installation)]
    nothing_lost(installation, table)
