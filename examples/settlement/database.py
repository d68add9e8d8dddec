"""The tables of the settlement service, what guards them, and the two data bases that they may lie in."""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from dollyd.client import SqliteWatermarks, Watermark, WatermarkStore

SCHEMA = """
CREATE TABLE IF NOT EXISTS closed (chain TEXT PRIMARY KEY, round BIGINT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS final (
    chain TEXT NOT NULL, round BIGINT NOT NULL, payload TEXT NOT NULL, PRIMARY KEY (chain, round)) STRICT;
CREATE TABLE IF NOT EXISTS bet (
    id TEXT NOT NULL CHECK (id <> ''), chain TEXT NOT NULL, round BIGINT NOT NULL CHECK (round > 0),
    game TEXT NOT NULL, kind TEXT NOT NULL, selection TEXT NOT NULL CHECK (IS_ARRAY(selection)),
    stake BIGINT NOT NULL CHECK (stake BETWEEN 1 AND 1000000000000000),
    state TEXT NOT NULL DEFAULT '{}' CHECK (IS_OBJECT(state)),
    choice TEXT NOT NULL DEFAULT 'none' CHECK (choice IN ('none', 'half', 'prison', 'quarter', 'stay')),
    working INTEGER NOT NULL DEFAULT 0 CHECK (working IN (0, 1)),
    carried INTEGER NOT NULL DEFAULT 0 CHECK (carried IN (0, 1)),
    verdict TEXT, PRIMARY KEY (id, round)) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS placed_once ON bet (id) WHERE carried = 0;
CREATE INDEX IF NOT EXISTS bets_of_a_round ON bet (chain, round);
CREATE TABLE IF NOT EXISTS booking (
    bet TEXT NOT NULL, chain TEXT NOT NULL, round BIGINT NOT NULL, seq BIGINT NOT NULL,
    entry TEXT NOT NULL CHECK (entry IN ('settled', 'reversed')), verdict TEXT NOT NULL,
    profit BIGINT NOT NULL, returned BIGINT NOT NULL, invalid BIGINT NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY (bet, round, seq, entry)) STRICT;
"""
CASH = """VIEW cash AS SELECT
    (SELECT coalesce(sum(stake), 0) FROM bet WHERE carried = 0)
    - (SELECT coalesce(sum(profit + returned + invalid), 0) FROM booking) AS balance;
"""
BET = "id, chain, round, game, kind, selection, stake, state, carried, choice, working"
"""What a bet is; the verdict alone is ours."""
OLD, NEW = (", ".join(f"{row}.{name}" for name in BET.split(", ")) for row in ("OLD", "NEW"))
STAYED = """EXISTS (SELECT FROM booking WHERE bet = NEW.id AND chain = NEW.chain AND round = NEW.round - 1
    AND verdict IN ('stays', 'not-working'))"""
BOOKED = "EXISTS (SELECT FROM booking WHERE bet = NEW.id AND round = NEW.round AND verdict = NEW.verdict)"
CHANGED = "(OLD.stake, OLD.selection, OLD.state) IS DISTINCT FROM (NEW.stake, NEW.selection, NEW.state)"
LATE = "no more bets for this round"
GUARDS = {
    ("INSERT", "NEW.verdict IS NOT NULL"): "a bet is placed without a verdict",
    ("INSERT", "NEW.carried = 0 AND LATE(NEW)"): f"{LATE}, or no such chain",
    ("INSERT", f"NEW.carried = 1 AND NOT {STAYED}"): "only a stake that stays is carried",
    ("UPDATE", f"({OLD}) IS DISTINCT FROM ({NEW}) AND (LATE(OLD) OR LATE(NEW))"): LATE,
    (
        "UPDATE",
        f"OLD.carried <> NEW.carried OR NEW.carried = 1 AND {CHANGED}",
    ): "a stake that stays is not changed",
    ("UPDATE", f"OLD.verdict IS DISTINCT FROM NEW.verdict AND NOT {BOOKED}"): "a verdict has its booking",
    ("DELETE", "OLD.carried = 0 AND LATE(OLD)"): LATE,
}
"""What the till cannot do to `bet`, and what it is told."""


def sqlite_schema() -> str:
    """Tables and guards of a file. What is there already stays as it is."""
    schema = SCHEMA.replace("BIGINT", "INTEGER")
    for name, kind in (("ARRAY", "array"), ("OBJECT", "object")):
        schema = re.sub(rf"IS_{name}\((\w+)\)", rf"json_valid(\1) AND json_type(\1) = '{kind}'", schema)
    triggers = ["DROP TRIGGER IF EXISTS no_more_bets;"]
    for number, ((event, refused), why) in enumerate(GUARDS.items()):
        late = r"coalesce(\1.round <= (SELECT round FROM closed WHERE chain = \1.chain), 1)"
        when = re.sub(r"LATE\((\w+)\)", late, refused).replace("SELECT FROM", "SELECT 1 FROM")
        when = when.replace("IS DISTINCT FROM", "IS NOT")
        triggers += [
            f"CREATE TRIGGER IF NOT EXISTS guard_{number} BEFORE {event} ON bet WHEN {when}",
            f"BEGIN SELECT RAISE(ABORT, '{why}'); END;",
        ]
    for event in ("UPDATE", "DELETE"):
        triggers += [
            f"CREATE TRIGGER IF NOT EXISTS never_{event} BEFORE {event} ON booking",
            "BEGIN SELECT RAISE(ABORT, 'what is booked stays'); END;",
        ]
    return "\n".join([schema, f"CREATE {CASH}".replace("VIEW", "VIEW IF NOT EXISTS"), *triggers])


