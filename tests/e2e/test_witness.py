"""A second box sees that the first one's history was written again, with the real key."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from tests.support.broker import Mosquitto, until
from tests.support.daemon import SITE, STOP_S, TOPICS, Consumer, Daemon, Installation, Told, journaled, told
from tests.support.simulated_table import SimulatedTable, playing

from dollyd.client.proof.verify import verify_journal
from dollyd.client.witness.witness import Statement, check_witness, read_statement
from dollyd.daemon.keys.signing import Signer, load_signer, new_key
from dollyd.wire.jws import Keys, keys_of_jwks, parse_envelope
from dollyd.wire.record import NO_PREVIOUS

NAME = "w1"


class Box:
    """The witness's box: its key, and what it remembers."""

    def __init__(self, installation: Installation, broker: str) -> None:
        self.directory = installation.directory / "witness"
        self.directory.mkdir()
        self.log = self.directory / "log"
        self.key = self.directory / "witness.pem"
        self.keys: Keys = keys_of_jwks([new_key(self.key).jwk])
        self._arguments = [
            *("--broker", broker, "--site", SITE, "--name", NAME, "--keys", str(installation.jwks)),
            *("--key", str(self.key), "--state", str(self.directory / "state")),
        ]

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """`dollyd witness` as a child, killed at the end of the block."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dollyd.daemon", "witness", *self._arguments], stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait(STOP_S)

    def said(self, consumer: Consumer) -> list[tuple[bytes, Statement]]:
        """Its statements as they were heard."""
        topic = TOPICS.witness("r1", NAME)
        heard = [message.payload for message in consumer.listener.heard if message.topic == topic]
        return [(envelope, read_statement(envelope, self.keys)) for envelope in heard]


def kept_checkpoints(consumer: Consumer) -> list[Told]:
    """The retained checkpoints of the table as they were heard."""
    topic = TOPICS.checkpoint("r1")
    return [told(message.payload) for message in consumer.listener.heard if message.topic == topic]


def write_again(journal: Path, signer: Signer) -> None:
    """What who has the disk and the key can do: another number, and a chain that is good in itself."""
    with closing(sqlite3.connect(journal)) as connection, connection:
        prev, changed = NO_PREVIOUS, False
        for id_, envelope in connection.execute("SELECT id, envelope FROM entry ORDER BY id").fetchall():
            record: dict[str, Any] = msgspec.json.decode(parse_envelope(envelope).payload)
            record["prev"] = prev
            if record["kind"] == "checkpoint":
                record["body"]["head"] = prev
            if record["kind"] == "result" and not changed:
                record["body"]["outcome"]["pocket"] = "00"
                changed = True
            again = signer.sign(msgspec.json.encode(record))
            connection.execute("UPDATE entry SET envelope = ? WHERE id = ?", (again, id_))
            prev = sha256(again).hexdigest()
        assert changed


async def test_a_journal_written_again_with_the_real_key_is_found(
    broker: Mosquitto, installation: Installation, table: SimulatedTable, consumer: Consumer
) -> None:
    box = Box(installation, broker.address)
    keys = keys_of_jwks(msgspec.json.decode(installation.jwks.read_bytes())["keys"])
    with Daemon(installation) as daemon:
        await daemon.started()
        with box.running():
            await until(lambda: "event=broker_connected" in box.log.read_text())
            await playing(table, consumer)
            assert await daemon.stop() == 0
            last = journaled(installation)[-1]
            assert (last.kind, last.body["reason"]) == ("checkpoint", "stopped")
            await until(lambda: bool(box.said(consumer)))
        statement, said = box.said(consumer)[-1]
        assert {s.verdict for _, s in box.said(consumer)} == {"consistent"}
        assert said.seq == last.seq - 1
        assert said.checkpoint == sha256(last.envelope).hexdigest()
        assert kept_checkpoints(consumer)[-1] == last
        assert check_witness(statement, box.keys, verify_journal(installation.journal, keys)).why == ""

        write_again(installation.journal, load_signer(installation.signing_key, config_file="", key=""))
        report = verify_journal(installation.journal, keys)
        assert report.ok, report.problems  # nobody can tell who has not seen the first one
        assert "written again" in check_witness(statement, box.keys, report).why
        installation.reconfigure("[journal]\n", "[journal]\ncheckpoint_every_s = 1\n")
        daemon.start()
        await daemon.started()
        with box.running() as process:
            await until(lambda: box.said(consumer)[-1][1].verdict == "inconsistent", 20)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, STOP_S) == 1
        _, said = box.said(consumer)[-1]
        assert said.why
        await until(lambda: kept_checkpoints(consumer)[-1].body["reason"] == "hourly")
