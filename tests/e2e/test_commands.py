"""People at the table: signed commands through a real broker to a real daemon, also by `dollyd table`."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
import typer.main
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.support.broker import Mosquitto, until
from tests.support.chains import signer
from tests.support.commands import BOSS, DEALER, INSPECTOR, PEOPLE, ROOT, Person, order, payload, trust_bytes
from tests.support.daemon import (
    NODE,
    SITE,
    TOPICS,
    Consumer,
    Daemon,
    Installation,
    dollyd,
    finals_by_round,
    journaled,
)
from tests.support.simulated_table import SimulatedTable
from typer.testing import CliRunner, Result

from dollyd.daemon.cli import application
from dollyd.daemon.cli.table import application as table_application
from dollyd.daemon.commands import line as table_line
from dollyd.daemon.commands.line import TableLine
from dollyd.daemon.commands.ssh_agent import agent_keys
from dollyd.daemon.keys.signing import load_signer
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.wire.answer import Answer
from dollyd.wire.command import COMMAND_TYP, digest, read_command
from dollyd.wire.errors import ConfigError, SigningError
from dollyd.wire.jws import key_of_jwk, parse_envelope, verify_envelope
from dollyd.wire.key_source import KeySource
from dollyd.wire.stamp import iso_utc
from dollyd.wire.trust import load_trust

COMMAND = payload(order("confirm") | {"role": "dealer"})


def know_people(installation: Installation, *people: Person) -> None:
    """Give the daemon a trust file, and people their key files."""
    node = load_signer(installation.signing_key, config_file="", key="")
    file = installation.directory / "trust.jws"
    file.write_bytes(trust_bytes(*(people or PEOPLE), site=SITE, node=NODE, keys=(node,)))
    if "trust =" not in installation.config.read_text():
        lines = f'key = "{installation.signing_key}"\n'
        installation.reconfigure(lines, f'{lines}trust = "{file}"\nroot = "{ROOT.kid}"\n')
    for person in PEOPLE:
        key_file(installation.directory, person)


def key_file(directory: Path, person: Person) -> Path:
    path = directory / f"{person.id}.pem"
    if not path.exists():
        key = person.key._private_key
        path.touch(0o600)
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def verified_by_trust(installation: Installation) -> dict[str, Any]:
    """What `dollyd verify` says, with nothing pinned but the site's root."""
    trusted = ("--trust", installation.directory / "trust.jws", "--root", ROOT.kid)
    run = dollyd("verify", installation.journal, *trusted, "--json")
    assert run.returncode == 0, run.stdout + run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    assert not [note for note in report["notes"] if "persons" in note]
    return report


class Staff:
    """People who command table r1 by MQTT."""

    def __init__(self, broker: Mosquitto, consumer: Consumer, keys: KeySource) -> None:
        self.line = TableLine(MqttSettings((broker.address,), "staff"), SITE, "r1")
        self.consumer = consumer
        self.keys = keys

    @property
    def state(self) -> dict[str, Any]:
        return self.consumer.latest(TOPICS.state("r1"))

    def command(self, who: Person, name: str, **changes: Any) -> bytes:
        place = {"chain": self.state["chain"], "nonce": os.urandom(16).hex()}
        return who.sign(order(name, iso_utc(time.time_ns()), **place | changes))

    async def send(self, command: bytes) -> Answer:
        return await self.line.ask(command, self.keys)

    async def say(self, who: Person, name: str, **changes: Any) -> Answer:
        return await self.send(self.command(who, name, **changes))


@pytest.fixture
def installation(broker: Mosquitto, tmp_path: Path) -> Installation:
    """Roulette A whose rounds end by people only."""
    made = Installation(tmp_path, broker.address, variant="A", unresolved_void_after_s=0)
    made.reconfigure('variant = "A"\n', 'variant = "A"\nconfirm = "dealer"\n')
    know_people(made)
    return made


@pytest.fixture
async def staff(broker: Mosquitto, consumer: Consumer, daemon: Daemon, installation: Installation) -> Staff:
    trust = load_trust((installation.directory / "trust.jws").read_bytes(), ROOT.kid)
    made = Staff(broker, consumer, trust)
    await until(lambda: bool(made.state.get("chain")))
    await until(lambda: bool(daemon.logged("inbox_connected")))
    return made


async def at_rest(staff: Staff, after: int = 0) -> int:
    """Until a round after this one waits for the dealer; its number."""
    await until(lambda: staff.state["round"] > after and staff.state["phase"] == "at-rest", 30)
    return int(staff.state["round"])


