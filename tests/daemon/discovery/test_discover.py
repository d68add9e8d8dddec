"""`dollyd discover` on a machine made of files: what is listed, asked, left alone and written down."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from tests.support.machine import CH340, FTDI, Machine
from typer.testing import CliRunner

from dollyd.daemon.cli import application
from dollyd.daemon.discovery import report
from dollyd.daemon.discovery.identity import Identity
from dollyd.daemon.discovery.known import ADAPTERS, GENERATORS, RULED_VENDORS, own_rule
from dollyd.daemon.discovery.report import Found, configuration, discover, lines
from dollyd.daemon.discovery.sysfs import serial_ports, stable_name, usb_devices
from dollyd.daemon.host.machine import Host

ODDS = Identity("tlp", "odds", {"serial": "OD000017", "kind": "ODDS"})
WHEEL = Identity("cammegh-ss2", "wheel", {"firmware": "V2.50", "pockets": "37"})


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nodes that were listened to. There is a wheel behind the first and an odds box behind all others."""
    nodes: list[str] = []

    async def who_is_there(_host: Host, node: str) -> Identity:
        nodes.append(node)
        return WHEEL if node == "/dev/ttyUSB0" else ODDS

    monkeypatch.setattr(report, "who_is_there", who_is_there)
    return nodes


def sections(found: Found) -> dict[str, dict[str, object]]:
    tables = tomllib.loads("\n".join(configuration(found))).get("tables", {})
    devices = tables.get("TABLE", {}).get("devices", {})
    assert isinstance(devices, dict)
    return devices


async def test_a_wheel_and_an_odds_box_become_configuration(machine: Machine, asked: list[str]) -> None:
    wheel = machine.adapter("ttyUSB0", "1-1", FTDI, "A50285BI")
    odds = machine.adapter("ttyUSB1", "1-2", FTDI, "A50285BJ")
    found = await discover(machine.host)
    assert sections(found) == {
        "wheel": {"driver": "cammegh-ss2", "role": "wheel", "port": wheel, "expect": {"pockets": "37"}},
        "odds": {
            "driver": "tlp",
            "role": "odds",
            "port": odds,
            "expect": {"serial": "OD000017"},
            "secret_file": "odds.key",
        },
    }
    text = "\n".join(lines(found))
    for part in ("FTDI FT232R (0403:6001)", "serial number A50285BI", "firmware V2.50", "now /dev/ttyUSB1"):
        assert part in text


async def test_generators_are_known_by_their_ids_and_never_asked(machine: Machine, asked: list[str]) -> None:
    machine.adapter("ttyACM0", "1-1", ("04d8", "f5fe"))
    machine.adapter("ttyACM1", "1-2", ("1d50", "6086"), "7")
    machine.usb("1-3", ("1d50", "60c6"), "00A1")
    machine.usb("1-4", ("046d", "c31c"), product="Keyboard")
    found = await discover(machine.host)
    assert asked == []
    assert [device.identity.driver for device in found.devices] == ["truerng", "onerng", "chaoskey"]
    assert found.devices[2].port == "usb:1d50:60c6:serial=00A1"
    assert sections(found)["odds-3"]["port"] == "usb:1d50:60c6:serial=00A1"
    assert [device.name for device in found.others] == ["Keyboard"]


async def test_a_port_that_is_held_is_not_asked_and_its_holder_is_named(
    machine: Machine, asked: list[str]
) -> None:
    machine.adapter("ttyUSB0", "1-1", FTDI, "A50285BI")
    machine.process(812, "brltty", opens="/dev/ttyUSB0")
    found = await discover(machine.host)
    assert asked == []
    assert "held by brltty (pid 812)" in "\n".join(lines(found))
    assert sections(found) == {}  # in a comment, for somebody to fill in
    assert any(line.startswith("# port =") for line in configuration(found))


async def test_a_port_of_the_board_is_asked_and_the_kernel_s_console_never(
    machine: Machine, asked: list[str]
) -> None:
    for name in ("ttyS0", "ttyS1"):
        machine.write(f"/sys/class/tty/{name}/type", "4")
        machine.write(f"/sys/class/tty/{name}/device/driver", "serial8250")
        machine.write(f"/dev/{name}", "")
    machine.write("/sys/class/tty/console/active", "tty0 ttyS0")
    found = await discover(machine.host)
    assert asked == ["/dev/ttyS1"]
    assert "console" in found.devices[0].identity.note


