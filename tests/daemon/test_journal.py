"""The journal: what was said to be durable is there, and a damaged file is seen, kept and replaced."""

from __future__ import annotations

import random
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from tests.support.chains import UTC, ChainMaker, decision
from tests.support.commands import correction
from tests.support.journals import envelopes, filled

from dollyd.daemon.journal.file import JournalUnusableError
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.journal.tail import RESULTS_KEPT
from dollyd.wire.errors import InvariantError, JournalError
from dollyd.wire.record import Kind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


# --- keeping -------------------------------------------------------------------------------------


def test_entries_come_back_as_they_were(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 3)
    journal = Journal.open(path)
    written = journal.append(maker.entries)
    assert [entry.id for entry in written] == list(range(1, 11))
    journal.close()
    journal = Journal.open(path)
    assert journal.entries_after(0, 100) == written
    assert journal.entries_after(7, 2) == written[7:9]
    assert list(journal.entries("a" * 32)) == written
    assert list(journal.entries("a" * 32, 3, 5)) == written[2:5]
    assert list(journal.entries("other")) == []
    assert journal.last_id == 10
    assert journal.damage is None
    journal.close()


def test_tables_share_a_journal(path: Path) -> None:
    first, second = ChainMaker("r1", "a" * 32).begin(), ChainMaker("r2", "b" * 32).begin()
    journal = Journal.open(path)
    journal.append([*first.entries, *second.entries])
    first.play(1, 1)
    journal.append(first.entries[1:])
    assert journal.tables() == {"r1": "a" * 32, "r2": "b" * 32}
    assert [entry.table for entry in journal.entries_after(0, 9)] == ["r1", "r2", "r1", "r1", "r1"]
    assert [entry.seq for entry in journal.entries("a" * 32)] == [1, 2, 3, 4]
    journal.close()


def test_long_reads_are_cut_into_short_ones(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 200)
    journal = Journal.open(path)
    journal.append(maker.entries)
    reader = journal.entries("a" * 32)
    assert next(reader).seq == 1
    # B46: the reader that stands still here holds no transaction that would keep the WAL from being reset.
    with sqlite3.connect(path) as other:
        busy, in_wal, moved = other.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    other.close()
    assert (busy, in_wal) == (0, moved)
    assert [entry.seq for entry in reader] == list(range(2, 602))
    journal.close()


def test_the_file_is_not_for_everybody(path: Path) -> None:
    Journal.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) & 0o027 == 0


def test_commits_are_synchronous(path: Path) -> None:
    journal = Journal.open(path)
    assert journal._write is not None
    assert journal._write.execute("PRAGMA synchronous").fetchone() == (2,)
    assert journal._write.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    journal.close()


@pytest.mark.parametrize(
    ("kind", "round_number"), [(Kind.RESULT, 3), (Kind.VOID, 3), (Kind.ROUND, 2), (Kind.ROUND, 3)]
)
def test_the_data_base_itself_refuses_a_second_final_and_a_second_opening(
    path: Path, kind: Kind, round_number: int
) -> None:
    maker = ChainMaker().begin().play(1, 3)
    journal = Journal.open(path)
    journal.append(maker.entries)
    before = envelopes(journal)
    maker.add(Kind.INCIDENT)
    maker.add(kind, round_number)
    with pytest.raises(JournalError, match="UNIQUE"):
        journal.append(maker.entries[-2:])
    assert envelopes(journal) == before  # nothing of the transaction stays
    journal.close()


def test_the_data_base_refuses_a_used_seq_and_remembers_nothing_of_what_it_refused(path: Path) -> None:
    maker = ChainMaker().begin()
    journal = Journal.open(path)
    journal.append(maker.entries)
    other = ChainMaker("r1", "b" * 32).begin()
    for _ in range(2):
        with pytest.raises(JournalError, match=r"entry\.seq"):
            journal.append(other.entries + maker.entries)
    assert journal.tables() == {"r1": "a" * 32}
    maker.add(Kind.INCIDENT)
    assert journal.append(maker.entries[1:])[0].id == 2
    journal.close()


def test_of_two_chains_of_a_table_the_later_one_goes_on(path: Path) -> None:
    first, second = ChainMaker("r1", "b" * 32).begin().play(1, 3), ChainMaker("r1", "a" * 32).begin()
    with closing(Journal.open(path)) as journal:
        journal.append(first.entries)
        journal.append(second.entries)
    with closing(Journal.open(path)) as journal:
        assert journal.damage is None
        assert journal.chains() == [("r1", "b" * 32), ("r1", "a" * 32)]
        assert journal.tables() == {"r1": "a" * 32}
        tail = journal.tail("r1")
        assert tail is not None
        assert (tail.chain, tail.seq, tail.last_round, tail.kid) == ("a" * 32, 1, 0, second.signer.kid)
        assert len(list(journal.entries("b" * 32))) == len(first.entries)


