"""What the doctor finds by asking: real pseudo-terminals with simulated devices, and a real broker."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.broker import Mosquitto, listening
from tests.support.daemon import Consumer, Daemon, Installation
from tests.support.simulated_table import SimulatedTable
from tests.support.site_broker import Authority, site_of

from dollyd.daemon.brokers.check import BrokerCheck
from dollyd.daemon.discovery.listening import hear_all
from dollyd.daemon.doctor.case import Case, Finding, open_case
from dollyd.daemon.doctor.checks import CHECKS
from dollyd.daemon.doctor.examination import examine
from dollyd.daemon.doctor.live_checks import brokers
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.machine import Host
from dollyd.simulators.ss2.options import MODE_PUSH
from dollyd.wire.topics import Topics

LIVE = ("device", "wrong", "ss2", "port-held", "port-unusable")
HOLDER = """
import fcntl, os, sys
port = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.flock(port, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path, "127.0.0.1:1", period_ms=60)


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[SimulatedTable]:
    async with SimulatedTable(tmp_path) as simulated:
        yield simulated


def case_of(installation: Installation) -> Case:
    return open_case(installation.config, Host(run=lambda _: ""), SystemClock())


async def found(installation: Installation) -> dict[str, Finding]:
    """What is found by listening, by id."""
    case = case_of(installation)
    heard = await hear_all({device.key: device for device in case.devices()}, case.clock)
    findings = (one for check in CHECKS for one in check(replace(case, heard=heard)))
    return {one.id: one for one in findings if one.id.startswith(LIVE)}


async def test_a_table_that_speaks_as_it_must_has_no_finding(
    installation: Installation, table: SimulatedTable
) -> None:
    table.play()
    await asyncio.sleep(0.4)  # it boots
    assert await found(installation) == {}


async def test_b18_a_mute_device_is_found(installation: Installation, table: SimulatedTable) -> None:
    assert "wheel" in (await found(installation))["device-silent"].what


@pytest.mark.parametrize(
    ("mode", "switch", "id_"),
    [(1159 - MODE_PUSH, b"", "ss2-mode-128"), (1159, b"*q 0\r\n", "ss2-output-off")],
)
async def test_a_wheel_that_sends_no_status_tells_why(
    installation: Installation, table: SimulatedTable, mode: int, switch: bytes, id_: str
) -> None:
    table.play()
    await asyncio.sleep(0.12)  # it is closed: the only state in which it takes another mode
    table.wheel.command(b"*o %d\r\n" % mode, table.now_ns)
    table.wheel.command(switch, table.now_ns)
    assert set(await found(installation)) == {id_}


async def test_a_wheel_of_another_table_is_found(installation: Installation, tmp_path: Path) -> None:
    async with SimulatedTable(tmp_path, pockets=38) as table:
        table.play()
        assert set(await found(installation)) == {"wrong-pockets"}


async def test_another_box_than_the_one_that_is_bound_is_found(
    installation: Installation, table: SimulatedTable
) -> None:
    installation.reconfigure(
        'secret_file = "odds.key"', 'secret_file = "odds.key"\nexpect = { serial = "X" }'
    )
    table.play()
    await asyncio.sleep(0.4)
    findings = await found(installation)
    assert set(findings) == {"wrong-device"}
    assert "serial is" in findings["wrong-device"].what


async def test_a_device_at_another_speed_is_found(installation: Installation, table: SimulatedTable) -> None:
    table.wheel_line.faults.set("line-wrong-baud")
    table.play()
    await asyncio.sleep(0.4)
    assert set(await found(installation)) == {"wrong-baud"}


@pytest.fixture
def holder(installation: Installation, table: SimulatedTable) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has the wheel's port open and locked."""
    words = [sys.executable, "-c", HOLDER, str(installation.directory / "r1-wheel")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


async def test_b13_a_port_that_another_process_holds_is_found_with_its_name(
    installation: Installation, holder: subprocess.Popen[str]
) -> None:
    assert f"(pid {holder.pid})" in (await found(installation))["port-held"].what


# --- brokers -------------------------------------------------------------------------------------


async def test_a_broker_that_is_away_is_one_finding(installation: Installation) -> None:
    case = await examine(case_of(installation))
    assert [one.id for one in brokers(case)] == ["broker-reach"]


async def test_b37_a_broker_of_another_authority_is_found(installation: Installation, tmp_path: Path) -> None:
    with Mosquitto(started=False) as broker:
        site = site_of(broker)
        broker.start()
        other = tmp_path / "other"
        other.mkdir()
        mqtt = replace(site.settings("box1"), ca_file=str(Authority(other).ca_file))
        check = BrokerCheck(mqtt, site.address, Topics("house"), "box1", SystemClock())
        case = replace(case_of(installation), brokers={site.address: await check.run()})
    (only,) = brokers(case)
    assert only.id == "broker-reach"
    assert "ca_file" in only.remedy


async def test_b30_limits_of_a_broker_are_found_and_of_ports_in_use_the_word_of_the_daemon_is_taken(
    tmp_path: Path,
) -> None:
    with Mosquitto("max_queued_messages 100") as broker:
        installation = Installation(tmp_path, broker.address)
        async with SimulatedTable(tmp_path) as table, listening(broker, "dolly/#") as listener:
            with Daemon(installation) as daemon:
                await daemon.started()
                table.play()
                consumer = Consumer(listener)
                async with asyncio.timeout(10):
                    while {consumer.status("wheel"), consumer.status("odds")} != {"ready"}:  # noqa: ASYNC110  no event
                        await asyncio.sleep(0.02)
                case = await examine(case_of(installation))
                await daemon.stop()
    assert {"broker-queue", "broker-access", "broker-tls"} <= {one.id for one in brokers(case)}
    assert {heard.by_daemon for heard in case.heard.values()} == {True}
    assert case.heard["tables.r1.devices.wheel"].identity["pockets"] == "37"
    assert not [one for check in CHECKS for one in check(case) if one.id.startswith(LIVE)]


def test_the_command_prints_json_and_exits_1(installation: Installation) -> None:
    from typer.testing import CliRunner

    from dollyd.daemon.cli import application

    answer = CliRunner().invoke(application, ["doctor", "--config", str(installation.config), "--json"])
    assert answer.exit_code == 1
    ids = {one["id"] for one in json.loads(answer.stdout)["findings"]}
    assert {"port-missing", "broker-reach"} <= ids
