"""How far the commands of each person's key have come: a file beside the journal that outlives restarts.

A command counts once. What is remembered is when the newest one of a key was issued; it is on the disk before
the command has any effect, so neither a crash nor a clock that was set back makes an old one good again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from dollyd.wire.decoding import from_json
from dollyd.wire.errors import ConfigError, JournalError
from dollyd.wire.files import replace_file


def marks_path(journal: Path) -> Path:
    """The file that belongs to a journal."""
    return journal.with_name(f"{journal.name}.commands")


class CommandMarks:
    """By `kid` the time at which its newest command was issued."""

    def __init__(self, path: Path) -> None:
        """Read the file; without one nothing was commanded yet. Raises `ConfigError` for a damaged one."""
        self._path = path
        try:
            self._marks = from_json(path.read_bytes(), dict[str, str])
        except FileNotFoundError:
            self._marks = {}
        except (OSError, msgspec.DecodeError) as error:
            remedy = "look why; without it a command of the last minute could be used again"
            raise ConfigError(str(path), "", f"cannot be read: {error}", remedy) from error

    def newest(self, kid: str) -> str:
        """When the newest command of a key was issued (UTC), empty for none."""
        return self._marks.get(kid, "")

    def take(self, kid: str, issued: str) -> None:
        """Remember a newer one, on the disk when this returns. Raises `JournalError`."""
        marks = self._marks | {kid: issued}
        try:
            journal = self._path.with_suffix("")
            replace_file(self._path, msgspec.json.encode(marks), like=journal)
        except OSError as error:
            raise JournalError(f"{self._path}: cannot be written: {error.strerror}") from error
        self._marks = marks
