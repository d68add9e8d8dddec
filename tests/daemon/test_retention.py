"""Retention by age: whole sealed ranges go, nothing that a restart or an auditor needs."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.chains import ChainMaker, decision, keys, signer
from tests.support.journals import envelopes
from tests.support.rights import NO_ROOT, NOBODY, as_nobody, open_folder

from dollyd.client.proof.verify import verify_journal
from dollyd.daemon.commands.marks import CommandMarks, marks_path
from dollyd.daemon.journal import retention
from dollyd.daemon.journal.store import Journal
from dollyd.wire.record import Kind, Time

CAPTURE = b"raw frames"
NEVER, ALL = "1970-01-01T00:00:00.000000000Z", "9999-01-01T00:00:00.000000000Z"


class OldChain(ChainMaker):
    """A chain whose records are dated: day 1, day 2, and so on."""

    day = 1

    def add(
        self,
        kind: Kind,
        round_number: int = 0,
        body: dict[str, Any] | None = None,
        capture: bytes | None = None,
        header: dict[str, Any] | None = None,
    ) -> bytes:
        utc = f"2026-01-{self.day:02}T12:00:00.000000000Z"
        at = Time(utc=utc, monotonic_ns=1, boot="b", synchronised=True, error_bound_us=10)
        return super().add(kind, round_number, body, capture, {"time": at} | (header or {}))

    def seal(self) -> int:
        """A checkpoint, and the night after it; gives the checkpoint's seq."""
        finals = sum(entry.final for entry in self.entries)
        self.add(
            Kind.CHECKPOINT,
            body={"reason": "hourly", "seq": self.seq, "head": self.prev, "finals": finals},
        )
        self.day += 1
        return self.seq


def before(day: int) -> str:
    return f"2026-01-{day:02}T00:00:00.000000000Z"


def days(count: int, rounds: int = 25) -> tuple[OldChain, list[int]]:
    """So many days of rounds, and the checkpoint at the end of each."""
    maker = OldChain()
    maker.begin()
    maker.add(Kind.SESSION, body={"event": "opened", "opened_at": "x"})
    seals = []
    for day in range(count):
        maker.play(day * rounds + 1, (day + 1) * rounds, CAPTURE)
        seals.append(maker.seal())
    return maker, seals


def journal_of(path: Path, *makers: ChainMaker) -> Journal:
    """A journal with all that was exported and acknowledged."""
    journal = Journal.open(path)
    for maker in makers:
        journal.append(maker.entries)
    for cursor in ("publisher", "exported"):
        journal.set_cursor(cursor, journal.last_id)
    return journal


def pruned(journal: Journal, before_utc: str) -> int:
    """Prune to the end; gives how many records went."""
    count = 0
    while step := journal.prune_records(before_utc):
        count += step
    return count


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_a_chain_begins_at_the_checkpoint_of_the_last_old_day(path: Path) -> None:
    maker, seals = days(5)
    with closing(journal_of(path, maker)) as journal:
        tail = journal.tail("r1")
        assert pruned(journal, before(3)) == seals[1] - 1  # days 1 and 2
        kept = maker.envelopes[seals[1] - 1 :]
        assert envelopes(journal) == kept
        assert [entry.envelope for entry in journal.entries(maker.chain)] == kept
        assert journal.pruned_upto(maker.chain) == seals[1] - 1
        assert journal.pruned_upto("another") == 0
        assert journal.tail("r1") == tail
        assert journal.capture(maker.chain, seals[0] - 1) is None
        assert journal.capture(maker.chain, seals[2] - 1) == CAPTURE
        assert pruned(journal, before(3)) == 0
        maker.play(126, 126)
        assert journal.append(maker.entries[-3:])[-1].seq == maker.seq
    with closing(Journal.open(path)) as journal:
        assert journal.damage is None
    report = verify_journal(path, keys(signer()))
    assert report.ok, report.problems
    assert report.heads[maker.chain].first == seals[1]
    assert report.records == maker.seq - seals[1] + 1


