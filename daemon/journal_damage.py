"""What happens to a journal that is damaged: it is found at the start, and put aside.

A damaged file is kept, never repaired: it is evidence. Looking for damage uses a read-only connection,
since a writing one would change the file by closing it.
"""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from dollyd.client.jws import EnvelopeError, Keys, parse_envelope, verify_envelope
from dollyd.daemon.core.record import FINAL_KINDS, NO_PREVIOUS, Kind, Record
from dollyd.daemon.cursors import EXPORTED, PUBLISHER, WRITTEN, cursor_path, read_cursor
from dollyd.daemon.files import sync_directory
from dollyd.daemon.journal_file import check_is_journal, connect, has_tables

_CHECKED_PER_CHAIN = 128
"""Newest records of each chain checked at start: what a power cut can hurt, whatever the journal's size."""

_RECORD = msgspec.json.Decoder(Record)


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
        with closing(connect(path, "ro")) as connection:
            newest = 0
            if has_tables(connection):
                check_is_journal(path, connection)
                _check_newest(connection, last, keys)
                (newest,) = connection.execute("SELECT ifnull(max(id), 0) FROM entry").fetchone()
            _check_nothing_lost(path, newest)
    except _DamagedError as error:
        return _put_aside(path, str(error), last)
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        return _put_aside(path, str(error), last)
    except UnicodeDecodeError as error:  # SQLite names the damaged thing, and Python cannot read the name
        return _put_aside(path, ascii(error.object), last)
    return None if last else _put_aside_before(path)


_NEWEST = (
    "SELECT seq, kind, round, final, envelope, chain FROM entry NOT INDEXED WHERE id IN"
    " (SELECT id FROM entry WHERE chain = ? AND seq > ? ORDER BY seq DESC LIMIT ?) ORDER BY seq DESC"
)
"""The newest rows of a chain as they stand in the table, found through the index: each checks the other."""


_DAMAGE_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""The last one is for a query that fits the version of the file, but not its tables."""


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the content is to blame, not the disk, the rights or another process."""
    try:
        return error.sqlite_errorcode & 0xFF in _DAMAGE_CODES
    except AttributeError:  # not from SQLite but from Python's decoding: a text is no UTF-8 any more
        return isinstance(error, sqlite3.OperationalError)


def _check_newest(connection: sqlite3.Connection, last: dict[str, tuple[str, int]], keys: Keys) -> None:
    """The newest records of each chain are what was signed, and hang together. Fills `last` on the way."""
    chains = connection.execute("SELECT id, tbl, name FROM chain ORDER BY id").fetchall()
    for chain_id, table, chain in chains:
        (seq,) = connection.execute("SELECT max(seq) FROM entry WHERE chain = ?", (chain_id,)).fetchone()
        last[table] = (chain, seq or 0)
    for chain_id, table, chain in chains:
        upto_seq, head = _beginning(connection, chain_id, table)
        rows = connection.execute(_NEWEST, (chain_id, upto_seq, _CHECKED_PER_CHAIN)).fetchall()
        if any((of, type(envelope)) != (chain_id, bytes) for *_, envelope, of in rows):
            raise _DamagedError(f"a record of {table} is not what the index says")
        _check_last(table, rows, keys)
        wanted = None
        for seq, kind, round_number, final, envelope, _ in rows:
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
