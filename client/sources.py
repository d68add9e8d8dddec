"""Where envelopes to verify come from: JSON Lines, or a journal file. Read-only, bounded, in short reads."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dollyd.client.jws import ENVELOPE_MAX_BYTES

_ROWS_A_READ = 256
CAPTURE_MAX_BYTES = 16 << 20
"""More than any round's raw frames; what claims to be longer is cut, and is then not what was signed."""


class SourceError(Exception):
    """The envelopes cannot be read; the text says where and why."""


def envelopes_of_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Envelopes from JSON Lines. Raises `SourceError`."""
    number = 0
    try:
        while line := stream.readline(ENVELOPE_MAX_BYTES + 2):
            number += 1
            if len(line) > ENVELOPE_MAX_BYTES + 1:
                raise SourceError(f"line {number} is longer than any envelope")
            yield line.removesuffix(b"\n")
    except OSError as error:
        raise SourceError(f"cannot be read after line {number}: {error.strerror}") from error


class JournalFile:
    """A journal opened to read, which may be in use. Every method raises `SourceError`."""

    def __init__(self, path: Path) -> None:
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        except sqlite3.Error as error:
            raise SourceError(f"{path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def envelopes(self, *, check_structure: bool = True) -> Iterator[bytes]:
        """Check the file's structure, then give its envelopes in the order of writing."""
        if check_structure:
            for (finding,) in self._rows("PRAGMA quick_check(1)"):
                if finding != "ok":
                    raise SourceError(f"the data base is damaged: {finding}")
        last = 0
        while rows := self._rows(
            "SELECT id, envelope FROM entry WHERE id > ? AND NOT EXISTS (SELECT 1 FROM pruned"
            " WHERE pruned.chain = entry.chain AND entry.seq <= pruned.upto_seq) ORDER BY id LIMIT ?",
            last,
            _ROWS_A_READ,
        ):
            last = rows[-1][0]
            yield from [bytes(envelope) for _, envelope in rows]

    def starts(self) -> dict[str, tuple[int, str]]:
        """By chain, where retention has removed its older records: its first record's seq and prev."""
        query = "SELECT name, upto_seq + 1, head FROM pruned JOIN chain ON chain.id = pruned.chain"
        return {str(chain): (int(seq), str(prev)) for chain, seq, prev in self._rows(query)}

    def capture(self, chain: str, seq: int) -> bytes | None:
        """The raw capture behind a record, None where it is not kept (any more)."""
        rows = self._rows(
            "SELECT data FROM capture JOIN entry ON entry.id = capture.entry"
            " JOIN chain ON chain.id = entry.chain WHERE chain.name = ? AND entry.seq = ?",
            chain,
            seq,
        )
        try:
            return zlib.decompressobj().decompress(rows[0][0], CAPTURE_MAX_BYTES) if rows else None
        except zlib.error:
            return b""  # which is not what was signed

    def _rows(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise SourceError(f"the data base cannot be read: {error}") from error
