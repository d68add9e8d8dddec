"""How far each consumer of the journal has sent: a few bytes in a file of their own, next to the journal.

A cursor is overwritten in place, without fsync: a power cut may put it back, and records are sent again.
In the data base it would cost a commit each time, and wait behind the writer's.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dollyd.daemon.errors import JournalError

_DIGITS = 20
_TEXT = re.compile(rb"\d{%d}\n" % _DIGITS)


def cursor_files(journal: Path) -> dict[str, Path]:
    """The cursor files of a journal by name of the cursor."""
    prefix = f"{journal.name}.cursor-"
    return {file.name.removeprefix(prefix): file for file in sorted(journal.parent.glob(f"{prefix}*"))}


def read_cursor(file: Path) -> int:
    """`id` of the newest entry sent; 0 (send all) where the file is missing or holds something else."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return 0
    return int(text) if _TEXT.fullmatch(text) else 0


class Cursors:
    """The cursors of one open journal."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._files: dict[str, int] = {}

    def get(self, name: str) -> int:
        """`id` of the newest entry that `name` has sent, 0 for none."""
        return read_cursor(self._path(name))

    def set(self, name: str, id_: int) -> None:
        """Remember that `name` has sent all entries up to `id_`. `JournalError` where the disk refuses."""
        try:
            if name not in self._files:
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
                self._files[name] = os.open(self._path(name), flags, 0o640)
            os.pwrite(self._files[name], b"%0*d\n" % (_DIGITS, id_), 0)
        except OSError as error:
            raise JournalError(f"{self._path(name)}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Close the files."""
        while self._files:
            os.close(self._files.popitem()[1])

    def _path(self, name: str) -> Path:
        return self._journal.with_name(f"{self._journal.name}.cursor-{name}")
