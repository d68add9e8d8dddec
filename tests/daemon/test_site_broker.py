"""The shipped broker configuration and access list, with a real Mosquitto."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from tests.support.broker import Mosquitto
from tests.support.site_broker import CONFIG, DEBIAN, Site, site_of

from dollyd.daemon.brokers.acl import node_acl
from dollyd.daemon.brokers.check import BrokerCheck
from dollyd.daemon.brokers.finding import Finding, Level
from dollyd.daemon.commands.line import NoAnswerError, TableLine
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.link.mqtt import Cause, LinkError, MqttLink, MqttSettings
from dollyd.wire.topics import Topics

TOPICS = Topics("house")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Mosquitto(started=False) as broker:
        site = site_of(broker)
        broker.start()
        yield site


async def cause(site: Site, user: str, topic: str) -> Cause | None:
    """Why a user may not publish to a topic, None where it may."""
    try:
        async with MqttLink(site.settings(user), site.address, keep_session=False) as link:
            await link.publish(topic, b"x")
    except LinkError as error:
        return error.cause
    return None


@pytest.mark.parametrize(
    ("user", "topic"),
    [
        ("box1", TOPICS.record("r1", "result")),
        ("box1", TOPICS.last("r1")),
        ("box1", TOPICS.device("r1", "wheel")),
        ("box1", TOPICS.checkpoint("r1")),
        ("box1", TOPICS.replay_answer("r1", "settlement")),
        ("box1", TOPICS.node_status("box1")),
        ("box1", TOPICS.trust()),
        ("box2", TOPICS.record("r2", "void")),
        ("settlement", TOPICS.ack("r1", "settlement")),
        ("settlement", TOPICS.replay_ask("r2", "settlement")),
        ("desk", TOPICS.command("r1")),
        ("witness1", TOPICS.witness("r1", "witness1")),
        ("witness1", TOPICS.ack("r1", "witness1")),
        ("witness1", TOPICS.replay_ask("r1", "witness1")),
        ("archive1", TOPICS.ack("r1", "archive")),
        ("archive1", TOPICS.replay_ask("r1", "archive1")),
    ],
)
async def test_everybody_may_publish_what_is_theirs(site: Site, user: str, topic: str) -> None:
    assert await cause(site, user, topic) is None


@pytest.mark.parametrize(
    ("user", "topic"),
    [
        ("box1", TOPICS.record("r2", "result")),
        ("box1", TOPICS.last("r2")),
        ("box1", TOPICS.node_status("box2")),
        ("box1", TOPICS.node_keys("box2")),
        ("box1", TOPICS.command("r1")),
        ("box1", TOPICS.ack("r1", "settlement")),
        ("settlement", TOPICS.record("r1", "result")),
        ("settlement", TOPICS.last("r1")),
        ("settlement", TOPICS.command("r1")),
        ("settlement", TOPICS.ack("r1", "audit")),
        ("settlement", TOPICS.replay_answer("r1", "settlement")),
        ("settlement", TOPICS.trust()),
        ("display", TOPICS.replay_ask("r1", "display")),
        ("desk", TOPICS.record("r1", "result")),
        ("desk", TOPICS.command_reply("r1")),
        ("witness1", TOPICS.witness("r1", "witness2")),
        ("witness1", TOPICS.checkpoint("r1")),
        ("archive1", TOPICS.ack("r1", "settlement")),
        ("stranger", TOPICS.replay_ask("r1", "stranger")),
    ],
)
async def test_nobody_may_publish_what_is_not_theirs(site: Site, user: str, topic: str) -> None:
    assert await cause(site, user, topic) is Cause.DENIED


@pytest.mark.parametrize("other", ["settlement", "witness1", "archive", "changing-name-17"])
async def test_attack_8_nobody_asks_in_the_name_of_another(site: Site, other: str) -> None:
    assert await cause(site, "archive1", TOPICS.replay_ask("r1", other)) is Cause.DENIED


async def test_a_display_hears_results_and_no_commands(site: Site) -> None:
    async with MqttLink(site.settings("display"), site.address, keep_session=False) as display:
        await display.subscribe(TOPICS.command("r1"))
        await display.subscribe(TOPICS.last("r1"))
        assert await cause(site, "desk", TOPICS.command("r1")) is None
        assert await cause(site, "box1", TOPICS.last("r1")) is None
        heard = await anext(display.messages())
    assert heard.topic == TOPICS.last("r1")


@pytest.mark.parametrize(
    ("user", "topics"),
    [
        ("box1", [TOPICS.device("r1", "wheel")]),  # the doctor's
        ("settlement", [TOPICS.replay_answer("r1", "settlement")]),
        ("archive1", [TOPICS.shared("archive", TOPICS.record("r1", "result"))]),
        ("archive1", [TOPICS.last("r1"), TOPICS.checkpoint("r1"), TOPICS.replay_answer("r1", "archive1")]),
        ("witness1", [TOPICS.record("r1", "result"), TOPICS.last("r1"), TOPICS.checkpoint("r1")]),
        ("witness1", [TOPICS.replay_answer("r1", "witness1")]),
        ("desk", [TOPICS.state("r1"), TOPICS.command_reply("r1", "c-1"), TOPICS.command_reply("r1")]),
    ],
)
async def test_everybody_hears_what_the_work_needs(site: Site, user: str, topics: list[str]) -> None:
    settings = replace(site.settings(user), client_id="another")  # box1 is also the one that speaks
    async with MqttLink(settings, site.address, keep_session=False) as link:
        heard = link.messages()
        for topic in topics:
            await link.subscribe(topic)
            plain = topic.removeprefix("$share/archive/")
            assert await cause(site, "box1", plain) is None
            assert (await asyncio.wait_for(anext(heard), 5)).topic == plain


async def test_nobody_comes_in_without_a_certificate(site: Site) -> None:
    nobody = replace(site.settings("box1"), cert_file=None, key_file=None, ack_deadline_s=0.5)
    with pytest.raises(LinkError) as caught:
        async with MqttLink(nobody, site.address, keep_session=False) as link:
            await link.publish(TOPICS.last("r1"), b"x")
    assert caught.value.cause in {Cause.TLS, Cause.CLOSED, Cause.REJECTED, Cause.SILENT}


async def test_a_message_beyond_the_limit_is_not_taken(site: Site) -> None:
    async with MqttLink(site.settings("box1"), site.address, keep_session=False) as link:
        with pytest.raises(LinkError):
            await link.publish(TOPICS.last("r1"), b"x" * 1_200_000)


def test_the_shipped_blocks_of_nodes_are_those_that_check_prints() -> None:
    shipped = (CONFIG / "mosquitto.acl").read_text("utf-8")
    for node, table in (("box1", "r1"), ("box2", "r2")):
        assert node_acl(TOPICS, node, [table], publishes_trust=node == "box1") in shipped


def test_attack_3d_one_user_of_the_shipped_list_may_publish_the_trust_file() -> None:
    shipped = (CONFIG / "mosquitto.acl").read_text("utf-8")
    assert shipped.count(f"topic write {TOPICS.trust()}\n") == 1
    assert f"readwrite {TOPICS.trust()}" not in shipped


async def test_the_table_line_of_a_node_says_whose_certificate_is_wanted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is there; the shipped access list lets the node write it and the desk read it."""
    monkeypatch.setattr("dollyd.daemon.commands.line.STATE_WAIT_S", 0.5)
    state = b'{"table":"r1","game":"roulette","variant":"A","phase":"idle","round":1,"chain":"c"}'
    async with MqttLink(site.settings("box1"), site.address, keep_session=False) as link:
        await link.publish(TOPICS.state("r1"), state, retain=True)
    node = replace(site.settings("box1"), client_id="person")
    with pytest.raises(
        NoAnswerError, match=r"box1\.crt\) may not read it: .*\[desk\] .*--cert-file and --key-file"
    ):
        await TableLine(node, "house", "r1").state()
    with pytest.raises(NoAnswerError, match=r"denied.*\[desk\] .*--cert-file and --key-file"):
        await TableLine(node, "house", "r1").ask(b"an order")
    assert (await TableLine(site.settings("desk"), "house", "r1").state()).chain == "c"
    async with MqttLink(site.settings("box1"), site.address, keep_session=False) as link:
        await link.publish(TOPICS.state("r1"), b"", retain=True)