def postgres_schema() -> str:
    """Tables of a data base of PostgreSQL."""
    schema = SCHEMA.replace(") STRICT;", ");")
    for name, kind in (("ARRAY", "array"), ("OBJECT", "object")):
        schema = re.sub(rf"IS_{name}\((\w+)\)", rf"json_typeof(\1::json) = '{kind}'", schema)
    return f"""{schema} CREATE {CASH} CREATE TABLE dollyd_watermark (
        chain TEXT PRIMARY KEY, table_name TEXT NOT NULL, seq BIGINT NOT NULL, digest TEXT NOT NULL,
        keys TEXT NOT NULL, kid TEXT NOT NULL, rules TEXT NOT NULL DEFAULT '');"""


def _late(condition: str) -> str:
    return re.sub(r"LATE\((\w+)\)", r"late(\1.chain, \1.round)", condition)


def postgres_guards() -> str:
    """Guards of a data base of PostgreSQL, in place of those that are there."""
    refusals = "\n".join(
        f"IF TG_OP = '{event}' THEN IF {_late(refused)} THEN"
        f" RAISE integrity_constraint_violation USING MESSAGE = '{why}'; END IF; END IF;"
        for (event, refused), why in GUARDS.items()
    )
    return f"""
CREATE OR REPLACE FUNCTION late(of TEXT, number BIGINT) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE upto BIGINT; BEGIN
    -- FOR SHARE waits for a record that is being taken
    SELECT round INTO upto FROM closed WHERE chain = of FOR SHARE;
    RETURN coalesce(number <= upto, TRUE);
END $$;
CREATE OR REPLACE FUNCTION guard_bets() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    {refusals}
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE integrity_constraint_violation USING MESSAGE = 'what is booked stays';
END $$;
CREATE OR REPLACE TRIGGER no_more_bets BEFORE INSERT OR UPDATE OR DELETE ON bet
    FOR EACH ROW EXECUTE FUNCTION guard_bets();
CREATE OR REPLACE TRIGGER never BEFORE UPDATE OR DELETE ON booking FOR EACH ROW EXECUTE FUNCTION never();
"""  # noqa: S608  texts of ours


class Database(Protocol):
    """What the book needs of a data base. SQL is written with `?` for values."""

    @property
    def watermarks(self) -> WatermarkStore:
        """Where they are kept, in the transaction that is open."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """All of the block is durable when it ends, or nothing of it."""
        ...

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement; gives its rows."""
        ...

    def close(self) -> None:
        """Leave it."""
        ...


class Sqlite:
    """A file. Raises `sqlite3.Error`."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(sqlite_schema())
        self.watermarks = SqliteWatermarks(self._connection)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the block is durable when it ends, or nothing of it."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement; gives its rows."""
        return self._connection.execute(sql, values).fetchall()

    def close(self) -> None:
        """Leave it."""
        self._connection.close()


class Postgres:
    """A server's data base. Raises `psycopg.Error`. It keeps watermarks as `SqliteWatermarks` does."""

    def __init__(self, address: str) -> None:
        import psycopg  # noqa: PLC0415  needed for this one only

        self._connection = psycopg.connect(address, autocommit=True)
        if self.query("SELECT to_regclass('booking') IS NULL") == [(True,)]:
            self._connection.execute(postgres_schema().encode())  # all statements are one transaction
        self._connection.execute(postgres_guards().encode())
        for added in ("kid", "rules"):  # a data base of an older version has no such column yet
            self.query(
                f"ALTER TABLE dollyd_watermark ADD COLUMN IF NOT EXISTS {added} TEXT NOT NULL DEFAULT ''"
            )
        self.watermarks = self

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the block is durable when it ends, or nothing of it."""
        with self._connection.transaction():
            yield

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement; gives its rows."""
        cursor = self._connection.execute(sql.replace("?", "%s").encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Leave it."""
        self._connection.close()

    def load(self) -> dict[str, Watermark]:
        """The newest watermark of each chain, by chain."""
        rows = self.query("SELECT table_name, chain, seq, digest, keys, kid, rules FROM dollyd_watermark")
        return {
            chain: Watermark(table, chain, seq, digest, tuple(keys.split()), kid, rules)
            for table, chain, seq, digest, keys, kid, rules in rows
        }

    def session(self) -> str:
        """A random text by which the broker knows this service, and which nobody else does."""
        self.query("CREATE TABLE IF NOT EXISTS dollyd_session (id TEXT NOT NULL)")
        new = secrets.token_hex(16)
        self.query("INSERT INTO dollyd_session SELECT ? WHERE NOT EXISTS (SELECT 1 FROM dollyd_session)", new)
        ((kept,),) = self.query("SELECT id FROM dollyd_session")
        return str(kept)

    def save(self, watermark: Watermark) -> None:
        """Keep it, in the transaction that is open; one that is older than what is kept changes nothing."""
        self.query(
            "INSERT INTO dollyd_watermark AS kept (chain, table_name, seq, digest, keys, kid, rules)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, digest ="
            " excluded.digest, keys = excluded.keys, kid = excluded.kid, rules = excluded.rules"
            " WHERE excluded.seq > kept.seq",
            *(watermark.chain, watermark.table, watermark.seq, watermark.digest),
            *(" ".join(watermark.keys), watermark.kid, watermark.rules),
        )


def open_database(address: str) -> Database:
    """The data base of a file name or a `postgresql://` address, with its tables."""
    return Postgres(address) if address.startswith("postgresql://") else Sqlite(address)
