"""`dollyd export`, and `verify` and `replay` on what it made."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import pytest
from tests.support.chains import NODE, SITE, ChainMaker, keys, signer
from tests.support.daemon import Installation, dollyd
from tests.support.evidence import EPOCH_NS, a_chain, changed, contents, exported, fill, played
from tests.support.nights import night
from typer.testing import CliRunner

from dollyd.client.proof.evidence import trust_of, verify_evidence
from dollyd.client.proof.verify import verify_journal
from dollyd.client.witness.book import Finding
from dollyd.client.witness.witness import WITNESS_TYP, state
from dollyd.daemon.cli import application
from dollyd.daemon.evidence.export import Wanted
from dollyd.daemon.evidence.rederive import rederive_evidence, rederive_journal
from dollyd.daemon.journal.cursors import EXPORTED
from dollyd.daemon.journal.store import Journal, NewEntry
from dollyd.daemon.settings.load import load
from dollyd.wire.errors import ConfigError
from dollyd.wire.jws import parse_envelope
from dollyd.wire.stamp import NS_PER_S, Stamp, iso_utc
from dollyd.wire.trust import TRUST_TYP

CHAIN = "a" * 32


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    installation = Installation(tmp_path_factory.mktemp("table"), "127.0.0.1:1", variant="C")
    installation.jwks.write_text(json.dumps({"keys": [signer().jwk]}))
    fill(installation, a_chain(played(installation, 8), "r1", CHAIN))
    return installation


def test_export_verify_and_replay_by_the_commands(table: Installation, tmp_path: Path) -> None:
    out = tmp_path / "night.tar.gz"
    said = dollyd("export", "--config", table.config, "--from", "2020-01-01", out)
    assert said.returncode == 0, said.stderr
    with closing(Journal.open(table.journal, read_only=True)) as journal:
        assert journal.cursor(EXPORTED) == journal.last_id
    checked = dollyd("verify", out, "--keys", table.jwks, "--json")
    report = json.loads(checked.stdout)
    assert (checked.returncode, report["ok"], report["captures"]) == (0, True, 8)
    fast = dollyd("verify", out, "--fast")
    assert fast.returncode == 3
    assert "not checked (fast)" in fast.stdout
    assert fast.stdout.endswith("consistent, but nobody vouches for the key\n")
    replayed = dollyd("replay", out)
    assert replayed.returncode == 0, replayed.stdout
    assert "8 decisions derived byte for byte, 0 not" in replayed.stdout


def test_wrong_options_are_told_in_one_line(table: Installation, tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    for options in (("--from", "soon"), ("--backup", "--table", "r1")):
        said = dollyd("export", "--config", table.config, *options, out)
        assert (said.returncode, len(said.stderr.splitlines())) == (78, 1), said.stderr
    said = dollyd("export", "--config", table.config, "--to", "2020-01-01", out)
    assert (said.returncode, said.stderr) == (1, f"{table.journal}: no record in this range\n")
    assert not list(tmp_path.iterdir())


def test_an_evidence_file_is_derived_by_the_rules_in_it(table: Installation, tmp_path: Path) -> None:
    out = tmp_path / "night.tar"
    exported(table, out)
    from_journal = list(rederive_journal(table.journal, load(table.config).tables))
    assert list(rederive_evidence(out)) == from_journal
    assert [derived.why for derived in from_journal] == [""] * 8
    assert list(rederive_evidence(out, load(table.config).tables)) == from_journal


def test_rules_that_are_missing_or_other_ones_derive_nothing(table: Installation, tmp_path: Path) -> None:
    out = tmp_path / "night.tar"
    exported(table, out)

    def without_rulebook(members: dict[str, bytes]) -> None:
        del members[next(name for name in members if name.startswith("rulebooks/"))]

    poorer = changed(out, tmp_path / "poorer.tar", without_rulebook)
    assert all("cannot be read" in derived.why for derived in rederive_evidence(poorer))

    def without_table(members: dict[str, bytes]) -> None:
        members["config.toml"] = b'site = "house"'

    poorer = changed(out, tmp_path / "poorer.tar", without_table)
    assert all("give --config" in derived.why for derived in rederive_evidence(poorer))


def test_a_shared_key_is_in_no_evidence_file_and_its_device_is_named(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "127.0.0.1:1", variant="B")
    records = [record for record in night(11).table.records if record.round <= 5]
    fill(installation, a_chain(records, "r1", CHAIN))
    out = tmp_path / "night.tar"
    exported(installation, out)
    assert verify_evidence(out, keys(signer())).ok
    assert (tmp_path / "odds.key").read_bytes() not in b"".join(contents(out).values())
    assert b"odds.key" not in contents(out)["config.toml"]
    assert {derived.unproven for derived in rederive_evidence(out)} == {("odds",)}


def test_captures_that_were_not_kept_are_passed_over(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "127.0.0.1:1", variant="C")
    chain = a_chain(played(installation, 6), "r1", CHAIN)
    finals = [place for place, entry in enumerate(chain.entries) if entry.final]
    for place in finals[:2]:
        chain.entries[place] = replace(chain.entries[place], capture=None)
    fill(installation, chain)
    out = tmp_path / "night.tar"
    (part,) = exported(installation, out).manifest.chains
    assert part.captures_from == chain.entries[finals[1]].seq + 1
    report = verify_evidence(out, keys(signer()))
    assert (report.ok, report.captures) == (True, 4)
    assert [derived.why for derived in rederive_evidence(out)] == [""] * 4


def test_a_rulebook_that_cannot_be_found_is_told(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "127.0.0.1:1", variant="C")
    fill(installation, a_chain(played(installation, 2), "r1", CHAIN))
    profile = tmp_path / "profile.toml"
    profile.write_text(profile.read_text() + "# another text\n")
    out = tmp_path / "night.tar"
    manifest = exported(installation, out).manifest
    assert [text.folder for text in manifest.missing] == ["profiles"]
    report = verify_evidence(out, keys(signer()))
    assert report.ok
    assert "could not be found when it was exported" in report.notes[0]


def test_a_chain_goes_to_its_end_where_the_next_one_begins_in_the_file(tmp_path: Path) -> None:
    """Its clock was ahead: by its time the last record is not asked for, and the next chain names it."""
    installation = Installation(tmp_path, "127.0.0.1:1", variant="C")
    old = a_chain(played(installation, 2), "r1", CHAIN)
    old.checkpoint(Stamp(0, EPOCH_NS + 3600 * NS_PER_S))
    old.checkpoint(Stamp(0, EPOCH_NS + 3600 * NS_PER_S))
    new = ChainMaker(chain="b" * 32).begin(after=old)
    fill(installation, old, new)
    out = tmp_path / "night.tar"
    written = exported(installation, out, Wanted(to_utc=iso_utc(EPOCH_NS + 60 * NS_PER_S)))
    assert [part.last_seq for part in written.manifest.chains] == [old.seq, 1]
    assert written.upto_id == old.seq + 1
    report = verify_evidence(out, keys(signer()))
    assert report.ok, report.problems


def test_export_and_backup_while_records_are_written(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "127.0.0.1:1", variant="C")
    chain = a_chain(played(installation, 60), "r1", CHAIN)
    with closing(Journal.open(installation.journal)) as journal:
        journal.append(chain.entries[:20])
        writing = threading.Thread(target=_write, args=(journal, chain.entries[20:]))
        writing.start()
        try:
            rounds = 0
            while writing.is_alive() or rounds == 0:
                rounds += 1
                part = tmp_path / f"{rounds}.tar"
                exported(installation, part)
                assert verify_evidence(part, keys(signer())).ok
                copy = tmp_path / f"{rounds}.db"
                journal.backup(copy)
                assert verify_journal(copy, keys(signer())).ok
        finally:
            writing.join()
    assert not list(tmp_path.glob("*.partial"))


def _write(journal: Journal, entries: list[NewEntry]) -> None:
    for entry in entries:
        journal.append([entry])


# --- what others say of it -------------------------------------------------------------------------

ROOT, WITNESS = signer(90), signer(80)


def test_the_trust_file_goes_with_it_and_the_root_is_all_that_is_pinned(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "127.0.0.1:1", variant="C")
    fill(installation, a_chain(played(installation, 2), "r1", CHAIN))
    node = {"jwk": signer().jwk, "not_before": "2026-01-01T00:00:00.000000000Z", "node": NODE}
    payload = {"v": 1, "site": SITE, "version": 1, "issued": node["not_before"], "root": ROOT.jwk}
    trust = ROOT.sign(json.dumps(payload | {"nodes": [node], "operators": []}).encode(), TRUST_TYP)
    (tmp_path / "trust.json").write_bytes(trust)
    signing = f'key = "{installation.signing_key}"\n'
    installation.reconfigure(signing, signing + f'trust = "trust.json"\nroot = "{ROOT.kid}"\n')
    out = tmp_path / "night.tar"
    exported(installation, out)
    assert trust_of(out) == trust
    good = dollyd("verify", out, "--root", ROOT.kid, "--json")
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["keys"] == {signer().kid: "pinned"}
    other = dollyd("verify", out, "--root", signer(91).kid)
    assert (other.returncode, len(other.stderr.splitlines())) == (78, 1)


def test_statements_of_witnesses_are_held_against_it(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "127.0.0.1:1", variant="C")
    chain = a_chain(played(installation, 3), "r1", CHAIN, (2,))
    fill(installation, chain)
    out = tmp_path / "night.tar"
    exported(installation, out)
    place = next(entry for entry in chain.entries if entry.kind == "checkpoint")
    head, seen = (sha256(chain.entries[seq - 1].envelope).hexdigest() for seq in (place.seq - 1, place.seq))
    finding = Finding("r1", CHAIN, 1, place.seq - 1, head, seen, "")
    witnesses = tmp_path / "witnesses.json"
    witnesses.write_text(json.dumps({"keys": [WITNESS.jwk]}))
    for statement, code in ((finding, 0), (replace(finding, checkpoint=head), 1)):
        file = tmp_path / "statements.jsonl"
        file.write_bytes(WITNESS.sign(state(statement, SITE, "w1", 1), WITNESS_TYP) + b"\n")
        words = ["verify", out, "--witness", file, "--witness-keys", witnesses, "--unpinned"]
        said = CliRunner().invoke(application, [*map(str, words)])
        assert said.exit_code == code, said.stdout
        assert ("witness w1 saw record" in said.stdout) == (code == 0)
        assert ("it was written again" in said.stdout) == (code == 1)


# --- what an export may replace (finding 12 of the attackers) -------------------------------------


def told(table: Installation, *options: str | Path) -> str:
    """The one line with which an export is refused."""
    words = ["export", "--config", str(table.config), *map(str, options)]
    refused = CliRunner().invoke(application, words).exception
    assert isinstance(refused, ConfigError)
    return str(refused)


def done(table: Installation, *options: str | Path) -> None:
    """An export that succeeds."""
    words = ["export", "--config", str(table.config), *map(str, options)]
    made = CliRunner().invoke(application, words)
    assert made.exit_code == 0, made.output


def owned(table: Installation) -> dict[str, Path]:
    """The files that an installation cannot do without."""
    here = table.directory
    journal = {f"journal{end}": table.journal.with_name(table.journal.name + end) for end in ("", "-wal")}
    return {"key": here / "signing.pem", "odds": here / "profile.toml", "config": table.config, **journal}


@pytest.mark.parametrize("name", ["key", "odds", "config", "journal", "journal-wal"])
@pytest.mark.parametrize("how", [(), ("--force",), ("--backup",), ("--backup", "--force")])
def test_attack_12_an_export_never_replaces_what_the_configuration_names(
    table: Installation, tmp_path: Path, name: str, how: tuple[str, ...]
) -> None:
    path = owned(table)[name]
    before = path.read_bytes() if path.exists() else None
    (tmp_path / "link").symlink_to(path)
    for out in (path, tmp_path / "link", path.parent / "." / path.name):
        assert "of the configuration" in told(table, *how, out)
    assert (path.read_bytes() if path.exists() else None) == before


def test_attack_12_an_export_replaces_an_older_one_only_if_told_so(
    table: Installation, tmp_path: Path
) -> None:
    out, copy, letter = tmp_path / "night.tar", tmp_path / "copy.db", tmp_path / "letter.txt"
    letter.write_text("dear auditor")
    (tmp_path / "link.tar").symlink_to(out)
    copy.write_text("no journal")
    for options, made in (((), out), (("--backup",), copy)):
        if made == copy:
            copy.unlink()
        done(table, *options, made)
        before = made.read_bytes()
        assert "exists" in told(table, *options, made)
        assert made.read_bytes() == before
        done(table, "--force", *options, made)
        for other in (letter, tmp_path / "link.tar", tmp_path, copy if made == out else out):
            assert "nothing else is replaced" in told(table, "--force", *options, other)
    assert letter.read_text() == "dear auditor"


def test_a_table_that_is_not_there_is_told_with_those_that_are(table: Installation, tmp_path: Path) -> None:
    assert "choose among r1" in told(table, "--table", "r9", tmp_path / "out.tar")


def test_a_gaming_day_is_exported_by_its_date(table: Installation, tmp_path: Path) -> None:
    with closing(Journal.open(table.journal, read_only=True)) as journal:
        first = next(journal.entries(CHAIN))
    moment = datetime.fromisoformat(json.loads(parse_envelope(first.envelope).payload)["time"]["utc"])
    day = load(table.config).gaming_date(int(moment.timestamp()) * NS_PER_S)
    out = tmp_path / "day.tar"
    done(table, "--gaming-date", day, out)
    assert "given beside" in told(table, "--gaming-date", day, "--from", day, tmp_path / "x.tar")
    assert "--gaming-date" in told(table, "--gaming-date", "soon", tmp_path / "x.tar")
