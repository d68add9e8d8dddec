"""A small settlement service: signed records in, payouts out, each bet once, also across kill -9.

Usage: python settlement_service.py --broker HOST:PORT --site SITE --keys JWKS --data DATABASE [--table TABLE]
           [--accept-loss CHAIN:FIRST-LAST] [--accept-chain CHAIN]

DATABASE is a file (SQLite), or a `postgresql://` address (`pip install psycopg[binary]`).

* `Stream` gives each record verified, once and in order; what the broker lost it asks the node for.
* What a record leads to and its watermark (how far each chain is done) are one transaction. After a crash the
  stream begins behind the last watermark: nothing is settled twice, nothing is left out.
* `bet` has one row for each round that a bet takes part in, and `booking` what was paid; neither is ever
  paid by hand. `cash` is stakes less payouts.
* A correction takes back what was booked for its round, and settles it again. Both are booked. A stake that
  stays (en prison, craps) is settled again through all rounds since.
* Records that cannot be had stop the service: `STOPPED: ... records 5 to 7 are missing`. Where people find
  that they are lost for good, they settle those rounds by hand, and start it once with `--accept-loss`.
* So does a chain that does not take up where the one before it of its table ended. Where people know that the
  box was replaced with its disk, they start it once with `--accept-chain`.
* A bet that cannot be (a split of 1 and 3, a choice that was not made) is held: nothing is paid, and people
  settle it by its `reason`. All other bets of the round are settled.

The till inserts into `bet`; a trigger refuses bets that come after "no more bets". It knows what was read so
far: while the service does not run, the till must take no bets.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from dollyd.client import (
    ChainError,
    Delivered,
    GapError,
    MqttSettings,
    SqliteWatermarks,
    Stream,
    StreamError,
    Watermark,
    WatermarkStore,
    keys_of_jwks,
)
from dollyd.client.settlement.rulebooks import rulebook_of_digest
from dollyd.client.settlement.settle import carried, findings, read_round, settle_bet
from dollyd.client.settlement.spec import Bet, Choice, Round, SettlementError

HELD = "held"
"""Verdict of a bet that people must settle."""
Record: TypeAlias = Mapping[str, Any]
"""The payload of a verified record."""
Booked: TypeAlias = tuple[str, int, int, int]
"""Verdict, profit, returned, invalid."""
Choices: TypeAlias = Mapping[int, tuple[str, int]]
"""What a player chose for the rounds to come, by round: `choice` and `working` of `bet`."""

# --- the data base -------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS closed (chain TEXT PRIMARY KEY, round BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS final (
    chain TEXT NOT NULL, round BIGINT NOT NULL, payload TEXT NOT NULL, PRIMARY KEY (chain, round));
CREATE TABLE IF NOT EXISTS bet (
    id TEXT NOT NULL, chain TEXT NOT NULL, round BIGINT NOT NULL, game TEXT NOT NULL, kind TEXT NOT NULL,
    selection TEXT NOT NULL, stake BIGINT NOT NULL, state TEXT NOT NULL DEFAULT '{}',
    choice TEXT NOT NULL DEFAULT 'none', working INTEGER NOT NULL DEFAULT 0,
    carried INTEGER NOT NULL DEFAULT 0, verdict TEXT, PRIMARY KEY (id, round));
CREATE UNIQUE INDEX IF NOT EXISTS placed_once ON bet (id) WHERE carried = 0;
CREATE INDEX IF NOT EXISTS bets_of_a_round ON bet (chain, round);
CREATE TABLE IF NOT EXISTS booking (
    bet TEXT NOT NULL, chain TEXT NOT NULL, round BIGINT NOT NULL, seq BIGINT NOT NULL, entry TEXT NOT NULL,
    verdict TEXT NOT NULL, profit BIGINT NOT NULL, returned BIGINT NOT NULL, invalid BIGINT NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY (bet, round, seq, entry));
"""
CASH = """VIEW cash AS SELECT
    (SELECT coalesce(sum(stake), 0) FROM bet WHERE carried = 0)
    - (SELECT coalesce(sum(profit + returned + invalid), 0) FROM booking) AS balance;
"""
SQLITE_SCHEMA = f"""{SCHEMA}
CREATE {CASH.replace("VIEW", "VIEW IF NOT EXISTS")}
CREATE TRIGGER IF NOT EXISTS no_more_bets BEFORE INSERT ON bet
    WHEN NEW.carried = 0 AND NEW.round <= (SELECT round FROM closed WHERE chain = NEW.chain)
    BEGIN SELECT RAISE(ABORT, 'no more bets for this round'); END;
"""  # noqa: S608  texts of ours
POSTGRES_SCHEMA = f"""{SCHEMA}
CREATE {CASH}
CREATE TABLE dollyd_watermark (
    chain TEXT PRIMARY KEY, table_name TEXT NOT NULL, seq BIGINT NOT NULL, digest TEXT NOT NULL,
    keys TEXT NOT NULL, kid TEXT NOT NULL, rules TEXT NOT NULL DEFAULT '');
CREATE FUNCTION refuse_late_bets() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    -- FOR SHARE waits for a record that is being taken
    PERFORM FROM closed WHERE chain = NEW.chain FOR SHARE;
    IF NEW.carried = 0 AND NEW.round <= (SELECT round FROM closed WHERE chain = NEW.chain) THEN
        RAISE integrity_constraint_violation USING MESSAGE = 'no more bets for this round';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER no_more_bets BEFORE INSERT ON bet
    FOR EACH ROW EXECUTE FUNCTION refuse_late_bets();
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
        self._connection.executescript(SQLITE_SCHEMA)
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
            self._connection.execute(POSTGRES_SCHEMA.encode())  # all statements are one transaction
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


# --- settlement ----------------------------------------------------------------------------------

_rulebook = cache(rulebook_of_digest)


class Book:
    """Bets and what became of them. Money in minor units."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, delivered: Delivered) -> None:
        """Do all that a record leads to, and keep its watermark, in one transaction.

        Raises `SettlementError` for a record that cannot be settled by at all; nothing is kept then.
        """
        record = delivered.payload
        with self._database.transaction():
            match record["kind"]:
                case "key" | "bets-closed":  # the key begins the chain: no round is closed yet
                    self._close(record)
                case "result" | "void":
                    self._close(record)
                    self._keep(record)
                    self._settle(record)
                case "correction":
                    _before, after = findings(record)
                    self._keep(after)
                    self._settle(record)
            self._database.watermarks.save(delivered.watermark)

    def _close(self, record: Record) -> None:
        self._database.query(
            "INSERT INTO closed VALUES (?, ?) ON CONFLICT (chain) DO UPDATE SET round = excluded.round"
            " WHERE excluded.round > closed.round",
            *(record["chain"], record["round"]),
        )

    def _keep(self, final: Record) -> None:
        """Keep how a round ended, in place of what was kept before."""
        self._database.query(
            "INSERT INTO final VALUES (?, ?, ?)"
            " ON CONFLICT (chain, round) DO UPDATE SET payload = excluded.payload",
            *(final["chain"], final["round"], json.dumps(final)),
        )

    def _settle(self, record: Record) -> None:
        """Settle the bets of a round; those that were settled by what is corrected now, again."""
        chain, first = record["chain"], record["round"]
        rounds = self._rounds_since(chain, first)
        for name, verdict in self._database.query(
            "SELECT id, verdict FROM bet WHERE chain = ? AND round = ? ORDER BY id", chain, first
        ):
            choices = self._take_back(name, record) if verdict else {}
            self._play(name, record, rounds, choices)

    def _rounds_since(self, chain: str, first: int) -> dict[int, Round]:
        """The rounds from `first` on that have ended: one, unless an old one is corrected."""
        query = "SELECT round, payload FROM final WHERE chain = ? AND round >= ?"
        finals = {number: json.loads(text) for number, text in self._database.query(query, chain, first)}
        return {
            number: read_round(final, _rulebook(final["body"]["setting"]["rulebook"]["digest"]))
            for number, final in finals.items()
        }

    def _play(self, name: str, record: Record, rounds: Mapping[int, Round], choices: Choices) -> None:
        """Book what becomes of a bet in the round of the record, and in all after it that its stake sees."""
        number = record["round"]
        playing: Bet | None = self._bet(name, number)
        while playing and number in rounds:
            try:
                answer = settle_bet(playing, rounds[number])
            except SettlementError as error:
                print(f"HELD: {error}", flush=True)
                self._book(record, name, number, "settled", (HELD, 0, 0, 0), str(error))
                return
            booked = (answer.verdict.value, answer.profit, answer.returned, answer.invalid)
            self._book(record, name, number, "settled", booked)
            number += 1
            playing = carried(playing, answer)
            if playing:
                choice, working = choices.get(number, (Choice.NONE.value, 0))
                playing = replace(playing, choice=Choice(choice), working=bool(working))
                self._carry(playing, record["chain"], number)

    def _take_back(self, name: str, record: Record) -> Choices:
        """Reverse what was booked for a bet from the corrected round on; gives what was chosen since."""
        choices = {}
        for number, verdict, choice, working in self._database.query(
            "SELECT round, verdict, choice, working FROM bet WHERE id = ? AND round >= ? ORDER BY round",
            *(name, record["round"]),
        ):
            if verdict:
                ((profit, returned, invalid),) = self._database.query(
                    "SELECT profit, returned, invalid FROM booking"
                    " WHERE bet = ? AND round = ? AND entry = 'settled' ORDER BY seq DESC LIMIT 1",
                    *(name, number),
                )
                self._book(record, name, number, "reversed", (verdict, -profit, -returned, -invalid))
            if number > record["round"]:
                choices[number] = (choice, working)
                self._database.query("DELETE FROM bet WHERE id = ? AND round = ?", name, number)
        return choices

    def _book(
        self, record: Record, name: str, number: int, entry: str, booked: Booked, reason: str = ""
    ) -> None:
        """Write down what became of a bet in a round, by the record that says so."""
        self._database.query(
            "INSERT INTO booking VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(name, record["chain"], number, record["seq"], entry, *booked, reason),
        )
        self._database.query("UPDATE bet SET verdict = ? WHERE id = ? AND round = ?", booked[0], name, number)
        if record["kind"] == "correction":
            verdict, *money = booked
            print(f"CORRECTED: bet {name}, round {number}: {entry} {verdict} {sum(money):+}", flush=True)

    def _bet(self, name: str, number: int) -> Bet:
        ((game, kind, selection, stake, state, choice, working),) = self._database.query(
            "SELECT game, kind, selection, stake, state, choice, working FROM bet WHERE id = ? AND round = ?",
            *(name, number),
        )
        placed = Bet(name, game, kind, tuple(json.loads(selection)), stake, json.loads(state))
        return replace(placed, choice=Choice(choice), working=bool(working))

    def _carry(self, bet: Bet, chain: str, number: int) -> None:
        """The stake that stays takes part in the next round."""
        self._database.query(
            "INSERT INTO bet (id, chain, round, game, kind, selection, stake, state, choice, working,"
            " carried) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
            *(bet.id, chain, number, bet.game, bet.kind, json.dumps(bet.selection), bet.stake),
            *(json.dumps(dict(bet.state)), bet.choice.value, int(bet.working)),
        )