async def test_an_evening_of_commands(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer, staff: Staff
) -> None:
    """T28, T29, T30, T59: void, confirmation, who may do what, and a correction by two persons."""
    table.play()
    first = await at_rest(staff)
    refused = await staff.say(INSPECTOR, "void", round=first)
    assert (refused.answer, refused.why) == ("refused", "role inspector may not do this in this game")
    done = await staff.say(DEALER, "void", round=first, judged_by="i1", judged_role="inspector")
    assert (done.answer, done.records[-1]) == ("done", {"kind": "void", "round": first})
    assert (await staff.say(DEALER, "void", round=first)).answer == "refused"

    second = await at_rest(staff, first)
    table.end_play()
    assert (await staff.say(DEALER, "confirm", round=second)).answer == "done"
    late = await staff.say(DEALER, "void", round=second)
    assert late.answer == "refused"
    published = consumer.of("result")[-1]
    wrong = published.body["outcome"]["pocket"]
    right = "15" if wrong != "15" else "16"
    proposal = staff.command(INSPECTOR, "correct", round=second, value=[right])
    assert (await staff.send(proposal)).answer == "done"
    await until(lambda: "proposal" in staff.state)
    assert (
        staff.state["proposal"] | {"digest": digest(proposal), "by": "i1", "value": [right]}
        == (staff.state["proposal"])
    )
    alone = await staff.say(INSPECTOR, "approve", round=second, value=[right], proposal=digest(proposal))
    assert alone.answer == "refused"
    approved = await staff.say(BOSS, "approve", round=second, value=[right], proposal=digest(proposal))
    assert approved.records[-1] == {"kind": "correction", "round": second}
    await until(lambda: bool(consumer.of("correction")))
    (correction,) = consumer.of("correction")
    assert correction.body["corrects"] == published.seq
    assert correction.body["before"]["outcome"] == published.body["outcome"]
    assert correction.body["after"]["outcome"]["pocket"] == right

    again = staff.command(INSPECTOR, "correct", round=second, value=None, reason="the ball was stopped")
    assert (await staff.send(again)).answer == "done"
    void = await staff.say(BOSS, "approve", round=second, value=None, proposal=digest(again))
    assert void.records[-1] == {"kind": "correction", "round": second}
    await until(lambda: len(consumer.of("correction")) == 2)
    assert consumer.of("correction")[-1].body["corrects"] == correction.seq
    await until(lambda: "proposal" not in staff.state)
    assert await daemon.stop() == 0
    told = [r.body["what"] for r in journaled(installation) if r.kind == "incident"]
    assert {"void-refused", "correction-proposed", "command-refused"} <= set(told)
    report = verified_by_trust(installation)
    assert report["kinds"]["correction"] == 2


async def test_attack_what_a_real_broker_can_be_made_to_carry(
    installation: Installation,
    broker: Mosquitto,
    table: SimulatedTable,
    daemon: Daemon,
    consumer: Consumer,
    staff: Staff,
) -> None:
    """1 MB, garbage, a flood, a retained command over a restart, answers that the broker makes up."""
    table.play()
    number = await at_rest(staff)
    topic = TOPICS.command("r1")
    captured = staff.command(DEALER, "void", round=number)
    async with aiomqtt.Client(broker.host, broker.port, identifier="attacker") as attacker:
        await attacker.publish(topic, b"x" * 1_000_000, qos=1)
        for junk in (b"", b"{}", b"\xff", captured[:-2], captured + b" "):
            await attacker.publish(topic, junk, qos=1)
        await attacker.publish(TOPICS.command_reply("r1"), json.dumps({"answer": "done"}), qos=1)
        for count in range(1500):
            await attacker.publish(topic, b"%d" % count, qos=0)
    await asyncio.sleep(2.5)  # until the inbox takes this many a second again
    stranger = Person("d1", "dealer", signer(60))
    assert (await staff.say(stranger, "void", round=number)).why.startswith("unknown-key")
    assert staff.state["phase"] == "at-rest"
    confirmed = staff.command(DEALER, "confirm", round=number)
    assert (await staff.send(confirmed)).answer == "done"
    assert (await staff.send(confirmed)).answer == "done"  # the same again, and nothing done

    following = await at_rest(staff, number)
    async with aiomqtt.Client(broker.host, broker.port, identifier="attacker") as attacker:
        await attacker.publish(topic, captured, qos=1)  # older than the newest of this key
        await attacker.publish(
            topic, staff.command(DEALER, "void", round=following), qos=1, retain=True
        )  # live for those who listen, and kept for those who come
    await until(lambda: following in [r.round for r in consumer.of("void")])
    table.end_play()
    assert await daemon.stop() == 0
    before = len(journaled(installation))
    daemon.start()
    await daemon.started()
    await until(lambda: bool(daemon.logged("command_refused")))
    assert await daemon.stop() == 0
    after = journaled(installation)[before:]
    assert [r.body["text"] for r in after if r.body.get("what") == "command-refused"] == ["retained"]
    assert [
        r.kind for r in journaled(installation) if r.round == number and r.kind in ("void", "result")
    ] == ["result"]
    told = [r for r in journaled(installation) if r.body.get("what") == "command-refused"]
    assert len(told) <= 24
    verified_by_trust(installation)


