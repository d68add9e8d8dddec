"""Answers to commands: signed by the node, and good for one command only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.support.chains import NODE, SITE, keys, signer
from tests.support.commands import DEALER, order, trust
from tests.support.desk import REPLY, Bench, at_desk

from dollyd.daemon.cli.site_link import keys_of_site
from dollyd.daemon.commands.line import TableLine
from dollyd.daemon.link.mqtt import LinkError, Message, MqttLink, MqttSettings
from dollyd.wire.answer import ANSWER_TYP, Answer, read_answer
from dollyd.wire.command import digest
from dollyd.wire.errors import ConfigError
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.key_source import KeySource, source_of

PINNED = source_of(keys(signer()))
COMMAND = DEALER.sign(order("void"))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with at_desk(tmp_path) as made:
        yield made


def payload(**changes: Any) -> bytes:
    answer = Answer(
        "void",
        "0" * 32,
        "done",
        "",
        v=1,
        site=SITE,
        table="r1",
        node=NODE,
        command=digest(COMMAND),
        utc="2026-11-29T18:41:20.000000000Z",
        synchronised=True,
        error_bound_us=5,
    )
    return msgspec.json.encode(msgspec.structs.replace(answer, **changes))


def signed(typ: str = ANSWER_TYP, by: int = 1, **changes: Any) -> bytes:
    return signer(by).sign(payload(**changes), typ)


async def test_l7_an_answer_is_signed_and_names_its_command_and_its_clock(bench: Bench) -> None:
    bench.clock.synchronised = False
    command = DEALER.sign(order("void", bench.now()))
    await bench.give(command)
    for trusted in (PINNED, trust()):
        answer = read_answer(bench.envelopes[-1], SITE, "r1", command, trusted)
        assert (answer.answer, answer.node, answer.command) == ("done", NODE, digest(command))
        assert answer.records == [{"kind": "void", "round": 1}]
        assert (answer.utc, answer.synchronised) == (bench.now(), False)


async def test_l7_what_cannot_be_read_is_answered_under_its_digest(bench: Bench) -> None:
    await bench.give(b"x")
    answer = read_answer(bench.envelopes[-1], SITE, "r1", b"x", PINNED)
    assert (answer.answer, answer.nonce) == ("refused", "")


async def test_l7_a_new_key_signs_answers_as_soon_as_it_signs_records(bench: Bench) -> None:
    await bench.give(b"x")
    bench.signer = signer(2)
    await bench.give(b"x")
    read_answer(bench.envelopes[-1], SITE, "r1", b"x", source_of(keys(signer(2))))
    with pytest.raises(EnvelopeError, match="unknown key"):
        read_answer(bench.envelopes[-1], SITE, "r1", b"x", PINNED)


FALSE: dict[str, tuple[Callable[[], bytes], str]] = {
    "unsigned": (payload, "envelope-members"),
    "a-record's": (lambda: signed("dolly-record/1"), "header-typ"),
    "another-command's": (lambda: signed(command=digest(b"x")), "other"),
    "another-table's": (lambda: signed(table="r2"), "other"),
    "another-site's": (lambda: signed(site="casino"), "other"),
    "a-stranger's": (lambda: signed(by=60), "key"),
    "altered": (
        lambda: signed().split(b'"sig')[0] + b'"sig' + signed(why="x").split(b'"sig')[1],
        "signature",
    ),
    "no-answer": (lambda: signer().sign(b'{"v":1}', ANSWER_TYP), "payload"),
}


@pytest.mark.parametrize("trusted", [PINNED, trust()], ids=["keys", "trust"])
@pytest.mark.parametrize("name", FALSE)
def test_l7_a_forged_or_another_commands_answer_is_refused(name: str, trusted: KeySource) -> None:
    make, reason = FALSE[name]
    with pytest.raises(EnvelopeError) as caught:
        read_answer(make(), SITE, "r1", COMMAND, trusted)
    assert caught.value.reason == reason
    read_answer(signed(), SITE, "r1", COMMAND, trusted)


def test_l7_the_key_of_another_node_is_no_key_of_this_answer() -> None:
    with pytest.raises(EnvelopeError, match="named it for this node"):
        read_answer(signed(node="n9"), SITE, "r1", COMMAND, trust())


async def test_l7_a_forged_answer_does_not_hide_the_true_one() -> None:
    """Who may publish where answers come, can neither answer for the table nor silence it."""
    line, refused = TableLine(MqttSettings(("127.0.0.1:1",), "c"), SITE, "r1"), list[str]()
    mine = f"{REPLY}/c-1"

    async def messages(*payloads: bytes) -> AsyncIterator[Message]:
        for one in payloads:
            yield Message(mine, one, False, "", b"")

    false = [make() for make, _ in FALSE.values()]
    link = SimpleNamespace(messages=lambda: messages(*false, signed(why="true")))
    answer = await line._answer(cast("MqttLink", link), mine, COMMAND, PINNED, refused)
    assert (answer.why, len(refused)) == ("true", 1)
    link = SimpleNamespace(messages=lambda: messages(*false))
    with pytest.raises(LinkError):
        await line._answer(cast("MqttLink", link), mine, COMMAND, PINNED, refused)


def test_l7_the_command_line_checks_by_keys_by_a_trust_file_or_says_that_it_cannot(tmp_path: Path) -> None:
    file = tmp_path / "trust.jws"
    file.write_bytes(trust().envelope)
    jwks = tmp_path / "keys.json"
    jwks.write_bytes(msgspec.json.encode({"keys": [signer().jwk]}))
    for trusted in (
        keys_of_site(None, jwks, None, ""),
        keys_of_site(None, None, file, trust().root),
    ):
        assert read_answer(signed(), SITE, "r1", COMMAND, trusted).answer == "done"
    assert keys_of_site(None, None, None, "") is None
    with pytest.raises(ConfigError, match="goes with --trust"):
        keys_of_site(None, None, file, "")
