"""What a crash, a disk or a stray bit can do to a journal, looked for at the start in bounded time.

SQLite has no checksums: it gives what stands in a page. What a start relies on is therefore held against
something else: rows against what was signed, records against each other, indexes against rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from dollyd.daemon.journal.tail import read_tail
from dollyd.wire.errors import JournalError
from dollyd.wire.jws import EnvelopeError, Keys, parse_envelope, verify_envelope
from dollyd.wire.record import FINAL_KINDS, NO_PREVIOUS, Kind, Record

_CHECKED_PER_CHAIN = 128
"""Newest records of each chain that are checked: what a power cut can hurt, whatever the journal's size."""
_RECORD = msgspec.json.Decoder(Record)
_NEWEST = (
    "SELECT seq, kind, round, final, envelope, chain FROM entry NOT INDEXED WHERE id IN"
    " (SELECT id FROM entry WHERE chain = ? AND seq > ? ORDER BY seq DESC LIMIT ?) ORDER BY seq DESC"
)
"""The newest rows of a chain as they stand in the table, found through the index."""
_INDEXES = {
    "one_record_a_seq": ("seq", "{row}.id > 0"),
    "one_opening_a_round": ("round", "{row}.kind = 'round'"),
    "one_final_a_round": ("round", "{row}.final = 1"),
    "sessions": ("seq", "{row}.kind = 'session'"),
    "checkpoints": ("seq", "{row}.kind = 'checkpoint'"),
}
"""The second column of each index of `entry`, after the chain, and the rows that are in it."""


class DamagedError(Exception):
    """The file cannot be trusted; the text says why."""


def check(connection: sqlite3.Connection, keys: Keys) -> None:
    """Raise `DamagedError` or `sqlite3.DatabaseError` where what a start relies on cannot be trusted."""
    chains = _chains(connection)
    _check_rows_in_indexes(connection, _NEWEST_OF_ALL, _CHECKED_PER_CHAIN * len(chains))
    for chain in chains:
        _check_rows_in_indexes(connection, _NEWEST_OF_CHAIN, chain[0], _CHECKED_PER_CHAIN)
        _check_indexes_of(connection, *chain)
        _check_newest(connection, *chain, keys)
    for table in {table for _, table, _ in chains}:
        _check_tail(connection, table, keys)
    connection.execute("SELECT max(upto) FROM capture").fetchone()


def read_last(connection: sqlite3.Connection, last: dict[str, tuple[str, int]]) -> None:
    """Fill in where each table's last chain ends: as the newest envelopes say it, else as the index does."""
    chains = _chains(connection)
    for chain_id, table, chain in chains:
        (seq,) = connection.execute("SELECT max(seq) FROM entry WHERE chain = ?", (chain_id,)).fetchone()
        last[table] = (chain, seq if isinstance(seq, int) else 0)
    told: dict[str, int] = {}
    newest = "SELECT envelope FROM entry NOT INDEXED ORDER BY id DESC LIMIT ?"
    for (envelope,) in connection.execute(newest, (_CHECKED_PER_CHAIN * len(chains),)):
        try:
            record = _RECORD.decode(parse_envelope(envelope).payload)
        except (EnvelopeError, msgspec.MsgspecError, TypeError):
            continue  # the others tell
        told[record.chain] = max(told.get(record.chain, 0), record.seq)
    for table, (chain, seq) in last.items():
        last[table] = (chain, told.get(chain, seq))


