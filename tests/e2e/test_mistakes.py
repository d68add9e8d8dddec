"""Classic mistakes: `check`, `doctor` and `run` say the same of each, in one line, without a traceback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.support.broker import Mosquitto, until
from tests.support.daemon import Installation
from tests.support.publishing import Journal, make, running
from tests.support.site_broker import Authority, Site, site_of
from tools.mistakes import BROKER, CONFIGURATION, MISSING_PORT, Mistake
from typer.testing import CliRunner

from dollyd.daemon.app import App, checked
from dollyd.daemon.cli import application
from dollyd.daemon.doctor.case import Severity, open_case
from dollyd.daemon.doctor.checks import findings
from dollyd.daemon.doctor.examination import examine
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.machine import Host
from dollyd.daemon.link.backoff import Backoff
from dollyd.daemon.link.certificates import CertificateWatch
from dollyd.daemon.link.from_settings import mqtt_settings
from dollyd.daemon.settings.load import load
from dollyd.wire.errors import ConfigError

NODE = "box1"
OF_THE_MACHINE = {"clock", "time-service", "unit-missing", "device-unbound", "port-missing"}
"""What doctor finds of any test machine."""


def changed(old: str, new: str) -> Callable[[Installation], None]:
    return lambda installation: installation.reconfigure(old, new)


def no_odds_box(installation: Installation) -> None:
    text = installation.config.read_text()
    installation.config.write_text(text[: text.index("[tables.r1.devices.odds]")])


def two_pairs(installation: Installation) -> None:
    for name in ("one", "other"):
        Authority(installation.directory).issue(name)
    files = 'ca_file = "ca.crt"\ncert_file = "one.crt"\nkey_file = "other.key"\n'
    installation.reconfigure('[mqtt]\nbrokers = ["', f'[mqtt]\n{files}brokers = ["mqtts://')


def tls_unused(installation: Installation) -> None:
    Authority(installation.directory)
    installation.reconfigure("[mqtt]\n", '[mqtt]\nca_file = "ca.crt"\n')


MAKE: dict[str, Callable[[Installation], object]] = {
    "unknown-key": changed('game = "roulette"', 'game = "roulette"\nodds_timout_ms = 3'),
    "no-toml": changed("[journal]", "[journal"),
    "name": changed('site = "house"', 'site = "Helsinki"'),
    "currency": changed('"EUR"', '"euro"'),
    "zero-rule": changed('variant = "B"', 'variant = "B"\nzero_rule = "half"'),
    "rulebook": changed('"fi-ray-2013-roulette"', '"fi-ray-2013-roulete"'),
    "driver": changed('"cammegh-ss2"', '"camegh-ss2"'),
    "no-odds-box": no_odds_box,
    "one-port": changed("r1-odds", "r1-wheel"),
    "port-is-a-file": lambda installation: (installation.directory / "r1-wheel").touch(),
    "wheel-of-38": changed('pockets = "37"', 'pockets = "38"'),
    "shared-secret": lambda installation: (installation.directory / "odds.key").chmod(0o644),
    "shared-key": lambda installation: installation.signing_key.chmod(0o644),
    "no-key": lambda installation: installation.signing_key.unlink(),
    "no-root": changed("[signing]\n", '[signing]\ntrust = "trust.json"\n'),
    "two-pairs": two_pairs,
    "tls-unused": tls_unused,
}


def check(installation: Installation, *more: str) -> tuple[int, list[str]]:
    """The exit code, and what is said that is not good."""
    done = CliRunner().invoke(application, ["check", "--config", str(installation.config), *more])
    if isinstance(done.exception, ConfigError):
        return 78, [str(one) for one in done.exception.all]
    assert "Traceback" not in done.output
    return done.exit_code, [line for line in done.output.splitlines() if line.startswith("wrong")]


async def doctor(installation: Installation) -> list[str]:
    """The faults that are not those of any test machine."""
    case = await examine(open_case(installation.config, Host(), SystemClock()))
    found = [one for one in findings(case) if one.severity is Severity.FAULT]
    return [f"{one.what}; {one.remedy}" for one in found if one.id not in OF_THE_MACHINE]


def tells(lines: list[str], mistake: Mistake) -> None:
    (line,) = lines
    assert mistake.words in line, line
    assert mistake.remedy in line, line


def test_every_mistake_of_the_page_is_made_here() -> None:
    assert MAKE.keys() == CONFIGURATION.keys()
    assert LINKS.keys() | {"one-name"} == BROKER.keys()
    assert len(MAKE) + len(LINKS) >= 18


@pytest.mark.parametrize("name", CONFIGURATION)
async def test_a_mistake_in_the_configuration_is_one_line_for_all_three(name: str, tmp_path: Path) -> None:
    installation, mistake = Installation(tmp_path, "127.0.0.1:1"), CONFIGURATION[name]
    MAKE[name](installation)
    code, lines = await asyncio.to_thread(check, installation)
    assert code == 78
    tells(lines, mistake)
    with pytest.raises(ConfigError) as caught:
        App(load(installation.config))
    assert [str(one) for one in caught.value.all] == lines
    broker_down = "127.0.0.1:1: "  # nobody listens there; it is no part of the mistake
    tells([line for line in await doctor(installation) if not line.startswith(broker_down)], mistake)


async def test_a_device_that_is_not_plugged_in_is_a_warning_as_the_daemon_starts(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "127.0.0.1:1", variant="A")
    installation.reconfigure(f"{tmp_path}/r1-wheel", "r1-wheel")  # relative to the configuration for all
    done = CliRunner().invoke(application, ["check", "--config", str(installation.config)])
    assert done.exit_code == 0, done.output
    told = next(line for line in done.output.splitlines() if "port-missing" in line)
    assert told.startswith("warning")
    assert f"{tmp_path}/r1-wheel {MISSING_PORT.words}" in told
    assert MISSING_PORT.remedy in done.output
    checked(load(installation.config))
    case = open_case(installation.config, Host(), SystemClock())
    assert [one.what for one in findings(case) if one.id == "port-missing"] == [told.partition(": ")[2]]


# --- links to brokers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Town:
    """A broker with TLS that asks for certificates, one without, and an authority of nobody."""

    site: Site
    plain: Mosquitto
    other: Authority

    def lines(self, broker: str, name: str = NODE, ca_file: Path | None = None, *, shown: bool = True) -> str:
        """The section `[mqtt]` of a node."""
        here = self.site.broker.directory
        if not (here / f"{name}.crt").exists():
            self.site.authority.issue(name, hours=-48 if name == "expired" else 24 * 365)
        lines = f'[mqtt]\nbrokers = ["{broker}"]\n'
        if broker.startswith("mqtts"):
            lines += f'ca_file = "{ca_file or self.site.authority.ca_file}"\n'
        if broker.startswith("mqtts") and shown:
            lines += f'cert_file = "{here}/{name}.crt"\nkey_file = "{here}/{name}.key"\n'
        return lines


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with Mosquitto(started=False) as broker, Mosquitto() as plain:
        site = site_of(broker)
        broker.start()
        yield Town(site, plain, Authority(tmp_path_factory.mktemp("other")))


LINKS: dict[str, Callable[[Town], str]] = {
    "plain-to-tls": lambda town: town.lines(f"mqtt://{town.site.broker.address}"),
    "tls-to-plain": lambda town: town.lines(f"mqtts://{town.plain.address}"),
    "other-authority": lambda town: town.lines(town.site.address, ca_file=town.other.ca_file),
    "other-host": lambda town: town.lines(town.site.address.replace("127.0.0.1", "localhost")),
    "expired": lambda town: town.lines(town.site.address, "expired"),
    "no-certificate": lambda town: town.lines(town.site.address, shown=False),
    "broker-down": lambda town: town.lines("mqtt://127.0.0.1:1"),
}


@pytest.mark.parametrize("name", LINKS)
async def test_a_mistake_at_the_broker_is_one_line_for_all_three(
    name: str, town: Town, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    installation, mistake = Installation(tmp_path, "nowhere", variant="A"), BROKER[name]
    installation.reconfigure('[mqtt]\nbrokers = ["nowhere"]\n', LINKS[name](town))
    code, lines = await asyncio.to_thread(check, installation, "--broker")
    assert code == 1
    tells(lines, mistake)
    tells(await doctor(installation), mistake)
    mqtt = mqtt_settings(load(installation.config))
    with capture_logs() as logs:
        publisher = make(mqtt, Journal())
        async with running(publisher):
            await until(lambda: sum(publisher.stats.lost.values()) >= 3)
        CertificateWatch({"cert_file": mqtt.cert_file}, SystemClock()).look()
    lost = [one for one in logs if one["event"] == "broker_lost"]
    tells([f"{one['cause']}: {one['detail']}; {one['remedy']}" for one in lost], mistake)
    assert "Traceback" not in "".join(capfd.readouterr())
    assert [one.getMessage() for one in caplog.records if one.name == "asyncio"] == []


async def test_two_nodes_of_one_name_are_told_by_all_three(town: Town, tmp_path: Path) -> None:
    installation, mistake = Installation(tmp_path, town.plain.address, variant="A"), BROKER["one-name"]
    installation.reconfigure('site = "house"\nnode = "box1"', 'site = "hall"\nnode = "node-1"')
    mqtt = mqtt_settings(load(installation.config))
    first = make(mqtt, Journal(), session=1, backoff=Backoff(0.05, 0.2, taken_over_s=0.2))
    with capture_logs() as logs:
        async with running(first):
            await until(lambda: first.stats.connected)
            async with running(second := make(mqtt, Journal(), session=2)):
                await until(lambda: "taken-over" in first.stats.lost and second.stats.connected)
            await until(lambda: first.stats.connected)
            _, lines = await asyncio.to_thread(check, installation, "--broker")
            found = await doctor(installation)
    tells([line for line in lines if mistake.words in line], mistake)
    tells([line for line in found if mistake.words in line], mistake)
    said = [one for one in logs if one.get("cause") == "taken-over"]
    assert {(mistake.words in one["detail"], mistake.remedy in one["remedy"]) for one in said} == {
        (True, True)
    }
