"""The journal of a node: every signed record of every table, durable before anything is published.

One SQLite file in WAL mode with `synchronous=FULL`: a commit returns after its fsync. A table has one chain
for as long as its journal and its key live; a lost key begins another one. The data base itself refuses a
second record of a sequence number, a second opening and a second final record of a round, whatever the code
above it believes.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from dollyd.client.jws import parse_envelope, strict_object
from dollyd.daemon.core.record import Kind
from dollyd.daemon.core.void_rules import INSPECTED_AFTER
from dollyd.daemon.cursors import Cursors
from dollyd.daemon.errors import JournalError, ensure
from dollyd.daemon.journal_file import (
    Damage,
    JournalUnusableError,
    connect_read_only,
    connect_to_write,
    locked,
    put_aside_if_damaged,
)

RESULTS_KEPT = 20
"""Results that a tail holds, for the displays."""
_ROWS_A_READ = 256
"""No read stays open longer than this many rows: an open one keeps the WAL growing."""
_PRUNED_A_CALL = 1000

_ENTRY = (
    "SELECT entry.id, chain.tbl, chain.name, entry.seq, entry.kind, entry.round, entry.final, entry.envelope"
    " FROM entry JOIN chain ON chain.id = entry.chain "
)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A signed record to be kept, with the raw capture behind it where there is one."""

    table: str
    chain: str
    seq: int
    kind: str
    round: int
    final: bool
    envelope: bytes
    capture: bytes | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A record in the journal. `id` counts from 1 over all tables, in the order of writing."""

    id: int
    table: str
    chain: str
    seq: int
    kind: str
    round: int
    final: bool
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Tail:
    """What a restart needs to know of one table. Payloads are parsed records."""

    chain: str
    seq: int
    prev: str
    """SHA-256 of the last envelope's exact bytes, hex: the next record's `prev`."""
    kid: str
    """The key that signed the last record."""
    last_utc: str
    """Time of the last record."""
    last_round: int
    """The highest round number used, 0 before the first."""
    open_round: int | None
    """The round that was opened and has no final record."""
    unresolved: bool
    """The open round is recorded as unresolved."""
    session: dict[str, Any] | None
    """Payload of the last `session` record."""
    inspection: str
    """The rule of the last void that asks for an inspection which has not been recorded, empty for none."""
    results: tuple[dict[str, Any], ...]
    """Payloads of the last results, oldest first, at most `RESULTS_KEPT`."""

    @property
    def session_open(self) -> bool:
        """Whether the table was open for play at the last record."""
        return self.session is not None and self.session["body"]["event"] != "closed"


class Journal:
    """One file with one owner. One thread appends; reads come from any thread, in short transactions."""

    def __init__(
        self,
        path: Path,
        read: sqlite3.Connection,
        write: sqlite3.Connection | None,
        damage: Damage | None,
    ) -> None:
        self.path = path
        self.damage = damage
        """The damaged journal that this one replaces."""
        self._read = read
        self._write = write
        self._resources = ExitStack()
        self._cursors = Cursors(path)
        self._read_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._last_id = self.last_id
        self._captured_bytes = self._number("SELECT ifnull(max(upto), 0) FROM capture")
        self._chain_ids: dict[str, int] = dict(self._rows("SELECT name, id FROM chain"))

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """Open the journal or start one; the time it takes does not grow with the journal.

        A damaged file is renamed to `<name>.damaged-<utc>` and a new journal started: see `damage`.
        `read_only` takes no lock, changes nothing and checks nothing.

        Raises:
            JournalUnusableError: the path cannot be written, another daemon has the journal, or the file is
                something else or of another version. The operator must act; the text is one clear line.
        """
        with ExitStack() as resources:
            try:
                write = damage = None
                if not read_only:
                    resources.enter_context(locked(path))
                    damage = put_aside_if_damaged(path)
                    write = resources.enter_context(closing(connect_to_write(path)))
                read = resources.enter_context(closing(connect_read_only(path)))
                journal = cls(path, read, write, damage)
            except OSError as error:
                raise JournalUnusableError(f"{path}: cannot be opened: {error.strerror}") from error
            except sqlite3.Error as error:
                raise JournalUnusableError(f"{path}: cannot be opened: {error}") from error
            journal._resources = resources.pop_all()
            return journal

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._write_lock, self._read_lock:
            self._cursors.close()
            self._resources.close()

    # --- writing -----------------------------------------------------------------------------

    @property
    def last_id(self) -> int:
        """`id` of the newest entry, 0 in an empty journal."""
        return self._number("SELECT ifnull(max(id), 0) FROM entry")

    def append(self, entries: Sequence[NewEntry]) -> list[Entry]:
        """Keep records in one transaction: all of them are on the disk when this returns, or none.

        Raises `JournalError` where the disk or a rule of the data base refuses.
        """
        with self._write_lock:
            connection = self._connection()
            try:
                connection.execute("BEGIN IMMEDIATE")
                chain_ids = self._chain_ids | _add_chains(connection, entries, self._chain_ids)
                written = [_numbered(self._last_id + n, entry) for n, entry in enumerate(entries, 1)]
                connection.executemany(
                    "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [
                        (e.id, chain_ids[e.chain], e.seq, e.kind, e.round, e.final, e.envelope)
                        for e in written
                    ],
                )
                captured_bytes = _add_captures(connection, entries, self._last_id, self._captured_bytes)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                _roll_back(connection)
                raise JournalError(f"{self.path}: records cannot be kept: {error}") from error
            self._chain_ids, self._captured_bytes = chain_ids, captured_bytes
            self._last_id += len(entries)
            return written

    def prune_captures(self, max_bytes: int) -> int:
        """Remove the oldest captures until all take at most `max_bytes` (compressed); gives how many.

        A call removes some, so that the writer never waits long: call again until 0. Records always stay.
        """
        oldest_kept = self._captured_bytes - max_bytes
        query = (
            "DELETE FROM capture WHERE upto IN (SELECT upto FROM capture WHERE upto - length(data) < ?1"
            " AND upto <= (SELECT min(upto) FROM capture WHERE upto >= ?1) ORDER BY upto LIMIT ?2)"
        )
        with self._write_lock:
            try:
                return self._connection().execute(query, (oldest_kept, _PRUNED_A_CALL)).rowcount
            except sqlite3.Error as error:
                raise JournalError(f"{self.path}: captures cannot be pruned: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        ensure(self._write is not None, "a journal opened read-only is not written")
        return self._write  # type: ignore[return-value]  # ensured above

    # --- reading -----------------------------------------------------------------------------

    def entries_after(self, id_: int, limit: int) -> list[Entry]:
        """At most `limit` entries after entry `id_`, of all tables, in the order of writing."""
        return [
            _entry(row)
            for row in self._rows(_ENTRY + "WHERE entry.id > ? ORDER BY entry.id LIMIT ?", id_, limit)
        ]

    def entries(self, chain: str, from_seq: int = 1, to_seq: int | None = None) -> Iterator[Entry]:
        """The records of one chain by `seq`, both ends included, in short reads."""
        query = _ENTRY + "WHERE chain.name = ? AND entry.seq BETWEEN ? AND ? ORDER BY entry.seq LIMIT ?"
        last = 2**63 - 1 if to_seq is None else to_seq
        while rows := self._rows(query, chain, from_seq, last, _ROWS_A_READ):
            yield from map(_entry, rows)
            from_seq = rows[-1][3] + 1

    def chains(self) -> list[tuple[str, str]]:
        """Table and chain of every chain, oldest first."""
        return [
            (str(table), str(chain)) for table, chain in self._rows("SELECT tbl, name FROM chain ORDER BY id")
        ]

    def tables(self) -> dict[str, str]:
        """By table the chain that goes on."""
        return {
            str(table): str(chain) for table, chain in self._rows("SELECT tbl, name FROM chain ORDER BY id")
        }

    def tail(self, table: str) -> Tail | None:
        """How the chain of `table` that goes on ends; None where it has none."""
        rows = self._rows("SELECT id FROM chain WHERE tbl = ? ORDER BY id DESC LIMIT 1", table)
        if not rows:
            return None
        chain = int(rows[0][0])
        last = _entry(self._rows(_ENTRY + "WHERE chain.id = ? ORDER BY entry.seq DESC LIMIT 1", chain)[0])
        last_round = self._number(
            "SELECT max((SELECT ifnull(max(round), 0) FROM entry WHERE chain = ?1 AND kind = 'round'),"
            " (SELECT ifnull(max(round), 0) FROM entry WHERE chain = ?1 AND final = 1))",
            chain,
        )
        closed = self._rows(
            "SELECT 1 FROM entry WHERE chain = ? AND round = ? AND final = 1", chain, last_round
        )
        open_round = last_round if last_round and not closed else None
        return Tail(
            chain=last.chain,
            seq=last.seq,
            prev=sha256(last.envelope).hexdigest(),
            kid=parse_envelope(last.envelope).kid,
            last_utc=_payload(last.envelope)["time"]["utc"],
            last_round=last_round,
            open_round=open_round,
            unresolved=open_round is not None and self._is_unresolved(chain, open_round),
            session=self._last_session(chain),
            inspection=self._inspection(chain, last_round),
            results=self._results(chain),
        )

    def _is_unresolved(self, chain: int, round_number: int) -> bool:
        # From the record that opened the round on, which is near the end of the chain.
        return bool(
            self._number(
                "SELECT count(*) FROM entry WHERE chain = ?1 AND round = ?2 AND kind = 'unresolved'"
                " AND seq >= (SELECT seq FROM entry WHERE chain = ?1 AND round = ?2 AND kind = 'round')",
                chain,
                round_number,
            )
        )

    def _last_session(self, chain: int) -> dict[str, Any] | None:
        rows = self._rows(
            "SELECT envelope FROM entry WHERE chain = ? AND kind = 'session' ORDER BY seq DESC LIMIT 1", chain
        )
        return _payload(rows[0][0]) if rows else None

    def _inspection(self, chain: int, last_round: int) -> str:
        # No round is opened before the inspection, so only the last one can ask for it.
        rows = self._rows(
            "SELECT seq, kind, envelope FROM entry WHERE chain = ? AND round = ? AND final = 1",
            chain,
            last_round,
        )
        rule = _payload(rows[0][2])["body"].get("rule", "") if rows and rows[0][1] == Kind.VOID else ""
        if rule not in INSPECTED_AFTER:
            return ""
        later = self._rows(
            "SELECT envelope FROM entry WHERE chain = ? AND kind = 'incident' AND seq > ?", chain, rows[0][0]
        )
        return "" if any(_payload(row[0])["body"]["what"] == "inspected" for row in later) else str(rule)

    def _results(self, chain: int) -> tuple[dict[str, Any], ...]:
        # Looks through as many rounds as there may be voids among them, and no further.
        rows = self._rows(
            "SELECT kind, envelope FROM entry WHERE chain = ? AND final = 1 ORDER BY round DESC LIMIT ?",
            chain,
            _ROWS_A_READ,
        )
        newest = [envelope for kind, envelope in rows if kind == Kind.RESULT][:RESULTS_KEPT]
        return tuple(_payload(envelope) for envelope in reversed(newest))

    def capture(self, chain: str, seq: int) -> bytes | None:
        """The exact bytes of the raw capture behind a record; None where there is none (any more)."""
        rows = self._rows(
            "SELECT digest, data FROM capture JOIN entry ON entry.id = capture.entry"
            " JOIN chain ON chain.id = entry.chain WHERE chain.name = ? AND entry.seq = ?",
            chain,
            seq,
        )
        if not rows:
            return None
        digest, data = rows[0]
        try:
            capture = zlib.decompress(data)
        except zlib.error as error:
            raise JournalError(f"{self.path}: capture of {chain} {seq} is damaged: {error}") from error
        if sha256(capture).hexdigest() != digest:
            raise JournalError(f"{self.path}: capture of {chain} {seq} is not what was kept")
        return capture

    def _number(self, query: str, *values: str | int) -> int:
        return int(self._rows(query, *values)[0][0])

    def _rows(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        with self._read_lock:
            try:
                return self._read.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise JournalError(f"{self.path}: cannot be read: {error}") from error

    # --- cursors -----------------------------------------------------------------------------

    def cursor(self, name: str) -> int:
        """`id` of the newest entry that `name` has sent, 0 for none."""
        return self._cursors.get(name)

    def set_cursor(self, name: str, id_: int) -> None:
        """Remember that `name` has sent all entries up to `id_`; a power cut may put it back."""
        self._cursors.set(name, id_)


def _add_chains(
    connection: sqlite3.Connection, entries: Sequence[NewEntry], known: dict[str, int]
) -> dict[str, int]:
    new = {entry.chain: entry.table for entry in entries if entry.chain not in known}
    ids = {}
    for number, (chain, table) in enumerate(new.items(), len(known) + 1):
        connection.execute("INSERT INTO chain VALUES (?, ?, ?)", (number, table, chain))
        ids[chain] = number
    return ids


def _add_captures(
    connection: sqlite3.Connection, entries: Sequence[NewEntry], last_id: int, captured_bytes: int
) -> int:
    for id_, entry in enumerate(entries, last_id + 1):
        if entry.capture is not None:
            data = zlib.compress(entry.capture, level=1)
            captured_bytes += len(data)
            row = (captured_bytes, id_, sha256(entry.capture).hexdigest(), data)
            connection.execute("INSERT INTO capture VALUES (?, ?, ?, ?)", row)
    return captured_bytes


def _roll_back(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):  # the error that led here is told; some of them have rolled back already
        connection.execute("ROLLBACK")


def _numbered(id_: int, new: NewEntry) -> Entry:
    return Entry(id_, new.table, new.chain, new.seq, new.kind, new.round, new.final, new.envelope)


def _entry(row: tuple[Any, ...]) -> Entry:
    id_, table, chain, seq, kind, round_number, final, envelope = row
    return Entry(id_, table, chain, seq, kind, round_number, bool(final), envelope)


def _payload(envelope: bytes) -> dict[str, Any]:
    return strict_object(parse_envelope(envelope).payload, "payload")