def _chains(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    """Number, table and name; of several chains of a table the last one goes on."""
    return connection.execute("SELECT id, tbl, name FROM chain ORDER BY id").fetchall()


# --- indexes -------------------------------------------------------------------------------------


_NEWEST_OF_ALL = "t.id > (SELECT ifnull(max(id), 0) FROM entry) - ?"
_NEWEST_OF_CHAIN = "t.id IN (SELECT id FROM entry WHERE chain = ? ORDER BY seq DESC LIMIT ?)"


def _check_rows_in_indexes(connection: sqlite3.Connection, newest: str, *values: int) -> None:
    """Each of the newest rows of the table is found by its indexes."""
    for index, (key, rows) in _INDEXES.items():
        query = (
            f"SELECT count(*) FROM entry AS t NOT INDEXED LEFT JOIN entry AS i INDEXED BY {index}"
            f" ON i.chain = t.chain AND i.{key} = t.{key} AND {rows.format(row='i')}"
            f" WHERE {newest} AND {rows.format(row='t')} AND i.id IS NOT t.id"
        )
        if connection.execute(query, values).fetchone()[0]:
            raise DamagedError(f"index {index} lacks newest records")


def _check_indexes_of(connection: sqlite3.Connection, chain_id: int, table: str, _chain: str) -> None:
    """What the indexes say of the end of a chain stands in the table."""
    for index, (key, rows) in _INDEXES.items():
        query = (
            f"SELECT count(*) FROM (SELECT id, chain, {key} AS key FROM entry INDEXED BY {index}"
            f" WHERE chain = ? AND {rows.format(row='entry')} ORDER BY {key} DESC LIMIT ?) AS i"
            " LEFT JOIN entry AS t NOT INDEXED ON t.id = i.id"
            f" WHERE t.chain IS NOT i.chain OR t.{key} IS NOT i.key OR NOT ({rows.format(row='t')})"
        )
        if connection.execute(query, (chain_id, _CHECKED_PER_CHAIN)).fetchone()[0]:
            raise DamagedError(f"index {index} names records of {table} that are not there")


# --- records -------------------------------------------------------------------------------------


def _check_newest(connection: sqlite3.Connection, chain_id: int, table: str, chain: str, keys: Keys) -> None:
    """The newest records of a chain are what was signed, and hang together."""
    upto_seq, head = _beginning(connection, chain_id, table)
    rows = connection.execute(_NEWEST, (chain_id, upto_seq, _CHECKED_PER_CHAIN)).fetchall()
    if not rows:
        raise DamagedError(f"chain of {table} has no record")
    if any((of, type(envelope)) != (chain_id, bytes) for *_, envelope, of in rows):
        raise DamagedError(f"a record of {table} is not what the index says")
    _check_last(table, rows, keys)
    wanted = None
    for seq, kind, round_number, final, envelope, _ in rows:
        if wanted not in {None, sha256(envelope).hexdigest()}:
            raise DamagedError(f"chain of {table} is broken after record {seq}")
        record = _record(table, seq, envelope)
        columns = (record.table, record.chain, record.seq, record.kind, record.round)
        if columns != (table, chain, seq, kind, round_number) or final != (kind in FINAL_KINDS):
            raise DamagedError(f"record {seq} of {table} is not what its row says")
        wanted = record.prev
    if rows[-1][0] == upto_seq + 1 and wanted != head:
        raise DamagedError(f"chain of {table} has lost its beginning")


def _beginning(connection: sqlite3.Connection, chain_id: int, table: str) -> tuple[int, str]:
    """The last record before a chain's first one, and its digest; 0 where nothing was pruned."""
    query = "SELECT upto_seq, head FROM pruned WHERE chain = ?"
    upto_seq, head = connection.execute(query, (chain_id,)).fetchone() or (0, NO_PREVIOUS)
    query = "SELECT min(seq) FROM entry WHERE chain = ? AND seq > ?"
    (first,) = connection.execute(query, (chain_id, upto_seq)).fetchone()
    if first != upto_seq + 1:
        raise DamagedError(f"chain of {table} has lost its beginning")
    return int(upto_seq), str(head)


def _check_last(table: str, rows: list[tuple[Any, ...]], keys: Keys) -> None:
    """The last record, for which no later one vouches, has its signature, by the key of the one before."""
    seq, envelope = rows[0][0], rows[0][4]
    try:
        last = parse_envelope(envelope)
        if len(rows) > 1 and rows[1][1] != Kind.KEY and parse_envelope(rows[1][4]).kid != last.kid:
            raise DamagedError(f"record {seq} of {table} has another key than the one before")
        if last.kid in keys:  # whether a key is lost is no matter of the file
            verify_envelope(last, keys)
    except EnvelopeError as error:
        raise DamagedError(f"record {seq} of {table}: {error}") from error


def _record(table: str, seq: int, envelope: bytes) -> Record:
    try:
        return _RECORD.decode(parse_envelope(envelope).payload)
    except (EnvelopeError, msgspec.MsgspecError) as error:
        raise DamagedError(f"record {seq} of {table} cannot be read: {error}") from error


def _check_tail(connection: sqlite3.Connection, table: str, keys: Keys) -> None:
    """What a restart goes on from can be read and is signed, also what is older than the newest records."""

    def read(query: str, *values: Any) -> list[tuple[Any, ...]]:
        rows = connection.execute(query, values).fetchall()
        for envelope in _envelopes(rows):
            told = parse_envelope(envelope)
            if told.kid in keys:
                verify_envelope(told, keys)
        return rows

    try:
        read_tail(read, table)
    except (EnvelopeError, JournalError, LookupError, TypeError, ValueError) as error:
        raise DamagedError(f"what table {table} goes on from cannot be read: {error!r}") from error


def _envelopes(rows: list[tuple[Any, ...]]) -> Iterator[bytes]:
    return (value for row in rows for value in row if isinstance(value, bytes))