# --- the service ---------------------------------------------------------------------------------


async def serve(given: argparse.Namespace) -> None:
    """Settle until the process ends. Raises `StreamError` and what the data base raises."""
    keys = keys_of_jwks(json.loads(given.keys.read_bytes())["keys"])
    broker = MqttSettings((given.broker,), given.name)
    with closing(open_database(given.data)) as database:
        book = Book(database)
        async with Stream(broker, given.site, given.name, keys, database.watermarks, given.table) as stream:
            print("settling", flush=True)
            while True:
                try:
                    delivered = await anext(stream)
                except GapError as gap:
                    if not is_accepted(gap, given.accept_loss):
                        raise
                    await stream.accept_loss(gap)
                except ChainError as error:
                    if error.chain not in given.accept_chain or not await stream.accept_chain(error):
                        raise
                else:
                    book.take(delivered)  # durable from here on
                    await stream.done(delivered)  # tells the site how far we are


def loss(text: str) -> tuple[str, int, int]:
    """Chain, first and last record of what people have given up. Raises `ValueError`."""
    chain, _, numbers = text.rpartition(":")
    first, last = map(int, numbers.split("-"))
    return chain, first, last


def is_accepted(gap: GapError, losses: Iterable[tuple[str, int, int]]) -> bool:
    """Whether people have said that all records of a gap are lost."""
    given_up = [(first, last) for chain, first, last in losses if chain == gap.chain]
    return any(first <= gap.first and gap.last <= last for first, last in given_up)


def main() -> None:
    """Read the command line and settle."""
    parser = argparse.ArgumentParser(description="Settle bets by signed records.")
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--site", required=True)
    parser.add_argument(
        "--table", action="append", default=[], help="one of several; all of the site if none"
    )
    parser.add_argument("--keys", required=True, type=Path, metavar="JWKS", help="the keys to trust")
    parser.add_argument("--data", required=True, metavar="DATABASE", help="a file, or postgresql://...")
    parser.add_argument(
        "--accept-loss",
        action="append",
        default=[],
        type=loss,
        metavar="CHAIN:FIRST-LAST",
        help="records that are lost for good, and that people have settled: go on behind them",
    )
    parser.add_argument(
        "--accept-chain",
        action="append",
        default=[],
        metavar="CHAIN",
        help="a chain that does not follow its table's; people know that the box was replaced",
    )
    parser.add_argument("--name", default="settlement", help="of this consumer; one for each data base")
    try:
        asyncio.run(serve(parser.parse_args()))
    except (StreamError, SettlementError) as error:
        sys.exit(f"STOPPED: {error}")  # whoever looks after us starts us again


if __name__ == "__main__":
    main()
