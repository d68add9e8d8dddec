"""A key is replaced while the ball runs, another one is lost: no game goes with it, and all can be proven."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import msgspec
import pytest
from tests.support.broker import until
from tests.support.daemon import (
    NODE,
    SITE,
    TOPICS,
    Consumer,
    Daemon,
    Installation,
    finals_by_round,
    journaled,
    numbers,
)
from tests.support.simulated_table import SimulatedTable, playing

from dollyd.client.proof.sources import JournalFile
from dollyd.client.proof.verify import Report, verify_envelopes
from dollyd.daemon.keys.signing import Signer, load_signer, new_key
from dollyd.daemon.keys.trust_file import change_trust, new_trust
from dollyd.wire.jws import Keys, keys_of_jwks, parse_envelope
from dollyd.wire.trust import NodeKey, Trust, load_trust

EARLY = "2026-01-01T00:00:00.000000000Z"
PLAY_S = 30


class Office:
    """The keys of the node, old and new, and the trust file that knows them."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.old = load_signer(installation.signing_key, config_file="", key="")
        self.new_path = installation.directory / "new.pem"
        self.new = new_key(self.new_path)
        self.trust_path = installation.directory / "trust.json"
        self._root = new_key(installation.directory / "root.pem")
        new_trust(self.trust_path, SITE, self._root, EARLY)
        self.let_in(self.old)
        self._signing = f'key = "{installation.signing_key}"\n'
        self.configure(str(installation.signing_key))

    def let_in(self, key: Signer) -> None:
        """Have a key of the node in the trust file."""
        added = NodeKey(node=NODE, jwk=key.jwk, not_before=EARLY)
        change_trust(
            self.trust_path,
            self._root,
            EARLY,
            lambda file: msgspec.structs.replace(file, nodes=(*file.nodes, added)),
        )

    def configure(self, key: str, next_key: str = "") -> None:
        """Name the keys in the configuration."""
        following = f'next_key = "{next_key}"\n' if next_key else ""
        trust = f'trust = "{self.trust_path}"\nroot = "{self._root.kid}"\n'
        signing = f'key = "{key}"\n{following}{trust}'
        self._installation.reconfigure(self._signing, signing)
        self._signing = signing

    def rotate(self, daemon: Daemon) -> None:
        """What an operator does: trust file, configuration, SIGHUP."""
        self.let_in(self.new)
        self.configure(str(self._installation.signing_key), str(self.new_path))
        os.kill(daemon.pid, signal.SIGHUP)

    @property
    def trust(self) -> Trust:
        return load_trust(self.trust_path.read_bytes(), self._root.kid)

    def verify(self, keys: Keys | Trust) -> Report:
        with closing(JournalFile(self._installation.journal)) as journal:
            return verify_envelopes(journal.envelopes(), keys, journal.capture)


@pytest.fixture
def office(installation: Installation) -> Office:
    return Office(installation)


@pytest.fixture
def daemon(office: Office, daemon: Daemon) -> Daemon:
    return daemon


async def in_mid_round(consumer: Consumer) -> int:
    """Wait until bets are closed in a fresh round; its number."""
    closed = len(consumer.of("bets-closed"))
    await until(lambda: len(consumer.of("bets-closed")) > closed, PLAY_S)
    return consumer.of("bets-closed")[-1].round


async def test_b54_a_rotation_in_mid_game_loses_no_game_and_everything_verifies(
    office: Office, installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer, 2)
    assert consumer.listener.payloads(TOPICS.trust())[-1] == office.trust.envelope
    spinning = await in_mid_round(consumer)
    office.rotate(daemon)
    await until(lambda: len(consumer.of("key")) == 2)
    await until(lambda: consumer.of("result")[-1].round >= spinning + 2, PLAY_S)
    assert consumer.of("key")[1].body["event"] == "rotated"
    assert {key["kid"] for key in consumer.latest(TOPICS.node_keys(NODE))["keys"]} == {
        office.old.kid,
        office.new.kid,
    }
    assert consumer.listener.payloads(TOPICS.trust())[-1] == office.trust.envelope
    table.end_play()
    assert await daemon.stop() == 0
    fallen = numbers(journaled(installation))
    assert fallen == table.numbers[: len(fallen)]

    office.configure(str(office.new_path))
    installation.signing_key.unlink()
    daemon.start()
    await daemon.started()
    played = len(consumer.of("result"))
    table.play()
    await until(lambda: len(consumer.of("result")) >= played + 2, PLAY_S)
    assert await daemon.stop() == 0

    records = journaled(installation)
    assert [record.body["event"] for record in records if record.kind == "key"] == ["chain-start", "rotated"]
    turn = next(n for n, record in enumerate(records) if record.body.get("event") == "rotated")
    kids = [parse_envelope(record.envelope).kid for record in records]
    assert kids == [office.old.kid] * (turn + 1) + [office.new.kid] * (len(kids) - turn - 1)
    assert finals_by_round(records)["r1", spinning] == ["result"]
    for keys, word in ((keys_of_jwks([office.old.jwk]), "announced"), (office.trust, "pinned")):
        report = office.verify(keys)
        assert report.ok, report.problems
        assert report.keys == {office.old.kid: "superseded", office.new.kid: word}


async def test_a_lost_key_begins_another_chain_and_the_table_plays_on(
    office: Office, installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer, 2)
    spinning = await in_mid_round(consumer)
    daemon.kill()
    table.end_play()
    office.let_in(office.new)
    office.configure(str(office.new_path))
    daemon.start()
    await daemon.started()
    (lost,) = daemon.logged("key_lost")
    assert office.old.kid in lost
    played = len(consumer.of("result"))
    table.play()
    await until(lambda: len(consumer.of("result")) >= played + 2, PLAY_S)
    assert await daemon.stop() == 0

    first, second = dict.fromkeys(record.chain for record in journaled(installation))
    begin = [record for record in journaled(installation) if record.chain == second]
    assert (begin[0].body["reason"], begin[0].body["previous_chain"]) == ("key-lost", first)
    assert begin[1].body["details"]["round"] == str(spinning)
    assert [record.round for record in begin if record.kind == "round"][:2] == [1, 2]
    report = office.verify(office.trust)
    assert report.ok, report.problems
    assert report.heads[first].open_round == spinning
    assert report.heads[first].seq == begin[0].body["previous_seq"]
    assert not office.verify(keys_of_jwks([office.old.jwk])).ok


async def test_a_reload_that_cannot_be_is_told_and_changes_nothing(
    office: Office, installation: Installation, table: SimulatedTable, daemon: Daemon, consumer: Consumer
) -> None:
    await playing(table, consumer)
    office.configure(str(office.new_path))
    os.kill(daemon.pid, signal.SIGHUP)
    await until(lambda: bool(daemon.logged("reload_refused")))
    assert "which signs now" in daemon.logged("reload_refused")[0]
    last = consumer.of("result")[-1].round
    await until(lambda: consumer.of("result")[-1].round > last, PLAY_S)
    assert await daemon.stop() == 0
    assert office.verify(office.trust).keys == {office.old.kid: "pinned"}
