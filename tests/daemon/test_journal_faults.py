"""Disks that are full, slow, read-only, torn: what was acknowledged is there, or its loss is told."""

from __future__ import annotations

import random
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.support.chains import ChainMaker, keys, signer
from tests.support.disks import MB, fill, remount, small_disk
from tests.support.journals import envelopes, filled

from dollyd.client.proof.sources import JournalFile
from dollyd.client.proof.verify import verify_journal
from dollyd.daemon.journal.check import _INDEXES
from dollyd.daemon.journal.file import JournalUnusableError
from dollyd.daemon.journal.store import Journal, NewEntry, Tail
from dollyd.daemon.journal.writer import chain_start
from dollyd.wire.errors import JournalError
from dollyd.wire.record import Kind
from dollyd.wire.stamp import Stamp

ROOT = Path(__file__).parents[2]
WAL_MAX = 8 * MB
"""Twice what SQLite lets the WAL grow to before it is moved into the main file."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as mounted:
        yield mounted


def bulk(first_seq: int, count: int) -> list[NewEntry]:
    """Entries of 4 kB that nobody will parse."""
    return [
        NewEntry("r1", "a" * 32, seq, "incident", 0, final=False, envelope=b"x" * 4000)
        for seq in range(first_seq, first_seq + count)
    ]


# --- torn and flipped ----------------------------------------------------------------------------


def all_sent(path: Path, file: str = "journal.db") -> tuple[ChainMaker, dict[str, bytes]]:
    """A journal with its newest records in `file`, and its files."""
    maker = filled(path, 20)
    if file == "journal.db":
        Journal.open(path).close()  # moves the WAL into the main file
    path.with_name("journal.db.cursor-publisher").write_bytes(b"%020d\n" % len(maker.entries))
    return maker, {one.name: one.read_bytes() for one in path.parent.iterdir()}


def last_round(maker: ChainMaker) -> int:
    return max(entry.round for entry in maker.entries)


def ends(tail: Tail | None) -> tuple[str, int, int, int | None] | None:
    """From where the table goes on."""
    return None if tail is None else (tail.chain, tail.seq, tail.last_round, tail.open_round)


def damaged(path: Path, maker: ChainMaker, files: dict[str, bytes], file: str, data: bytes) -> None:
    """With `data` as `file`, everything is there, or the journal is put aside as it is, or refused."""
    for name, content in (files | {file: data}).items():
        (path.parent / name).write_bytes(content)
    try:
        with closing(Journal.open(path, keys=keys(signer()))) as journal:
            damage = journal.damage
            kept = envelopes(journal)
            assert damage or ends(journal.tail("r1")) == (maker.chain, maker.seq, last_round(maker), None)
    except JournalError:
        damage, kept = None, maker.envelopes  # refused, and nothing was changed
    assert kept == ([] if damage else maker.envelopes)
    if damage is not None:
        assert (damage.path.parent / file.replace("journal.db", damage.path.name)).read_bytes() == data
    for one in path.parent.iterdir():
        one.unlink()


@pytest.mark.parametrize("harm", ["truncated", "flipped", "zeroed sector"])
@pytest.mark.parametrize("file", ["journal.db-wal", "journal.db"])
def test_b44_what_was_acknowledged_is_there_or_its_loss_is_told(
    path: Path, file: str, harm: str, seed: int
) -> None:
    dice = random.Random(seed)
    maker, files = all_sent(path, file)
    for _ in range(15):
        data = bytearray(files[file])
        at = dice.randrange(len(data))
        match harm:
            case "truncated":
                del data[at:]
            case "flipped":
                data[at] ^= 1 << dice.randrange(8)
            case _:
                data[at : at + 512] = bytes(min(512, len(data) - at))
        damaged(path, maker, files, file, bytes(data))


@pytest.mark.parametrize("back", [1, 7])
def test_b44_each_bit_of_a_row_before_its_envelope(path: Path, back: int) -> None:
    """Types and lengths of the columns, chain, sequence number, kind: SQLite has no checksum over them."""
    maker, files = all_sent(path)
    envelope = files["journal.db"].index(maker.envelopes[-back])
    for at in range(envelope - 24, envelope):
        for bit in range(8):
            data = bytearray(files["journal.db"])
            data[at] ^= 1 << bit
            damaged(path, maker, files, "journal.db", bytes(data))


def keys_flipped(path: Path, index: str, first: int, last: int) -> Iterator[bytes]:
    """The file with each bit of these keys of an index flipped, and of the places where they stand."""
    whole = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    head = (page - 1) * size
    assert whole[head] == 10  # a leaf: all keys are in this page
    for cell in range(max(0, first), min(last, int.from_bytes(whole[head + 3 : head + 5], "big"))):
        pointer = head + 8 + 2 * cell
        at = head + int.from_bytes(whole[pointer : pointer + 2], "big")
        for byte in (pointer, pointer + 1, *range(at, at + 9)):
            for bit in range(8):
                data = bytearray(whole)
                data[byte] ^= 1 << bit
                yield bytes(data)


@pytest.mark.parametrize("index", sorted(_INDEXES))
def test_b44_each_bit_of_the_last_keys_of_an_index(path: Path, index: str) -> None:
    """A start goes on from what the indexes say: a wrong one means a number given twice, or a hole."""
    maker, files = all_sent(path)
    with closing(sqlite3.connect(path)) as connection:
        rows = _INDEXES[index][1].format(row="entry")
        (keys,) = connection.execute(f"SELECT count(*) FROM entry WHERE {rows}").fetchone()
    for data in keys_flipped(path, index, keys - 2, keys):
        damaged(path, maker, files, "journal.db", data)


@pytest.mark.parametrize("index", ["one_record_a_seq", "one_opening_a_round", "one_final_a_round"])
def test_b44_each_bit_of_the_last_keys_of_a_table_that_was_quiet_for_long(
    path: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last records are not among the newest ones of the journal."""
    monkeypatch.setattr("dollyd.daemon.journal.check._CHECKED_PER_CHAIN", 6)
    quiet, busy = ChainMaker("r2", "b" * 32).begin().play(1, 3), ChainMaker().begin().play(1, 10)
    with closing(Journal.open(path)) as journal:
        journal.append(quiet.entries)
        journal.append(busy.entries)
    Journal.open(path).close()
    its_keys = len(quiet.entries) if index == "one_record_a_seq" else 3
    for data in [*keys_flipped(path, index, its_keys - 1, its_keys)]:
        path.write_bytes(data)
        try:
            with closing(Journal.open(path)) as journal:
                told = journal.damage or ends(journal.tail("r2")) == (quiet.chain, quiet.seq, 3, None)
                assert told, (index, ends(journal.tail("r2")))
        except JournalError:
            pass  # refused, and nothing was changed
        for one in path.parent.iterdir():
            one.unlink()


