"""The example service: what the till must not do, and what one bad bet or one bad table may stop."""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
from contextlib import closing
from typing import Any, cast

import msgspec
import psycopg
import pytest
from examples.settlement.__main__ import settle
from examples.settlement.book import HELD, Book
from examples.settlement.database import Database, Sqlite, open_database
from tests.support.chains import ChainMaker
from tests.support.settled_evening import Evening

from dollyd.client import ChainError, Delivered, GapError, Stream, StreamError
from dollyd.client.settlement.spec import SettlementError
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Kind, Record

# --- what the till gets wrong, and what it must not do -------------------------------------------


@pytest.mark.parametrize("stake", [0, -5, 10**15 + 1, 1000.5, "x", None])
def test_attack_10_a_stake_that_is_none_is_no_row(database: Database, stake: Any) -> None:
    """PostgreSQL rounds what is no whole number as it comes in: then the row is the rounded one."""
    if stake == 1000.5 and not isinstance(database, Sqlite):
        return
    evening = Evening(database)
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        evening.bet("bad", "straight", "17", stake=stake)
    evening.bet("good", "straight", "17")
    assert [bet[0] for bet in evening.living()] == ["good"]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("selection", "17"),
        ("selection", "[17"),
        ("selection", '{"a": 1}'),
        ("state", "[]"),
        ("state", "nothing"),
        ("choice", "all"),
        ("working", 2),
        ("carried", 1),
        ("round", 0),
        ("chain", "b" * 32),
        ("id", ""),
        ("verdict", "wins"),
    ],
)
def test_attack_10_a_row_that_is_no_bet_is_refused(database: Database, member: str, value: Any) -> None:
    evening = Evening(database)
    row = {"id": "bad", "chain": evening.chain.chain, "round": 1, "game": "roulette", "kind": "straight"}
    row |= {"selection": '["17"]', "stake": 200, member: value}
    insert = f"INSERT INTO bet ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        database.query(insert, *row.values())
    assert evening.living() == []


@pytest.mark.parametrize(
    "change",
    [
        """UPDATE bet SET selection = '["32"]'""",
        "UPDATE bet SET stake = 100000",
        "UPDATE bet SET carried = 1",
        "UPDATE bet SET round = 2",
        "UPDATE bet SET choice = 'half'",
        "UPDATE bet SET id = 'other'",
        "UPDATE bet SET verdict = 'wins'",
        "DELETE FROM bet",
    ],
)
def test_attack_10_after_no_more_bets_no_bet_is_changed(database: Database, change: str) -> None:
    evening = Evening(database, "C", "lose")
    evening.bet("red", "straight", "17")
    evening.take(Kind.BETS_CLOSED, 1)
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        database.query(change)
    evening.play("17")
    assert evening.booked("red") == [(1, "settled", "wins", 7200)]
    for wrong in ("UPDATE booking SET profit = 0", "DELETE FROM booking"):
        with pytest.raises((sqlite3.Error, psycopg.Error)):
            database.query(wrong)


def test_until_no_more_bets_a_bet_may_be_changed_and_taken_back(database: Database) -> None:
    evening = Evening(database)
    evening.bet("red", "straight", "17")
    database.query("UPDATE bet SET stake = 300")
    assert evening.living() == [("red", 1, 300, {})]
    database.query("DELETE FROM bet")
    assert evening.living() == []