def test_b48_a_full_disk_is_an_error_and_loses_nothing(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 200)
    journal = Journal.open(path)
    journal.append(maker.entries[:1])
    assert journal._write is not None
    journal._write.execute("PRAGMA max_page_count = 20")
    with pytest.raises(JournalError, match="full"):
        journal.append(maker.entries[1:])
    journal.close()
    journal = Journal.open(path)
    assert envelopes(journal) == maker.envelopes[:1]
    assert journal.damage is None
    journal.close()


def test_b44_b45_what_was_durable_survives_kill_9(path: Path) -> None:
    code = """
import sys
from pathlib import Path
from dollyd.wire.record import Kind
from dollyd.daemon.journal.store import Journal
from tests.support.chains import ChainMaker
journal, maker = Journal.open(Path(sys.argv[1])), ChainMaker().begin()
journal.append(maker.entries)
while True:
    maker.add(Kind.INCIDENT)
    maker.add(Kind.INCIDENT)
    written = journal.append(maker.entries[-2:])
    print(written[-1].id, written[-1].envelope.decode(), flush=True)
"""
    root = Path(__file__).parents[2]
    for _ in range(3):
        path.unlink(missing_ok=True)
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, cwd=root, bufsize=0
        )
        assert child.stdout is not None
        with child.stdout as out:
            lines = [out.readline() for _ in range(random.randint(20, 200))]
            child.send_signal(signal.SIGKILL)
            lines += out.readlines()
        child.wait(10)
        journal = Journal.open(path)
        assert journal.damage is None
        kept = {entry.id: entry.envelope for entry in journal.entries_after(0, 100_000)}
        for line in lines:
            if line.endswith(b"\n"):
                id_, envelope = line.split()
                assert kept[int(id_)] == envelope
        assert len(kept) % 2 == 1  # whole transactions only
        journal.close()


# --- the tail ------------------------------------------------------------------------------------


def test_a_table_without_records_has_no_tail(path: Path) -> None:
    journal = Journal.open(path)
    assert journal.tail("r1") is None
    journal.close()


def test_the_tail_tells_where_the_chain_goes_on(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 30)
    journal = Journal.open(path)
    journal.append(maker.entries)
    tail = journal.tail("r1")
    assert tail is not None
    assert (tail.chain, tail.seq, tail.last_utc) == (maker.chain, 91, UTC)
    assert tail.prev == sha256(maker.envelopes[-1]).hexdigest()
    assert (tail.last_round, tail.open_round, tail.unresolved) == (30, None, False)
    assert [result["round"] for result in tail.results] == list(range(31 - RESULTS_KEPT, 31))
    assert tail.session is None
    assert not tail.session_open
    journal.close()


def test_the_tail_tells_an_open_round_and_an_unresolved_one(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 2)
    journal = Journal.open(path)
    journal.append(maker.entries)
    steps = [
        (Kind.ROUND, (3, 3, False)),
        (Kind.BETS_CLOSED, (3, 3, False)),
        (Kind.UNRESOLVED, (3, 3, True)),
        (Kind.VOID, (3, None, False)),
        (Kind.CORRECTION, (3, None, False)),
    ]
    for kind, expected in steps:
        maker.add(kind, 3, correction() if kind is Kind.CORRECTION else None)
        journal.append(maker.entries[-1:])
        tail = journal.tail("r1")
        assert tail is not None
        assert (tail.last_round, tail.open_round, tail.unresolved) == expected
    journal.close()


def test_the_tail_tells_whether_the_table_is_open(path: Path) -> None:
    maker = ChainMaker().begin()
    journal = Journal.open(path)
    for event, is_open in (("opened", True), ("closed", False), ("opened", True), ("resumed", True)):
        maker.add(Kind.SESSION, body={"event": event})
        maker.add(Kind.INCIDENT)
        journal.append(maker.entries[journal.last_id :])
        tail = journal.tail("r1")
        assert tail is not None
        assert tail.session_open is is_open
    journal.close()


def test_the_tail_tells_that_an_inspection_is_due(path: Path) -> None:
    maker = ChainMaker().begin()
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.VOID, 1, body={"rule": "ball-out"})
    journal = Journal.open(path)
    journal.append(maker.entries)
    tail = journal.tail("r1")
    assert tail is not None
    assert tail.inspection == "ball-out"
    maker.add(Kind.INCIDENT, body={"what": "inspected"})
    journal.append(maker.entries[-1:])
    tail = journal.tail("r1")
    assert tail is not None
    assert not tail.inspection
    maker.add(Kind.ROUND, 2)
    maker.add(Kind.VOID, 2, body={"rule": "launch-failed"})
    journal.append(maker.entries[-2:])
    tail = journal.tail("r1")
    assert tail is not None
    assert not tail.inspection
    journal.close()