def test_b44_a_schema_that_is_no_text_any_more(path: Path) -> None:
    maker, files = all_sent(path)
    for word in (b"CREATE UNIQUE INDEX one_record_a_seq", b"chain INTEGER NOT NULL", b"kind TEXT"):
        start = files["journal.db"].index(word)
        for at in range(start, start + len(word)):
            for bit in (0, 7):
                data = bytearray(files["journal.db"])
                data[at] ^= 1 << bit
                damaged(path, maker, files, "journal.db", bytes(data))


@pytest.mark.parametrize(("table", "column"), [("entry", "kind"), ("chain", "tbl"), ("chain", "name")])
def test_b44_a_text_that_is_no_utf8_any_more_is_damage(path: Path, table: str, column: str) -> None:
    """Python reads texts strictly, and its error is none of SQLite's: it has no code."""
    filled(path)
    Journal.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE {table} SET {column} = CAST(x'62ff' AS TEXT)")
        connection.commit()
    with closing(Journal.open(path, keys=keys(signer()))) as journal:
        assert journal.damage is not None
        assert "UTF-8" in journal.damage.why
        assert envelopes(journal) == []


def test_b44_the_new_chain_says_what_it_follows_and_where_the_old_one_lies(path: Path) -> None:
    maker = filled(path)
    Journal.open(path).close()
    data = bytearray(path.read_bytes())
    data[data.index(maker.envelopes[-2]) + 90] ^= 1
    path.write_bytes(data)
    with closing(Journal.open(path)) as journal:
        assert journal.damage is not None
        draft = chain_start("r1", signer(), Stamp(1, 1), journal.damage)
    body = msgspec.json.decode(draft.body)
    assert body["reason"] == f"journal-damaged: {journal.damage.path.name}"
    assert (body["previous_chain"], body["previous_seq"]) == (maker.chain, maker.seq)


# --- full ----------------------------------------------------------------------------------------


