"""What leaves the journal by age: whole ranges of a chain, each up to a checkpoint that stays.

The checkpoint becomes the chain's first record and says what stood before it. Table `pruned` remembers where
that was: from then on the records before it are gone for every reader, and removed step by step.
"""

from __future__ import annotations

import sqlite3

from dollyd.daemon.journal.entry import payload_of
from dollyd.daemon.journal.tail import FINALS_LOOKED_AT, RESULTS_KEPT

_REMOVED_A_CALL = 1000
_CHECKPOINTS_A_CALL = 100

_KEPT_FROM = """
SELECT min(seq) FROM (
    SELECT seq FROM (SELECT seq FROM entry WHERE chain = ?1 AND kind = 'round' ORDER BY round DESC LIMIT 1)
    UNION ALL
    SELECT seq FROM (
        SELECT seq FROM (
            SELECT seq, kind FROM entry WHERE chain = ?1 AND final = 1
            ORDER BY round DESC LIMIT ?2
        ) WHERE kind = 'result' LIMIT ?3
    )
)"""
"""The oldest record that a restart needs: the last round from its opening on, and the last results."""

_CHECKPOINTS = """
SELECT seq, envelope FROM entry AS own
WHERE chain = ?1 AND kind = 'checkpoint' AND seq > ?2 AND seq <= ?3 AND id <= ?4 AND ifnull((
    SELECT kind FROM entry AS later WHERE later.chain = own.chain AND later.seq > own.seq AND later.kind IN
        ('round', 'bets-closed', 'throw-rejected', 'unresolved', 'result', 'void')
    ORDER BY later.seq LIMIT 1), 'round') = 'round'
ORDER BY seq LIMIT ?5"""
"""Checkpoints with no round in progress: the first that is told of a round after them is its opening."""

_LAST_SESSION = (
    "SELECT envelope FROM entry WHERE chain = ? AND kind = 'session' AND seq < ? ORDER BY seq DESC LIMIT 1"
)
_GONE = """
SELECT entry.id FROM pruned JOIN entry ON entry.chain = pruned.chain AND entry.seq <= pruned.upto_seq
ORDER BY entry.chain, entry.seq LIMIT ?"""


def prune_some(connection: sqlite3.Connection, before_utc: str, upto_id: int) -> int:
    """Remove records of ranges whose checkpoint was made before `before_utc` and is entry `upto_id` or older.

    To be called in a transaction, again until 0: a call removes some, so that nobody waits long. Gives how
    many. Raises `sqlite3.Error`.
    """
    if removed := _remove_some(connection):
        return removed
    for (chain,) in connection.execute("SELECT id FROM chain ORDER BY id").fetchall():
        _seal_off(connection, chain, before_utc, upto_id)
    return _remove_some(connection)


def _seal_off(connection: sqlite3.Connection, chain: int, before_utc: str, upto_id: int) -> None:
    """Have a chain begin at its newest checkpoint that is old enough."""
    pruned = connection.execute("SELECT upto_seq, session FROM pruned WHERE chain = ?", (chain,)).fetchone()
    upto_seq, session = pruned or (0, None)
    (kept_from,) = connection.execute(_KEPT_FROM, (chain, FINALS_LOOKED_AT, RESULTS_KEPT)).fetchone()
    first = None
    values = (chain, upto_seq + 1, kept_from or 2**63 - 1, upto_id, _CHECKPOINTS_A_CALL)
    for seq, envelope in connection.execute(_CHECKPOINTS, values).fetchall():
        payload = payload_of(envelope)
        if payload["time"]["utc"] >= before_utc:
            break
        first = (seq, payload["prev"])
    if first is None:
        return
    last_session = connection.execute(_LAST_SESSION, (chain, first[0])).fetchone()
    connection.execute(
        "INSERT OR REPLACE INTO pruned VALUES (?, ?, ?, ?)",
        (chain, first[0] - 1, first[1], last_session[0] if last_session else session),
    )


def _remove_some(connection: sqlite3.Connection) -> int:
    gone = connection.execute(_GONE, (_REMOVED_A_CALL,)).fetchall()
    connection.executemany("DELETE FROM capture WHERE entry = ?", gone)
    connection.executemany("DELETE FROM entry WHERE id = ?", gone)
    return len(gone)
