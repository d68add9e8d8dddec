"""The journal's file: its schema, its lock, how it is opened, and what happens to a damaged one.

A damaged file is kept aside, never repaired: it is evidence. Looking for damage uses a read-only connection,
since a writing one would change the file by closing it.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from dollyd.client.jws import EnvelopeError, Keys, parse_envelope, verify_envelope
from dollyd.daemon.core.record import FINAL_KINDS, NO_PREVIOUS, Kind, Record
from dollyd.daemon.cursors import EXPORTED, PUBLISHER, WRITTEN, cursor_path, read_cursor
from dollyd.daemon.errors import JournalError
from dollyd.daemon.files import sync_directory, sync_file

_VERSION = 2
_APPLICATION_ID = 0x444F4C59
"""`DOLY`: tells a journal from any other SQLite file."""
_CHECKED_PER_CHAIN = 128
"""Newest records of each chain checked at start: what a power cut can hurt, whatever the journal's size."""
_WAL_KEPT_BYTES = 16 << 20
_BUSY_TIMEOUT_S = 5

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

_RECORD = msgspec.json.Decoder(Record)


class JournalUnusableError(JournalError):
    """The journal cannot be opened as configured; the operator must change something."""


class _DamagedError(Exception):
    """The file cannot be trusted; the text says why."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A journal that was put aside."""

    path: Path
    """Where it lies now."""
    why: str
    last: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Chain and last sequence number by table, as far as they could be read."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Own the journal at `path`: a lock that the kernel drops with the process."""
    lock_path = path.with_name(path.name + ".lock")
    try:
        file = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise JournalUnusableError(f"{lock_path}: cannot be made: {error.strerror}") from error
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
    connection = _connect(path, "ro")
    try:
        _check_is_journal(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_write(path: Path) -> sqlite3.Connection:
    """The one writing connection; makes the file and its tables where there are none."""
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640))
    connection = _connect(path, "rw")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # fsync before a commit returns
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        if not _has_tables(connection):
            connection.executescript(_SCHEMA)
            sync_directory(path.parent)
        _check_is_journal(path, connection)
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
        with closing(connect_read_only(path)) as source, closing(_connect(partial, "rw")) as target:
            source.backup(target)  # in one step: a copy in several begins anew with every commit between
            target.execute("PRAGMA journal_mode = DELETE")
        sync_file(partial)
        partial.rename(copy)
    finally:
        for left in copy.parent.glob(f"{partial.name}*"):
            left.unlink()
    sync_directory(copy.parent)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # Each connection is used by one thread at a time; the journal sees to it.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=_BUSY_TIMEOUT_S,
        check_same_thread=False,
    )


def _has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])


def _check_is_journal(path: Path, connection: sqlite3.Connection) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id != _APPLICATION_ID:
        raise JournalUnusableError(f"{path}: is no journal of dollyd; name another file")
    if version != _VERSION:
        wanted = f"this dollyd knows {_VERSION}; install the one that wrote it"
        raise JournalUnusableError(f"{path}: has schema version {version}, {wanted}")


# --- damage --------------------------------------------------------------------------------------


def put_aside_if_damaged(path: Path, keys: Keys) -> Damage | None:
    """Check what a crash can hurt; rename a damaged journal to `<name>.damaged-<utc>` and tell of it.

    Raises `sqlite3.Error` where the file cannot be read at all, so that nobody knows whether it is damaged.
    """
    if not path.exists():
        # Without the main file, the others are left from a crash between the renames of `_put_aside`.
        # A WAL must not meet a new file, nor a cursor.
        return _put_aside(path, "its main file is missing", {}) if _files(path) else _put_aside_before(path)
    last: dict[str, tuple[str, int]] = {}
    try:
        with closing(_connect(path, "ro")) as connection:
            newest = 0
            if _has_tables(connection):
                _check_is_journal(path, connection)
                _check_newest(connection, last, keys)
                (newest,) = connection.execute("SELECT ifnull(max(id), 0) FROM entry").fetchone()
            _check_nothing_lost(path, newest)
    except _DamagedError as error:
        return _put_aside(path, str(error), last)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise
        return _put_aside(path, str(error), last)
    return None if last else _put_aside_before(path)


