"""`dollyd trust`: revoking a key with what counts of it, moving its beginning back, a site in one command."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.daemon.test_key_rotation import Office
from tests.support.chains import ChainMaker, signer
from tests.support.journals import evidence_of, journal_of
from typer.testing import CliRunner

from dollyd.client import FileWatermarks, SiteTrust, Trust, Watermark
from dollyd.client.proof.verify import verify_envelopes
from dollyd.daemon.cli import application
from dollyd.daemon.cli.given_keys import keys_to_follow
from dollyd.daemon.evidence import last_records
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.table.chains import too_early
from dollyd.wire.files import replace_file
from dollyd.wire.judgement import Position
from dollyd.wire.trust import load_trust

EARLIER = ("--not-before", "2026-01-01")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    made = Office(tmp_path)
    made.ok(
        "add-node",
        made.trust,
        "node-1",
        made.public("node.json", signer()),
        *EARLIER,
        "--root-key",
        made.root,
    )
    return made


def trust_of(office: Office) -> Trust:
    return load_trust(office.trust.read_bytes(), office.root_kid)


def revoke(office: Office, *more: str | Path) -> str:
    root = ("--root-key", office.root)
    at = ("--at", "2026-12-31")
    return office.ok("revoke", office.trust, signer().kid, "--reason", "stolen", *at, *more, *root)


def last(office: Office) -> list[tuple[str, int, str]]:
    named = trust_of(office).nodes[signer().kid].last
    assert named is not None
    return [(at.chain, at.seq, at.head) for at in named]


# --- what counts ------------------------------------------------------------------------------------


def test_a_revocation_takes_what_counts_from_a_journal(office: Office, tmp_path: Path) -> None:
    maker = ChainMaker().begin().play(1, 2)
    told = revoke(office, "--journal", journal_of(tmp_path / "journal.db", maker))
    assert f"table r1, chain {maker.chain}: counts up to record 7" in told
    assert last(office) == [(maker.chain, 7, maker.prev)]
    assert verify_envelopes(maker.envelopes, trust_of(office)).ok
    maker.play(3, 3)
    assert not verify_envelopes(maker.envelopes, trust_of(office)).ok


def test_what_is_dated_behind_the_revocation_is_not_named(office: Office, tmp_path: Path) -> None:
    maker = ChainMaker().begin().play(1, 2)
    journal = journal_of(tmp_path / "journal.db", maker)
    early = ("--at", "2026-06-01", "--journal", journal, "--root-key", office.root)
    told = office.ok("revoke", office.trust, signer().kid, "--reason", "stolen", *early)
    assert "no record" in told
    assert last(office) == []


def test_a_journal_that_is_not_good_names_nothing(office: Office, tmp_path: Path) -> None:
    stranger = ChainMaker(by=signer(7)).begin()
    journal = journal_of(tmp_path / "journal.db", stranger)
    before = office.trust.read_bytes()
    more = ("--reason", "x", "--journal", journal, "--root-key", office.root)
    assert "not good" in office.refused("revoke", office.trust, signer().kid, *more)
    assert office.trust.read_bytes() == before


def test_long_chains_are_tied_at_places_that_a_consumer_can_reach(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_records, "_TIE_EVERY", 3)
    monkeypatch.setattr(last_records, "_TIES_MAX", 2)
    maker = ChainMaker().begin().play(1, 3)
    revoke(office, "--journal", journal_of(tmp_path / "journal.db", maker))
    assert [seq for _, seq, _ in last(office)] == [3, 9, 10]


def test_what_counts_may_be_named_by_hand_and_by_consumers_and_later(office: Office, tmp_path: Path) -> None:
    assert "WARNING" in revoke(office)
    assert trust_of(office).nodes[signer().kid].last is None
    FileWatermarks(tmp_path / "marks.json").save(Watermark("r1", "a" * 32, 9, "1" * 64))
    revoke(office, "--watermarks", tmp_path / "marks.json")
    told = revoke(office, "--last", f"{'b' * 32}:4:{'2' * 64}")
    assert f"chain {'b' * 32}: counts up to record 4, digest {'2' * 64}" in told
    assert last(office) == [("a" * 32, 9, "1" * 64), ("b" * 32, 4, "2" * 64)]
    assert trust_of(office).nodes[signer().kid].revoked.startswith("2026-12-31")


def test_nothing_of_a_key_may_count(office: Office) -> None:
    assert "no record of key" in revoke(office, "--last", "none")
    assert last(office) == []


@pytest.mark.parametrize("text", ["a", "a:b:" + "0" * 64, "a:0:" + "0" * 64, "a:1:0"])
def test_a_record_is_named_by_chain_number_and_digest(office: Office, text: str) -> None:
    more = ("--reason", "x", "--last", text, "--root-key", office.root)
    assert "CHAIN:SEQ:HEAD" in office.refused("revoke", office.trust, signer().kid, *more)


def test_two_sources_that_contradict_each_other_are_refused(office: Office) -> None:
    texts = [f"{'a' * 32}:4:{digit * 64}" for digit in "12"]
    more = ("--last", texts[0], "--last", texts[1], "--reason", "x", "--root-key", office.root)
    assert "two different records 4" in office.refused("revoke", office.trust, signer().kid, *more)


def test_a_position_is_what_the_trust_file_holds() -> None:
    found = last_records.of_text(f"{'a' * 32}:4:{'1' * 64}")
    assert found.positions == (Position(chain="a" * 32, seq=4, head="1" * 64),)


# --- the beginning of a key, its tables, a new date ----------------------------------------------------


def test_the_beginning_of_a_known_key_may_be_moved_back_only(office: Office) -> None:
    root, node = ("--root-key", office.root), office.directory / "node.json"
    version = trust_of(office).version
    back = ("--not-before", "2025-01-01")
    office.ok("add-node", office.trust, "node-1", node, *back, *root)
    trust = trust_of(office)
    assert (trust.version, len(trust.nodes)) == (version + 1, 1)
    assert trust.nodes[signer().kid].not_before.startswith("2025-01-01")
    says = office.refused("add-node", office.trust, "node-1", node, *EARLIER, *root)
    assert "counts from 2025-01-01" in says
    assert "--not-before" in office.refused("add-node", office.trust, "node-1", node, *root)
    assert "of node node-1" in office.refused("add-node", office.trust, "node-2", node, *back, *root)


def test_a_key_is_bound_to_tables(office: Office) -> None:
    root, node = ("--root-key", office.root), office.directory / "node.json"
    office.ok("add-node", office.trust, "node-1", node, "--table", "r1", "--table", "r2", *root)
    assert trust_of(office).nodes[signer().kid].tables == ("r1", "r2")


def test_renewing_is_a_new_version_with_a_new_date(office: Office) -> None:
    before = trust_of(office)
    office.ok("renew", office.trust, "--renew-days", "30", "--root-key", office.root)
    after = trust_of(office)
    assert (after.version, after.file.renew_days) == (before.version + 1, 30)
    assert after.file.nodes == before.file.nodes
    assert after.file.issued > before.file.issued
    office.ok("renew", office.trust, "--root-key", office.root)
    assert trust_of(office).file.renew_days == 30


def test_one_command_makes_the_trust_of_a_site_of_one_node(tmp_path: Path) -> None:
    out = tmp_path / "keys"
    arguments = ["trust", "init", "--site", "house", "--node", "node-1", "--table", "r1", "--out", str(out)]
    result = CliRunner().invoke(application, arguments)
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {"root.pem", "signing.pem", "trust.json"}
    root = next(line.split('"')[1] for line in result.output.splitlines() if line.startswith("root = "))
    trust = load_trust((out / "trust.json").read_bytes(), root)
    (key,) = trust.file.nodes
    assert (trust.site, key.node, key.tables) == ("house", "node-1", ("r1",))
    again: Any = CliRunner().invoke(application, arguments)
    assert "exists already" in str(again.exception)


# --- versions, and the disk -----------------------------------------------------------------------------


def test_a_file_is_replaced_with_its_name_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the older file must not come back: the directory is synced, last."""
    synced: list[bool] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").is_dir())
        real(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    replace_file(tmp_path / "file", b"new")
    assert synced == [False, True]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_who_follows_a_trust_file_syncs_its_directory(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "consumer" / "trust.json"
    kept.parent.mkdir()
    follow = keys_to_follow(None, kept, office.root_kid, "house")
    directories: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        directories.append(str(Path(f"/proc/self/fd/{descriptor}").resolve()))
        real(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    assert isinstance(follow, SiteTrust)
    assert follow.offer(office.trust.read_bytes())
    assert directories[-1] == str(kept.parent)
    assert msgspec.json.decode(kept.read_bytes())


# --- what verify says of the trust file -------------------------------------------------------------------


def verified(*arguments: str | Path) -> Any:
    return CliRunner().invoke(application, ["verify", *map(str, arguments)])


def test_attack_3d_verify_tells_version_and_date_and_refuses_an_older_one(
    office: Office, tmp_path: Path
) -> None:
    journal = journal_of(tmp_path / "journal.db", ChainMaker().begin().play(1, 1))
    trust = trust_of(office)
    by = ("--trust", office.trust, "--root", office.root_kid)
    told = verified(journal, *by)
    assert told.exit_code == 0, told.output
    assert f"trust file: version {trust.version} of {trust.file.issued}" in told.output
    assert "came out of the evidence file" not in told.output
    refused = verified(journal, *by, "--trust-min-version", str(trust.version + 1))
    assert "at least version" in str(refused.exception)


def test_attack_3d_a_trust_file_out_of_the_evidence_file_is_said_to_be_that(
    office: Office, tmp_path: Path
) -> None:
    """Whoever exports puts in version 1, in which his key is good."""
    night = evidence_of(tmp_path / "night.tar", ChainMaker().begin().play(1, 1), office.trust.read_bytes())
    told = verified(night, "--root", office.root_kid)
    assert told.exit_code == 0, told.output
    assert "the trust file came out of the evidence file itself" in told.output
    version = str(trust_of(office).version + 1)
    refused = verified(night, "--root", office.root_kid, "--trust-min-version", version)
    assert "at least version" in str(refused.exception)
    as_json = msgspec.json.decode(verified(night, "--root", office.root_kid, "--json").output)
    assert as_json["trust"]["version"] == trust_of(office).version


def test_verify_says_what_it_believes_of_a_revocation_that_names_no_records(
    office: Office, tmp_path: Path
) -> None:
    journal = journal_of(tmp_path / "journal.db", ChainMaker().begin().play(1, 1))
    revoke(office)
    told = verified(journal, "--trust", office.trust, "--root", office.root_kid).output
    assert told.count("does not name the records up to which it counts") == 1
    assert told.endswith("good\n")


# --- records from before the trust file --------------------------------------------------------------------


def test_records_from_before_the_trust_file_are_found_with_their_remedy(
    office: Office, tmp_path: Path
) -> None:
    path = journal_of(tmp_path / "journal.db", ChainMaker().begin().play(1, 1))
    late = office.directory / "late.json"
    office.ok("new", late, "--site", "house", "--root-key", office.root)
    node, root = office.directory / "node.json", ("--root-key", office.root)
    office.ok("add-node", late, "node-1", node, "--not-before", "2026-11-30", *root)
    with closing(Journal.open(path, read_only=True)) as journal:
        (early,) = too_early(journal, load_trust(late.read_bytes(), office.root_kid))
        assert "counts from 2026-11-30" in early.what
        back = early.remedy.split("--not-before ")[1].split()[0]
        office.ok("add-node", late, "node-1", node, "--not-before", back, *root)
        trust = load_trust(late.read_bytes(), office.root_kid)
        assert too_early(journal, trust) == []
    assert verify_envelopes(ChainMaker().begin().play(1, 1).envelopes, trust).ok


def test_verify_tells_of_records_from_before_the_trust_file_once(office: Office, tmp_path: Path) -> None:
    path = journal_of(tmp_path / "journal.db", ChainMaker().begin().play(1, 7))
    late = office.directory / "late.json"
    office.ok("new", late, "--site", "house", "--root-key", office.root)
    node, root = office.directory / "node.json", ("--root-key", office.root)
    office.ok("add-node", late, "node-1", node, "--not-before", "2026-11-30", *root)
    told = verified(path, "--trust", late, "--root", office.root_kid).output
    assert told.count("not-yet: the trust file says so") == 1
    assert "and so of 21 more records" in told
