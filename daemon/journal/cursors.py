"""How far a consumer of the journal has come: a few bytes in a file of their own, next to the journal.

A cursor is overwritten in place, without fsync: a power cut may put it back, and records are sent again.
In the data base it would cost a commit each time, and wait behind the writer's.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dollyd.daemon.host.logger import Logger
from dollyd.wire.errors import JournalError
from dollyd.wire.files import give_to_owner_of

PUBLISHER = "publisher"
"""How far records were sent to the broker. A journal that ends before it has lost some."""
WRITTEN = "written"
"""How far records were committed. A journal that ends before it has lost some, sent or not."""
EXPORTED = "exported"
"""How far records were written to evidence files: what is older may be pruned."""
_DIGITS = 20
_TEXT = re.compile(rb"\d{%d}\n" % _DIGITS)

_LOG = Logger(__name__)


def cursor_path(journal: Path, name: str) -> Path:
    """The file of one cursor."""
    return journal.with_name(f"{journal.name}.cursor-{name}")


def read_cursor(file: Path) -> int | None:
    """`id` of the newest entry sent; None where the file is missing or holds something else.

    Raises `OSError` where it cannot be read.
    """
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    return int(text) if _TEXT.fullmatch(text) else None


class Cursors:
    """The cursors of one open journal."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._files: dict[str, int] = {}
        self._told = False

    def get(self, name: str) -> int:
        """`id` of the newest entry that `name` has sent, 0 for none. `JournalError` where it cannot be read.

        One of what was exported counts as none then: nothing is pruned, and nothing else hangs on it.
        """
        file = cursor_path(self._journal, name)
        try:
            id_ = read_cursor(file) or 0
        except OSError as error:
            if name != EXPORTED:
                raise JournalError(f"{file}: cannot be read: {error.strerror}") from error
            if not self._told:
                _LOG.warning("exports_unknown", file=str(file), why=error.strerror)
            self._told = True
            return 0
        if name == EXPORTED:
            self._told = False
        return id_

    def known(self, name: str) -> bool:
        """Whether the file of `name` is there and holds a cursor. `JournalError` where it cannot be read."""
        file = cursor_path(self._journal, name)
        try:
            return read_cursor(file) is not None
        except OSError as error:
            raise JournalError(f"{file}: cannot be read: {error.strerror}") from error

    def set(self, name: str, id_: int) -> None:
        """Remember that `name` has sent all entries up to `id_`. `JournalError` where the disk refuses."""
        try:
            if name not in self._files:
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
                self._files[name] = os.open(cursor_path(self._journal, name), flags, 0o640)
                give_to_owner_of(self._journal, self._files[name])
            os.pwrite(self._files[name], b"%0*d\n" % (_DIGITS, id_), 0)
        except OSError as error:
            raise JournalError(
                f"{cursor_path(self._journal, name)}: cannot be written: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Close the files."""
        while self._files:
            os.close(self._files.popitem()[1])
