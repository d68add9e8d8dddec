"""Keys that follow one another, keys that are lost, and the command line around them."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.chains import keys, signer
from typer.testing import CliRunner

from dollyd.client import SiteTrust
from dollyd.client.proof.verify import verify_envelopes
from dollyd.daemon.cli import application
from dollyd.daemon.cli.given_keys import keys_for_verification, keys_to_follow
from dollyd.daemon.host.clock import Quality
from dollyd.daemon.journal.store import Entry, Journal
from dollyd.daemon.journal.tail import BY_CONFIGURATION
from dollyd.daemon.journal.writer import Draft, Writer
from dollyd.daemon.keys.signing import Signer, load_signer, new_key
from dollyd.daemon.table.chains import Keyring, start_chains, turn_of
from dollyd.daemon.table.resume import closed_by_people, opens_by_itself
from dollyd.wire.errors import ConfigError
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import ClockBody, Kind, encode
from dollyd.wire.stamp import NS_PER_S, Stamp
from dollyd.wire.trust import load_trust

AT = Stamp(NS_PER_S, 1_796_000_000 * NS_PER_S)
A, B, C = signer(1), signer(2), signer(3)


class StillClock:
    boot = "boot-1"

    def stamp(self) -> Stamp:
        return AT

    def quality(self) -> Quality:
        return Quality(synchronised=True, error_bound_us=1)

    async def sleep_until(self, mono_ns: int) -> None:
        raise NotImplementedError


def ring(key: Signer, next_key: Signer | None = None) -> Keyring:
    return Keyring("dollyd.toml", "node-1", key, next_key, None)


class Run:
    """What a daemon does with keys and chains between a start and a stop."""

    def __init__(self, journal: Journal, keyring: Keyring, tables: tuple[str, ...] = ("r1",)) -> None:
        self.failures: list[Exception] = []
        self.writer = Writer(
            journal,
            keyring.newest,
            site="house",
            node="node-1",
            clock=StillClock(),
            on_written=lambda _entries: None,
            on_failure=self.failures.append,
        )
        tails = {table: journal.tail(table) for table in tables}
        self.going_on = start_chains(self.writer, journal, keyring, tails, AT)
        self.writer.start()

    def tell(self, table: str = "r1", kind: Kind = Kind.CLOCK, round_number: int = 0) -> None:
        self.writer.submit(Draft(table, kind, round_number, encode(ClockBody(step_ns=1)), AT))

    def end(self) -> None:
        self.writer.close()
        assert self.failures == []


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "journal.db")
    yield opened
    opened.close()


def story(journal: Journal, table: str = "r1") -> list[tuple[str, str]]:
    """Kind (or event) and signer of every record of the chain that goes on."""
    return [told(entry) for entry in journal.entries(journal.tables()[table])]


def told(entry: Entry) -> tuple[str, str]:
    kid = parse_envelope(entry.envelope).kid
    name = next(name for name, key in (("A", A), ("B", B), ("C", C)) if key.kid == kid)
    return str(body_of(entry).get("event", entry.kind)), name


def body_of(entry: Entry) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(parse_envelope(entry.envelope).payload)["body"]
    return body


def verified(journal: Journal, *pinned: Signer) -> dict[str, str]:
    report = verify_envelopes((e.envelope for e in journal.entries_after(0, 10_000)), keys(*pinned))
    assert report.ok, report.problems
    return report.keys


# --- rotation --------------------------------------------------------------------------------------


def test_b54_all_chains_go_over_between_two_records_and_all_verify(journal: Journal) -> None:
    run = Run(journal, ring(A), ("r1", "r2"))
    run.tell("r1")
    run.writer.rotate(B, AT)
    run.tell("r1")
    run.tell("r2")
    run.end()
    assert story(journal, "r1") == [("chain-start", "A"), ("clock", "A"), ("rotated", "A"), ("clock", "B")]
    assert story(journal, "r2") == [("chain-start", "A"), ("rotated", "A"), ("clock", "B")]
    assert verified(journal, A) == {A.kid: "superseded", B.kid: "announced"}
    for keyring in (ring(A, B), ring(B)):
        again = Run(journal, keyring, ("r1", "r2"))
        again.tell("r1")
        again.end()
    assert [event for event, _ in story(journal, "r1")].count("rotated") == 1
    assert story(journal, "r1")[-2:] == [("clock", "B"), ("clock", "B")]
    assert verified(journal, A, B) == {A.kid: "superseded", B.kid: "pinned"}


def test_a_start_with_a_next_key_rotates(journal: Journal) -> None:
    Run(journal, ring(A)).end()
    run = Run(journal, ring(A, B), ("r1", "new"))
    run.tell()
    run.end()
    assert story(journal) == [("chain-start", "A"), ("rotated", "A"), ("clock", "B")]
    assert story(journal, "new") == [("chain-start", "B")]
    verified(journal, A, B)


def test_a_stop_right_after_the_announcement_leaves_the_turn_to_the_new_key(journal: Journal) -> None:
    run = Run(journal, ring(A))
    run.writer.rotate(B, AT)
    run.end()
    tail = journal.tail("r1")
    assert tail is not None
    assert tail.kid == A.kid
    assert turn_of(journal, tail) == B.kid
    run = Run(journal, ring(B))
    run.tell()
    run.end()
    assert story(journal) == [("chain-start", "A"), ("rotated", "A"), ("clock", "B")]
    verified(journal, A)


def test_rotating_to_the_key_that_signs_writes_nothing(journal: Journal) -> None:
    run = Run(journal, ring(A))
    run.writer.rotate(A, AT)
    run.tell()
    run.end()
    assert story(journal) == [("chain-start", "A"), ("clock", "A")]


def test_keys_follow_one_another(journal: Journal) -> None:
    run = Run(journal, ring(A))
    for key in (B, C):
        run.tell()
        run.writer.rotate(key, AT)
    run.tell()
    run.end()
    assert [who for _, who in story(journal)] == ["A", "A", "A", "B", "B", "C"]
    assert verified(journal, A) == {A.kid: "superseded", B.kid: "superseded", C.kid: "announced"}


def test_records_from_other_threads_find_their_place_before_or_after(journal: Journal) -> None:
    run = Run(journal, ring(A))

    def tell_many() -> None:
        for _ in range(200):
            run.tell()

    threads = [threading.Thread(target=tell_many) for _ in range(3)]
    for thread in threads:
        thread.start()
    run.writer.rotate(B, AT)
    for thread in threads:
        thread.join()
    run.end()
    assert len(story(journal)) == 602
    verified(journal, A)


# --- a lost key ------------------------------------------------------------------------------------


def test_a_lost_key_is_a_new_chain_that_says_so(journal: Journal) -> None:
    run = Run(journal, ring(A))
    run.tell(kind=Kind.ROUND, round_number=1)
    run.end()
    old = journal.tail("r1")
    assert old is not None
    run = Run(journal, ring(C))
    assert run.going_on == {"r1": None}
    run.tell(kind=Kind.ROUND, round_number=1)
    run.end()
    assert journal.chains() == [("r1", old.chain), ("r1", journal.tables()["r1"])]
    start, left_open, _ = journal.entries(journal.tables()["r1"])
    assert body_of(start) == {
        "event": "chain-start",
        "jwk": C.jwk,
        "reason": "key-lost",
        "previous_chain": old.chain,
        "previous_seq": 2,
    }
    assert body_of(left_open)["what"] == "round-left-open"
    assert body_of(left_open)["details"] == {"chain": old.chain, "round": "1", "last_utc": old.last_utc}
    report = verify_envelopes((e.envelope for e in journal.entries_after(0, 100)), keys(A, C))
    assert report.ok
    assert report.heads[old.chain].open_round == 1


def test_a_lost_key_with_no_round_open_leaves_none(journal: Journal) -> None:
    Run(journal, ring(A)).end()
    Run(journal, ring(B, C)).end()
    assert story(journal) == [("chain-start", "C")]


@pytest.mark.parametrize(("by", "closed"), [("p.korhonen", True), (BY_CONFIGURATION, False)])
def test_l4_a_table_that_people_had_closed_stays_closed_when_the_key_is_lost(
    journal: Journal, by: str, closed: bool
) -> None:
    run = Run(journal, ring(A))
    run.writer.submit(Draft("r1", Kind.SESSION, 0, b'{"event":"closed","by":"%s"}' % by.encode(), AT))
    run.end()
    orphan = journal.tail("r1")
    assert closed_by_people(orphan) is closed
    for _ in range(2):  # and at the starts after that, when the new chain is the one that goes on
        Run(journal, ring(C)).end()
        tail = journal.tail("r1")
        assert tail is not None
        assert tail.session is None
        assert opens_by_itself(tail) is not closed


# --- a reload --------------------------------------------------------------------------------------


def test_a_reload_never_loses_the_key_that_signs() -> None:
    assert ring(A, B).replacing(ring(A)).newest is B
    assert ring(B).replacing(ring(A, B)).newest is B
    for changed, old in ((ring(B), ring(A)), (ring(A), ring(A, B)), (ring(A, C), ring(A, B))):
        with pytest.raises(ConfigError, match=r"signing\.key: .*which signs now") as refused:
            changed.replacing(old)
        assert "\n" not in str(refused.value)


def test_both_keys_are_published() -> None:
    assert json.loads(ring(A, B).jwks()) == {"keys": [A.jwk, B.jwk]}
    assert json.loads(ring(A).jwks()) == {"keys": [A.jwk]}


# --- the command line ------------------------------------------------------------------------------


class Office:
    """Where the root key and the trust file are."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trust = directory / "trust.json"
        self.root = directory / "root.pem"
        self.root_kid = self.ok("new-root", self.root).split()[-1]
        self.ok("new", self.trust, "--site", "house", "--root-key", self.root)

    def run(self, command: str, *arguments: str | Path) -> Any:
        return CliRunner().invoke(application, ["trust", command, *map(str, arguments)])

    def ok(self, command: str, *arguments: str | Path) -> str:
        result = self.run(command, *arguments)
        assert result.exit_code == 0, result.output + repr(result.exception)
        return str(result.output)

    def refused(self, command: str, *arguments: str | Path) -> str:
        result = self.run(command, *arguments)
        assert isinstance(result.exception, ConfigError), result.output
        assert "\n" not in str(result.exception)
        return str(result.exception)

    def public(self, name: str, key: Signer) -> Path:
        path = self.directory / name
        path.write_text(json.dumps({"keys": [key.jwk]}))
        return path

    def add(self, key: Signer, *more: str) -> None:
        self.ok("add-node", self.trust, "box1", self.public("node.json", key), *more, "--root-key", self.root)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_a_trust_file_is_made_changed_shown_and_checked(office: Office) -> None:
    office.add(A)
    person = office.public("person.json", B)
    roles = ("--role", "dealer", "--role", "inspector")
    office.ok("add-operator", office.trust, "d-17", person, *roles, "--root-key", office.root)
    office.ok("revoke", office.trust, A.kid, "--reason", "box stolen", "--root-key", office.root)
    trust = load_trust(office.trust.read_bytes(), office.root_kid)
    assert (trust.site, trust.version) == ("house", 4)
    assert trust.nodes[A.kid].reason == "box stolen"
    shown = office.ok("show", office.trust)
    assert f"node box1, key {A.kid}: revoked" in shown
    assert f"operator d-17 (dealer, inspector), key {B.kid}: valid" in shown
    assert office.ok("check", office.trust, "--root", office.root_kid).endswith("good\n")
    assert stat.S_IMODE(office.root.stat().st_mode) == 0o600


