"""The journal's file: its schema, its lock, how it is opened and copied."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dollyd.daemon.journal.trouble import passes_by_itself
from dollyd.wire.errors import JournalError
from dollyd.wire.files import sync_directory, sync_file

LOCK = ".lock"
"""Behind the journal's name: the file whose lock is held by who writes."""
_VERSION = 2
_APPLICATION_ID = 0x444F4C59
"""`DOLY`: tells a journal from any other SQLite file."""
_WAL_KEPT_BYTES = 16 << 20
_BUSY_TIMEOUT_S = 5
_WRITE_TIMEOUT_S = 1
"""How long SQLite waits for another program's lock at a commit; `Journal.append` goes on waiting."""

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE chain (
    id INTEGER PRIMARY KEY,
    tbl TEXT NOT NULL,  -- of several chains of a table the one with the highest id goes on
    name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    chain INTEGER NOT NULL REFERENCES chain,
    seq INTEGER NOT NULL CHECK (seq > 0),
    kind TEXT NOT NULL,
    round INTEGER NOT NULL,
    final INTEGER NOT NULL CHECK (final IN (0, 1)),
    envelope BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX one_record_a_seq ON entry (chain, seq);
CREATE UNIQUE INDEX one_opening_a_round ON entry (chain, round) WHERE kind = 'round';
CREATE UNIQUE INDEX one_final_a_round ON entry (chain, round) WHERE final = 1;
CREATE INDEX sessions ON entry (chain, seq) WHERE kind = 'session';
CREATE INDEX checkpoints ON entry (chain, seq) WHERE kind = 'checkpoint';
CREATE TABLE pruned (
    chain INTEGER PRIMARY KEY REFERENCES chain,
    upto_seq INTEGER NOT NULL,  -- the chain begins after it, with a checkpoint
    head TEXT NOT NULL,  -- digest of that record's envelope: the checkpoint's prev
    session BLOB  -- the last session record up to there, which a restart wants
) STRICT;
CREATE TABLE capture (
    upto INTEGER PRIMARY KEY,  -- bytes of all captures ever kept, this one included
    entry INTEGER NOT NULL UNIQUE REFERENCES entry,
    digest TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
COMMIT;
"""


def audit_path(journal: Path) -> Path:
    """The file that says what the last verification of a journal found."""
    return journal.with_name(f"{journal.name}.verified")


class JournalUnusableError(JournalError):
    """The journal cannot be opened as configured; the operator must change something."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Own the journal at `path`: a lock that the kernel drops with the process."""
    lock_path = path.with_name(path.name + LOCK)
    try:
        file = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        kind = JournalError if passes_by_itself(lock_path, error) else JournalUnusableError
        raise kind(f"{lock_path}: cannot be made: {error.strerror}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalUnusableError(f"{path}: another dollyd has this journal open") from None
        yield
    finally:
        os.close(file)


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A connection for short reads. Raises `sqlite3.Error`, or `JournalUnusableError` for another file."""
    connection = connect(path, "ro")
    try:
        check_is_journal(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_write(path: Path) -> sqlite3.Connection:
    """The one writing connection; makes the file and its tables where there are none."""
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640))
    connection = connect(path, "rw", _WRITE_TIMEOUT_S)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # fsync before a commit returns
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        if not has_tables(connection):
            connection.executescript(_SCHEMA)
            sync_directory(path.parent)
        check_is_journal(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def copy_to(path: Path, copy: Path) -> None:
    """Copy a journal, in use or not, as it is at one moment. Raises `OSError` or `sqlite3.Error`.

    The copy is one file without a WAL, durable and under its name only when it is whole.
    """
    partial = copy.with_name(copy.name + ".partial")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640))
    try:
        with closing(connect_read_only(path)) as source, closing(connect(partial, "rw")) as target:
            source.backup(target)  # in one step: a copy in several begins anew with every commit between
            target.execute("PRAGMA journal_mode = DELETE")
        sync_file(partial)
        partial.rename(copy)
    finally:
        for left in copy.parent.glob(f"{partial.name}*"):
            left.unlink()
    sync_directory(copy.parent)


def save_open(source: sqlite3.Connection, copy: Path) -> None:
    """Copy what an open connection can read to a new file. Raises `OSError` or `sqlite3.Error`."""
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640))
    try:
        with closing(connect(copy, "rw")) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
        sync_file(copy)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    sync_directory(copy.parent)


def connect(path: Path, mode: str, timeout_s: float = _BUSY_TIMEOUT_S) -> sqlite3.Connection:
    """A connection to any file, `ro` or `rw`. Raises `sqlite3.Error`."""
    # Each connection is used by one thread at a time; the journal sees to it.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=timeout_s,
        check_same_thread=False,
    )


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether anything was ever made in the file."""
    return bool(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])


def check_is_journal(path: Path, connection: sqlite3.Connection) -> None:
    """Raise `JournalUnusableError` unless the file is a journal of this version."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id != _APPLICATION_ID:
        raise JournalUnusableError(f"{path}: is no journal of dollyd; name another file")
    if version != _VERSION:
        wanted = f"this dollyd knows {_VERSION}; install the one that wrote it"
        raise JournalUnusableError(f"{path}: has schema version {version}, {wanted}")