@pytest.mark.parametrize("cursor", ["publisher", "exported"])
def test_what_was_not_exported_and_acknowledged_stays(path: Path, cursor: str) -> None:
    maker, seals = days(4)
    with closing(journal_of(path, maker)) as journal:
        journal.set_cursor(cursor, 0)
        assert pruned(journal, ALL) == 0
        journal.set_cursor(cursor, seals[1] - 1)  # all of day 2 but its checkpoint
        assert pruned(journal, ALL) == seals[0] - 1
        journal.set_cursor(cursor, seals[1])
        assert pruned(journal, ALL) == seals[1] - seals[0]


def test_young_records_stay(path: Path) -> None:
    maker, _ = days(3)
    with closing(journal_of(path, maker)) as journal:
        assert pruned(journal, NEVER) == 0
        assert pruned(journal, before(1)) == 0


def test_a_restart_needs_the_last_round_and_the_last_results_however_old(path: Path) -> None:
    maker, seals = days(3, rounds=9)  # 27 results; the last 20 begin on day 1
    with closing(journal_of(path, maker)) as journal:
        assert pruned(journal, ALL) == 0
        maker.play(28, 40)
        last = maker.seal()
        journal.append(maker.entries[seals[-1] :])
        for cursor in ("publisher", "exported"):
            journal.set_cursor(cursor, journal.last_id)
        tail = journal.tail("r1")
        assert tail is not None
        assert pruned(journal, ALL) == seals[1] - 1  # results 21 to 40 stay
        assert journal.tail("r1") == tail
        assert tail.session_open
        assert tail.last_round == 40
        assert tail.finals == 40
        assert last == maker.seq


def test_a_range_ends_between_two_rounds(path: Path) -> None:
    maker, _ = days(1)
    maker.add(Kind.ROUND, 26)
    maker.seal()  # in mid-round
    maker.add(Kind.INCIDENT)
    maker.add(Kind.BETS_CLOSED, 26)
    maker.add(Kind.VOID, 26, decision())
    between = maker.seal()
    maker.add(Kind.ROUND, 27)
    maker.add(Kind.BETS_CLOSED, 27)
    maker.seal()
    maker.add(Kind.VOID, 27, decision())
    maker.play(28, 60)
    maker.seal()
    with closing(journal_of(path, maker)) as journal:
        pruned(journal, ALL)
        assert journal.pruned_upto(maker.chain) == between - 1
    assert verify_journal(path, keys(signer())).ok


def test_every_chain_has_a_beginning_of_its_own(path: Path) -> None:
    first, seals = days(4)
    second = OldChain("r2", "b" * 32)
    second.begin().play(1, 5)
    with closing(journal_of(path, first, second)) as journal:
        assert pruned(journal, before(4)) == seals[2] - 1
        assert journal.pruned_upto(second.chain) == 0
        assert len(list(journal.entries(second.chain))) == second.seq
    with closing(Journal.open(path)) as journal:
        assert journal.damage is None


def test_a_crash_between_two_steps_is_gone_on_with(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker, seals = days(4)
    monkeypatch.setattr(retention, "_REMOVED_A_CALL", 10)
    with closing(journal_of(path, maker)) as journal:
        assert journal.prune_records(before(3)) == 10
        kept = maker.envelopes[seals[1] - 1 :]
        assert [entry.envelope for entry in journal.entries(maker.chain)] == kept
    with closing(Journal.open(path)) as journal:
        assert journal.damage is None
        assert verify_journal(path, keys(signer())).records == len(kept)
        assert pruned(journal, NEVER) == seals[1] - 1 - 10  # what was begun is finished
        assert envelopes(journal) == kept


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE pruned SET upto_seq = upto_seq - 1",
        "UPDATE pruned SET head = 'f' || substr(head, 2)",
        "DELETE FROM pruned",
        "DELETE FROM entry WHERE seq = (SELECT upto_seq + 1 FROM pruned)",
    ],
)
def test_b44_a_beginning_that_is_not_the_pruned_one_is_damage(path: Path, change: str) -> None:
    maker, _ = days(3)
    with closing(journal_of(path, maker)) as journal:
        assert pruned(journal, before(3))
    with closing(sqlite3.connect(path)) as other:
        other.execute(change)
        other.commit()
    assert not verify_journal(path, keys(signer())).ok
    with closing(Journal.open(path)) as journal:
        assert journal.damage is not None