def test_keys_that_soon_expire_are_warned_of(office: Office) -> None:
    office.add(A, "--not-before", "2020-01-01", "--not-after", "2099-01-01T06:00+01:00")
    office.add(C, "--not-before", "2020-01-01", "--not-after", "2021-01-01")
    office.ok("check", office.trust, "--root", office.root_kid)
    soon = load_trust(office.trust.read_bytes(), office.root_kid).file.issued[:10]
    office.add(B, "--not-before", "2020-01-01", "--not-after", soon + "T23:59:59.999")
    told_ = office.ok("check", office.trust, "--root", office.root_kid)
    assert f"WARNING: node box1, key {B.kid}: expires at {soon}T23:59:59" in told_
    assert A.kid not in told_
    assert C.kid not in told_  # has expired, and was warned of in its time


def test_a_rolled_root_is_followed_from_the_old_one(office: Office) -> None:
    office.add(A)
    new_root = office.directory / "new-root.pem"
    new_kid = office.ok("new-root", new_root).split()[-1]
    office.ok("roll", office.trust, "--root-key", office.root, "--new-root-key", new_root)
    assert f"pin {new_kid}" in office.ok("check", office.trust, "--root", office.root_kid)
    assert "pin" not in office.ok("check", office.trust, "--root", new_kid)
    before = office.trust.read_bytes()
    says = office.refused("revoke", office.trust, A.kid, "--reason", "x", "--root-key", office.root)
    assert f"signed under root {new_kid}" in says
    assert office.trust.read_bytes() == before


