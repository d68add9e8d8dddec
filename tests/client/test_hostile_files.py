"""Files that are made to hurt who verifies them: told in one line, with little memory, time and disk."""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.support.chains import ChainMaker, keys, signer
from tests.support.daemon import Installation
from tests.support.evidence import a_chain, changed, exported, fill, played

from dollyd.client.archive.importing import import_file
from dollyd.client.archive.sqlite import SqliteStore
from dollyd.client.proof import tar, unpack
from dollyd.client.proof.evidence import EvidenceFile, verify_evidence
from dollyd.client.proof.sources import BATCH_MAX_BYTES, JournalFile, SourceError, batches
from dollyd.client.proof.verify import Report, verify_envelopes, verify_journal
from dollyd.daemon.journal.store import Journal
from dollyd.wire.jws import EnvelopeError, b64url, key_of_jwk, thumbprint
from dollyd.wire.record import Kind

TRUSTED = keys(signer())
Members = dict[str, bytes]


def _why(report: Report) -> str:
    (problem,) = report.problems
    return problem.why


# --- journals ------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    with closing(Journal.open(path)) as opened:
        opened.append(ChainMaker().begin().play(1, 3).entries)
    return path


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
SCHEMAS = {
    "an endless view": (
        f"ALTER TABLE entry RENAME TO e; CREATE VIEW entry AS {ENDLESS} SELECT i AS id, 1 AS chain FROM n",
        "there is a view in it",
    ),
    "a view elsewhere": ("CREATE VIEW other AS SELECT 1", "there is a view in it"),
    "a trigger": (
        "CREATE TRIGGER t AFTER INSERT ON entry BEGIN SELECT 1; END",
        "there is a trigger in it",
    ),
    "a virtual table": ("CREATE VIRTUAL TABLE other USING fts5(x)", "there is a virtual table in it"),
    "a computed column": (
        "ALTER TABLE entry ADD COLUMN more BLOB AS (zeroblob(seq * 1000000))",
        "there is a computed column in it",
    ),
}


@pytest.mark.parametrize(("change", "why"), SCHEMAS.values(), ids=SCHEMAS)
def test_attack_18_a_journal_that_computes_is_refused(journal: Path, change: str, why: str) -> None:
    assert verify_journal(journal, TRUSTED).ok
    with closing(sqlite3.connect(journal)) as connection:
        connection.executescript(change)
    report = verify_journal(journal, TRUSTED)
    assert why in _why(report)
    assert report.records == 0
    with closing(SqliteStore(journal.with_name("archive.db"))) as store:
        store.migrate()
        with pytest.raises(SourceError, match=why):
            import_file(journal, store, "house", TRUSTED)


def test_attack_18_a_query_that_does_not_end_is_stopped(journal: Path) -> None:
    with (
        closing(JournalFile(journal)) as file,
        pytest.raises(SourceError, match="longer than its size explains"),
    ):
        file._rows(f"{ENDLESS} SELECT count(*) FROM n")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("zeroblob(20000000)", "is no envelope, or longer than any"),
        ("zeroblob(1048577)", "is no envelope, or longer than any"),
        ("zeroblob(200000000)", "is no envelope, or longer than any"),
        ("zeroblob(1048576)", "no record"),
    ],
)
def test_attack_18_no_envelope_is_read_before_its_length_is(journal: Path, value: str, why: str) -> None:
    with closing(sqlite3.connect(journal)) as connection:
        connection.execute(f"UPDATE entry SET envelope = {value} WHERE id = 3")
        connection.commit()
    report = verify_journal(journal, TRUSTED, fast=True)
    assert why in report.problems[0].why


def test_attack_18_long_captures_are_not_what_was_signed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Journal.open(path)) as opened:
        opened.append(ChainMaker().begin().play(1, 1, b"raw").entries)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE capture SET data = zeroblob(30000000)")
        connection.commit()
    assert _why(verify_journal(path, TRUSTED)) == "the raw capture is not the one that was signed"


