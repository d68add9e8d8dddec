"""What others send is one kind of bad input, whatever is wrong with it: to every ear of node and client."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.support.chains import SITE, keys, signer
from tests.support.desk import Bench, at_desk

from dollyd.client import MemoryWatermarks, SiteTrust, Stream
from dollyd.client.archive.service import Archive
from dollyd.client.stream.nodes import Nodes
from dollyd.client.witness.service import Witness
from dollyd.client.witness.witness import read_statement
from dollyd.daemon.brokers.check import BrokerCheck
from dollyd.daemon.commands.line import TableLine, _first_state
from dollyd.daemon.commands.marks import CommandMarks
from dollyd.daemon.consumers.replay import ReplayService
from dollyd.daemon.consumers.watermarks import Limits, Watermarks
from dollyd.daemon.core.rulebook import RuleTextError, parse_rulebook
from dollyd.daemon.doctor.examination import _as_heard
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.keys.trust_file import read_jwks
from dollyd.daemon.link.inbox import MESSAGE_MAX_BYTES, Inbox
from dollyd.daemon.link.mqtt import LinkError, Message, MqttLink, MqttSettings
from dollyd.daemon.settings.load import load, shipped_table
from dollyd.daemon.table.capture import CaptureError, engine_of, rederive, replay_plain
from dollyd.wire.decoding import TOML_LEVELS_MAX, from_json, from_toml
from dollyd.wire.errors import ConfigError
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.topics import Topics

TOPICS = Topics(SITE)
MQTT = MqttSettings(("127.0.0.1:1",), "node-1")
HUGE = b"9" * 5000
BAD = {
    "deep-object": b'{"a":' * 2000 + b"1" + b"}" * 2000,
    "deep-list": b"[" * 5000 + b"]" * 5000,
    "deep-unknown-member": b'{"consumer":"c","zz":' + b"[" * 3000 + b"]" * 3000 + b"}",
    "deep-and-cut-off": b'{"consumer":"c","zz":' + b"[" * 3000,
    "deep-envelope": b'{"payload":' + b"[" * 3000 + b'],"protected":"e30","signature":"AA"}',
    "no-utf8": b'{"consumer":"\xff\xfe","state":"\xff"}',
    "half-a-character": b'{"consumer":"\\ud800","end":"\\udfff"}',
    "huge-integer": b'{"a":%s,"from":%s,"seq":%s,"session":%s}' % ((HUGE[:3500],) * 4),
}
"""By what is wrong. All fit into a message that the inbox takes."""
STATUS = b'{"state":"online","node":"n1","session":%s,"valid_for_s":%s,"valid_until":"%s"}'

bad = pytest.mark.parametrize("payload", BAD.values(), ids=BAD)


def message(topic: str, payload: bytes) -> Message:
    return Message(topic, payload, retain=False, response_topic="", correlation=b"")


class Heard:
    """A link on which these messages come."""

    def __init__(self, *heard: Message) -> None:
        self._heard = heard

    async def messages(self) -> Any:
        for one in self._heard:
            yield one


# --- the helper ----------------------------------------------------------------------------------


@bad
def test_bad_json_is_one_error(payload: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        from_json(payload, dict[str, dict[str, str]])
    with pytest.raises(msgspec.DecodeError):
        from_json(b'{"a":[%s' % payload, dict[str, msgspec.Raw])


@pytest.mark.parametrize(
    "text",
    [
        b"a = " + b"[" * 3000 + b"]" * 3000,
        b"a." * 3000 + b"b = 1",
        b"a = " + HUGE,
        b"a = 0x" + b"f" * 5000,
        b'a = "\xff"',
        b"a = ",
    ],
    ids=["deep-list", "deep-keys", "huge-integer", "huge-hexadecimal", "no-utf8", "cut-off"],
)
def test_bad_toml_is_one_error(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        from_toml(text)
    config = tmp_path / "dollyd.toml"
    config.write_bytes(text)
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(config)
    with pytest.raises(RuleTextError):
        parse_rulebook(text)


def test_good_toml_is_a_tree_as_deep_as_anybody_needs() -> None:
    assert from_toml(b"[a.b]\nc = [[1], ['\xc3\xa4']]") == {"a": {"b": {"c": [[1], ["ä"]]}}}
    from_toml(b"a." * (TOML_LEVELS_MAX - 1) + b"b = 1")
    with pytest.raises(tomllib.TOMLDecodeError):
        from_toml(b"a." * TOML_LEVELS_MAX + b"b = 1")


# --- the node ------------------------------------------------------------------------------------


@pytest.fixture
async def bench(tmp_path: Path) -> Any:
    async with at_desk(tmp_path) as made:
        yield made


def inbox_of(bench: Bench) -> tuple[Inbox, ReplayService]:
    """An inbox with every route that a node has."""
    inbox = Inbox(MQTT, SystemClock(), Random(1), lambda: "")
    replays = ReplayService(["r1"], TOPICS, bench.journal, inbox.send, SystemClock())
    marks = Watermarks({"r1": {}}, TOPICS, Limits(1, 1), SystemClock(), lambda _table, _body: None)
    for route in (*replays.routes(), *marks.routes(), *bench.desk.routes()):
        inbox.add(route)
    return inbox, replays


@bad
async def test_no_message_ends_a_route_of_the_inbox(bench: Bench, payload: bytes) -> None:
    assert len(payload) <= MESSAGE_MAX_BYTES
    inbox, _ = inbox_of(bench)
    filters = list(inbox._routes)
    assert filters == [TOPICS.every_replay_ask("r1"), TOPICS.every_ack("r1"), TOPICS.command("r1")]
    for topic_filter in filters:
        inbox._take(message(topic_filter.replace("+", "c"), payload))
    assert inbox.snapshot()["taken"] == len(filters)
    await bench.idle()
    assert bench.desk.snapshot()["refused"]
    assert not bench.tasks[0].done()


async def test_who_asks_with_a_deep_request_is_told_so(bench: Bench) -> None:
    inbox, replays = inbox_of(bench)
    inbox._take(message(TOPICS.replay_ask("r1", "c"), b'{"zz":[[]]}'))
    inbox._take(message(TOPICS.replay_ask("r1", "d"), BAD["deep-unknown-member"]))
    assert replays.snapshot()["waiting"] == 2  # bad-request


@bad
async def test_no_message_ends_the_node_s_own_tools(payload: bytes) -> None:
    check = BrokerCheck(MQTT, "127.0.0.1:1", TOPICS, "n1", SystemClock())
    assert len(check._clocks([message(TOPICS.node_status("n1"), payload)])) == 1
    assert _as_heard(payload).status == _as_heard(b"").status
    with pytest.raises(msgspec.DecodeError):
        await _first_state(cast("MqttLink", Heard(message("t", payload))), "t")
    line, refused = TableLine(MQTT, SITE, "r1"), list[str]()
    with pytest.raises(LinkError):
        await line._answer(cast("MqttLink", Heard(message("t", payload))), "t", b"", None, refused)
    assert len(refused) == 1


@bad
def test_no_file_of_others_ends_a_tool(tmp_path: Path, payload: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(payload)
    with pytest.raises(ConfigError):
        read_jwks(file)
    with pytest.raises(ConfigError):
        CommandMarks(file)
    with pytest.raises(CaptureError):
        rederive(cast("Any", SimpleNamespace()), {}, payload)


@pytest.mark.parametrize("t", [b"1e308", b"-1e308", b"1e400", HUGE, b"[" * 3000])
def test_no_time_in_a_plain_capture_is_too_large_for_a_clock(t: bytes) -> None:
    engine = engine_of(shipped_table("roulette", "A", "cammegh-ss2"))
    with pytest.raises(CaptureError, match="line 1"):
        list(replay_plain(engine, "cammegh-ss2", [b'{"t":%s,"dir":"rx","line":""}' % t]))


# --- the client ----------------------------------------------------------------------------------


@bad
async def test_no_message_ends_a_stream(payload: bytes, tmp_path: Path) -> None:
    trust = SiteTrust(SITE, "x" * 43, tmp_path / "trust.json")
    stream = Stream(MQTT, SITE, "c", trust, MemoryWatermarks())
    topics = [
        TOPICS.trust(),
        TOPICS.node_status("n1"),
        TOPICS.record("r1", "result"),
        TOPICS.last("r1"),
        TOPICS.checkpoint("r1"),
        TOPICS.replay_answer("r1", "c"),
    ]
    for topic in topics:
        stream._hear(message(topic, payload))
    assert trust.refused == 1
    assert stream.nodes.ignored == 1


@bad
async def test_no_message_ends_an_archive(payload: bytes) -> None:
    archive = Archive(MQTT, SITE, "a", keys(signer()), cast("Any", None))
    for topic in (
        TOPICS.record("r1", "result"),
        TOPICS.last("r1"),
        TOPICS.checkpoint("r1"),
        TOPICS.replay_answer("r1", "a"),
    ):
        await archive._hear(message(topic, payload))
    heard = [archive._queue.get_nowait() for _ in range(archive._queue.qsize())]
    assert archive._intake.take(heard) == []
    assert sum(archive.refused.values()) == len(heard) == 4


@bad
def test_no_message_ends_a_witness(payload: bytes) -> None:
    book = SimpleNamespace(watermarks=MemoryWatermarks(), statements=dict)
    witness = Witness(MQTT, SITE, "w", keys(signer()), cast("Any", book), lambda _payload, _typ: b"")
    witness._look_back("r1", payload)
    with pytest.raises(EnvelopeError):
        read_statement(payload, keys(signer()))


@pytest.mark.parametrize("number", [b"1" + b"0" * 400, b"-1", b"1e400"])
def test_no_number_ends_who_listens_to_nodes(number: bytes) -> None:
    nodes = Nodes()
    nodes.take("n1", STATUS % (number, b"5", b""), 0.0, 0.0, retained=False)
    nodes.take("n1", STATUS % (b"1", number, b""), 0.0, 0.0, retained=False)
    nodes.take("n1", STATUS % (b"1", b"5", b"0001-01-01T00:00:00"), 0.0, 0.0, retained=True)
    assert nodes.ignored == 3