def test_attack_10_a_stake_that_stays_is_not_changed(database: Database) -> None:
    evening = Evening(database)
    evening.bet("red", "even_money", "red")
    evening.play("0")
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        database.query("UPDATE bet SET stake = 5000 WHERE round = 2")
    assert evening.living() == [("red", 2, 200, {"need": 1, "run": 1, "original": 200})]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("stake", -5),
        ("selection", "[17]"),
        ("selection", "nothing"),
        ("state", "[]"),
        ("choice", "all"),
        ("game", "chess"),
        ("kind", "straight\x1b[2J"),
    ],
)
def test_attack_10_whatever_is_wrong_with_one_bet_holds_that_bet_alone(
    member: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a data base from before there were guards."""
    with closing(open_database(":memory:")) as database:
        evening = Evening(database, "C", "lose")
        evening.bet("bad", "straight", "17")
        evening.bet("good", "straight", "17")
        database.query("PRAGMA ignore_check_constraints = ON")
        database.query(f"UPDATE bet SET {member} = ? WHERE id = 'bad'", value)
        evening.play("17")
        assert evening.booked("good") == [(1, "settled", "wins", 7200)]
        assert evening.booked("bad") == [(1, "settled", HELD, 0)]
        ((reason,),) = database.query("SELECT reason FROM booking WHERE verdict = ?", HELD)
        assert "bad" in reason
        assert "\x1b" not in capsys.readouterr().out


def test_attack_10_an_unknown_rulebook_stops_its_table_only_where_bets_are(database: Database) -> None:
    evening = Evening(database, "C", "lose")
    evening._setting["rulebook"] = {"id": "house", "digest": "0" * 64}
    assert evening.play("17").record.seq == 3  # nobody has bet
    evening.bet("red", "straight", "17")
    evening.take(Kind.BETS_CLOSED, 2)
    result = evening.sign(Kind.RESULT, 2, evening.ended(evening.finding("17")))
    with pytest.raises(SettlementError, match="no shipped rulebook"):
        evening.book.take(result)
    assert [mark.seq for mark in database.watermarks.load().values()] == [4]


class Given:
    """What `settle` is given: two tables, the first of which gets into trouble."""

    def __init__(self, given: list[Delivered | StreamError]) -> None:
        self.given = given
        self.done_with: list[tuple[str, int]] = []

    async def __anext__(self) -> Delivered:
        if not self.given:
            await asyncio.Event().wait()
        one = self.given.pop(0)
        if isinstance(one, StreamError):
            raise one
        return one

    async def done(self, delivered: Delivered) -> None:
        self.done_with.append((delivered.record.table, delivered.record.seq))


@pytest.mark.parametrize("trouble", ["gap", "chain", "rulebook"])
async def test_attack_10_a_trouble_of_one_table_stops_that_table_alone(
    database: Database, trouble: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = ChainMaker(), ChainMaker(table="r2", chain="b" * 32)

    def sign(chain: ChainMaker, kind: Kind, number: int, body: dict[str, Any] | None = None) -> Delivered:
        envelope = chain.add(kind, number, body)
        return Delivered(msgspec.json.decode(parse_envelope(envelope).payload, type=Record), envelope)

    given: list[Any] = [sign(bad, Kind.KEY, 0), sign(good, Kind.KEY, 0)]
    if trouble == "gap":
        given.append(GapError("r1", bad.chain, 5, 7, "pruned"))
    elif trouble == "chain":
        given.append(ChainError("r1", bad.chain, 2, "a fork"))
    else:
        given.append(sign(bad, Kind.RESULT, 1, {"setting": 7}))
    given += [sign(good, Kind.BETS_CLOSED, 1), sign(bad, Kind.BETS_CLOSED, 2)]
    stream = Given(given)
    options = argparse.Namespace(accept_loss=[], accept_chain=[], retry_s=0.2)
    book = Book(database)
    if trouble == "rulebook":
        book.take(given.pop(0))
        place = (
            "INSERT INTO bet (id, chain, round, game, kind, selection, stake) VALUES (?, ?, 1, ?, ?, ?, 5)"
        )
        database.query(place, "red", bad.chain, "roulette", "straight", '["1"]')
    with pytest.raises(TimeoutError):  # then the stopped table is tried again
        await settle(cast("Stream", stream), book, options)
    assert stream.done_with[-1] == ("r2", 2)
    assert max(seq for table, seq in stream.done_with if table == "r1" or seq == 1) == 1
    assert capsys.readouterr().out.startswith("STOPPED: table r1")