def test_places_in_a_damaged_journal_are_none_in_the_new_one(path: Path) -> None:
    maker, _ = days(2)
    journal_of(path, maker).close()
    path.write_bytes(b"rubbish")
    with closing(Journal.open(path)) as journal:
        assert journal.damage is not None
        assert (journal.cursor("publisher"), journal.cursor("exported")) == (0, 0)
        aside = journal.damage.path
        assert aside.with_name(aside.name + ".cursor-exported").exists()


def test_others_write_between_two_steps_of_pruning(path: Path) -> None:
    maker, _ = days(4, rounds=700)
    younger = ChainMaker("r2", "b" * 32).begin()
    with closing(journal_of(path, maker)) as journal:
        journal.append(younger.entries)
        steps: list[int] = []
        written = 0
        pruner = threading.Thread(target=lambda: steps.append(_steps(journal)))
        pruner.start()
        while pruner.is_alive():
            younger.add(Kind.INCIDENT)
            journal.append(younger.entries[-1:])
            written += 1
        pruner.join()
        assert steps[0] >= 6
        assert written > 3, "others write between the steps"
        assert len(list(journal.entries(younger.chain))) == younger.seq


def _steps(journal: Journal) -> int:
    count = 0
    while journal.prune_records(ALL):
        count += 1
        time.sleep(0.001)
    return count


# --- files that another user has made --------------------------------------------------------------


@contextmanager
def journal_of_nobody() -> Iterator[Path]:
    """A journal in a folder that is the daemon's, and the daemon is nobody."""
    with open_folder() as folder:
        path = folder / "journal.db"
        maker, _ = days(3)
        journal_of(path, maker).close()
        for file in (folder, *folder.iterdir()):
            os.chown(file, NOBODY, NOBODY)
        path.with_name("journal.db.cursor-exported").unlink()
        yield path


_PRUNE = """import sys; from pathlib import Path; from dollyd.daemon.journal.store import Journal
journal = Journal.open(Path(sys.argv[1]))
print("pruned", [journal.prune_records("9999") for _ in range(3)][0])
journal.set_cursor("publisher", journal.cursor("publisher"))
journal.set_cursor("exported", 1)"""


@pytest.mark.skipif(bool(NO_ROOT), reason=NO_ROOT)
def test_what_root_makes_beside_a_journal_is_for_the_user_of_the_daemon() -> None:
    with journal_of_nobody() as path:
        with closing(Journal.open(path, read_only=True)) as journal:  # `sudo dollyd export`
            journal.set_cursor("exported", journal.last_id)
            journal.backup(path.with_name("copy.db"))
        verify_journal(path, keys(signer()))
        marks_path(path).unlink(missing_ok=True)
        CommandMarks(marks_path(path)).take("kid", "2026")
        beside = {file.name: file.stat() for file in path.parent.iterdir() if file.name != "copy.db"}
        assert {"journal.db.cursor-exported", "journal.db.commands"} < beside.keys()
        assert {(made.st_uid, made.st_gid) for made in beside.values()} == {(NOBODY, NOBODY)}
        done = as_nobody(_PRUNE, path)
        assert (done.returncode, done.stderr) == (0, "")
        assert int(done.stdout.split()[1]) > 0


@pytest.mark.skipif(bool(NO_ROOT), reason=NO_ROOT)
def test_a_place_of_exports_that_cannot_be_read_prunes_nothing_and_is_told_once() -> None:
    with journal_of_nobody() as path:
        cursor = path.with_name("journal.db.cursor-exported")
        cursor.write_bytes(b"%020d\n" % 9999)
        cursor.chmod(0o600)
        done = as_nobody(_PRUNE, path)
        assert done.stderr.count("exports_unknown") == 1
        assert "pruned 0" in done.stdout
        assert "JournalError" in done.stderr  # what it has not read it does not write either
        path.with_name("journal.db.cursor-publisher").chmod(0o600)
        os.chown(path.with_name("journal.db.cursor-publisher"), 0, 0)
        done = as_nobody(_PRUNE, path)
        assert "JournalUnusableError" in done.stderr
        assert "Permission denied" in done.stderr
