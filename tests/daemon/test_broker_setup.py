"""`dollyd broker-setup`: what it makes, what it refuses, and a Debian broker that runs on it."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.broker import Mosquitto
from tests.support.site_broker import install
from typer.testing import CliRunner, Result

from dollyd.daemon.brokers.acl import ROLES
from dollyd.daemon.cli import application
from dollyd.daemon.link.from_settings import desk_settings, mqtt_settings
from dollyd.daemon.link.mqtt import Cause, LinkError, MqttLink, MqttSettings
from dollyd.daemon.settings.load import load
from dollyd.daemon.settings.sections import DeskSection
from dollyd.wire.errors import ConfigError
from dollyd.wire.topics import Topics

EXAMPLE = Path(__file__).parents[2] / "config/examples/roulette-a-display.toml"
TOPICS = Topics("house")
HOUSE = ("--site", "house", "--node", "box1=r1", "--node", "box2=r2,r3", "--host", "broker-1")


def broker_setup(out: Path, *arguments: str) -> Result:
    return CliRunner().invoke(application, ["broker-setup", str(out), *arguments])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("setup") / "broker"
    done = broker_setup(out, *HOUSE)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def broker(made: Path) -> Iterator[Mosquitto]:
    """The broker of Debian, with the files as they are installed."""
    with Mosquitto(started=False) as broker:
        install(broker, made)
        broker.start()
        yield broker


def test_everybody_has_a_certificate_and_a_key_that_nobody_else_reads(made: Path) -> None:
    users = {"site-ca", "broker", "box1", "box2", *(role.example for role in ROLES.values())}
    assert {path.stem for path in made.glob("*.crt")} == users
    keys = list(made.glob("*.key"))
    assert {path.stem for path in keys} == users
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_it_says_what_to_copy_where(tmp_path: Path) -> None:
    said = broker_setup(tmp_path / "b", *HOUSE).output
    for wanted in ("sh {}/install-broker.sh", "sh {}/install-box1.sh", "sh {}/install-box2.sh"):
        assert wanted.format(tmp_path / "b") in said
    assert 'brokers = ["mqtts://broker-1:8883"]' in said
    assert "site-ca.crt, settlement.crt, settlement.key" in said


@pytest.mark.parametrize(
    ("user", "topic"),
    [
        ("box1", TOPICS.record("r1", "result")),
        ("box2", TOPICS.last("r3")),
        ("settlement", TOPICS.ack("r2", "settlement")),
        ("archive1", TOPICS.replay_ask("r1", "archive1")),
        ("witness1", TOPICS.witness("r1", "witness1")),
        ("desk", TOPICS.command("r3")),
    ],
)
async def test_each_user_of_the_site_comes_in_and_has_its_own_rights_only(
    broker: Mosquitto, made: Path, user: str, topic: str
) -> None:
    link_settings = MqttSettings(
        (f"mqtts://localhost:{broker.port}",),
        f"try-{user}",
        ca_file=str(made / "site-ca.crt"),
        cert_file=str(made / f"{user}.crt"),
        key_file=str(made / f"{user}.key"),
    )
    async with MqttLink(link_settings, link_settings.brokers[0], keep_session=False) as link:
        await link.publish(topic, b"x")
        with pytest.raises(LinkError) as denied:
            await link.publish(TOPICS.record("r9", "result"), b"x")
    assert denied.value.cause is Cause.DENIED


async def test_another_authority_s_certificate_opens_nothing(
    broker: Mosquitto, made: Path, tmp_path: Path
) -> None:
    broker_setup(tmp_path / "other", *HOUSE)
    thief = MqttSettings(
        (f"mqtts://localhost:{broker.port}",),
        "thief",
        ca_file=str(made / "site-ca.crt"),
        cert_file=str(tmp_path / "other/box1.crt"),
        key_file=str(tmp_path / "other/box1.key"),
        ack_deadline_s=2,
    )
    with pytest.raises(LinkError):
        async with MqttLink(thief, thief.brokers[0], keep_session=False) as link:
            await link.publish(TOPICS.record("r1", "result"), b"x")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_nothing_is_overwritten_without_being_told(tmp_path: Path) -> None:
    out = tmp_path / "broker"
    broker_setup(out, *HOUSE)
    before = contents(out)
    again = broker_setup(out, *HOUSE)
    assert isinstance(again.exception, ConfigError)
    assert "exists already" in str(again.exception)
    assert contents(out) == before

    (out / "desk.crt").unlink()
    (out / "desk.key").unlink()
    added = broker_setup(out, *HOUSE, "--add", "--user", "desk=desk", "--user", "till=settlement")
    assert "certificates made for desk, till" in added.output
    assert "witness1 has a certificate, and no rights any more" in added.output
    after = contents(out)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {"desk.crt", "desk.key", "dollyd.acl"}
    assert b"user till\n" in after["dollyd.acl"]
    assert b"user witness1" not in after["dollyd.acl"]

    forced = broker_setup(out, *HOUSE, "--force")
    assert forced.exit_code == 0
    assert not [name for name in before if name.endswith("key") and contents(out)[name] == before[name]]
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.glob("*.key")} == {0o600}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--site: missing; give --config"),
        (("--site", "house"), "--node: missing"),
        (("--site", "house", "--node", "box1"), "names no table"),
        (("--site", "house", "--node", "box1="), "names no table"),
        (("--site", "house", "--node", "box1=r1"), "--host: missing"),
        (("--site", "A House", "--node", "box1=r1", "--host", "b"), "'A House' is no name"),
        (("--site", "house", "--node", "box1=trust", "--host", "b"), "'trust' is no name"),
        ((*HOUSE, "--user", "till"), "names no role; give NAME=ROLE with one of settlement, "),
        ((*HOUSE, "--user", "box1=desk"), "'box1' is the name of two"),
        ((*HOUSE, "--user", "broker=desk"), "'broker' is the name of two"),
        ((*HOUSE, "--host", "käse"), "--host: "),
        ((*HOUSE, "--add"), "site-ca.crt: No such file or directory; bring the authority's files here"),
        ((*HOUSE, "--add", "--force"), "give one of the two"),
        (("--config", "nowhere.toml"), "nowhere.toml: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line_and_makes_nothing(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = broker_setup(tmp_path / "broker", *arguments)
    assert isinstance(done.exception, ConfigError), done.output
    assert said in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "broker").exists()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = broker_setup(tmp_path / "file/broker", *HOUSE)
    assert isinstance(done.exception, ConfigError)
    assert "name a folder that can be written" in str(done.exception)


def test_half_of_a_pair_is_one_line(tmp_path: Path) -> None:
    out = tmp_path / "broker"
    broker_setup(out, *HOUSE)
    (out / "desk.key").unlink()
    done = broker_setup(out, *HOUSE, "--add")
    assert isinstance(done.exception, ConfigError)
    assert "desk.key does not exist; remove both files of desk" in str(done.exception)


def test_a_node_s_own_configuration_says_site_tables_and_host(tmp_path: Path) -> None:
    config = tmp_path / "dollyd.toml"
    config.write_text(EXAMPLE.read_text("utf-8"))
    known = load(config)
    done = broker_setup(tmp_path / "broker", "--config", str(config))
    assert done.exit_code == 0, done.exception
    acl = (tmp_path / "broker/dollyd.acl").read_text()
    assert f"user {known.node}\n" in acl
    assert all(re.search(rf"topic write dolly/v1/{known.site}/{table}/last\n", acl) for table in known.tables)


# --- [desk] ----------------------------------------------------------------------------------------


def test_the_desk_comes_as_itself_and_needs_none_of_the_node_s_secrets(tmp_path: Path, made: Path) -> None:
    config = tmp_path / "dollyd.toml"
    text = re.sub(r"(?ms)^\[mqtt\]\n.*?(?=^\[)", "", EXAMPLE.read_text("utf-8"))
    node = '[mqtt]\nbrokers = ["mqtts://b:8883"]\ncert_file = "x.crt"\nkey_file = "nobody-reads.key"\n'
    desk = f'[desk]\ncert_file = "{made}/desk.crt"\nkey_file = "{made}/desk.key"\n'
    config.write_text(f"{text}\n{node}")
    settings = load(config)
    with pytest.raises(ConfigError, match=r"mqtt\.cert_file"):
        desk_settings(settings)
    config.write_text(f"{text}\n{node}{desk}")
    mqtt = desk_settings(load(config))
    assert (mqtt.cert_file, mqtt.brokers) == (f"{made}/desk.crt", ("mqtts://b:8883",))
    with pytest.raises(ConfigError, match=r"desk\.key_file: .*missing\.key does not exist"):
        desk_settings(replace(load(config), desk=DeskSection(key_file=str(tmp_path / "missing.key"))))
    with pytest.raises(ConfigError, match=r"mqtt\.cert_file"):
        mqtt_settings(load(config))  # the daemon comes as the node all the same