def test_attack_18_envelopes_at_hand_are_bounded_in_bytes() -> None:
    given = [bytes(1 << 20)] * 40
    taken = list(batches(iter(given), 256))
    assert sum(map(len, taken)) == 40
    assert max(sum(map(len, batch)) for batch in taken) <= BATCH_MAX_BYTES + (1 << 20)
    assert [len(batch) for batch in batches(iter([b"x"] * 300), 256)] == [256, 44]


# --- evidence files ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evidence file of four games."""
    folder = tmp_path_factory.mktemp("evidence")
    installation = Installation(folder, "127.0.0.1:1", ["r1"], variant="C")
    fill(installation, a_chain(played(installation, 4), "r1", "a" * 32))
    exported(installation, folder / "whole.tar")
    return folder / "whole.tar"


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How far each temporary file has grown."""
    grown: list[int] = []

    class Measured(tempfile.SpooledTemporaryFile[bytes]):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            grown.append(self.tell() + len(data))
            return super().write(data)

    monkeypatch.setattr(tempfile, "TemporaryFile", Measured)
    return grown


def _bomb(beginning: bytes, size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    parts = [packer.compress(beginning)]
    parts += [packer.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, packer.flush()])


@pytest.mark.parametrize("first", ["zeros", "no header", "end"])
def test_attack_18_a_bomb_is_stopped_at_its_first_header_that_is_none(
    tmp_path: Path, disk: list[int], first: str
) -> None:
    beginning = {"zeros": b"", "no header": b"x" * 512, "end": tar.header("keys.json", 0) + tar.END}[first]
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(_bomb(beginning, 256 << 20))
    report = verify_evidence(path)
    assert "byte " in _why(report)
    assert max(disk) <= 2 << 20


def test_attack_18_a_bomb_within_a_member_is_stopped_by_ratio(tmp_path: Path, disk: list[int]) -> None:
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(_bomb(tar.header("records/r1.jsonl", 200 << 20), 200 << 20))
    assert f"more than {unpack.SMALL_BYTES} bytes" in _why(verify_evidence(path))
    assert max(disk) <= unpack.SMALL_BYTES + (1 << 20)


def test_attack_18_max_bytes_bounds_what_is_unpacked(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "night.tar.gz"
    path.write_bytes(_packed(whole.read_bytes()))
    size = whole.stat().st_size
    assert verify_evidence(path, TRUSTED, max_bytes=size).ok
    assert f"more than {size - 1} bytes; --max-bytes" in _why(
        verify_evidence(path, TRUSTED, max_bytes=size - 1)
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data + b"\0", "something is behind its end"),
        (lambda data: data + bytes(5000), "something is behind its end"),
        (lambda data: data + gzip.compress(b"", mtime=0), "something is behind its end"),
        (lambda data: data[:3] + b"\x08" + data[4:10] + b"name\0" + data[10:], "not in its one form"),
        (lambda data: data[:4] + b"\x01" + data[5:], "not in its one form"),
        (lambda data: data[:-1], "cut off"),
        (lambda data: data[:-8] + b"\0\0\0\0" + data[-4:], "gzip: "),
        (lambda data: data[:10] + b"\xff" + data[11:], "gzip: "),
    ],
    ids=["zero", "zeros", "member", "name", "time", "cut", "crc", "deflate"],
)
def test_a_compressed_file_is_one_gzip_member(
    whole: Path, tmp_path: Path, change: Callable[[bytes], bytes], why: str
) -> None:
    for name in ("night.tar.gz", "night.tar"):  # what a file is, its bytes say
        path = tmp_path / name
        path.write_bytes(_packed(whole.read_bytes()))
        assert verify_evidence(path, TRUSTED).ok
        path.write_bytes(change(_packed(whole.read_bytes())))
        assert why in _why(verify_evidence(path, TRUSTED))


C = "captures/" + "a" * 32
NAMES = [
    *("../../etc/cron.d/x", "/etc/passwd", "notes.txt", "config.toml/x", ""),
    *("records/../x.jsonl", "records/R1.jsonl", "records/r1.jsonl ", "records/r1\n.jsonl", "records/"),
    *("captures/x/1.jsonl", f"{C}/01.jsonl", f"{C}/../2.jsonl"),
    *("rulebooks/x.toml", f"layouts/{'a' * 64}.toml.toml"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_member_has_no_other_name_than_the_page_says(whole: Path, tmp_path: Path, name: str) -> None:
    def add(members: Members) -> None:
        manifest = msgspec.json.decode(members["manifest.json"])
        manifest["members"].append({"name": name, "size": 0, "sha256": unpack.GZIP_MAGIC.hex()})
        members["manifest.json"] = msgspec.json.encode(manifest)
        members[name or "x"] = b""

    path = changed(whole, tmp_path / "changed.tar", add)
    assert "is no name of a member" in _why(verify_evidence(path, TRUSTED))
    with pytest.raises(SourceError):
        EvidenceFile(path)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"site":"house"', b'"site":"casino"', "of site house; the manifest says casino"),
        (b'"name":"config.toml","size":', b'"name":"config.toml","size":1', "config.toml is not what"),
        (b'"first_seq":1', b'"first_seq":9007199254740993', "manifest.json cannot be read"),
        (b'"first_seq":1', b'"first_seq":-1', "manifest.json cannot be read"),
    ],
)
def test_what_the_manifest_says_of_site_and_sizes_is_compared(
    whole: Path, tmp_path: Path, old: bytes, new: bytes, why: str
) -> None:
    def change(members: Members) -> None:
        assert old in members["manifest.json"]
        members["manifest.json"] = members["manifest.json"].replace(old, new)

    assert why in _why(verify_evidence(changed(whole, tmp_path / "changed.tar", change), TRUSTED))


def test_a_lone_carriage_return_ends_no_record(whole: Path, tmp_path: Path) -> None:
    def change(members: Members) -> None:
        members["records/r1.jsonl"] = members["records/r1.jsonl"].replace(b"}\n{", b"}\r{")

    report = verify_evidence(changed(whole, tmp_path / "changed.tar", change), TRUSTED)
    assert report.records == 1
    assert "no record" in report.problems[0].why


# --- names, numbers, keys ------------------------------------------------------------------------

PLACES = {
    **{
        f"table {name!r}": {"table": name}
        for name in ("+", "#", "", "r1/../r2", "R1", "r" * 41, "r1\n", "\0")
    },
    "site": {"site": "house/x"},
    "node": {"node": "+"},
    **{f"chain {name!r}": {"chain": name} for name in ("../../x", "a" * 31, "A" * 32, "a" * 32 + "\n")},
    "round 2^53": {"round": 2**53},
    "round below 0": {"round": -1},
    "seq 2^53": {"seq": 2**53},
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_names_and_numbers_are_those_of_the_page(place: dict[str, object]) -> None:
    chain = ChainMaker()
    chain.begin() if "round" in place else None
    body = {"event": "chain-start", "jwk": signer().jwk, "reason": "new-journal"}
    chain.add(Kind.INCIDENT if chain.seq else Kind.KEY, 0, body, header=dict(place))
    for fast in (False, True):
        report = verify_envelopes(chain.envelopes, TRUSTED, fast=fast)
        assert report.problems[0].why.startswith("no record: "), report.problems


_P = 2**255 - 19
_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022


@pytest.mark.parametrize("sign", [0, 1 << 255], ids=["even", "odd"])
@pytest.mark.parametrize("y", [0, 1, _P - 1, _ORDER_8, _P - _ORDER_8, _P, _P + 1, _P + 3, 2**255 - 1])
def test_keys_of_small_order_and_other_encodings_are_refused(y: int, sign: int) -> None:
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64url((y | sign).to_bytes(32, "little")).decode()}
    with pytest.raises(EnvelopeError, match="small order, or another encoding"):
        key_of_jwk(jwk)


def test_every_other_key_is_taken() -> None:
    for seed in range(1, 200):
        assert thumbprint(key_of_jwk(signer(seed).jwk)) == signer(seed).kid