def _check_newest(connection: sqlite3.Connection, last: dict[str, tuple[str, int]], keys: Keys) -> None:
    """The newest records of each chain are what was signed, and hang together. Fills `last` on the way."""
    chains = connection.execute("SELECT id, tbl, name FROM chain ORDER BY id").fetchall()
    for chain_id, table, chain in chains:
        (seq,) = connection.execute("SELECT max(seq) FROM entry WHERE chain = ?", (chain_id,)).fetchone()
        last[table] = (chain, seq or 0)
    for chain_id, table, chain in chains:
        upto_seq, head = _beginning(connection, chain_id, table)
        rows = connection.execute(
            "SELECT seq, kind, round, final, envelope FROM entry WHERE chain = ? AND seq > ?"
            " ORDER BY seq DESC LIMIT ?",
            (chain_id, upto_seq, _CHECKED_PER_CHAIN),
        ).fetchall()
        _check_last(table, rows, keys)
        wanted = None
        for seq, kind, round_number, final, envelope in rows:
            if wanted not in {None, sha256(envelope).hexdigest()}:
                raise _DamagedError(f"chain of {table} is broken after record {seq}")
            record = _record(table, seq, envelope)
            columns = (record.table, record.chain, record.seq, record.kind, record.round)
            if columns != (table, chain, seq, kind, round_number) or final != (kind in FINAL_KINDS):
                raise _DamagedError(f"record {seq} of {table} is not what its row says")
            wanted = record.prev
        if rows[-1][0] == upto_seq + 1 and wanted != head:
            raise _DamagedError(f"chain of {table} has lost its beginning")
    connection.execute("SELECT max(upto) FROM capture").fetchone()


def _beginning(connection: sqlite3.Connection, chain_id: int, table: str) -> tuple[int, str]:
    """The last record before a chain's first one, and its digest; 0 where nothing was pruned."""
    query = "SELECT upto_seq, head FROM pruned WHERE chain = ?"
    upto_seq, head = connection.execute(query, (chain_id,)).fetchone() or (0, NO_PREVIOUS)
    query = "SELECT min(seq) FROM entry WHERE chain = ? AND seq > ?"
    (first,) = connection.execute(query, (chain_id, upto_seq)).fetchone()
    if first != upto_seq + 1:
        raise _DamagedError(f"chain of {table} has lost its beginning")
    return int(upto_seq), str(head)


def _check_last(table: str, rows: list[tuple[Any, ...]], keys: Keys) -> None:
    """The last record, for which no later one vouches, has its signature, by the key of the one before."""
    seq, envelope = rows[0][0], rows[0][4]
    try:
        last = parse_envelope(envelope)
        if len(rows) > 1 and rows[1][1] != Kind.KEY and parse_envelope(rows[1][4]).kid != last.kid:
            raise _DamagedError(f"record {seq} of {table} has another key than the one before")
        if last.kid in keys:  # whether a key is lost is no matter of the file
            verify_envelope(last, keys)
    except EnvelopeError as error:
        raise _DamagedError(f"record {seq} of {table}: {error}") from error


def _record(table: str, seq: int, envelope: bytes) -> Record:
    try:
        return _RECORD.decode(parse_envelope(envelope).payload)
    except (EnvelopeError, msgspec.ValidationError) as error:
        raise _DamagedError(f"record {seq} of {table} cannot be read: {error}") from error


def _check_nothing_lost(path: Path, newest: int) -> None:
    # SQLite takes the first damaged frame of a WAL for the end of the data and says nothing.
    for name, what in ((PUBLISHER, "sent"), (WRITTEN, "written")):
        known = read_cursor(cursor_path(path, name))
        if known > newest:
            raise _DamagedError(f"it ends at entry {newest}, but entry {known} has been {what}")


def _put_aside(path: Path, why: str, last: dict[str, tuple[str, int]]) -> Damage:
    stem = f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    name, number = stem, 1
    while any(path.parent.glob(f"{name}*")):
        number += 1
        name = f"{stem}_{number:03}"  # padded: names are put in order as texts
    for file in _files(path):
        file.rename(path.with_name(name + file.name.removeprefix(path.name)))
    sync_directory(path.parent)
    return Damage(path.with_name(name), why, last)


def _files(path: Path) -> list[Path]:
    """The files of a journal, the main one first."""
    side_files = [path.with_name(path.name + ending) for ending in ("-wal", "-shm")]
    cursors = [cursor_path(path, name) for name in (PUBLISHER, WRITTEN, EXPORTED)]  # places in this very file
    return [file for file in (path, *side_files, *cursors) if file.exists()]


def _put_aside_before(path: Path) -> Damage | None:
    """A crash came before the new journal could say whose place it takes."""
    name = re.compile(re.escape(path.name) + r"\.damaged-\d{8}T\d{6}Z(_\d+)?")
    earlier = [file for file in path.parent.iterdir() if name.fullmatch(file.name)]
    return Damage(max(earlier), "it was put aside before") if earlier else None
