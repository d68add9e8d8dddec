"""Generators and USB ports in the configuration: what the driver has, what may change, what is refused."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from dollyd.daemon.host.secret_files import write_secret
from dollyd.daemon.settings.load import DeviceSettings, load
from dollyd.daemon.settings.ports import check_access, check_port
from dollyd.daemon.table.runner import transport_of
from dollyd.drivers.transports.serial import SerialTransport
from dollyd.drivers.transports.usb import UsbTransport
from dollyd.drivers.transports.usb_port import UsbSettings
from dollyd.wire.errors import ConfigError

EXAMPLE = files("dollyd").joinpath("config", "examples", "roulette-b.toml").read_text()
ODDS = "tables.roulette-1.devices.odds"
CHAOSKEY = "usb:1d50:60c6"
TTY = "/dev/serial/by-id/usb-TrueRNG"


def configured(folder: Path, driver: str, port: str, more: str = "") -> Path:
    """The example with this generator for an odds box."""
    head = EXAMPLE[: EXAMPLE.index(f"[{ODDS}]")]
    path = folder / "dollyd.toml"
    path.write_text(f'{head}[{ODDS}]\ndriver = "{driver}"\nrole = "odds"\nport = "{port}"\n{more}\n')
    return path


def device(folder: Path, driver: str, port: str, more: str = "") -> DeviceSettings:
    return load(configured(folder, driver, port, more)).tables["roulette-1"].devices["odds"]


def test_a_chaoskey_has_its_driver_s_endpoint_and_sizes(tmp_path: Path) -> None:
    chaoskey = device(tmp_path, "chaoskey", CHAOSKEY)
    assert chaoskey.usb == UsbSettings(
        0x1D50, 0x60C6, endpoint_in=0x85, endpoint_out=None, read_bytes=4096, timeout_ms=250, pause_ms=90
    )
    assert isinstance(transport_of(chaoskey), UsbTransport)


def test_what_the_port_says_goes_before_the_driver(tmp_path: Path) -> None:
    usb = device(tmp_path, "chaoskey", f"{CHAOSKEY}:serial=in=1:path=1-2:interface=1:in=81:out=01").usb
    assert usb is not None
    assert (usb.serial, usb.port_path, usb.interface) == ("in=1", "1-2", 1)
    assert (usb.endpoint_in, usb.endpoint_out) == (0x81, 0x01)


def test_a_device_that_speaks_tlp_has_one_endpoint_each_way(tmp_path: Path) -> None:
    write_secret(tmp_path / "odds.key", b"shared by box and host")
    box = device(tmp_path, "tlp", "usb:1209:d011", 'secret_file = "odds.key"')
    assert box.usb == UsbSettings(0x1209, 0xD011, endpoint_in=0x81, endpoint_out=0x01)
    assert isinstance(transport_of(box), UsbTransport)


@pytest.mark.parametrize("driver", ["truerng", "onerng"])
def test_a_generator_on_a_serial_port_needs_no_secret(tmp_path: Path, driver: str) -> None:
    generator = device(tmp_path, driver, TTY)
    assert generator.usb is None
    assert isinstance(transport_of(generator), SerialTransport)


@pytest.mark.parametrize(
    ("driver", "port", "more", "key"),
    [
        ("chaoskey", "/dev/ttyACM0", "", "port"),
        ("chaoskey", "usb:1d50", "", "port"),
        ("chaoskey", "usb:1d50:60cx", "", "port"),
        ("chaoskey", f"{CHAOSKEY}:colour=red", "", "port"),
        ("chaoskey", f"{CHAOSKEY}:in=05", "", "port"),
        ("chaoskey", CHAOSKEY, "baud = 9600", "baud"),
        ("chaoskey", CHAOSKEY, "dtr = true", "dtr"),
        ("chaoskey", CHAOSKEY, "rts = false", "rts"),
        ("truerng", "usb:04d8:f5fe", "", "port"),
        ("truerng", TTY, "baud = 300", "baud"),
        ("truerng", TTY, "baud = 115200", "baud"),
        ("truerng", TTY, "options = { mode = 1 }", "options.mode"),
        ("truerng", TTY, 'secret = "x"', "secret"),
    ],
)
def test_a_port_that_can_never_work_is_refused(
    tmp_path: Path, driver: str, port: str, more: str, key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(configured(tmp_path, driver, port, more))
    assert caught.value.key == f"{ODDS}.{key}"
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_the_speed_of_a_onerng_may_be_changed_and_that_of_a_truerng_never(tmp_path: Path) -> None:
    assert device(tmp_path, "onerng", TTY, "baud = 9600").section.baud == 9600
    with pytest.raises(ConfigError, match="fixed"):
        device(tmp_path, "truerng", TTY, "baud = 9600")


# --- before anything is opened ---------------------------------------------------------------------------


def test_a_serial_port_is_checked_as_before(tmp_path: Path) -> None:
    missing = device(tmp_path, "truerng", str(tmp_path / "none"))
    check_port("f", missing)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="not a serial port"):
        check_port("f", device(tmp_path, "truerng", str(tmp_path / "file")))


def test_a_serial_port_that_this_process_may_not_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    null = device(tmp_path, "truerng", "/dev/null")
    check_access("f", null)
    monkeypatch.setattr("dollyd.daemon.settings.ports.os.access", lambda *_: False)  # root may use every port
    check_access("f", device(tmp_path, "truerng", str(tmp_path / "none")))
    with pytest.raises(ConfigError, match="dialout"):
        check_access("f", null)
