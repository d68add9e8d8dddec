"""The journal of a node: every signed record of every table, durable before anything is published.

One SQLite file in WAL mode with `synchronous=FULL`: a commit returns after its fsync. A table has one chain
for as long as its journal and its key live; a lost key begins another one. The data base itself refuses a
second record of a sequence number, a second opening and a second final record of a round, whatever the code
above it believes.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from dollyd.daemon.journal.cursors import EXPORTED, PUBLISHER, WRITTEN, Cursors
from dollyd.daemon.journal.damage import Damage, put_aside_if_damaged
from dollyd.daemon.journal.entry import ENTRY, Entry, NewEntry, entry_of, payload_of, utc_ns
from dollyd.daemon.journal.file import (
    JournalUnusableError,
    connect_read_only,
    connect_to_write,
    copy_to,
    locked,
    save_open,
)
from dollyd.daemon.journal.retention import prune_some
from dollyd.daemon.journal.tail import Tail, read_tail
from dollyd.daemon.journal.trouble import SameFiles, code_of, held_by, passes_by_itself
from dollyd.wire.errors import JournalError, ensure
from dollyd.wire.jws import Keys

__all__ = ["Entry", "Journal", "NewEntry", "Tail"]

_ROWS_A_READ = 256
"""No read stays open longer than this many rows: an open one keeps the WAL growing."""
_PRUNED_A_CALL = 1000
HELD_MAX_S = 20.0
"""How long a commit waits for another program's lock; the watchdog allows 30 s without progress."""

