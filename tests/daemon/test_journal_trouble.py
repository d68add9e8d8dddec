"""A journal that cannot be used for a while, and one whose files are changed under it (cases N2, N3, N14)."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.support.chains import ChainMaker
from tests.support.disks import remount, small_disk

from dollyd.client.proof.verify import verify_journal
from dollyd.daemon.health.health import _free, _size
from dollyd.daemon.journal.file import JournalUnusableError
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.journal.trouble import SameFiles, passes_by_itself
from dollyd.wire.errors import JournalError

WAIT_S = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


# --- N2: passing trouble at a start ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "passes"),
    [
        *((number, True) for number in (errno.EROFS, errno.EIO, errno.ENOSPC, errno.EMFILE, errno.ENOMEM)),
        *((number, True) for number in (errno.EDQUOT, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT)),
        *((number, False) for number in (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR)),
        *((number, False) for number in (errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)),
    ],
)
def test_n2_what_a_disk_may_mend_is_no_mistake_of_the_operator(path: Path, number: int, passes: bool) -> None:
    assert passes_by_itself(path, OSError(number, os.strerror(number))) is passes


def test_n2_a_disk_that_is_read_only_at_the_start_may_pass(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        Journal.open(disk / "journal.db").close()
        remount(disk, "ro")
        with pytest.raises(JournalError) as caught:
            Journal.open(disk / "journal.db")
        assert not isinstance(caught.value, JournalUnusableError)
        remount(disk, "rw")
        Journal.open(disk / "journal.db").close()


def test_n2_a_program_that_has_the_journal_for_itself_may_end(path: Path) -> None:
    Journal.open(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as browser:
        browser.execute("PRAGMA locking_mode = EXCLUSIVE")
        browser.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JournalError) as caught:
            Journal.open(path)
        assert not isinstance(caught.value, JournalUnusableError)
        browser.execute("ROLLBACK")
    Journal.open(path).close()


def test_n2_a_folder_that_is_not_there_stays_the_operator_s(tmp_path: Path) -> None:
    with pytest.raises(JournalUnusableError):
        Journal.open(tmp_path / "none" / "journal.db")


# --- N3: files that move under an open journal ----------------------------------------------------


def replaced(path: Path) -> None:
    shutil.copy(path, copy := path.with_name("copy"))
    copy.rename(path)


def removed(*ends: str) -> Callable[[Path], None]:
    def remove(path: Path) -> None:
        for end in ends:
            path.with_name(path.name + end).unlink()

    return remove


MOVES = {
    "replaced": replaced,
    "wal-removed": removed("-wal"),
    "shm-removed": removed("-shm"),
    "side-files-removed": removed("-wal", "-shm"),
    "journal-removed": removed(""),
    "all-removed": removed("", "-wal", "-shm"),
}


@pytest.mark.parametrize("how", MOVES)
def test_n3_nothing_more_is_kept_in_files_that_nobody_will_find(path: Path, how: str) -> None:
    """And what the open connection can read is saved, whole."""
    maker = ChainMaker().begin().play(1, 3)
    journal = Journal.open(path)
    kept = len(journal.append(maker.entries))
    MOVES[how](path)
    with pytest.raises(JournalError, match="while the journal was open; what it held is saved in"):
        journal.append(maker.play(4, 1).entries[kept:])
    with pytest.raises(JournalError, match="while the journal was open"):
        journal.check_files()  # each look of the upkeep, where nothing is to be kept
    with suppress(JournalError):
        journal.close()
    saved = min(path.parent.glob("journal.db.saved-*"))
    report = verify_journal(saved)
    assert (report.ok, report.records) == (True, kept)


def test_n3_files_that_stay_are_no_trouble(path: Path) -> None:
    with closing(Journal.open(path)) as journal:
        journal.append(ChainMaker().begin().entries)
        journal.check_files()
        with closing(Journal.open(path, read_only=True)):
            journal.check_files()
        journal.backup(path.with_name("copy.db"))
        journal.check_files()


def test_n3_figures_of_files_that_are_gone_end_nothing(path: Path) -> None:
    assert (_size(path), _free(path / "none")) == (0, 0)


def test_n3_a_name_that_leads_elsewhere_is_told(path: Path) -> None:
    path.write_text("one")
    files = SameFiles(path, ("",))
    assert files.look() == files.look() == ""
    path.with_name("other").write_text("two")
    path.with_name("other").rename(path)
    assert "replaced" in files.look()
    path.unlink()
    assert "removed" in files.look()


# --- N14: another program's lock -------------------------------------------------------------------


@pytest.fixture
def browser(path: Path) -> Iterator[sqlite3.Connection]:
    """A data base browser with an edit under way."""
    Journal.open(path).close()
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def test_n14_a_lock_of_another_program_is_waited_for_and_its_holder_known(
    path: Path, browser: sqlite3.Connection
) -> None:
    with closing(Journal.open(path)) as journal:
        entries = ChainMaker().begin().entries
        writer = threading.Thread(target=journal.append, args=(entries,))
        writer.start()
        try:
            while writer.is_alive() and not journal.held_by:
                writer.join(0.01)
            assert journal.held_by
        finally:
            browser.execute("ROLLBACK")
            writer.join(WAIT_S)
        assert journal.held_by == ""
        assert journal.last_id == len(entries)


def test_n14_a_lock_that_stays_is_told_with_its_holder(
    path: Path, browser: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dollyd.daemon.journal.store.HELD_MAX_S", 0.0)
    monkeypatch.setattr("dollyd.daemon.journal.store.held_by", lambda _path: "sqlitebrowser (pid 812)")
    with closing(Journal.open(path)) as journal:
        with pytest.raises(JournalError, match="records cannot be kept"):
            journal.append(ChainMaker().begin().entries)
        monkeypatch.setattr("dollyd.daemon.journal.store.HELD_MAX_S", 2.0)
        with pytest.raises(JournalError, match=r"sqlitebrowser \(pid 812\) holds its lock"):
            journal.append(ChainMaker().begin().entries)
