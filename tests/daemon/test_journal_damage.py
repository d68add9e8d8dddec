"""A damaged journal is seen, kept aside and replaced; names b<n> are entries of the fault list."""

from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path

import pytest
from tests.support.chains import ChainMaker
from tests.support.journals import envelopes, filled

from dollyd.daemon.journal.store import Journal
from dollyd.wire.errors import JournalError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


# --- damage --------------------------------------------------------------------------------------


def _put_aside(path: Path) -> Journal:
    """Open; the old files must be aside, and a new journal in their place."""
    journal = Journal.open(path)
    assert journal.damage is not None
    assert journal.damage.path.name.startswith("journal.db.damaged-2")
    assert journal.last_id == 0
    assert journal.tail("r1") is None
    assert journal.append(ChainMaker(chain="c" * 32).begin().entries)
    return journal


def _settle(path: Path) -> None:
    """Move the WAL into the main file."""
    Journal.open(path).close()


def test_b44_a_truncated_file_is_put_aside(path: Path) -> None:
    filled(path, 100)
    _settle(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    journal = _put_aside(path)
    assert journal.damage is not None
    assert journal.damage.path.read_bytes() == whole[: len(whole) // 2]
    journal.close()


@pytest.mark.parametrize("content", [b"\0" * 8192, b"x" * 100, b"SQLite format 3\0"])
def test_b44_a_file_of_rubbish_is_put_aside(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _put_aside(path).close()


def test_b44_a_flipped_bit_in_a_new_record_is_seen_and_told(path: Path) -> None:
    maker = filled(path)
    _settle(path)
    data = bytearray(path.read_bytes())
    at = data.index(maker.envelopes[-3]) + 100
    data[at] ^= 0x04
    path.write_bytes(data)
    journal = _put_aside(path)
    assert journal.damage is not None
    assert journal.damage.last == {"r1": (maker.chain, maker.seq)}
    assert f"record {maker.seq - 2} of r1" in journal.damage.why or "after record" in journal.damage.why
    assert journal.damage.path.read_bytes() == data
    journal.close()


def test_b44_any_flipped_bit_is_seen_or_harmless(path: Path) -> None:
    """Whatever bit flips: refused, put aside, or what is read is what was written."""
    maker = filled(path, 3)
    _settle(path)
    whole = path.read_bytes()
    dice = random.Random(20)
    for _ in range(60):
        data = bytearray(whole)
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        try:
            journal = Journal.open(path)
        except JournalError:
            continue
        if journal.damage is None:
            assert envelopes(journal) == maker.envelopes
        journal.close()
        for file in path.parent.iterdir():
            file.unlink()


def test_a_wal_torn_behind_what_was_sent_is_seen(path: Path) -> None:
    maker = filled(path)
    wal = path.with_name("journal.db-wal")
    os.truncate(wal, wal.stat().st_size - 5000)
    path.with_name("journal.db.cursor-publisher").write_bytes(b"%020d\n" % len(maker.entries))
    journal = _put_aside(path)
    assert journal.damage is not None
    assert "entry 16 has been sent" in journal.damage.why
    assert journal.cursor("publisher") == 0  # numbers start again
    aside = journal.damage.path
    assert aside.with_name(aside.name + "-wal").exists()
    journal.close()


def test_a_wal_torn_behind_what_was_written_is_seen(path: Path) -> None:
    # A consumer may have had the record though the broker's acknowledgement never came.
    filled(path)
    wal = path.with_name("journal.db-wal")
    os.truncate(wal, wal.stat().st_size - 5)
    journal = _put_aside(path)
    assert journal.damage is not None
    assert "it ends at entry 15, but entry 16 has been written" in journal.damage.why
    journal.close()


def test_a_wal_torn_where_nothing_was_promised_only_costs_the_torn_end(path: Path) -> None:
    maker = filled(path)
    wal = path.with_name("journal.db-wal")
    os.truncate(wal, wal.stat().st_size - 5)
    path.with_name("journal.db.cursor-written").unlink()  # as after a power cut in the commit
    journal = Journal.open(path)
    assert journal.damage is None
    kept = envelopes(journal)
    assert kept == maker.envelopes[: len(kept)]
    assert len(kept) == len(maker.envelopes) - 1
    journal.close()


def test_a_row_that_says_other_than_its_record_is_damage(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 1)
    journal = Journal.open(path)
    journal.append(maker.entries)
    journal.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE entry SET final = 0 WHERE kind = 'result'")
    other.close()
    _put_aside(path).close()


def test_a_chain_with_a_record_taken_out_is_damage(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 3)
    journal = Journal.open(path)
    journal.append(maker.entries)
    journal.close()
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM entry WHERE seq = 5")
    other.close()
    _put_aside(path).close()


def test_a_crash_while_putting_aside_is_survived(path: Path) -> None:
    filled(path)
    path.rename(path.with_name("journal.db.damaged-20261129T184120Z"))  # and no further
    _put_aside(path).close()
    assert not [
        file for file in path.parent.iterdir() if file.name == "journal.db-wal" and file.stat().st_size
    ]


def test_a_crash_after_putting_aside_is_still_told(path: Path) -> None:
    path.write_bytes(b"x" * 100)
    Journal.open(path).close()  # ends before any chain was started
    for _ in range(2):
        journal = Journal.open(path)
        assert journal.damage is not None
        assert journal.damage.path.read_bytes() == b"x" * 100
        journal.close()
    journal = Journal.open(path)
    journal.append(ChainMaker().begin().entries)
    journal.close()
    journal = Journal.open(path)
    assert journal.damage is None
    journal.close()


def test_damaged_journals_are_never_overwritten(path: Path) -> None:
    for number in range(3):
        path.write_bytes(b"rubbish %d" % number)
        Journal.open(path).close()
    asides = [file.read_bytes() for file in path.parent.iterdir() if ".damaged-" in file.name]
    assert sorted(asides) == [b"rubbish 0", b"rubbish 1", b"rubbish 2"]