async def give(installation: Installation, who: Person, *words: str) -> Result:
    """`dollyd table`, as a person types it."""
    key = key_file(installation.directory, who)
    where = ["table", "--config", str(installation.config), "--key", str(key), "--role", who.role]
    return await asyncio.to_thread(CliRunner().invoke, application, [*where, *words])


async def test_power_cut_with_the_ball_in_the_track_two_persons_close_the_round(
    installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer, staff: Staff
) -> None:
    """After the restart nothing is published by itself; two commands make one final record of this round."""
    table.play()
    await until(lambda: staff.state["phase"] == "no-more-bets", 30)
    number = int(staff.state["round"])
    daemon.kill()
    table.end_play()
    daemon.start()
    await daemon.started()
    await until(lambda: number in [r.round for r in consumer.of("unresolved")], 20)
    await until(lambda: bool(daemon.logged("inbox_connected")))
    await asyncio.sleep(1)
    assert number not in [r.round for r in consumer.of("result", "void")]
    assert staff.state["blocked"]

    shown = await give(installation, DEALER, "--dry-run", "enter", "15", "--reason", "seen by all")
    assert shown.exit_code == 0, shown.output
    assert "outcome:   15" in shown.output
    assert f'"round":{number}' in shown.output
    await asyncio.sleep(0.2)
    assert "proposal" not in staff.state

    said = await give(installation, DEALER, "--yes", "enter", "15", "--reason", "seen")
    assert (said.exit_code, "done" in said.output) == (0, True), said.output
    assert "not checked" not in said.output
    await until(lambda: "proposal" in staff.state)
    assert staff.state["mode"] == "manual"
    alone = await give(installation, DEALER, "--yes", "approve")
    assert (alone.exit_code, "refused: approval: the same person twice" in alone.output) == (1, True)
    assert not consumer.of("result")
    approved = await give(installation, BOSS, "--yes", "approve")
    assert (approved.exit_code, "what d1 is said to have signed" in approved.output) == (0, True)
    await until(lambda: bool(consumer.of("result")))
    await until(lambda: staff.state["manual_results"] == 1)
    assert (staff.state["results"], staff.state["mode"]) == (1, "manual")
    assert await daemon.stop() == 0
    finals = finals_by_round(journaled(installation))
    assert finals["r1", number] == ["result"]
    (result,) = consumer.of("result")
    assert (result.round, result.body["mode"], result.body["outcome"]["pocket"]) == (number, "manual", "15")
    assert verified_by_trust(installation)["rounds"] == len(finals)
    derived = dollyd("replay", installation.journal, "--config", installation.config)
    assert derived.returncode == 0, derived.stdout
    stolen = know_others(installation)
    assert "two persons must stand behind it" in stolen


def know_others(installation: Installation) -> str:
    """What verify says where the trust file knows the pit boss by another key."""
    know_people(installation, DEALER, replace(BOSS, key=signer(46)))
    trusted = ("--trust", installation.directory / "trust.jws", "--root", ROOT.kid)
    return dollyd("verify", installation.journal, *trusted).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--role", "owner", "confirm"), "no role 'owner'"),
        (("--role", "dealer", "--table", "R1", "confirm"), "'R1' is no name"),
        (("--role", "dealer", "--site", "house", "--broker", "localhost:1", "confirm"), "both given"),
        (("--role", "dealer", "correct", "--round", "1", "--reason", "x"), "neither or both given"),
        (("--role", "dealer", "open", "--check", "level"), "is no check"),
        (("--role", "dealer", "--yes", "--key", "{open}", "close"), "can be read by others"),
        (("--role", "dealer", "--yes", "--key", "{none}", "close"), "does not exist"),
        (("--role", "dealer", "--dry-run", "enter", "15", "--reason", "x" * 201), "reason"),
        (("--role", "dealer", "--yes", "close"), "--key: missing"),
        (("--role", "dealer", "--dry-run", "approve"), "no such proposal waits"),
    ],
)
def test_wrong_use_is_told(shown: Installation, words: tuple[str, ...], said: str) -> None:
    names = {"open": shown.jwks, "none": shown.directory / "none"}
    arguments = ["table", "--config", str(shown.config), *(word.format(**names) for word in words)]
    run = CliRunner().invoke(application, arguments, env={"SSH_AUTH_SOCK": ""})
    assert isinstance(run.exception, ConfigError), run.output
    assert said in str(run.exception)