def test_each_mistake_is_one_clear_line_and_changes_nothing(office: Office) -> None:
    office.add(A)
    before = office.trust.read_bytes()
    root = ("--root-key", office.root)
    node = office.public("node.json", A)
    two = office.directory / "two.json"
    two.write_text(json.dumps({"keys": [B.jwk, C.jwk]}))
    other = office.directory / "other.pem"
    new_key(other)
    assert "exists already" in office.refused("new", office.trust, "--site", "house", *root)
    assert "exists already" in office.refused("new-root", office.root)
    assert "stands there already" in office.refused("add-node", office.trust, "box1", node, *root)
    assert "2 keys" in office.refused("add-node", office.trust, "box1", two, *root)
    person = office.public("person.json", B)
    assert "'Box 1'" in office.refused("add-node", office.trust, "Box 1", person, *root)
    assert "no role 'boss'" in office.refused(
        "add-operator", office.trust, "d", person, "--role", "boss", *root
    )
    assert "no time" in office.refused("add-node", office.trust, "b", person, "--not-after", "soon", *root)
    assert "no key" in office.refused("revoke", office.trust, B.kid, "--reason", "x", *root)
    assert "root:" in office.refused("add-node", office.trust, "box2", person, "--root-key", other)
    assert "root:" in office.refused("check", office.trust, "--root", A.kid)
    assert "No such file" in office.refused("show", office.directory / "none")
    assert "not an Ed25519" in office.refused("add-node", office.trust, "b", _elliptic(office), *root)
    assert office.trust.read_bytes() == before
    assert sorted(path.suffix for path in office.directory.iterdir()) == [".json"] * 5 + [".pem"] * 2