RESENT_MAX = 5_000
"""Entries that are sent where nobody knows what was sent: minutes of a large site, a day of one table."""


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
        self.keep_captures = True
        """Whether raw captures are kept with their records."""
        self.captures_left_out = 0
        """Captures that were not, since the start."""
        self.held_by = ""
        """Who keeps us from writing: another program with a lock on the file; empty for nobody."""
        self._files = SameFiles(path)
        self._read = read
        self._write = write
        self._resources = ExitStack()
        self._cursors = Cursors(path)
        self._read_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._last_id = self.last_id
        self._captured_bytes = self._number("SELECT ifnull(max(upto), 0) FROM capture")
        self._chain_ids: dict[str, int] = dict(self._rows("SELECT name, id FROM chain"))
        self.newest_utc_ns = self._newest_utc_ns() if write is not None else 0
        """Time of the newest record when it was opened, 0 for none: what no clock of a later start undoes."""

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False, keys: Keys | None = None) -> Self:
        """Open the journal or start one; the time it takes does not grow with the journal.

        A damaged file is renamed to `<name>.damaged-<utc>` and a new journal started: see `damage`. With the
        node's `keys` the signature of each chain's last record is checked too: no later one vouches for it.
        `read_only` takes no lock, changes nothing and checks nothing.

        Raises:
            JournalUnusableError: the path cannot be written, another daemon has the journal, or the file is
                something else or of another version. The operator must act; the text is one clear line.
            JournalError: a disk that is full, read-only or failing, a lock of another program. It may pass.
        """
        with ExitStack() as resources:
            try:
                write = damage = None
                if not read_only:
                    resources.enter_context(locked(path))
                    damage = put_aside_if_damaged(path, keys or {})
                    write = resources.enter_context(closing(connect_to_write(path)))
                read = resources.enter_context(closing(connect_read_only(path)))
                journal = cls(path, read, write, damage)
            except (OSError, sqlite3.Error) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                holder = held_by(path)
                told = f"{path}: cannot be opened: {why}" + (f"; {holder} has it open" if holder else "")
                kind = JournalError if passes_by_itself(path, error) else JournalUnusableError
                raise kind(told) from error
            journal._resources = resources.pop_all()
            return journal

    def _newest_utc_ns(self) -> int:
        newest = self.entries_after(self._last_id - 1, 1)
        return utc_ns(payload_of(newest[0].envelope)["time"]["utc"]) if newest else 0

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
            if changed := self._files.look():
                self._save(changed)
            try:
                self._begin(connection)
                chain_ids = self._chain_ids | _add_chains(connection, entries, self._chain_ids)
                written = [_numbered(self._last_id + n, entry) for n, entry in enumerate(entries, 1)]
                connection.executemany(
                    "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [
                        (e.id, chain_ids[e.chain], e.seq, e.kind, e.round, e.final, e.envelope)
                        for e in written
                    ],
                )
                captured_bytes = self._captured_bytes
                keep_captures = self.keep_captures  # another thread's to change
                if keep_captures:
                    captured_bytes = _add_captures(connection, entries, self._last_id, captured_bytes)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                _roll_back(connection)
                holder = f"; {self.held_by} holds its lock" if self.held_by else ""
                raise JournalError(f"{self.path}: records cannot be kept: {error}{holder}") from error
            self._chain_ids, self._captured_bytes = chain_ids, captured_bytes
            if not keep_captures:
                self.captures_left_out += sum(entry.capture is not None for entry in entries)
            self._last_id += len(entries)
            self._cursors.set(WRITTEN, self._last_id)
            return written

    def check_files(self) -> None:
        """Raise `JournalError` where the journal's name leads to other files than those that are open.

        Nothing is to be kept in a file that nobody will find. What the open connection can read is saved.
        """
        if changed := self._files.look():
            with self._write_lock:
                self._save(changed)

    def _save(self, changed: str) -> None:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        saved = self.path.with_name(f"{self.path.name}.saved-{stamp}")
        try:
            save_open(self._connection(), saved)
            told = f"what it held is saved in {saved}"
        except (OSError, sqlite3.Error) as error:
            told = f"what it held cannot be saved: {error}"
        raise JournalError(f"{changed} while the journal was open; {told}")

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begin to write. Another program's lock is waited for as long as a slow disk is."""
        deadline_s = time.monotonic() + HELD_MAX_S
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline_s:
                    raise
                self.held_by = self.held_by or held_by(self.path) or "another program"
            else:
                self.held_by = ""
                return

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

    def prune_records(self, before_utc: str) -> int:
        """Remove old records of ranges that a checkpoint seals; gives how many. Call again until 0.

        A range goes when its checkpoint was made before `before_utc`, exported and acknowledged by the
        broker, and a restart needs nothing of it. The checkpoint stays as the chain's first record.
        """
        upto_id = min(self.cursor(EXPORTED), self.cursor(PUBLISHER))
        with self._write_lock:
            connection = self._connection()
            try:
                connection.execute("BEGIN IMMEDIATE")
                removed = prune_some(connection, before_utc, upto_id)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                _roll_back(connection)
                raise JournalError(f"{self.path}: records cannot be pruned: {error}") from error
            return removed

    def backup(self, path: Path) -> None:
        """Copy the journal to a new file as it is at one moment, while others write. May take its time.

        Raises `JournalError` where either file refuses; nothing is left at `path` then.
        """
        try:
            copy_to(self.path, path)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(f"{path}: the journal cannot be copied there: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        ensure(self._write is not None, "a journal opened read-only is not written")
        return self._write  # type: ignore[return-value]  # ensured above

    # --- reading -----------------------------------------------------------------------------

    def entries_after(self, id_: int, limit: int) -> list[Entry]:
        """At most `limit` entries after entry `id_`, of all tables, in the order of writing."""
        return [
            entry_of(row)
            for row in self._rows(ENTRY + "WHERE entry.id > ? ORDER BY entry.id LIMIT ?", id_, limit)
        ]

    def entries(self, chain: str, from_seq: int = 1, to_seq: int | None = None) -> Iterator[Entry]:
        """The records of one chain by `seq`, both ends included, in short reads."""
        from_seq = max(from_seq, self.pruned_upto(chain) + 1)
        query = ENTRY + "WHERE chain.name = ? AND entry.seq BETWEEN ? AND ? ORDER BY entry.seq LIMIT ?"
        last = 2**63 - 1 if to_seq is None else to_seq
        while rows := self._rows(query, chain, from_seq, last, _ROWS_A_READ):
            yield from map(entry_of, rows)
            from_seq = rows[-1][3] + 1

    def pruned_upto(self, chain: str) -> int:
        """The last record of a chain that retention has removed, 0 for none."""
        return self._number(
            "SELECT ifnull(max(upto_seq), 0) FROM pruned JOIN chain ON chain.id = pruned.chain"
            " WHERE chain.name = ?",
            chain,
        )

    @property
    def wal_bytes(self) -> int:
        """Size of the write-ahead log; it grows while a reader keeps a transaction open."""
        try:
            return self.path.with_name(self.path.name + "-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def chains(self) -> list[tuple[str, str]]:
        """Table and chain of every chain, oldest first."""
        return [
            (str(table), str(chain)) for table, chain in self._rows("SELECT tbl, name FROM chain ORDER BY id")
        ]

    def ends(self, table: str) -> dict[str, int]:
        """The last `seq` of each chain of a table, oldest chain first."""
        query = (
            "SELECT name, (SELECT ifnull(max(seq), 0) FROM entry WHERE entry.chain = chain.id)"
            " FROM chain WHERE tbl = ? ORDER BY id"
        )
        return {str(chain): int(seq) for chain, seq in self._rows(query, table)}

    def last_final(self, table: str, upto_id: int) -> Entry | None:
        """How the newest round of a table ended: its final record, or the last correction of it.

        Among the entries up to `upto_id`; None where there is none.
        """
        chains = self._rows("SELECT id FROM chain WHERE tbl = ? ORDER BY id DESC", table)
        query = ENTRY + "WHERE chain.id = ? AND final = 1 AND entry.id <= ? ORDER BY round DESC LIMIT 1"
        found = (self._rows(query, int(chain), upto_id) for (chain,) in chains)
        final = next((entry_of(rows[0]) for rows in found if rows), None)
        if final is None:
            return None
        corrections = self._rows(
            ENTRY + "WHERE chain.name = ? AND entry.seq > ? AND kind = 'correction' AND round = ?"
            " AND entry.id <= ? ORDER BY entry.seq DESC LIMIT 1",
            final.chain,
            final.seq,
            final.round,
            upto_id,
        )
        return entry_of(corrections[0]) if corrections else final

    def finals_upto(self, chain: str, round_number: int, limit: int) -> list[Entry]:
        """At most `limit` final records of a chain, from that of a round backwards, newest round first."""
        query = ENTRY + "WHERE chain.name = ? AND final = 1 AND round <= ? ORDER BY round DESC LIMIT ?"
        return [entry_of(row) for row in self._rows(query, chain, round_number, limit)]

    def session_before(self, chain: str, seq: int) -> Entry | None:
        """The last `session` record before record `seq`; None where there is none (any more)."""
        query = ENTRY + "WHERE chain.name = ? AND kind = 'session' AND seq < ? ORDER BY seq DESC LIMIT 1"
        rows = self._rows(query, chain, seq)
        return entry_of(rows[0]) if rows else None

    def tables(self) -> dict[str, str]:
        """By table the chain that goes on."""
        return {
            str(table): str(chain) for table, chain in self._rows("SELECT tbl, name FROM chain ORDER BY id")
        }

    def tail(self, table: str) -> Tail | None:
        """How the chain of `table` that goes on ends; None where it has none."""
        return read_tail(self._rows, table)

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

    def find_publisher_cursor(self) -> int | None:
        """See to it that the publisher's cursor is known; gives from where it goes on where it was lost.

        Nobody knows then what was sent: `RESENT_MAX` of the newest entries are, and what consumers lack of
        the older ones they fetch by replay.
        """
        if self._cursors.known(PUBLISHER):
            return None
        id_ = max(0, self._last_id - RESENT_MAX)
        self._cursors.set(PUBLISHER, id_)
        return id_ if self._last_id else None

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
