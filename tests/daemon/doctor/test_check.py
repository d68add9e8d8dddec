"""`dollyd check` on a machine of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.daemon import Installation
from typer.testing import CliRunner

from dollyd.daemon.cli import application
from dollyd.daemon.cli.check import summary
from dollyd.daemon.doctor.checks import BEFORE_A_START, findings
from dollyd.daemon.doctor.credentials import absent

if TYPE_CHECKING:
    from tests.daemon.doctor.conftest import Bench


def told(bench: Bench) -> list[str]:
    case = bench.case()
    assert case.settings is not None
    assert not case.refused
    return list(summary(case, case.settings))


def ids(bench: Bench) -> list[str]:
    return [one.id for one in findings(bench.case(), BEFORE_A_START)]


def test_each_device_is_named_by_what_is_plugged_in(bench: Bench) -> None:
    assert told(bench)[-1].endswith("FTDI FT232R, serial A50285BI, socket 1-1")
    bench.machine.adapter("ttyUSB0", "1-2", serial="OTHER")
    assert told(bench)[-1].endswith("serial OTHER, socket 1-2")


def test_a_credential_is_read_where_the_unit_gets_it_from(bench: Bench) -> None:
    assert told(bench)[0].endswith(f"key {bench.signer.kid}")
    bench.key.unlink()
    assert "key" not in told(bench)[0]
    settings = bench.case().settings
    assert settings is not None
    assert list(absent(settings)) == [("signing.key", "/run/credentials/dollyd.service/dollyd_signing.pem")]


def test_what_a_start_would_survive_is_told(bench: Bench) -> None:
    assert ids(bench) == ["device-unbound"]
    bench.config.write_text(bench.config.read_text().replace("low_mb = 0", "low_mb = 1000000000"))
    assert ids(bench) == ["device-unbound", "disk-low"]


def test_f2_a_device_that_is_bound_by_what_it_says_is_not_warned_of(bench: Bench) -> None:
    port = next(line for line in bench.config.read_text().splitlines() if line.startswith("port ="))
    bound = bench.config.read_text().replace(port, f'{port}\nexpect = {{ firmware = "1.22" }}', 1)
    bench.config.write_text(bound)
    assert ids(bench) == []


def test_f2_two_names_that_lead_to_one_device_are_a_fault(bench: Bench) -> None:
    other = f"""
[tables.r1.devices.other]
driver = "tlp"
role = "ball"
port = "{bench.machine.host.real(bench.port)}"
expect = {{ serial = "BD1" }}
"""
    bench.config.write_text(bench.config.read_text() + other)
    assert "one-node" in ids(bench)


def test_that_no_broker_was_asked_is_told_with_its_reason(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "127.0.0.1:1", variant="A")
    (tmp_path / "r1-wheel").symlink_to("/dev/null")
    secret = "/run/credentials/dollyd.service/dollyd_mqtt.password"
    installation.reconfigure("[mqtt]\n", f'[mqtt]\npassword_file = "{secret}"\n')
    words = ["check", "--config", str(installation.config)]
    assert CliRunner().invoke(application, words).exit_code == 0
    said = CliRunner().invoke(application, [*words, "--broker"])
    assert said.exit_code == 1
    assert "no broker was asked: it wants mqtt.password_file" in said.stdout
