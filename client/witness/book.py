"""What a witness remembers of the chains that it followed, and how it finds a history that was rewritten.

A chain is a chain because each record names the digest of the one before it. Who has the node's key can write
another chain that is just as good in itself; but not one that agrees with what somebody else wrote down. The
book keeps the digests of all checkpoints, and of all records since the last but one. It trusts its caller to
have checked the signatures.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import UNSET

from dollyd.client.stream.watermark import SqliteWatermarks
from dollyd.wire.errors import DollydError
from dollyd.wire.record import CheckpointBody, KeyBody, Kind, Record
from dollyd.wire.successors import why_behind_its_end, why_no_successor

_SCHEMA = """
CREATE TABLE IF NOT EXISTS chain (
    id INTEGER PRIMARY KEY,  -- of several chains of a table the one with the highest id goes on
    name TEXT NOT NULL UNIQUE,
    tbl TEXT NOT NULL,
    first INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    digest TEXT NOT NULL,
    ends INTEGER NOT NULL,
    why TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS seen (
    chain TEXT NOT NULL,
    seq INTEGER NOT NULL,
    digest TEXT NOT NULL,
    checkpoint INTEGER NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS statement (
    tbl TEXT PRIMARY KEY,
    envelope BLOB NOT NULL
) STRICT;
"""
_KEY_BODY = msgspec.json.Decoder(KeyBody)
_CHECKPOINT_BODY = msgspec.json.Decoder(CheckpointBody)


class WitnessError(DollydError):
    """The book cannot be read or kept; who cannot remember must not sign."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A chain as far as it was followed."""

    table: str
    chain: str
    first: int
    """All records from this one on were seen, one after the other."""
    seq: int
    digest: str
    """SHA-256 of the envelope of record `seq`, hex."""
    ends: int = 0
    """Where the chain that came after it says that it ended; 0 while it goes on."""
    why: str = ""
    """What contradicted the book first, for good; empty while nothing did."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to state: a checkpoint, or a contradiction where it was met."""

    table: str
    chain: str
    first: int
    seq: int
    head: str
    """The chain stands at record `seq` with this digest."""
    checkpoint: str
    """Digest of the checkpoint's envelope (record `seq` + 1); empty: there is no checkpoint here."""
    why: str
    """Why the history is not consistent, empty where it is."""


class WitnessBook:
    """One file with one owner. Every method may raise `WitnessError`."""

    def __init__(self, path: Path) -> None:
        """Open the book or begin one."""
        self._path = path
        with self._told():
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None)
            self._connection.executescript(
                "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                + _SCHEMA
            )
            self.watermarks = SqliteWatermarks(self._connection)
            rows = self._connection.execute(
                "SELECT tbl, name, first, seq, digest, ends, why FROM chain ORDER BY id"
            ).fetchall()
        self._chains = {row[1]: Followed(*row) for row in rows}
        self._newest = {row[0]: row[1] for row in rows}
        """By table the chain that goes on."""

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def followed(self, chain: str) -> Followed | None:
        """How far a chain was followed, None where it is not known."""
        return self._chains.get(chain)

    @property
    def contradictions(self) -> list[Finding]:
        """What is to be stated for as long as the book is kept."""
        return [_finding(followed) for followed in self._chains.values() if followed.why]

    def take(self, record: Record, envelope: bytes) -> Finding | None:
        """Compare the next record with the book and write it down; on the disk when this returns.

        A record that was seen before may come again. Gives what is to be stated, None for nothing.
        """
        digest = sha256(envelope).hexdigest()
        known = self._chains.get(record.chain)
        if known is not None and record.seq <= known.seq:
            return self._seen_again(known, record, digest)
        why = self._broken(known, record) if known else self._intruding(record)
        before = known.why if known else ""
        goes_on = known is not None and record.seq == known.seq + 1
        followed = Followed(
            known.table if known else record.table,
            record.chain,
            first=known.first if known and goes_on else record.seq,
            seq=record.seq,
            digest=digest,
            ends=known.ends if known else 0,
            why=before or why,
        )
        self._write_down(followed, is_checkpoint=record.kind == Kind.CHECKPOINT)
        if record.kind == Kind.CHECKPOINT:
            return _of_checkpoint(followed, record)
        return _finding(followed) if why and not before else None

    def contradict(self, chain: str, why: str) -> Finding | None:
        """Somebody else found that a chain contradicts what was followed; None where that is known."""
        known = self._chains.get(chain)
        if known is None or known.why:
            return None
        known = replace(known, why=why)
        self._keep(known)
        return _finding(known)

    def statements(self) -> dict[str, bytes]:
        """The last statements, by table."""
        with self._told():
            return dict(self._connection.execute("SELECT tbl, envelope FROM statement").fetchall())

    def keep_statement(self, table: str, envelope: bytes) -> None:
        """Remember what was stated last; on the disk when this returns."""
        with self._told():
            self._connection.execute("INSERT OR REPLACE INTO statement VALUES (?, ?)", (table, envelope))

    # --- comparing -------------------------------------------------------------------------------

    def _seen_again(self, known: Followed, record: Record, digest: str) -> Finding | None:
        why = self._changed(known, record, digest)
        if why and not known.why:
            self._keep(replace(known, why=why))
            return Finding(known.table, known.chain, known.first, record.seq, digest, "", why)
        if record.kind == Kind.CHECKPOINT and digest == known.digest:  # written down, perhaps not stated yet
            return _of_checkpoint(known, record)
        return None

    def _changed(self, known: Followed, record: Record, digest: str) -> str:
        """What is wrong with a record whose place was passed before."""
        with self._told():
            rows = self._connection.execute(
                "SELECT digest FROM seen WHERE chain = ? AND seq = ?", (record.chain, record.seq)
            ).fetchall()
        if rows and rows[0][0] != digest:
            return f"record {record.seq} is not the one that was seen before"
        if not rows and record.kind == Kind.CHECKPOINT and record.seq >= known.first:
            return f"record {record.seq} was no checkpoint when it was seen before"
        return ""

    def _broken(self, known: Followed, record: Record) -> str:
        """What is wrong with a record that goes beyond what was followed."""
        if record.table != known.table:
            return f"the chain was that of table {known.table}"
        if record.seq == known.seq + 1 and record.prev != known.digest:
            return f"record {record.seq} does not follow on record {known.seq} as it was seen"
        if why := why_behind_its_end(record.seq, known.ends):
            return why
        return self._wrong_checkpoint(record)

    def _intruding(self, record: Record) -> str:
        """What is wrong with the first record that was seen of a chain."""
        previous = self._chains.get(self._newest.get(record.table, ""))
        if previous is None:
            return self._wrong_checkpoint(record)
        if previous.why:
            return f"the chain before it: {previous.why}"
        body = _chain_start(record)
        named = (body.previous_chain, body.previous_seq) if body else (UNSET, UNSET)
        claims = (named[0], named[1]) if isinstance(named[0], str) and isinstance(named[1], int) else ("", 0)
        if why := why_no_successor(claims, [(previous.chain, previous.seq)]):
            return why
        self._keep(replace(previous, ends=claims[1]))
        return ""

    def _wrong_checkpoint(self, record: Record) -> str:
        if record.kind != Kind.CHECKPOINT:
            return ""
        try:
            body = _CHECKPOINT_BODY.decode(record.body)
        except msgspec.ValidationError as error:
            return f"record {record.seq} has not the body of a checkpoint: {error}"
        right = (body.seq, body.head) == (record.seq - 1, record.prev)
        return "" if right else f"checkpoint {record.seq} does not say where it stands"

    # --- writing down ----------------------------------------------------------------------------

    def _write_down(self, followed: Followed, *, is_checkpoint: bool) -> None:
        with self._told(), self._transaction():
            self._put(followed)
            self._connection.execute(
                "INSERT INTO seen VALUES (?, ?, ?, ?)",
                (followed.chain, followed.seq, followed.digest, is_checkpoint),
            )
            if is_checkpoint:
                self._connection.execute(
                    "DELETE FROM seen WHERE chain = ?1 AND checkpoint = 0 AND seq <"
                    " (SELECT max(seq) FROM seen WHERE chain = ?1 AND checkpoint = 1 AND seq < ?2)",
                    (followed.chain, followed.seq),
                )
        self._remember(followed)

    def _keep(self, followed: Followed) -> None:
        with self._told():
            self._put(followed)
        self._remember(followed)

    def _put(self, followed: Followed) -> None:
        self._connection.execute(
            "INSERT INTO chain (tbl, name, first, seq, digest, ends, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
            " ON CONFLICT (name) DO UPDATE SET first = ?3, seq = ?4, digest = ?5, ends = ?6, why = ?7",
            (
                followed.table,
                followed.chain,
                followed.first,
                followed.seq,
                followed.digest,
                followed.ends,
                followed.why,
            ),
        )

    def _remember(self, followed: Followed) -> None:
        if followed.chain not in self._chains:
            self._newest[followed.table] = followed.chain
        self._chains[followed.chain] = followed

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise WitnessError(f"{self._path}: {error}") from error


def _of_checkpoint(followed: Followed, record: Record) -> Finding:
    head = (record.seq - 1, record.prev)
    return Finding(followed.table, followed.chain, followed.first, *head, followed.digest, followed.why)


def _finding(followed: Followed) -> Finding:
    """A contradiction between two checkpoints."""
    head = (followed.seq, followed.digest)
    return Finding(followed.table, followed.chain, followed.first, *head, "", followed.why)


def _chain_start(record: Record) -> KeyBody | None:
    if record.seq != 1 or record.kind != Kind.KEY:
        return None
    try:
        body = _KEY_BODY.decode(record.body)
    except msgspec.ValidationError:
        return None
    return body if body.event == "chain-start" else None
