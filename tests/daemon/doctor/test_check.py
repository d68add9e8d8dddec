"""`dollyd check` on a machine of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def test_each_device_is_named_by_what_is_plugged_in(bench: Bench) -> None:
    assert told(bench)[-1].endswith("FTDI FT232R, serial A50285BI, socket 1-1")
    bench.machine.adapter("ttyUSB0", "1-2", serial="OTHER")
    assert told(bench)[-1].endswith("serial OTHER, socket 1-2")


def test_a_credential_is_read_where_the_unit_gets_it_from(bench: Bench) -> None:
    source = bench.machine.path("/etc/dollyd/credentials/signing.pem")
    source.parent.mkdir(parents=True)
    (bench.home / "signing.pem").rename(source)
    given = "/run/credentials/dollyd.service/dollyd_signing.pem"
    bench.config.write_text(bench.config.read_text().replace(f"{bench.home}/signing.pem", given))
    assert told(bench)[0].endswith(f"key {bench.signer.kid}")
    source.unlink()
    assert "key" not in told(bench)[0]
    settings = bench.case().settings
    assert settings is not None
    assert list(absent(settings)) == [("signing.key", given)]


def test_what_a_start_would_survive_is_told(bench: Bench) -> None:
    assert findings(bench.case(), BEFORE_A_START) == []
    bench.config.write_text(bench.config.read_text().replace("low_mb = 0", "low_mb = 1000000000"))
    assert [one.id for one in findings(bench.case(), BEFORE_A_START)] == ["disk-low"]
