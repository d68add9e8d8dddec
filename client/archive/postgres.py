"""The archive in PostgreSQL, for any number of instances side by side.

Nothing depends on a session of the server: behind a pooler in transaction mode each transaction has another
one. So no statement is prepared, and the keeper's place is a row with a lease.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg

from dollyd.client.archive.intake import Entry
from dollyd.client.archive.rows import PARTITIONED, Value
from dollyd.client.archive.store import Store, StoreError

_SCHEMA_LOCK = 0x646F6C6C79  # "dolly"
CONNECT_S = 10
LEASE_S = 10
"""How long the keeper's place is kept for one who is not heard of any more."""
_PASSING = frozenset({"08", "25", "26", "40", "53", "55", "57", "58", "XX"})
"""Classes of SQLSTATE that the server may mend by itself: read-only after a change of places, a shutdown, a
lock, no room, a session or prepared statement that is gone. The others are mistakes of ours."""


class PostgresStore(Store):
    """One connection. `address` is a libpq URI or keyword string; what it leaves out comes from `PG*`."""

    dialect = "postgresql"

    def __init__(self, address: str) -> None:
        with _Trouble():
            self._connection = psycopg.connect(
                address,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=CONNECT_S,
                application_name="dollyd-archive",
            )
            self._connection.execute("SET TIME ZONE 'UTC'")
            # A connection whose other end died must not keep its transaction's locks for hours.
            for setting in ("idle = 30", "interval = 10", "count = 3"):
                self._connection.execute(f"SET tcp_keepalives_{setting}".encode())
        self._holder = secrets.token_hex(8)
        self._renew_s = 0.0
        """Holding the keeper's place, when to renew the lease; monotonic."""
        self._months: set[str] = set()
        """Months whose partitions are there."""

    def close(self) -> None:
        """Close the connection, and give back the keeper's place."""
        if self._renew_s and not self._connection.broken:
            with suppress(StoreError):
                self.query("DELETE FROM keeper WHERE holder = ?", self._holder)
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that may write."""
        with _Trouble(), self._connection.transaction():
            yield

    def query(self, sql: str, *values: Value) -> list[tuple[Any, ...]]:
        """Run a statement; gives its rows."""
        with _Trouble():
            cursor = self._connection.execute(_own(sql), values or None)
            return cursor.fetchall() if cursor.description else []

    def hold(self) -> bool:
        """Whether this is the one of all connections that looks after gaps."""
        now_s = time.monotonic()
        if now_s < self._renew_s:
            return True
        held = self.query(
            "INSERT INTO keeper AS kept VALUES (1, ?, now() + make_interval(secs => ?)) ON CONFLICT (place)"
            " DO UPDATE SET holder = excluded.holder, until = excluded.until"
            " WHERE kept.holder = excluded.holder OR kept.until < now() RETURNING holder",
            self._holder,
            LEASE_S,
        )
        self._renew_s = now_s + LEASE_S / 2 if held else 0.0
        return bool(held)

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Make the partitions of months that are new, in a transaction of their own."""
        for month in sorted({entry.utc[:7] for entry in entries} - self._months):
            with self.transaction():
                self._lock_schema()
                for table in PARTITIONED:
                    self.query(
                        f"CREATE TABLE IF NOT EXISTS {table}_{month.replace('-', '_')} PARTITION OF {table}"
                        f" FOR VALUES FROM ('{month}-01Z') TO ('{_month_after(month)}-01Z')"
                    )
            self._months.add(month)

    def _many(self, sql: str, values: Sequence[Sequence[Value]]) -> None:
        with _Trouble(), self._connection.cursor() as cursor:
            cursor.executemany(_own(sql), values)

    def _link(self, entries: Sequence[Entry]) -> set[tuple[str, int]]:
        rows = [(entry.chain, entry.seq, entry.digest, entry.prev, entry.utc) for entry in entries]
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], [], []]
        with _Trouble():
            cursor = self._connection.execute(
                "INSERT INTO links (chain, seq, digest, prev, utc) SELECT * FROM unnest(%s::text[],"
                " %s::bigint[], %s::text[], %s::text[], %s::timestamptz[])"
                " ON CONFLICT DO NOTHING RETURNING chain, seq",
                columns,
            )
            return {(chain, seq) for chain, seq in cursor.fetchall()}

    def _script(self, sql: str) -> None:
        with _Trouble():
            self._connection.execute(sql.encode())

    def _lock_schema(self) -> None:
        self.query("SELECT pg_advisory_xact_lock(?)", _SCHEMA_LOCK)


def _own(sql: str) -> bytes:
    """SQL with psycopg's sign for a value; as bytes, which it takes from others than literals."""
    return sql.replace("?", "%s").encode()


def _month_after(month: str) -> str:
    year, number = int(month[:4]), int(month[5:])
    return f"{year + number // 12:04}-{number % 12 + 1:02}"


class _Trouble(AbstractContextManager[None]):
    """What is the server's or the network's trouble becomes a `StoreError`."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        passing = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        if isinstance(error, psycopg.Error) and (passing or (error.sqlstate or "")[:2] in _PASSING):
            raise StoreError(str(error).strip()) from error
