"""What happens to a journal that is damaged: it is found at the start, and put aside.

A damaged file is kept, never repaired: it is evidence. Looking for damage uses a read-only connection,
since a writing one would change the file by closing it.
"""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dollyd.daemon.journal.check import DamagedError, check, read_last
from dollyd.daemon.journal.cursors import EXPORTED, PUBLISHER, WRITTEN, cursor_path, read_cursor
from dollyd.daemon.journal.file import audit_path, check_is_journal, connect, has_tables
from dollyd.wire.files import sync_directory
from dollyd.wire.jws import Keys


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
                read_last(connection, last)
                check(connection, keys)
                (newest,) = connection.execute("SELECT ifnull(max(id), 0) FROM entry").fetchone()
            _check_nothing_lost(path, newest)
    except DamagedError as error:
        return _put_aside(path, str(error), last)
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        return _put_aside(path, str(error), last)
    except UnicodeDecodeError as error:  # SQLite names the damaged thing, and Python cannot read the name
        return _put_aside(path, ascii(error.object), last)
    return None if last else _put_aside_before(path)


_DAMAGE_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""The last one is for a query that fits the version of the file, but not its tables."""


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the content is to blame, not the disk, the rights or another process."""
    try:
        return error.sqlite_errorcode & 0xFF in _DAMAGE_CODES
    except AttributeError:  # not from SQLite but from Python's decoding: a text is no UTF-8 any more
        return isinstance(error, sqlite3.OperationalError)


def _check_nothing_lost(path: Path, newest: int) -> None:
    # SQLite takes the first damaged frame of a WAL for the end of the data and says nothing.
    for name, what in ((PUBLISHER, "sent"), (WRITTEN, "written")):
        known = read_cursor(cursor_path(path, name)) or 0
        if known > newest:
            raise DamagedError(f"it ends at entry {newest}, but entry {known} has been {what}")


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
    return [file for file in (path, *side_files, *cursors, audit_path(path)) if file.exists()]


def _put_aside_before(path: Path) -> Damage | None:
    """A crash came before the new journal could say whose place it takes."""
    name = re.compile(re.escape(path.name) + r"\.damaged-\d{8}T\d{6}Z(_\d+)?")
    earlier = [file for file in path.parent.iterdir() if name.fullmatch(file.name)]
    return Damage(max(earlier), "it was put aside before", _last_of(max(earlier))) if earlier else None


def _last_of(kept: Path) -> dict[str, tuple[str, int]]:
    """Where each table's chain ends in a damaged file, as far as it can be read."""
    last: dict[str, tuple[str, int]] = {}
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(connect(kept, "ro")) as connection:
        read_last(connection, last)
    return last
