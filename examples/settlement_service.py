"""A small settlement service: signed records in, payouts out, each bet once, also across kill -9.

Usage: python settlement_service.py --broker HOST:PORT --table dolly/v1/SITE/TABLE --keys JWKS --data FILE
           [--journal JOURNAL]

It needs paho-mqtt (`pip install paho-mqtt`). Bets, payouts, cash and the watermark (how far it has read each
chain) lie in one SQLite data base and change in one transaction a record: a record that comes again is below
the watermark. A message is acknowledged after the commit, so nothing is lost between broker and data base.

What the broker has lost is a gap. It says so and takes nothing more until the missing records have come: from
the node's journal where --journal names it, else at the next start that does.

The till places bets in the table `bet` (chain and round as the `round` record has them); a trigger refuses
those that come after "no more bets". It knows what was read so far: while the service is behind or does not
run, the till itself must take no bets.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from dollyd.client import jws
from dollyd.client.settlement.rulebooks import LoadedRulebook, rulebook_of_digest
from dollyd.client.settlement.settle import carried, read_round, settle_bet
from dollyd.client.settlement.spec import Answer, Bet, Choice, Round, SettlementError, Verdict
from dollyd.client.sources import JournalFile, SourceError
from dollyd.daemon.core.record import NO_PREVIOUS

SCHEMA = """
CREATE TABLE IF NOT EXISTS watermark (
    chain TEXT PRIMARY KEY, seq INTEGER NOT NULL, digest TEXT NOT NULL, closed_round INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS cash (balance INTEGER NOT NULL);
INSERT INTO cash SELECT 0 WHERE NOT EXISTS (SELECT * FROM cash);
CREATE TABLE IF NOT EXISTS bet (
    id TEXT PRIMARY KEY, chain TEXT NOT NULL, round INTEGER NOT NULL, game TEXT NOT NULL, kind TEXT NOT NULL,
    selection TEXT NOT NULL, stake INTEGER NOT NULL, state TEXT NOT NULL DEFAULT '{}',
    choice TEXT NOT NULL DEFAULT 'none', working INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS living ON bet (chain, round) WHERE ended = 0;
CREATE TABLE IF NOT EXISTS payout (
    bet TEXT NOT NULL REFERENCES bet, chain TEXT NOT NULL, seq INTEGER NOT NULL, round INTEGER NOT NULL,
    verdict TEXT NOT NULL, profit INTEGER NOT NULL, returned INTEGER NOT NULL, invalid INTEGER NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY (bet, chain, seq));
CREATE TRIGGER IF NOT EXISTS no_more_bets BEFORE INSERT ON bet
    WHEN NEW.round <= (SELECT closed_round FROM watermark WHERE chain = NEW.chain)
    BEGIN SELECT RAISE(ABORT, 'no more bets for this round'); END;
CREATE TRIGGER IF NOT EXISTS stake_comes_in AFTER INSERT ON bet
    BEGIN UPDATE cash SET balance = balance + NEW.stake; END;
CREATE TRIGGER IF NOT EXISTS payout_goes_out AFTER INSERT ON payout
    BEGIN UPDATE cash SET balance = balance - NEW.profit - NEW.returned - NEW.invalid; END;
"""
CLOSING = ("bets-closed", "result", "void")
HELD = "held"
"""Verdict of a bet that cannot be, or lacks a choice: nothing is paid, and people settle it by `reason`."""


class GapError(Exception):
    """Records are missing before this one."""


class ChainError(Exception):
    """The chain is not the one that was settled so far: people must look."""


class Book:
    """The data base: bets, payouts, cash and watermarks. Money in minor units."""

    def __init__(self, path: Path, table: str, keys: jws.Keys) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.executescript(SCHEMA)
        self._table = table
        self._keys = keys
        self._rulebooks: dict[str, LoadedRulebook] = {}

    def take(self, data: bytes) -> None:
        """Settle by one record, once.

        Raises `EnvelopeError` (nothing that a pinned key signed), `GapError`, `ChainError`.
        """
        envelope = jws.parse_envelope(data)
        jws.verify_envelope(envelope, self._keys)
        record = jws.strict_object(envelope.payload, "payload")
        if record["table"] != self._table:
            return
        chain, seq = record["chain"], record["seq"]
        with self._transaction():
            at, digest, closed_round = self._watermark(chain)
            if seq <= at:
                return  # it came again
            if seq > at + 1:
                raise GapError(f"chain {chain}: records {at + 1} to {seq - 1} are missing")
            if record["prev"] != digest:
                raise ChainError(f"chain {chain}: record {seq} does not follow record {at} as settled")
            if record["kind"] == "correction":
                raise ChainError(f"chain {chain}: record {seq} is a correction, which people must settle")
            if record["kind"] in CLOSING:
                closed_round = max(closed_round, record["round"])
            if record["kind"] in ("result", "void"):
                self._settle(record)
            watermark = (chain, seq, sha256(data).hexdigest(), closed_round)
            self._database.execute("REPLACE INTO watermark VALUES (?, ?, ?, ?)", watermark)

    def catch_up(self, journal: Path) -> None:
        """Take every record of a journal that is to come. Raises `SourceError`, and what `take` raises."""
        with closing(JournalFile(journal)) as source:
            for data in source.envelopes():
                self.take(data)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def _watermark(self, chain: str) -> tuple[int, str, int]:
        query = "SELECT seq, digest, closed_round FROM watermark WHERE chain = ?"
        return self._database.execute(query, (chain,)).fetchone() or (0, NO_PREVIOUS, 0)

    def _settle(self, record: dict[str, Any]) -> None:
        digest = record["body"]["setting"]["rulebook"]["digest"]
        if digest not in self._rulebooks:
            self._rulebooks[digest] = rulebook_of_digest(digest)
        played = read_round(record, self._rulebooks[digest])
        rows = self._database.execute(
            "SELECT id, game, kind, selection, stake, state, choice, working FROM bet"
            " WHERE ended = 0 AND chain = ? AND round <= ?",
            (record["chain"], record["round"]),
        ).fetchall()
        for row in rows:
            self._settle_bet(_bet(row), played, record)

    def _settle_bet(self, bet: Bet, played: Round, record: dict[str, Any]) -> None:
        try:
            answer = settle_bet(bet, played)
            verdict, reason = answer.verdict.value, ""
        except SettlementError as error:
            answer = Answer(bet.id, Verdict.LOSES)
            verdict, reason = HELD, str(error)
            print(f"HELD: {error}", flush=True)
        place = (bet.id, record["chain"], record["seq"], record["round"])
        payout = (*place, verdict, answer.profit, answer.returned, answer.invalid, reason)
        self._database.execute("INSERT INTO payout VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", payout)
        if following := carried(bet, answer):
            change = "UPDATE bet SET stake = ?, state = ?, choice = 'none', working = 0 WHERE id = ?"
            state = json.dumps(dict(following.state))
            self._database.execute(change, (following.stake, state, bet.id))
        else:
            self._database.execute("UPDATE bet SET ended = 1 WHERE id = ?", (bet.id,))


def _bet(row: tuple[Any, ...]) -> Bet:
    name, game, kind, selection, stake, state, choice, working = row
    fields = tuple(json.loads(selection)), stake, json.loads(state), Choice(choice), bool(working)
    return Bet(name, game, kind, *fields)


class Service:
    """Connects the book with a broker."""

    def __init__(self, book: Book, prefix: str, journal: Path | None) -> None:
        self._book = book
        self._topics = f"{prefix}/record/+"
        self._journal = journal
        self._gap = False
        name = f"settlement-{prefix.replace('/', '-')}"
        version = CallbackAPIVersion.VERSION2
        self.client = mqtt.Client(version, client_id=name, clean_session=False, manual_ack=True)
        self.client.reconnect_delay_set(1, 5)
        self.client.on_connect = self._connected
        self.client.on_subscribe = self._subscribed
        self.client.on_message = self._heard

    def run(self, host: str, port: int) -> None:
        """Settle until the process ends. Raises what must stop it."""
        self.client.connect_async(host, port, keepalive=10)
        self.client.loop_forever(retry_first_connection=True)

    def _connected(self, client: mqtt.Client, _data: Any, _flags: Any, code: ReasonCode, _more: Any) -> None:
        if not code.is_failure:
            client.subscribe(self._topics, qos=1)

    def _subscribed(self, _client: Any, _data: Any, _mid: int, codes: list[ReasonCode], _more: Any) -> None:
        if any(code.is_failure for code in codes):
            sys.exit(f"the broker refuses the subscription to {self._topics}")
        if self._journal:  # from here on everything comes; what the broker lost before is in the journal
            self._book.catch_up(self._journal)
        print("settling", flush=True)

    def _heard(self, client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        try:
            self._take(bytes(message.payload))
        except jws.EnvelopeError as error:
            print(f"NOT A RECORD on {message.topic}: {error}", flush=True)
        except GapError as gap:
            if not self._gap:  # told once; every later record meets the same gap
                print(f"GAP: {gap}; waiting, start again with --journal to catch up", flush=True)
            self._gap = True
            return  # not acknowledged: the broker keeps it
        client.ack(message.mid, message.qos)

    def _take(self, data: bytes) -> None:
        try:
            self._book.take(data)
        except GapError:
            if not self._journal:
                raise
            self._book.catch_up(self._journal)
            self._book.take(data)


def main() -> None:
    """Read the command line and settle."""
    parser = argparse.ArgumentParser(description="Settle bets by signed records.")
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--table", required=True, metavar="dolly/v1/SITE/TABLE", help="prefix of its topics")
    parser.add_argument("--keys", required=True, type=Path, metavar="JWKS", help="the keys to trust")
    parser.add_argument("--data", required=True, type=Path, metavar="FILE", help="bets, payouts and cash")
    parser.add_argument(
        "--journal", type=Path, metavar="JOURNAL", help="the node's journal, to catch up from"
    )
    given = parser.parse_args()
    keys = jws.keys_of_jwks(json.loads(given.keys.read_bytes())["keys"])
    host, _, port = given.broker.rpartition(":")
    book = Book(given.data, given.table.rpartition("/")[2], keys)
    try:
        Service(book, given.table, given.journal).run(host, int(port))
    except (GapError, ChainError, SettlementError, SourceError, jws.EnvelopeError) as error:
        sys.exit(f"STOPPED: {error}")


if __name__ == "__main__":
    main()