def test_b48_a_disk_that_fills_in_a_commit_loses_nothing_acknowledged(disk: Path) -> None:
    path, maker = disk / "journal.db", ChainMaker().begin()
    journal = Journal.open(path)
    journal.append(maker.entries)
    filler = fill(disk, 3 * MB)
    noise, acknowledged = random.Random(48), 1
    try:
        while acknowledged < 1_000:
            maker.add(Kind.INCIDENT)
            journal.append([replace(maker.entries[-1], capture=noise.randbytes(100_000))])
            acknowledged += 1
    except JournalError as error:
        assert "full" in str(error)  # noqa: PT017  which of the commits it is, is not known before
    assert envelopes(journal) == maker.envelopes[:acknowledged]  # it is still read
    journal.close()
    assert 10 < acknowledged < 1_000
    filler.unlink()
    with closing(Journal.open(path)) as journal:
        assert journal.damage is None
        assert envelopes(journal) == maker.envelopes[:acknowledged]
        journal.append(maker.entries[acknowledged:])  # play goes on where it stopped
    assert verify_journal(path, keys(signer())).ok


def test_b48_a_full_disk_at_the_start_is_no_matter_for_the_operator(disk: Path) -> None:
    # Exit 78 would tell systemd never to try again; room may return by itself.
    fill(disk, 0)
    with pytest.raises(JournalError) as told:
        Journal.open(disk / "journal.db")
    assert not isinstance(told.value, JournalUnusableError)


def test_b48_a_file_that_may_not_grow_loses_nothing_acknowledged(path: Path) -> None:
    code = """
import sys
from pathlib import Path
from dollyd.wire.record import Kind
from dollyd.wire.errors import JournalError
from dollyd.daemon.journal.store import Journal
from tests.support.chains import ChainMaker
journal, maker = Journal.open(Path(sys.argv[1])), ChainMaker().begin()
journal.append(maker.entries)
try:
    while True:
        maker.add(Kind.INCIDENT)
        print(journal.append(maker.entries[-1:])[-1].envelope.decode(), flush=True)
except JournalError as error:
    print("refused", error, flush=True)
"""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    child = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        cwd=ROOT,
        preexec_fn=limit,
        check=True,
    )
    *told, last = child.stdout.splitlines()
    assert last.startswith(b"refused"), child.stderr
    with closing(Journal.open(path)) as journal:
        assert journal.damage is None
        kept = envelopes(journal)
    assert kept[1 : len(told) + 1] == told
    assert verify_journal(path, keys(signer())).ok


# --- read-only -----------------------------------------------------------------------------------


def test_b48_a_disk_that_turned_read_only_is_one_clear_line_and_stays_as_it_was(disk: Path) -> None:
    path = disk / "journal.db"
    maker = filled(path)
    before = {file.name: file.read_bytes() for file in disk.iterdir()}
    remount(disk, "ro")
    with pytest.raises(JournalError, match="Read-only") as caught:
        Journal.open(path)
    assert not isinstance(caught.value, JournalUnusableError)  # it may pass: the next start tries again
    assert {file.name: file.read_bytes() for file in disk.iterdir()} == before
    remount(disk, "rw")
    with closing(Journal.open(path)) as journal:
        assert journal.damage is None
        assert envelopes(journal) == maker.envelopes


# --- the WAL -------------------------------------------------------------------------------------


def test_b46_our_readers_never_keep_the_wal_growing(path: Path) -> None:
    with closing(Journal.open(path)) as journal, closing(JournalFile(path)) as auditor:
        journal.append(bulk(1, 600))
        readers = [journal.entries("a" * 32), auditor.envelopes()]
        for reader in readers:
            next(reader)  # and there it stands, as a consumer that asks for a replay and goes for lunch
        most = 0
        for first in range(601, 8_001, 200):
            journal.append(bulk(first, 200))
            most = max(most, journal.wal_bytes)
        assert path.stat().st_size > 20 * MB
        assert 0 < most < WAL_MAX
        assert [sum(1 for _ in reader) for reader in readers] == [7_999, 7_999]


def test_b46_a_reader_of_others_is_seen_by_the_size_of_the_wal(path: Path) -> None:
    with closing(Journal.open(path)) as journal, closing(sqlite3.connect(path)) as other:
        journal.append(bulk(1, 10))
        other.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM entry").fetchone() == (10,)
        for first in range(11, 5_011, 200):
            journal.append(bulk(first, 200))
        held = journal.wal_bytes
        assert held > 17 * MB
        other.rollback()
        for first in range(5_011, 5_031, 10):
            journal.append(bulk(first, 10))
        assert journal.wal_bytes <= 16 << 20  # journal_size_limit