@pytest.mark.parametrize("word", ["enter", "correct"])
def test_options_of_the_order_and_of_the_table_stand_anywhere(shown: Installation, word: str) -> None:
    """And `enter` and `correct` are said in one way: the value, and the round by `--round`."""
    behind = ["--reason", "--yes", "--dry-run", "--role=dealer", "--table", "r1", "15", "--round", "2"]
    run = CliRunner().invoke(application, ["table", word, *behind, "--config", str(shown.config)])
    assert run.exit_code == 0, run.output
    signed = json.loads(run.output.strip().splitlines()[-1])
    told = {name: signed[name] for name in ("order", "role", "round", "value", "reason")}
    assert told == {"order": word, "role": "dealer", "round": 2, "value": ["15"], "reason": "--yes"}


def test_a_correction_does_not_guess_its_round(shown: Installation) -> None:
    words = ["correct", "2", "15", "--reason", "x", "--dry-run", "--role", "dealer"]
    run = CliRunner().invoke(application, ["table", "--config", str(shown.config), *words])
    assert run.exit_code == 2
    assert "--round" in run.output


def test_what_stands_behind_a_table_option_is_never_an_order(shown: Installation) -> None:
    """All options of the group but none of an order's own are moved: no name has two meanings."""
    group: Any = typer.main.get_command(table_application)
    names = {name for one in group.params for name in one.opts} - {"--help"}
    for command in group.commands.values():
        assert names.isdisjoint(name for one in command.params for name in one.opts), command.name


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A broker that keeps the state of a table, without a daemon."""
    state = {
        "table": "r1", "game": "roulette", "variant": "A", "phase": "bets-open", "round": 3, "mode": "auto",
        "chain": "a" * 32, "results": 0, "manual_results": 0, "blocked": "", "devices": {}, "last": [],
    }  # fmt: skip
    with Mosquitto() as broker:
        made = Installation(tmp_path_factory.mktemp("shown"), broker.address, variant="A")
        asyncio.run(keep(broker, TOPICS.state("r1"), json.dumps(state).encode()))
        yield made


async def keep(broker: Mosquitto, topic: str, data: bytes) -> None:
    async with aiomqtt.Client(broker.host, broker.port, identifier="keeper") as keeper:
        await keeper.publish(topic, data, qos=1, retain=True)


def test_a_table_that_does_not_answer_is_told(shown: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_line, "STATE_WAIT_S", 0.5)
    arguments = ["table", "--config", str(shown.config), "--role", "dealer", "--table", "r9", "--dry-run"]
    run = CliRunner().invoke(application, [*arguments, "confirm"])
    assert run.exit_code == 1
    assert "no state of table r9" in run.output


def test_an_agent_signs_and_keeps_its_key(
    shown: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real ssh-agent: what it signs is a command of the key that it has."""
    if shutil.which("ssh-agent") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-agent is not installed")
    socket = tmp_path / "agent"
    for kind in ("rsa", "ed25519"):
        make = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(tmp_path / kind)]
        subprocess.run(make, check=True)
    with pytest.raises(SigningError):
        agent_keys(socket)
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 5
        while not socket.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        environment = os.environ | {"SSH_AUTH_SOCK": str(socket)}
        for kind in ("rsa", "ed25519"):
            subprocess.run(["ssh-add", "-q", str(tmp_path / kind)], env=environment, check=True)
        (key,) = agent_keys(socket)
        envelope = key.sign(COMMAND, COMMAND_TYP)
        parsed = parse_envelope(envelope, COMMAND_TYP)
        verify_envelope(parsed, {key.kid: key_of_jwk(key.jwk)})
        assert read_command(envelope).kid == key.kid
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        run = dollyd("table", "--config", shown.config, "--role", "dealer", "--kid", "no", "--yes", "close")
        assert (run.returncode, key.kid in run.stderr) == (78, True)
        subprocess.run(["ssh-add", "-q", "-D"], env=environment, check=True)
        with pytest.raises(SigningError, match="does not sign"):
            key.sign(COMMAND, COMMAND_TYP)
    finally:
        agent.terminate()
        agent.wait()