def _elliptic(office: Office) -> Path:
    path = office.directory / "elliptic.json"
    path.write_text(json.dumps({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}))
    return path


def test_verification_takes_a_key_set_or_a_trust_file_with_its_root(office: Office) -> None:
    office.add(A)
    jwks = office.public("node.json", A)
    assert keys_for_verification(None, None, "") is None
    assert keys_for_verification(jwks, None, "") == keys(A)
    trust = keys_for_verification(None, office.trust, office.root_kid)
    assert trust == load_trust(office.trust.read_bytes(), office.root_kid)
    for wrong in (
        (jwks, office.trust, office.root_kid),
        (None, office.trust, ""),
        (None, None, office.root_kid),
    ):
        with pytest.raises(ConfigError):
            keys_for_verification(*wrong)
        with pytest.raises(ConfigError):
            keys_to_follow(wrong[0], wrong[1], wrong[2], "house")


def test_who_follows_takes_the_trust_file_as_it_changes_and_none_that_leads_elsewhere(office: Office) -> None:
    office.add(A)
    trust = keys_to_follow(None, office.trust, office.root_kid, "house")
    assert isinstance(trust, SiteTrust)
    assert trust.trust == load_trust(office.trust.read_bytes(), office.root_kid)
    later = keys_to_follow(None, office.directory / "not-yet.json", office.root_kid, "house")
    assert isinstance(later, SiteTrust)
    assert later.trust is None
    assert later.offer(office.trust.read_bytes())
    assert (office.directory / "not-yet.json").read_bytes() == office.trust.read_bytes()
    for path, root, site in (
        (office.trust, A.kid, "house"),
        (office.trust, office.root_kid, "elsewhere"),
        (office.directory, office.root_kid, "house"),
    ):
        with pytest.raises(ConfigError):
            keys_to_follow(None, path, root, site)
    with pytest.raises(ConfigError, match="no --trust either"):
        keys_to_follow(None, None, "", "house")


def test_a_daemon_takes_no_older_trust_file(office: Office) -> None:
    older = load_trust(office.trust.read_bytes(), office.root_kid)
    office.add(A)
    newer_ = load_trust(office.trust.read_bytes(), office.root_kid)
    key = load_signer(office.root, config_file="", key="")
    running = replace(ring(key), trust=newer_)
    assert replace(ring(key), trust=newer_).replacing(running).trust is newer_
    with pytest.raises(ConfigError, match=r"signing\.trust: rollback"):
        replace(ring(key), trust=older).replacing(running)
