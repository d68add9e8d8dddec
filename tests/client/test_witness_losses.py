"""Records that people give up for lost: the witness goes on behind them, and says from where it saw all."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.client.test_lost_records import chain, raised
from tests.support.chains import SITE, ChainMaker, keys, signer
from typer.testing import CliRunner

from dollyd.client import GapError, MqttSettings
from dollyd.client.stream.given_up import GivenUp
from dollyd.client.witness.book import WitnessBook
from dollyd.client.witness.service import Witness
from dollyd.client.witness.witness import read_statement
from dollyd.daemon.cli import application
from dollyd.daemon.keys.signing import new_key
from dollyd.wire.errors import ConfigError
from dollyd.wire.record import CheckpointBody, Kind

WITNESS = signer(9)


def witness(book: WitnessBook, *losses: str) -> Witness:
    mqtt = MqttSettings(("127.0.0.1:1",), "")
    return Witness(mqtt, SITE, "w1", keys(signer()), book, WITNESS.sign, map(GivenUp.of, losses))


async def hear(one: Witness, *envelopes: bytes) -> list[int]:
    """Numbers of the records that it took."""
    for envelope in envelopes:
        one._stream._reader.hear("r1", envelope)
    taken = []
    while (delivered := one._stream._reader.next()) is not None:
        await one._take(one._stream, delivered)
        taken.append(delivered.record.seq)
    return taken


def with_checkpoint() -> ChainMaker:
    maker = chain()
    body = CheckpointBody(reason="hourly", seq=maker.seq, head=maker.prev, finals=10)
    maker.add(Kind.CHECKPOINT, body=msgspec.to_builtins(body))
    return maker


async def test_l3_a_witness_goes_on_behind_a_loss_now_and_after_a_restart(tmp_path: Path) -> None:
    maker = with_checkpoint()
    with closing(WitnessBook(tmp_path / "book.db")) as book:
        one = witness(book, f"{maker.chain}:1-5")
        reader = one._stream._reader
        assert await hear(one, *maker.envelopes[:2], *maker.envelopes[5:-1]) == [1, 2]
        await one._miss(one._stream, raised(reader))
        assert await hear(one) == list(range(6, maker.seq))
    with closing(WitnessBook(tmp_path / "book.db")) as book:
        again = witness(book)
        assert await hear(again, maker.envelopes[-1]) == [maker.seq]
        said = read_statement(again._statements["r1"], keys(WITNESS))
        assert (said.verdict, said.first, said.seq) == ("consistent", 6, maker.seq - 1)


@pytest.mark.parametrize("other", ["3-4", "4-5", "b"], ids=["shorter", "later", "another-chain"])
async def test_l3_a_witness_gives_nothing_up_that_nobody_has_named(tmp_path: Path, other: str) -> None:
    maker = with_checkpoint()
    with closing(WitnessBook(tmp_path / "book.db")) as book:
        one = witness(book, f"{'b' * 32}:3-5" if other == "b" else f"{maker.chain}:{other}")
        await hear(one, *maker.envelopes[:2], *maker.envelopes[5:])
        await one._miss(one._stream, raised(one._stream._reader))
        assert await hear(one) == []
        assert len(one._gaps) == 1


def test_l3_what_is_given_up_is_named_record_by_record() -> None:
    loss = GivenUp.of(f"{'a' * 32}:3-5")
    assert loss.covers(GapError("r1", "a" * 32, 3, 5, "pruned"))
    assert not loss.covers(GapError("r1", "a" * 32, 3, 6, "pruned"))


@pytest.mark.parametrize("text", ["x:1-2", f"{'a' * 32}:0-2", f"{'a' * 32}:3-2", f"{'a' * 32}:3", ""])
def test_l3_what_names_no_records_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("dollyd.daemon.cli.witness.configure_logging", lambda **_: None)
    new_key(tmp_path / "witness.pem")
    given = ["witness", "--broker", "b:1", "--site", SITE, "--name", "w1", "--state", str(tmp_path / "state")]
    given += ["--key", str(tmp_path / "witness.pem"), "--keys", "none", "--accept-loss", text]
    done = CliRunner().invoke(application, given)
    assert isinstance(done.exception, ConfigError)
    assert "is not CHAIN:FIRST-LAST" in str(done.exception)
