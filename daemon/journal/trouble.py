"""What keeps a journal from being used: what passes by itself, who holds its file, whether it is there."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from dollyd.drivers.transports.ports import holders

_SIDE_FILES = ("", "-wal", "-shm")
_OPERATORS_ERRNO = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.EEXIST,  # a loop of links, where a file is to be made
    }
)
"""What stays as it is until somebody changes a name or a right; a disk or a kernel mends the others."""
_PASSING_CODES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 where Python's own layer raised."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def passes_by_itself(path: Path, error: OSError | sqlite3.Error) -> bool:
    """Whether the next start may find the journal well though nobody has changed the configuration.

    A disk that is full, read-only or failing, too many open files, a lock of another program.
    """
    if isinstance(error, OSError):
        return error.errno not in _OPERATORS_ERRNO
    if code_of(error) not in _PASSING_CODES:
        return False
    try:  # SQLite does not tell a missing right from a disk that turned read-only
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as why:
        return why.errno not in _OPERATORS_ERRNO
    return True


def held_by(path: Path) -> str:
    """Other processes that have the journal open, for people; empty where none can be seen."""
    own = f"(pid {os.getpid()})"
    found = {holder for end in _SIDE_FILES for holder in holders(f"{path}{end}") if own not in holder}
    return ", ".join(sorted(found))


class SameFiles:
    """Whether names still lead to the files that are open. `look` costs a few system calls."""

    def __init__(self, path: Path, sides: Iterable[str] = _SIDE_FILES) -> None:
        self._paths = [Path(f"{path}{end}") for end in sides]
        self._known: dict[Path, tuple[int, int]] = {}

    def look(self) -> str:
        """What became of a file, in words; empty where all are the same. A file first seen is remembered."""
        for path in self._paths:
            try:
                found = path.stat()
            except FileNotFoundError:
                if path in self._known:
                    return f"{path} was removed"
                continue
            if self._known.setdefault(path, (found.st_dev, found.st_ino)) != (found.st_dev, found.st_ino):
                return f"{path} was replaced by another file"
        return ""