def test_the_shipped_file_sets_nothing_that_debians_own_may_set_once() -> None:
    """The broker of these tests is started through Debian's file, which includes ours."""
    ours = (CONFIG / "mosquitto.conf").read_text("utf-8").splitlines()
    names = {line.split()[0] for line in ours if line and not line.startswith("#")}
    once = {line.split()[0] for line in DEBIAN.splitlines() if line} - {"persistence", "log_dest"}
    assert not names & once


def test_clients_of_the_documents_have_the_id_that_the_shipped_broker_wants() -> None:
    root = CONFIG.parent
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    lines = [line for page in pages for line in page.read_text("utf-8").splitlines()]
    commands = [line for line in lines if line.startswith(("mosquitto_sub", "mosquitto_pub"))]
    assert commands
    assert [line for line in commands if " -i " not in line] == []


# --- the check of a running broker ---------------------------------------------------------------


async def findings(
    site: Site, user: str = "box1", sizes: Mapping[str, int] | None = None
) -> dict[str, Finding]:
    check = BrokerCheck(site.settings(user), site.address, TOPICS, user, SystemClock(), sizes)
    return {finding.what: finding for finding in await check.run()}


async def test_the_check_finds_the_shipped_broker_good(site: Site) -> None:
    found = await findings(site)
    bad = [str(one) for one in found.values() if one.level in {Level.WRONG, Level.WARNING}]
    assert [line for line in bad if "clock" not in line] == []
    assert found["queue"].text.startswith("1500 records")
    assert found["persistence"].level is Level.UNKNOWN
    assert set(found) == {
        "reach", "size", "tls", "retained", "session", "queue", "access", "drops", "clock", "persistence"
    }  # fmt: skip


