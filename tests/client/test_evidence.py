"""An evidence file is verified whole, and whatever was done to it is told."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from tests.support.chains import keys, signer
from tests.support.daemon import Installation
from tests.support.evidence import Chain, a_chain, changed, contents, exported, fill, played

from dollyd.client.proof.evidence import EvidenceFile, trust_of, verify_evidence
from dollyd.client.proof.sources import SourceError
from dollyd.client.proof.verify import Report
from dollyd.daemon.evidence.export import Wanted

CHAINS = {"r1": "a" * 32, "r2": "b" * 32}
Members = dict[str, bytes]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Installation, dict[str, Chain]]:
    """Two tables, twelve games each, with checkpoints after rounds 4 and 8."""
    installation = Installation(tmp_path_factory.mktemp("table"), "127.0.0.1:1", CHAINS, variant="C")
    chains = {
        name: a_chain(played(installation, 12, name), name, chain, (4, 8)) for name, chain in CHAINS.items()
    }
    fill(installation, *chains.values())
    return installation, chains


@pytest.fixture(scope="module")
def whole(table: tuple[Installation, dict[str, Chain]]) -> Path:
    out = table[0].directory / "whole.tar"
    exported(table[0], out)
    return out


def _times(chain: Chain, kind: str, number: int) -> str:
    """UTC of a record, as its signature has it."""
    from dollyd.client.proof.reading import read

    found = (read(entry.envelope, {}) for entry in chain.entries if entry.round == number)
    return next(one.utc for one in found if one.kind == kind)


def _whys(report: Report) -> list[str]:
    return [problem.why for problem in report.problems]


# --- what is right -------------------------------------------------------------------------------


def test_an_evidence_file_is_good_and_says_so(
    table: tuple[Installation, dict[str, Chain]], whole: Path
) -> None:
    _, chains = table
    report = verify_evidence(whole, keys(signer()))
    assert report.ok, report.problems
    assert report.records == sum(len(chain.entries) for chain in chains.values())
    assert report.captures == 2 * 12
    assert {name: head.digest for name, head in report.heads.items()} == {
        chain.chain: chain.prev for chain in chains.values()
    }
    assert report.notes == []


def test_the_same_export_gives_the_same_bytes_also_compressed(
    table: tuple[Installation, dict[str, Chain]], whole: Path, tmp_path: Path
) -> None:
    again, packed = tmp_path / "again.tar", tmp_path / "packed.tar.gz"
    exported(table[0], again)
    exported(table[0], packed)
    assert again.read_bytes() == whole.read_bytes()
    assert gzip.decompress(packed.read_bytes()) == whole.read_bytes()
    first = packed.read_bytes()
    exported(table[0], packed)
    assert packed.read_bytes() == first
    assert verify_evidence(packed, keys(signer())).ok


def test_any_tar_reads_it_and_members_have_their_order(whole: Path) -> None:
    names = list(contents(whole))
    order = ["manifest", "keys", "records", "captures", "rulebooks", "profiles", "layouts", "config"]
    folders = [name.partition("/")[0].partition(".")[0] for name in names]
    assert list(dict.fromkeys(folders)) == order
    assert b"secret" not in contents(whole)["config.toml"]


def test_a_range_is_widened_to_checkpoints_and_starts_where_it_says(
    table: tuple[Installation, dict[str, Chain]], tmp_path: Path
) -> None:
    installation, chains = table
    chain = chains["r1"]
    out = tmp_path / "part.tar"
    wanted = Wanted(_times(chain, "round", 6), _times(chain, "round", 7), "r1")
    written = exported(installation, out, wanted)
    (part,) = written.manifest.chains
    kinds = {entry.seq: entry.kind for entry in chain.entries}
    assert kinds[part.first_seq] == kinds[part.last_seq] == "checkpoint"
    assert part.first_seq > 1
    report = verify_evidence(out, keys(signer()))
    assert report.ok, report.problems
    assert (report.rounds, report.captures) == (4, 4)
    assert report.notes == [f"table r1, chain {CHAINS['r1']}: starts at seq {part.first_seq}"]
    assert verify_evidence(out, keys(signer()), fast=True).ok
    unpinned = verify_evidence(out)
    assert (unpinned.ok, unpinned.keys) == (True, {signer().kid: "not pinned"})
    assert not verify_evidence(out, keys(signer(2))).ok


def test_a_range_without_checkpoints_is_what_was_asked_for(
    table: tuple[Installation, dict[str, Chain]], tmp_path: Path
) -> None:
    installation, chains = table
    chain = chains["r2"]
    from_utc = _times(chain, "bets-closed", 11)
    out = tmp_path / "part.tar"
    (part,) = exported(installation, out, Wanted(from_utc, "", "r2")).manifest.chains
    assert part.last_seq == len(chain.entries)
    assert verify_evidence(out, keys(signer())).ok
    early = Wanted("", _times(chain, "round", 2), "r2")
    (part,) = exported(installation, out, early).manifest.chains
    assert part.first_seq == 1
    assert chain.entries[part.last_seq - 1].kind == "checkpoint"


def test_what_was_exported_is_known_up_to_the_first_record_that_was_not(
    table: tuple[Installation, dict[str, Chain]], tmp_path: Path
) -> None:
    installation, chains = table
    every = sum(len(chain.entries) for chain in chains.values())
    out = tmp_path / "part.tar"
    assert exported(installation, out).upto_id == every
    assert exported(installation, out, Wanted(table="r1")).upto_id == 0
    early = exported(installation, out, Wanted(to_utc=_times(chains["r1"], "round", 6)))
    part = early.manifest.chains[0]
    assert early.upto_id == part.last_seq < len(chains["r1"].entries)
    late = Wanted(from_utc=_times(chains["r1"], "round", 11))
    assert exported(installation, out, late).upto_id == 0
    assert exported(installation, out, late, every - 1).upto_id == every


# --- what was done to it -------------------------------------------------------------------------

R1, C1 = "records/r1.jsonl", CHAINS["r1"]


def _capture(members: Members, place: int = 3) -> str:
    return [name for name in members if name.startswith(f"captures/{C1}")][place]


def _without_lines(members: Members, first: int, last: int) -> None:
    lines = members[R1].splitlines(keepends=True)
    members[R1] = b"".join(lines[: first - 1] + lines[last:])


def _manifest(members: Members, change: Callable[[dict[str, object]], None]) -> None:
    """A manifest that fits again: one who changes the file changes this too."""
    manifest = json.loads(members["manifest.json"])
    manifest["members"] = [
        {"name": name, "size": len(data), "sha256": sha256(data).hexdigest()}
        for name, data in members.items()
        if name != "manifest.json" and not name.startswith("captures/")
    ]
    change(manifest)
    members["manifest.json"] = json.dumps(manifest, separators=(",", ":")).encode()


def _hole(members: Members) -> None:
    _without_lines(members, 10, 11)
    _manifest(members, lambda _: None)


def _cut_end(members: Members) -> None:
    _without_lines(members, 20, 99)


def _cut_beginning(members: Members) -> None:
    _without_lines(members, 1, 5)
    _manifest(members, lambda _: None)


def _change_capture(members: Members) -> None:
    name = _capture(members)
    members[name] = members[name].replace(b'"rx"', b'"tx"', 1)


def _remove_capture(members: Members) -> None:
    del members[_capture(members)]


def _swap_rulebook(members: Members) -> None:
    name = next(name for name in members if name.startswith("rulebooks/"))
    members[name] = members[name].replace(b"35", b"36")
    _manifest(members, lambda _: None)


def _rename_rulebook(members: Members) -> None:
    name = next(name for name in members if name.startswith("rulebooks/"))
    data = members[name].replace(b"35", b"36")
    renamed = {
        f"rulebooks/{sha256(data).hexdigest()}.toml" if old == name else old: data if old == name else content
        for old, content in members.items()
    }
    members.clear()
    members.update(renamed)
    _manifest(members, lambda _: None)


def _add_member(members: Members) -> None:
    members[f"layouts/{'f' * 64}.toml"] = b"hello"


def _stray_capture(members: Members) -> None:
    kept = dict(members)
    name = _capture(members)
    members.clear()
    for old, data in kept.items():
        members[old] = data
        if old == name:
            members[f"captures/{C1}/{int(Path(name).stem) + 1}.jsonl"] = data


def _capture_at_the_end(members: Members) -> None:
    name = _capture(members)
    members[f"captures/{C1}/{int(Path(name).stem) + 1}.jsonl"] = members[name]


def _remove(name: str) -> Callable[[Members], None]:
    def remove(members: Members) -> None:
        del members[name]

    return remove


def _reorder(members: Members) -> None:
    members["keys.json"] = members.pop("keys.json")


DAMAGE: dict[str, tuple[Callable[[Members], None], str]] = {
    "hole": (_hole, "records 10 to 11 are missing before it"),
    "end cut off": (_cut_end, "ends at record 19 of table r1"),
    "beginning cut off": (_cut_beginning, "records 1 to 5 are missing before it"),
    "capture changed": (_change_capture, "the raw capture is not the one that was signed"),
    "capture removed": (_remove_capture, "its raw capture is not in the file"),
    "capture of nothing": (_stray_capture, "captures: 1 belong to no record that is here"),
    "capture of nothing behind all others": (
        _capture_at_the_end,
        "captures: 1 belong to no record that is here",
    ),
    "table removed": (_remove(R1), f"{R1} is not in the file"),
    "keys removed": (_remove("keys.json"), "keys.json is not in the file"),
    "keys that are none": (
        lambda members: members.update({"keys.json": b'{"keys":[{"kty":"EC"}]}'}),
        "keys.json cannot be read: jwk",
    ),
    "configuration changed": (
        lambda members: members.update({"config.toml": b"site='x'"}),
        "config.toml is not what the manifest says",
    ),
    "rulebook swapped": (_swap_rulebook, "is not the text that it is named after"),
    "rulebook swapped and renamed": (_rename_rulebook, "by which was decided, is not in the file"),
    "member added": (_add_member, "f.toml is not in the manifest"),
    "order changed": (_reorder, "members are not in their order"),
    "manifest removed": (_remove("manifest.json"), "it has no manifest.json"),
    "manifest emptied": (lambda members: members.update({"manifest.json": b"{}"}), "manifest.json cannot"),
}


@pytest.mark.parametrize(("change", "why"), DAMAGE.values(), ids=DAMAGE)
def test_what_was_done_is_told(
    whole: Path, tmp_path: Path, change: Callable[[Members], None], why: str
) -> None:
    report = verify_evidence(changed(whole, tmp_path / "changed.tar", change), keys(signer()))
    assert any(why in said for said in _whys(report)), report.problems


def test_a_removed_capture_is_told_at_its_record(whole: Path, tmp_path: Path) -> None:
    name = _capture(contents(whole))
    report = verify_evidence(changed(whole, tmp_path / "changed.tar", _remove_capture), keys(signer()))
    (problem,) = report.problems
    assert (problem.table, problem.chain, problem.seq) == ("r1", C1, int(Path(name).stem))
    assert report.captures == 2 * 12 - 1


@pytest.mark.parametrize("left", [0.999, 0.7, 0.3, 0.01, 0.0001])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_truncated_file_is_told(whole: Path, tmp_path: Path, left: float, packed: bool) -> None:
    data = gzip.compress(whole.read_bytes(), 1) if packed else whole.read_bytes()
    cut = tmp_path / "cut.tar"
    cut.write_bytes(data[: int(left * len(data))])
    (why,) = _whys(verify_evidence(cut, keys(signer())))
    assert "cut off" in why or "cannot be read" in why or "no header" in why


@pytest.mark.parametrize("at", [0, 100, 120, 136, 156, 257, 300, 511])
def test_a_header_in_another_form_is_refused(whole: Path, tmp_path: Path, at: int) -> None:
    data = bytearray(whole.read_bytes())
    data[at] ^= 1
    other = tmp_path / "other.tar"
    other.write_bytes(data)
    assert not verify_evidence(other).ok
    with pytest.raises(SourceError):
        EvidenceFile(other)


def test_something_behind_the_end_is_refused(whole: Path, tmp_path: Path) -> None:
    longer = tmp_path / "longer.tar"
    longer.write_bytes(whole.read_bytes() + bytes(512))
    (why,) = _whys(verify_evidence(longer))
    assert "nothing after them" in why


def test_a_strangers_keys_are_refused_whatever_the_file_says_of_keys(whole: Path) -> None:
    report = verify_evidence(whole, keys(signer(2)))
    assert not report.ok
    assert report.keys == {}


def test_there_may_be_no_trust_file(whole: Path) -> None:
    assert trust_of(whole) is None
