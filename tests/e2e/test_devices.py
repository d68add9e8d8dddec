"""Devices that go, come back, keep silent, or are the wrong ones; the entries B.. of the fault list."""

from __future__ import annotations

import os
import time

import psutil
import pytest
from tests.support.broker import Mosquitto, until
from tests.support.daemon import NODE, TOPICS, Consumer, Daemon, Installation, numbers
from tests.support.simulated_table import SimulatedTable, playing

from dollyd.wire.stamp import NS_PER_MS

BACK_S = 2.0
"""From the plug to `ready` (design section 10)."""
LATE_S = 4.0
"""What a busy machine may add."""
PERIOD_MS = 200
"""As `Installation` tells the daemon."""
UNPLUGGED_S = 10.0
UNPLUGGED_CPU = 0.02


async def in_mid_spin(consumer: Consumer) -> int:
    """The round whose bets were closed just now."""
    closed = len(consumer.of("bets-closed"))
    await until(lambda: len(consumer.of("bets-closed")) > closed, 20)
    return consumer.of("bets-closed")[-1].round


def rules_of(consumer: Consumer, round_number: int) -> list[tuple[str, str]]:
    return [(r.kind, r.body["rule"]) for r in consumer.of("unresolved", "void") if r.round == round_number]


async def test_a_cable_pulled_in_mid_spin_leaves_no_number(
    table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    spinning = await in_mid_spin(consumer)
    table.wheel_port.unplug()
    await until(lambda: consumer.status("wheel") == "lost")
    await until(lambda: bool(rules_of(consumer, spinning)))
    table.wheel_port.plug()
    plugged_s = time.monotonic()
    await until(lambda: consumer.status("wheel") == "ready")
    assert time.monotonic() - plugged_s < BACK_S + LATE_S
    await until(lambda: len(consumer.of("void")) >= 1)
    assert rules_of(consumer, spinning) == [("unresolved", "device-lost"), ("void", "unrecoverable")]
    (unresolved,) = daemon.logged("unresolved")
    assert unresolved.startswith("level=warning event=unresolved table=r1 ")
    assert f"void --round {spinning} --reason TEXT" in unresolved
    assert [line for line in daemon.logged("incident") if "what=device-lost device=wheel" in line]
    assert [line for line in daemon.logged("result") if "table=r1" in line and "outcome=" in line]
    await until(lambda: consumer.of("result")[-1].round > spinning, 20)
    assert spinning not in [result.round for result in consumer.of("result")]
    missed = [gap for gap in consumer.of("gap") if gap.body["cause"] == "no-round-open"]
    assert missed, "the game that was joined in mid-spin is told"


async def test_b12_a_device_that_returns_under_another_name_is_found(
    table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    node = table.wheel_port.path.readlink()
    table.wheel_port.unplug()
    master, slave = os.openpty()  # somebody else may get the old node
    try:
        table.wheel_port.plug()
        assert table.wheel_port.path.readlink() != node
        await until(lambda: "device-back" in [i.body["what"] for i in consumer.of("incident")])
        results = len(consumer.of("result"))
        await until(lambda: len(consumer.of("result")) > results, 20)
    finally:
        os.close(master)
        os.close(slave)


async def test_b18_a_mute_device_is_stale_within_three_periods(
    table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    table.wheel_line.faults.set("line-silence")
    mute_ns = table.now_ns
    await until(lambda: consumer.status("wheel") == "stale")
    stale = [i for i in consumer.of("incident") if i.body["what"] == "device-stale"]
    silent_ms = (stale[-1].time["monotonic_ns"] - mute_ns) / NS_PER_MS
    assert 2 * PERIOD_MS < silent_ms < 3 * PERIOD_MS + LATE_S * 1000
    table.wheel_line.faults.clear("line-silence")
    await until(lambda: consumer.status("wheel") == "ready")


async def test_b38_nothing_is_ready_before_it_was_heard(
    installation: Installation, broker: Mosquitto, table: SimulatedTable, consumer: Consumer
) -> None:
    for line in (table.wheel_line, table.odds_line):
        line.faults.set("line-silence")
    table.play()
    with Daemon(installation) as daemon:
        await daemon.started()
        await until(lambda: table.wheel_port.host_is_there() and table.odds_port.host_is_there())
        await until(lambda: bool(consumer.latest(TOPICS.node_health(NODE))))
        heard = [consumer.listener.payloads(f"/device/{name}") for name in ("wheel", "odds")]
        assert all(heard)
        assert not [payload for payloads in heard for payload in payloads if b'"ready"' in payload]
        for line in (table.wheel_line, table.odds_line):
            line.faults.clear("line-silence")
        await until(lambda: consumer.status("wheel") == "ready")


async def test_b40_a_daemon_without_devices_stays_up_and_says_so(
    installation: Installation, consumer: Consumer
) -> None:
    async with SimulatedTable(installation.directory, plugged=False) as table:
        with Daemon(installation) as daemon:
            await daemon.started()
            await until(lambda: consumer.latest(TOPICS.node_status(NODE)).get("state") == "online")
            await until(lambda: consumer.latest(TOPICS.device("r1", "wheel")).get("cause") == "not-found")
            assert daemon.running
            table.plug()
            await playing(table, consumer)
            assert numbers(consumer.of("result"))[0] == table.numbers[0]
            assert await daemon.stop() == 0


async def test_a_wheel_with_another_set_of_pockets_is_the_wrong_device(
    installation: Installation, consumer: Consumer
) -> None:
    async with SimulatedTable(installation.directory, pockets=38, script=("17", "18", "19")) as table:
        with Daemon(installation) as daemon:
            await daemon.started()
            table.play()
            await until(lambda: consumer.status("wheel") == "wrong-device")
            await until(lambda: len(table.completed) >= 2, 20)
            await until(lambda: bool(consumer.of("incident")))
            assert "wrong-device" in {
                record.body["what"].removeprefix("device-") for record in consumer.of("incident")
            }
            assert consumer.status("wheel") == "wrong-device"
            assert not consumer.of("result")


async def test_b15_noise_on_the_line_kills_nothing_and_makes_no_number(
    table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    noise = ("line-flip", "line-garbage", "line-tail-lost")
    for fault in noise:
        table.wheel_line.faults.set(fault)
    games = len(table.completed)
    await until(lambda: len(table.completed) >= games + 5, 30)
    for fault in noise:
        table.wheel_line.faults.clear(fault)
    quiet_ns = table.now_ns
    await until(lambda: consumer.of("result")[-1].time["monotonic_ns"] > quiet_ns, 30)
    assert daemon.running
    fell = {f"{game.counter:03}": str(game.pocket).strip() for game in table.completed}
    for result in consumer.of("result"):
        counter = result.body["evidence"]["game_ref"].rsplit("/", 1)[1].split("#")[0]
        assert result.body["outcome"]["pocket"] == fell[counter]
    frames = consumer.latest(TOPICS.device("r1", "wheel"))["frames"]
    assert frames.get("bad", 0) + frames.get("not-a-line", 0) > 0


@pytest.mark.long
async def test_b1_unplugged_port_does_not_spin(
    table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    table.end_play()
    await until(lambda: consumer.status("wheel") == "stale")
    lines = len(daemon.log)
    table.unplug()
    await until(lambda: consumer.status("wheel") == consumer.status("odds") == "lost")
    process = psutil.Process(daemon.pid)
    began_s, used_s = time.monotonic(), sum(process.cpu_times()[:2])
    await until(lambda: time.monotonic() > began_s + UNPLUGGED_S, UNPLUGGED_S + 10)
    used = (sum(process.cpu_times()[:2]) - used_s) / (time.monotonic() - began_s)
    assert used < UNPLUGGED_CPU
    for device in ("wheel", "odds"):
        told = [line for line in daemon.log[lines:] if f"device={device}" in line]
        assert len(told) <= 3, told
    table.plug()
    plugged_s = time.monotonic()
    await until(lambda: consumer.status("odds") == "ready")
    assert time.monotonic() - plugged_s < BACK_S + LATE_S