def test_a_rule_is_written_for_those_devices_only_that_ours_do_not_name() -> None:
    rules = (Path(__file__).parents[3] / "systemd" / "60-dollyd.rules").read_text()
    named = re.findall(r'^ATTR{idVendor}=="(\S+)"(?:, ATTR{idProduct}=="(\S+)")?, ENV', rules, re.MULTILINE)
    ours = {(vid, pid) for vids, pids in named for vid in vids.split("|") for pid in (pids or "*").split("|")}
    assert ours == {*GENERATORS, *((vendor, "*") for vendor in RULED_VENDORS)}
    assert {own_rule(*ids) for ids in (*ADAPTERS, *GENERATORS)} == {""}
    told = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    assert f"\n{own_rule('1209', '0001')}\n" in told


async def test_a_strange_modem_is_not_asked(machine: Machine, asked: list[str]) -> None:
    machine.adapter("ttyACM0", "1-1", ("12d1", "1506"))
    await discover(machine.host)
    assert asked == []


async def test_two_equal_adapters_are_a_collision_and_named_by_socket(
    machine: Machine, asked: list[str]
) -> None:
    for number in range(2):
        machine.adapter(f"ttyUSB{number}", f"1-{number + 1}", CH340)
    found = await discover(machine.host)
    assert [[device.plug for device in group] for group in found.collisions] == [["1-1", "1-2"]]
    assert "collision: 1-1, 1-2" in "\n".join(lines(found))
    assert {device.port for device in found.devices} == {
        f"/dev/serial/by-path/pci-usb-0:1-{number}:1.0-port0" for number in (1, 2)
    }


def test_the_most_stable_name_is_taken(machine: Machine) -> None:
    def name() -> str:
        (port,) = serial_ports(machine.host)
        return stable_name(port, [port])

    by_id = machine.adapter("ttyUSB0", "1-1", FTDI, "A50285BI")
    assert name() == by_id
    machine.link("/dev/dolly/by-serial/0403-6001-A50285BI-if00", "/dev/ttyUSB0")
    assert name() == "/dev/dolly/by-serial/0403-6001-A50285BI-if00"
    machine.write("/sys/devices/pci0/usb1/1-1/serial", "")
    assert name().startswith("/dev/serial/by-path/")
    machine.path("/dev/serial/by-path/pci-usb-0:1-1:1.0-port0").unlink()
    assert name() == "/dev/ttyUSB0"


def test_two_ports_of_one_adapter_are_no_collision(machine: Machine) -> None:
    machine.adapter("ttyUSB0", "1-1", ("0403", "6010"), "FT1")
    folder = "/sys/devices/pci0/usb1/1-1/1-1:1.1/ttyUSB1"
    machine.write(f"{folder}/latency_timer", "16")
    machine.link("/sys/class/tty/ttyUSB1/device", folder)
    machine.link("/dev/serial/by-id/usb-FT1-if01-port0", "/dev/ttyUSB1")
    machine.write("/dev/ttyUSB1", "")
    ports = serial_ports(machine.host)
    assert [stable_name(port, ports).rsplit("-if")[1] for port in ports] == ["00-port0", "01-port0"]


def test_sockets_without_a_chip_and_hubs_are_left_out(machine: Machine) -> None:
    for number, kind in enumerate(("4", "0")):
        machine.write(f"/sys/class/tty/ttyS{number}/type", kind)
        machine.link(f"/sys/class/tty/ttyS{number}/device", "/sys/devices")
    machine.write("/sys/class/tty/tty1/dev", "4:1")
    machine.usb("1-1", ("1d6b", "0002"), bDeviceClass="09")
    assert [port.node for port in serial_ports(machine.host)] == ["/dev/ttyS0"]
    assert usb_devices(machine.host) == []


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_command_prints_devices_and_their_configuration(
    machine: Machine, asked: list[str], monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    port = machine.adapter("ttyUSB0", "1-1", FTDI, "A50285BI")
    monkeypatch.setattr("dollyd.daemon.cli.discover.Host", lambda: machine.host)
    answer = CliRunner().invoke(application, ["discover", *options])
    assert answer.exit_code == 0
    told = json.loads(answer.stdout) if options else {}
    assert f'port = "{port}"' in told.get("configuration", answer.stdout)
    if options:
        assert told["devices"][0]["usb"]["serial"] == "A50285BI"


async def test_nothing_at_all_is_said_to_be_nothing(machine: Machine, asked: list[str]) -> None:
    found = await discover(machine.host)
    assert list(lines(found)) == ["no serial port and no generator is plugged in"]
    assert list(configuration(found)) == []