async def test_b30_a_queue_limit_of_the_broker_is_found_before_it_costs_records(tmp_path: Path) -> None:
    with Mosquitto(started=False) as broker:
        site = site_of(broker)
        site.configure(
            ("max_queued_messages 20000", "max_queued_messages 1000"),
            (f"acl_file {CONFIG}/mosquitto.acl", ""),
        )
        broker.start()
        found = await findings(site)
    assert (found["queue"].level, found["access"].level) == (Level.WRONG, Level.WRONG)
    assert "max_queued_messages 20000" in found["queue"].remedy
    assert "1000 were kept" in found["queue"].text


async def test_a_broker_that_is_not_there_is_one_finding_with_a_remedy() -> None:
    with Mosquitto(started=False) as broker:
        found = await findings(site_of(broker))
    assert (found["reach"].level, found["reach"].remedy) == (Level.WRONG, "start the broker")
    assert "queue" not in found


async def test_attack_9_a_trust_file_of_2000_people_passes_the_shipped_broker(site: Site) -> None:
    found = await findings(site, sizes={"the trust file": 730_000})
    assert (found["size"].level, found["size"].text) == (
        Level.GOOD, "730000 bytes come back as they were sent"
    )  # fmt: skip
    assert "limit" not in found


@pytest.mark.parametrize(
    ("limit", "protocol"),
    [
        ("max_packet_size 200000", "5"),
        ("message_size_limit 200000", "5"),
        ("message_size_limit 200000", "3.1.1"),
    ],
)
async def test_n4_the_check_believes_no_acknowledgement_of_what_does_not_come_back(
    limit: str, protocol: Literal["5", "3.1.1"]
) -> None:
    with Mosquitto(f"max_queued_messages 20000\n{limit}") as broker:
        mqtt = MqttSettings((broker.address,), "box1", protocol=protocol)
        sizes = {"the trust file": 293_655}
        check = BrokerCheck(mqtt, broker.address, TOPICS, "box1", SystemClock(), sizes)
        found = {finding.what: finding for finding in await check.run()}
    assert found["size"].level is Level.WRONG
    assert found["size"].text.startswith("the trust file has 293655 bytes: ")
    assert "max_packet_size 1114112" in found["size"].remedy
    assert found["queue"].level is Level.GOOD  # another matter
    assert ("limit" in found) is ("message_size_limit" in limit)
