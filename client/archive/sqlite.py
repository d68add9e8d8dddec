"""The archive in one SQLite file, for a house without a data base server."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dollyd.client.archive.intake import Entry
from dollyd.client.archive.rows import Value
from dollyd.client.archive.store import Store, StoreError

BUSY_S = 30.0
"""How long to wait for another writer."""


class SqliteStore(Store):
    """A file, made where there is none. Beside it, `<file>.keeper` is locked by who looks after gaps."""

    dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self._keeper = path.with_name(f"{path.name}.keeper").open("wb")
        try:
            self._connection = sqlite3.connect(
                path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            self._keeper.close()
            raise StoreError(f"{path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        self._keeper.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that may write."""
        self.query("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self.query("COMMIT")

    def query(self, sql: str, *values: Value) -> list[tuple[Any, ...]]:
        """Run a statement; gives its rows."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.OperationalError as error:
            raise StoreError(str(error)) from error

    def hold(self) -> bool:
        """Whether this is the one of all instances that looks after gaps."""
        try:
            fcntl.flock(self._keeper, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Nothing: there are no partitions."""

    def _many(self, sql: str, values: Sequence[Sequence[Value]]) -> None:
        try:
            self._connection.executemany(sql, values)
        except sqlite3.OperationalError as error:
            raise StoreError(str(error)) from error

    def _link(self, entries: Sequence[Entry]) -> set[tuple[str, int]]:
        return {
            (entry.chain, entry.seq)
            for entry in entries
            if self.query(
                "INSERT INTO links (chain, seq, digest, prev, utc) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING RETURNING seq",
                entry.chain,
                entry.seq,
                entry.digest,
                entry.prev,
                entry.utc,
            )
        }

    def _script(self, sql: str) -> None:
        statement = ""
        for line in sql.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self.query(statement)
                statement = ""

    def _lock_schema(self) -> None:
        """Nothing: a transaction that may write is the only one."""