# --- captures and cursors ------------------------------------------------------------------------


def test_captures_are_kept_and_pruned_oldest_first(path: Path) -> None:
    maker = ChainMaker().begin()
    captures = [random.Random(n).randbytes(1000) for n in range(20)]
    for number, capture in enumerate(captures, 1):
        maker.add(Kind.ROUND, number)
        maker.add(Kind.RESULT, number, decision(capture), capture)
    journal = Journal.open(path)
    journal.append(maker.entries)
    seqs = [entry.seq for entry in maker.entries if entry.capture is not None]
    assert [journal.capture(maker.chain, seq) for seq in seqs] == captures
    assert journal.capture(maker.chain, 1) is None
    assert journal.prune_captures(5 * 1100) == 15
    assert journal.prune_captures(5 * 1100) == 0
    assert [journal.capture(maker.chain, seq) for seq in seqs] == [None] * 15 + captures[15:]
    assert journal.prune_captures(0) == 5
    journal.close()
    journal = Journal.open(path)
    maker.add(Kind.ROUND, 21)
    maker.add(Kind.RESULT, 21, decision(captures[0]), captures[0])
    journal.append(maker.entries[-2:])
    assert journal.capture(maker.chain, maker.seq) == captures[0]
    journal.close()


def test_cursors_survive_a_restart(path: Path) -> None:
    maker = ChainMaker().begin().play(1, 5)
    journal = Journal.open(path)
    journal.append(maker.entries)
    assert journal.cursor("publisher") == 0
    for id_ in (3, 12, 7):
        journal.set_cursor("publisher", id_)
    journal.set_cursor("runs", 1000)  # a counter of its owner, no place in the journal
    journal.close()
    journal = Journal.open(path)
    assert (journal.cursor("publisher"), journal.cursor("runs")) == (7, 1000)
    assert journal.damage is None
    journal.close()


@pytest.mark.parametrize("text", [None, b"", b"0000000000", b"x" * 21, b"-0000000000000000001\n"])
def test_f8_a_lost_cursor_is_told_and_sends_a_bounded_number_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes | None
) -> None:
    monkeypatch.setattr("dollyd.daemon.journal.store.RESENT_MAX", 4)
    file = path.with_name("journal.db.cursor-publisher")
    journal = Journal.open(path)
    assert journal.find_publisher_cursor() is None  # nothing is there to be sent
    assert file.exists()  # and that it was never sent is known from now on
    maker = ChainMaker().begin().play(1, 5)
    journal.append(maker.entries)
    assert (journal.find_publisher_cursor(), journal.cursor("publisher")) == (None, 0)
    if text is None:
        file.unlink()
    else:
        file.write_bytes(text)
    journal.close()
    journal = Journal.open(path)
    goes_on = len(maker.entries) - 4
    assert (journal.find_publisher_cursor(), journal.cursor("publisher")) == (goes_on, goes_on)
    assert journal.find_publisher_cursor() is None
    journal.close()


# --- opening -------------------------------------------------------------------------------------


def test_two_daemons_never_share_a_journal(path: Path) -> None:
    journal = Journal.open(path)
    with pytest.raises(JournalUnusableError, match="another dollyd"):
        Journal.open(path)
    reader = Journal.open(path, read_only=True)
    reader.close()
    journal.close()
    Journal.open(path).close()


def test_read_only_writes_nothing(path: Path) -> None:
    maker = filled(path)
    reader = Journal.open(path, read_only=True)
    assert envelopes(reader) == maker.envelopes
    with pytest.raises(InvariantError):
        reader.append(maker.entries)
    reader.close()


def test_an_impossible_path_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "none" / "j.db", tmp_path / "file" / "j.db", tmp_path):
        with pytest.raises(JournalUnusableError) as error:
            Journal.open(path)
        assert str(path) in str(error.value)
    with pytest.raises(JournalUnusableError):
        Journal.open(tmp_path / "none.db", read_only=True)


def test_another_programs_file_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipe (name TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(JournalUnusableError, match="no journal of dollyd"):
        Journal.open(path)
    assert path.read_bytes() == before


def test_another_schema_version_is_refused(path: Path) -> None:
    Journal.open(path).close()
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 3")
    later.close()
    with pytest.raises(JournalUnusableError, match="schema version 3"):
        Journal.open(path)
    assert path.exists()


def test_a_crash_before_the_first_table_leaves_nothing_to_mend(path: Path) -> None:
    path.write_bytes(b"")
    journal = Journal.open(path)
    assert journal.damage is None
    assert journal.append(ChainMaker().begin().entries)
    journal.close()