def test_b46_without_a_wal_its_size_is_nothing(path: Path) -> None:
    Journal.open(path).close()
    with closing(Journal.open(path, read_only=True)) as journal:
        path.with_name("journal.db-wal").unlink(missing_ok=True)
        assert journal.wal_bytes == 0


# --- names ---------------------------------------------------------------------------------------


def test_b47_the_newest_of_twelve_damaged_journals_is_the_one_that_is_followed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dollyd.daemon.journal.damage.time.gmtime", lambda: (2026, 11, 29, 18, 41, 20, 6, 333, 0)
    )
    for number in range(1, 13):
        path.write_bytes(b"rubbish %02d" % number)
        Journal.open(path).close()
    asides = sorted(file.name for file in path.parent.glob("*.damaged-*"))
    assert len(asides) == 12
    assert [(path.parent / name).read_bytes()[-2:] for name in asides] == [b"%02d" % n for n in range(1, 13)]
    with closing(Journal.open(path)) as journal:  # after a crash before any chain was begun
        assert journal.damage is not None
        assert journal.damage.path.read_bytes() == b"rubbish 12"


def test_b47_records_are_in_the_order_of_numbers_and_not_of_texts(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 12, b"frames")
    with closing(Journal.open(path)) as journal:
        for entry in maker.entries:
            journal.append([entry])
    with closing(Journal.open(path)) as journal:
        assert [entry.seq for entry in journal.entries(maker.chain)] == list(range(1, 38))
        assert [entry.seq for entry in journal.entries(maker.chain, 9, 11)] == [9, 10, 11]
        tail = journal.tail("r1")
        assert tail is not None
        assert (tail.seq, tail.last_round) == (37, 12)
        assert [result["round"] for result in tail.results] == list(range(1, 13))


# --- backup --------------------------------------------------------------------------------------


def test_a_backup_made_while_the_writer_works_is_the_journal_of_one_moment(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 400, b"frames")
    copy = path.with_name("copy.db")
    with closing(Journal.open(path)) as journal:
        journal.append(maker.entries[:300])
        begun, end = threading.Event(), threading.Event()

        def write() -> None:
            for place in range(300, len(maker.entries), 2):
                journal.append(maker.entries[place : place + 2])
                begun.set()
                if end.is_set():
                    return

        writer = threading.Thread(target=write)
        writer.start()
        begun.wait(10)
        least = journal.last_id
        journal.backup(copy)
        end.set()
        writer.join()
        journal.backup(copy)  # over an older one
    report = verify_journal(copy, keys(signer()))
    assert report.ok, report.problems
    assert report.records >= least
    assert sorted(file.name for file in path.parent.glob("copy.db*")) == ["copy.db"]
    with closing(Journal.open(copy)) as restored:
        assert restored.damage is None
        assert envelopes(restored) == maker.envelopes[: report.records]
        assert restored.capture(maker.chain, 4) == b"frames"


def test_a_backup_is_made_beside_a_running_daemon(path: Path) -> None:
    maker, copy = filled(path), path.with_name("copy.db")
    with closing(Journal.open(path)), closing(Journal.open(path, read_only=True)) as reader:
        reader.backup(copy)
    assert verify_journal(copy, keys(signer())).records == len(maker.entries)


def test_a_backup_that_fails_leaves_nothing(path: Path, disk: Path) -> None:
    with closing(Journal.open(path)) as journal:
        journal.append(bulk(1, 1_000))
        fill(disk, MB)
        with pytest.raises(JournalError, match="full"):
            journal.backup(disk / "copy.db")
        assert [file.name for file in disk.iterdir()] == ["filler"]
        with pytest.raises(JournalError, match="No such file"):
            journal.backup(path.parent / "none" / "copy.db")


def test_captures_are_left_out_while_the_disk_is_low(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 3, b"frames")
    with closing(Journal.open(path)) as journal:
        journal.append(maker.entries[:4])
        journal.keep_captures = False
        journal.append(maker.entries[4:7])
        journal.keep_captures = True
        journal.append(maker.entries[7:])
        assert [journal.capture(maker.chain, seq) for seq in (4, 7, 10)] == [b"frames", None, b"frames"]
        assert journal.captures_left_out == 1
    assert verify_journal(path, keys(signer())).ok
