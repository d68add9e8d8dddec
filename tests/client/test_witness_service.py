"""The witness at a real broker: what it hears, what it says, and what it is not fooled by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest
from tests.client.test_site_trust import file_of
from tests.support.broker import Listener, Mosquitto, listening, until
from tests.support.chains import SITE, ChainMaker, envelope_of, header, keys, signer
from typer.testing import CliRunner

from dollyd.client import SiteTrust
from dollyd.client.witness.book import WitnessBook
from dollyd.client.witness.service import Witness
from dollyd.client.witness.witness import Statement, read_statement
from dollyd.daemon.cli import application
from dollyd.daemon.keys.signing import new_key
from dollyd.daemon.link.mqtt import MqttLink, MqttSettings
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import CheckpointBody, Kind, Record
from dollyd.wire.topics import Topics

TOPICS = Topics(SITE)
WITNESS = signer(9)


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture
def book(tmp_path: Path) -> Iterator[WitnessBook]:
    with closing(WitnessBook(tmp_path / "book.db")) as opened:
        yield opened


def checkpoint(maker: ChainMaker, finals: int) -> bytes:
    body = CheckpointBody(reason="hourly", seq=maker.seq, head=maker.prev, finals=finals)
    return maker.add(Kind.CHECKPOINT, body=msgspec.to_builtins(body))


@asynccontextmanager
async def witnessing(
    broker: Mosquitto, book: WitnessBook, trust: SiteTrust | None = None
) -> AsyncIterator[Witness]:
    """A witness that listens already."""
    mqtt = MqttSettings((broker.address,), "", keepalive_s=2, ack_deadline_s=0.5)
    witness = Witness(mqtt, SITE, "w1", trust or keys(signer()), book, WITNESS.sign)
    task = asyncio.create_task(witness.run())
    try:
        await until(lambda: task.done() or witness._stream.broker != "")
        yield witness
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


async def publish(broker: Mosquitto, envelopes: Iterable[bytes], *, checkpoint_too: bool = False) -> None:
    """As the daemon does; the last one also retained as the table's checkpoint."""
    async with MqttLink(MqttSettings((broker.address,), "daemon"), broker.address) as link:
        for envelope in envelopes:
            record = msgspec.json.decode(parse_envelope(envelope).payload, type=Record)
            await link.publish(TOPICS.record(record.table, record.kind), envelope)
            if checkpoint_too and record.kind == Kind.CHECKPOINT:
                await link.publish(TOPICS.checkpoint(record.table), envelope, retain=True)


def said(listener: Listener) -> list[Statement]:
    return [read_statement(payload, keys(WITNESS)) for payload in listener.payloads("/witness/w1")]


async def test_what_anybody_can_send_does_not_brand_a_chain(broker: Mosquitto, book: WitnessBook) -> None:
    maker = ChainMaker().begin().play(1, 1)
    checkpoint(maker, 1)
    async with listening(broker, TOPICS.every_witness()) as listener, witnessing(broker, book) as witness:
        await publish(broker, maker.envelopes)
        await until(lambda: len(said(listener)) == 1)
        payload = parse_envelope(maker.envelopes[1]).payload
        await publish(broker, [envelope_of(header(), payload, by=signer(5))])
        stranger = ChainMaker(by=signer(5)).begin().play(1, 2)
        await publish(broker, stranger.envelopes[1:3])
        await until(lambda: witness._stream.stats.forged == 1 and witness._stream.stats.unsigned == 2)
        maker.play(2, 2)
        checkpoint(maker, 2)
        await publish(broker, maker.envelopes[5:])
        await until(lambda: len(said(listener)) == 2)
        assert [(s.seq, s.first, s.verdict) for s in said(listener)] == [
            (4, 1, "consistent"),
            (8, 1, "consistent"),
        ]


async def test_who_pins_the_root_follows_the_trust_file_that_the_site_retains(
    broker: Mosquitto, book: WitnessBook
) -> None:
    maker = ChainMaker().begin()
    checkpoint(maker, 0)
    trust = SiteTrust(signer(8).kid, SITE)
    async with listening(broker, TOPICS.every_witness()) as listener, witnessing(broker, book, trust):
        async with MqttLink(MqttSettings((broker.address,), "daemon"), broker.address) as link:
            await link.publish(TOPICS.trust(), file_of(1, 1), retain=True)
        await until(lambda: trust.trust is not None)
        await publish(broker, maker.envelopes)
        await until(lambda: len(said(listener)) == 1)


def test_the_command_follows_the_trust_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[object] = []

    async def run(witness: Witness) -> None:
        followed.append(witness._keys)

    monkeypatch.setattr(Witness, "run", run)
    monkeypatch.setattr("dollyd.daemon.cli.witness.configure_logging", lambda **_: None)
    new_key(tmp_path / "witness.pem")
    trust = SiteTrust(signer(8).kid, SITE, tmp_path / "trust.json")
    trust.offer(file_of(3, 1))
    given = ["witness", "--broker", "b:1", "--site", SITE, "--name", "w1", "--state", str(tmp_path / "state")]
    given += ["--key", str(tmp_path / "witness.pem"), "--root", signer(8).kid]
    done = CliRunner().invoke(application, [*given, "--trust", str(tmp_path / "trust.json")])
    assert done.exit_code == 0, done.exception
    (one,) = followed
    assert isinstance(one, SiteTrust)
    assert not one.offer(file_of(2, 1)), "an older one is refused after a restart too"


async def test_a_broker_that_forgot_is_told_again(broker: Mosquitto, book: WitnessBook) -> None:
    maker = ChainMaker().begin()
    checkpoint(maker, 0)
    async with witnessing(broker, book):
        async with listening(broker, TOPICS.every_witness()) as listener:
            await publish(broker, maker.envelopes)
            await until(lambda: len(said(listener)) == 1)
        broker.kill()
        broker.start()
        async with listening(broker, TOPICS.every_witness()) as listener:
            await until(lambda: len(said(listener)) == 1)


async def test_a_shorter_journal_is_found_by_its_retained_checkpoint(
    broker: Mosquitto, book: WitnessBook
) -> None:
    maker = ChainMaker().begin().play(1, 2)
    checkpoint(maker, 2)
    async with witnessing(broker, book), listening(broker, TOPICS.every_witness()) as listener:
        await publish(broker, maker.envelopes)
        await until(lambda: len(said(listener)) == 1)
    shorter = ChainMaker().begin().play(1, 1)
    checkpoint(shorter, 1)
    await publish(broker, shorter.envelopes[-1:], checkpoint_too=True)
    async with witnessing(broker, book), listening(broker, TOPICS.every_witness()) as listener:
        await until(lambda: bool(said(listener)) and said(listener)[-1].verdict == "inconsistent")
        assert said(listener)[-1].why == "record 5 is not the one that was seen before"


async def test_n5_what_a_witness_says_goes_where_it_listens(broker: Mosquitto, book: WitnessBook) -> None:
    """Its own line to the second broker stands; the stream listens to the first."""
    with Mosquitto() as second:
        maker = ChainMaker().begin().play(1, 1)
        checkpoint(maker, 1)
        async with listening(second, TOPICS.every_witness()) as listener, witnessing(broker, book) as witness:
            witness._stream._broker = second.address  # as if it had gone there
            await publish(broker, maker.envelopes)
            await until(lambda: len(said(listener)) == 1)
