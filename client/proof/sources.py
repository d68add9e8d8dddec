"""Where envelopes to verify come from: JSON Lines, or a journal file. Read-only, bounded, in short reads.

A journal may come from anybody. So its schema is looked at before a row is: plain tables and indexes, no
view, trigger, virtual table or column that is computed; no value is read before its length is known to be one
that can be; and no query works longer than the size of the file explains.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from dollyd.wire.jws import ENVELOPE_MAX_BYTES

_ROWS_A_READ = 256
BATCH_MAX_BYTES = 8 << 20
"""Envelopes that are held at once have no more bytes than that, and one envelope."""
CAPTURE_MAX_BYTES = 16 << 20
"""More than any round's raw frames; what claims to be longer is cut, and is then not what was signed."""


_VALUE_MAX_BYTES = 32 << 20
"""Longer values are refused by SQLite itself, wherever they come from."""
_CHAINS_MAX = 100_000
_STEPS = 1_000_000
"""Steps of SQLite's machine that a query may take twice in any case ..."""
_STEPS_A_BYTE = 1
"""... and for each byte of the file: a record has 1,500, and takes some 50 steps to be checked."""


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


def fill(batch: list[bytes], source: Iterator[bytes], most: int) -> None:
    """Put up to `most` envelopes into a batch, fewer where they are long. Raises as the source does."""
    size = 0
    while len(batch) < most and size < BATCH_MAX_BYTES and (data := next(source, None)) is not None:
        batch.append(data)
        size += len(data)


def batches(source: Iterator[bytes], most: int) -> Iterator[list[bytes]]:
    """All envelopes in batches, as `fill` makes them."""
    while True:
        batch: list[bytes] = []
        fill(batch, source, most)
        if not batch:
            return
        yield batch


class JournalFile:
    """A journal opened to read, which may be in use. Every method raises `SourceError`."""

    def __init__(self, path: Path) -> None:
        self._steps_left = 0
        try:
            self._steps = 1 + _STEPS_A_BYTE * _size_with_wal(path) // _STEPS
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        except (sqlite3.Error, OSError) as error:
            raise SourceError(f"{path}: {error}") from error
        try:
            self._distrust()
        except BaseException:
            self.close()
            raise

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
        while rows := self._batch(last):
            last = rows[-1][0]
            yield from [envelope for _, envelope in rows]

    def starts(self) -> dict[str, tuple[int, str]]:
        """By chain, where retention has removed its older records: its first record's seq and prev."""
        query = (
            "SELECT name, upto_seq + 1, head FROM pruned JOIN chain ON chain.id = pruned.chain"
            " WHERE length(name) <= 64 AND length(head) <= 64 LIMIT ?"
        )
        rows = self._rows(query, _CHAINS_MAX + 1)
        if len(rows) > _CHAINS_MAX:
            raise SourceError(f"the data base has more than {_CHAINS_MAX} chains")
        return {str(chain): (seq if isinstance(seq, int) else 0, str(prev)) for chain, seq, prev in rows}

    def capture(self, chain: str, seq: int) -> bytes | None:
        """The raw capture behind a record, None where it is not kept (any more)."""
        rows = self._rows(
            "SELECT CASE WHEN typeof(data) = 'blob' AND length(data) <= ? THEN data ELSE x'' END FROM capture"
            " JOIN entry ON entry.id = capture.entry"
            " JOIN chain ON chain.id = entry.chain WHERE chain.name = ? AND entry.seq = ? LIMIT 1",
            CAPTURE_MAX_BYTES,
            chain,
            seq,
        )
        try:
            return zlib.decompressobj().decompress(rows[0][0], CAPTURE_MAX_BYTES) if rows else None
        except zlib.error:
            return b""  # which is not what was signed

    def _distrust(self) -> None:
        """Bound what the file can make us do, and refuse a schema that does more than hold data."""
        connection = self._connection
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_MAX_BYTES)
        connection.set_progress_handler(self._is_too_much, _STEPS)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "ignore_check_constraints = ON"):
            self._rows(f"PRAGMA {pragma}")
        foreign = self._rows("SELECT type FROM sqlite_schema WHERE type NOT IN ('table', 'index') LIMIT 1")
        tables = self._rows(
            "SELECT name, type FROM pragma_table_list WHERE schema = 'main' ORDER BY type DESC LIMIT 100"
        )
        foreign += [(kind if kind == "view" else f"{kind} table",) for _, kind in tables if kind != "table"]
        for name, _ in tables:
            computed = "SELECT 'computed column' FROM pragma_table_xinfo(?) WHERE hidden <> 0 LIMIT 1"
            foreign += self._rows(computed, name)
        if foreign:
            raise SourceError(f"no journal of dollyd: there is a {foreign[0][0]} in it; a journal has none")

    def _batch(self, last: int) -> list[tuple[int, bytes]]:
        """The next envelopes and their rows; fewer where they are long."""
        batch: list[tuple[int, bytes]] = []
        size = 0
        query = (
            "SELECT id, CASE WHEN typeof(envelope) = 'blob' AND length(envelope) <= ? THEN envelope END"
            " FROM entry WHERE id > ? AND NOT EXISTS (SELECT 1 FROM pruned"
            " WHERE pruned.chain = entry.chain AND entry.seq <= pruned.upto_seq) ORDER BY id LIMIT ?"
        )
        for row, envelope in self._found(query, ENVELOPE_MAX_BYTES, last, _ROWS_A_READ):
            if not isinstance(envelope, bytes):
                raise SourceError(f"row {row} is no envelope, or longer than any")
            batch.append((row, envelope))
            size += len(envelope)
            if size >= BATCH_MAX_BYTES:
                break
        return batch

    def _rows(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        return list(self._found(query, *values))

    def _found(self, query: str, *values: str | int) -> Iterator[tuple[Any, ...]]:
        self._steps_left = self._steps
        try:
            with closing(self._connection.execute(query, values)) as cursor:
                yield from cursor
        except sqlite3.Error as error:
            why = "it takes longer than its size explains" if self._steps_left < 0 else str(error)
            raise SourceError(f"the data base cannot be read: {why}") from error

    def _is_too_much(self) -> bool:
        self._steps_left -= 1
        return self._steps_left < 0


def _size_with_wal(path: Path) -> int:
    wal = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
