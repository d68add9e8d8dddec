"""The book of the example service, record by record, in SQLite and in PostgreSQL."""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import msgspec
import psycopg
import pytest
from examples.settlement.__main__ import is_accepted, loss, settle
from examples.settlement.book import HELD, Book
from examples.settlement.database import Database, Sqlite, open_database
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.chains import ChainMaker
from tests.support.postgres import Postgres
from tests.support.tables import layout, roulette

from dollyd.client import ChainError, Delivered, GapError, Stream, StreamError, Watermark
from dollyd.client.jws import parse_envelope
from dollyd.client.settlement.rulebooks import load_rulebook
from dollyd.client.settlement.spec import SettlementError
from dollyd.daemon.core.games.roulette import ROULETTE
from dollyd.daemon.core.games.spec import Drawn
from dollyd.daemon.core.record import Kind, Record

STAKES = {"minimum": 100, "maximum": 1000, "currency": "EUR"}
VOID = "void"


TABLES = "closed, final, bet, booking, dollyd_watermark"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a data base in PostgreSQL."""
    with Postgres() as server:
        yield server.new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    in_memory = request.param == "sqlite"
    with closing(open_database(":memory:" if in_memory else request.getfixturevalue("address"))) as opened:
        yield opened
        if not in_memory:
            opened.query(f"TRUNCATE {TABLES}")


class Evening:
    """One table of roulette, variant D unless said otherwise; a book takes its records."""

    def __init__(self, database: Database, variant: str = "D", zero_rule: str = "prison") -> None:
        self.database = database
        self.book = Book(database)
        self.chain = ChainMaker()
        self.finals: dict[int, tuple[int, str]] = {}
        """Number of the last record that ended each round, and what it said."""
        rulebook = load_rulebook("fi-ray-2013-roulette")
        named = {"id": rulebook.id, "digest": rulebook.digest}
        self._setting = {"game": "roulette", "variant": variant, "rulebook": named, "zero_rule": zero_rule}
        self._variant = roulette(variant)
        self.take(Kind.KEY)

    def sign(self, kind: Kind, number: int = 0, body: dict[str, Any] | None = None) -> Delivered:
        """The next record, which the book has not taken yet."""
        envelope = self.chain.add(kind, number, body)
        return Delivered(msgspec.json.decode(parse_envelope(envelope).payload, type=Record), envelope)

    def take(self, kind: Kind, number: int = 0, body: dict[str, Any] | None = None) -> Delivered:
        delivered = self.sign(kind, number, body)
        self.book.take(delivered)
        return delivered

    def ended(self, body: dict[str, Any]) -> dict[str, Any]:
        return body | {"setting": self._setting, "stakes": STAKES}

    def finding(self, came: str, policy: str = "player_choice") -> dict[str, Any]:
        if came == VOID:
            return {"kind": "void", "stake_policy": policy}
        drawn = Drawn((came,), self._variant, layout(self._variant.layout), ())
        return {"kind": "result", "outcome": ROULETTE.outcome(drawn)}

    def play(self, came: str, policy: str = "player_choice") -> Delivered:
        """The next round, with a number or void."""
        number = len(self.finals) + 1
        self.take(Kind.BETS_CLOSED, number)
        body = self.finding(came, policy)
        kind = Kind(body.pop("kind"))
        self.finals[number] = (self.chain.seq + 1, came)
        return self.take(kind, number, self.ended(body))

    def correct(self, number: int, came: str) -> Delivered:
        """What counted for a round is replaced."""
        corrects, before = self.finals[number]
        self.finals[number] = (self.chain.seq + 1, came)
        body = {"corrects": corrects, "before": self.finding(before), "after": self.finding(came)}
        return self.take(Kind.CORRECTION, number, self.ended(body))

    def bet(self, name: str, kind: str, *selection: str, number: int = 0, stake: int = 200) -> None:
        placed = (name, self.chain.chain, number or len(self.finals) + 1, "roulette", kind)
        self.database.query(
            "INSERT INTO bet (id, chain, round, game, kind, selection, stake) VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(*placed, json.dumps(selection), stake),
        )

    def choose(self, name: str, choice: str) -> None:
        query = "UPDATE bet SET choice = ? WHERE id = ? AND round = ?"
        self.database.query(query, choice, name, len(self.finals) + 1)

    @property
    def cash(self) -> int:
        ((balance,),) = self.database.query("SELECT balance FROM cash")
        return int(balance)

    def booked(self, name: str) -> list[tuple[Any, ...]]:
        """Round, entry, verdict and money, in order."""
        query = "SELECT round, entry, verdict, profit + returned + invalid FROM booking WHERE bet = ?"
        return self.database.query(f"{query} ORDER BY seq, entry, round", name)

    def living(self) -> list[tuple[Any, ...]]:
        """What lies on rounds to come."""
        query = "SELECT id, round, stake, state FROM bet WHERE verdict IS NULL ORDER BY id"
        return [(*place, json.loads(state)) for *place, state in self.database.query(query)]


# --- one round -----------------------------------------------------------------------------------


def test_each_bet_is_booked_once_and_the_cash_follows(database: Database) -> None:
    evening = Evening(database, "C", "lose")
    evening.bet("won", "straight", "17")
    evening.bet("lost", "even_money", "red")
    evening.bet("too-high", "even_money", "black", stake=1500)
    evening.bet("tomorrow", "dozen", "13-24", number=2)
    evening.play("17")
    assert evening.booked("won") == [(1, "settled", "wins", 7200)]
    assert evening.booked("lost") == [(1, "settled", "loses", 0)]
    assert evening.booked("too-high") == [(1, "settled", "wins", 2500)]
    assert evening.cash == 200 + 200 + 1500 + 200 - 7200 - 2500
    assert [bet[0] for bet in evening.living()] == ["tomorrow"]


def test_two_services_at_once_do_not_pay_twice(database: Database) -> None:
    evening = Evening(database, "C", "lose")
    evening.bet("won", "straight", "17")
    result = evening.play("17")
    with pytest.raises(Exception, match=r"(?i)unique constraint"):
        evening.book.take(result)
    assert evening.booked("won") == [(1, "settled", "wins", 7200)]


def test_what_cannot_be_is_held_and_the_others_are_paid(database: Database) -> None:
    evening = Evening(database, "C", "lose")
    evening.bet("a-strange", "split", "1", "3")
    evening.bet("b-good", "straight", "3")
    evening.bet("c-low", "straight", "3", stake=99)
    evening.play("3")
    assert evening.booked("b-good") == [(1, "settled", "wins", 7200)]
    held = database.query("SELECT bet, reason FROM booking WHERE verdict = ? ORDER BY bet", HELD)
    assert [bet for bet, _ in held] == ["a-strange", "c-low"]
    assert "1/3 is no split" in held[0][1]
    assert "below the table's minimum" in held[1][1]


def test_no_bet_comes_after_no_more_bets(database: Database) -> None:
    evening = Evening(database)
    evening.take(Kind.BETS_CLOSED, 1)
    with pytest.raises(Exception, match="no more bets for this round"):
        evening.bet("late", "straight", "17")
    evening.bet("in-time", "straight", "17", number=2)
    assert [bet[0] for bet in evening.living()] == ["in-time"]


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


class FullDisk:
    """No watermark can be kept."""

    def load(self) -> dict[str, Watermark]:
        return {}

    def save(self, watermark: Watermark) -> None:
        raise OSError("no space left on device")


def test_payouts_and_watermark_are_one_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    evening = Evening(database, "C", "lose")
    evening.bet("won", "straight", "17")
    evening.take(Kind.BETS_CLOSED, 1)
    result = evening.sign(Kind.RESULT, 1, evening.ended(evening.finding("17")))
    with monkeypatch.context() as patched:
        patched.setattr(database, "watermarks", FullDisk())
        with pytest.raises(OSError, match="no space"):
            evening.book.take(result)
    assert evening.booked("won") == []
    assert [mark.seq for mark in database.watermarks.load().values()] == [2]
    evening.book.take(result)
    assert evening.booked("won") == [(1, "settled", "wins", 7200)]
    assert [mark.seq for mark in database.watermarks.load().values()] == [3]


# --- stakes that stay ----------------------------------------------------------------------------


def test_an_imprisoned_stake_goes_on_with_its_state(database: Database) -> None:
    evening = Evening(database)
    evening.bet("red", "even_money", "red", stake=1500)
    for came in ("0", VOID, "0", "1"):
        evening.play(came)
    assert evening.living() == [("red", 5, 1000, {"need": 1, "run": 0, "original": 1000})]
    evening.play("1")
    assert evening.living() == []
    stays = [(number, "settled", "stays", 0) for number in (2, 3, 4)]
    assert evening.booked("red") == [
        (1, "settled", "stays", 500),
        *stays,
        (5, "settled", "returned", 1000),
    ]
    assert evening.cash == 0


def test_a_choice_counts_for_one_round(database: Database) -> None:
    evening = Evening(database, zero_rule="both")
    evening.bet("red", "even_money", "red")
    evening.choose("red", "prison")
    evening.play("0")
    evening.choose("red", "quarter")
    evening.play("0")
    assert evening.booked("red")[-1] == (2, "settled", "part-returned", 50)
    evening.bet("black", "even_money", "black")
    evening.choose("black", "prison")
    evening.play("0")
    evening.play("0")
    assert evening.booked("black")[-1] == (4, "settled", HELD, 0)


@pytest.mark.parametrize(
    ("policy", "verdict", "money"), [("carried", "stays", 0), ("returned", "returned", 200)]
)
def test_a_void_round_does_what_its_policy_says(
    database: Database, policy: str, verdict: str, money: int
) -> None:
    evening = Evening(database)
    evening.bet("red", "even_money", "red")
    evening.play(VOID, policy)
    assert evening.booked("red") == [(1, "settled", verdict, money)]
    evening.play("1")
    assert evening.cash == (-200 if policy == "carried" else 0)


# --- corrections ---------------------------------------------------------------------------------


def test_t59_a_correction_books_what_it_takes_back_and_what_counts(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    evening = Evening(database, "C", "lose")
    evening.bet("fifteen", "straight", "15")
    evening.bet("thirty-two", "straight", "32")
    evening.play("32")
    evening.correct(1, "15")
    assert evening.booked("thirty-two") == [
        (1, "settled", "wins", 7200),
        (1, "reversed", "wins", -7200),
        (1, "settled", "loses", 0),
    ]
    assert evening.booked("fifteen")[1:] == [(1, "reversed", "loses", 0), (1, "settled", "wins", 7200)]
    assert evening.cash == 400 - 7200
    assert "bet thirty-two, round 1: reversed wins -7200" in capsys.readouterr().out
    evening.correct(1, VOID)  # and that was wrong too
    assert evening.cash == 0
    assert [entry[1:3] for entry in evening.booked("fifteen")[3:]] == [
        ("reversed", "wins"),
        ("settled", "returned"),
    ]


def test_a_correction_settles_the_rounds_since_of_a_stake_that_stays(database: Database) -> None:
    evening = Evening(database, zero_rule="both")
    evening.bet("red", "even_money", "red")
    evening.choose("red", "prison")
    evening.play("2")  # lost, says the record
    evening.play("0")
    evening.play("1")
    evening.correct(1, "0")  # imprisoned, and zero again: the player never chose there
    assert evening.booked("red")[1:] == [
        (1, "reversed", "loses", 0),
        (1, "settled", "stays", 0),
        (2, "settled", HELD, 0),
    ]
    evening.correct(2, "4")
    assert evening.booked("red")[-2:] == [(2, "reversed", HELD, 0), (2, "settled", "loses", 0)]
    evening.correct(1, "1")
    assert evening.booked("red")[-1] == (1, "settled", "wins", 400)
    assert evening.living() == []
    assert evening.cash == -200


def test_what_was_chosen_for_a_round_counts_when_it_is_settled_again(database: Database) -> None:
    evening = Evening(database, zero_rule="both")
    evening.bet("red", "even_money", "red")
    for came, choice in (("0", "prison"), ("0", "stay"), ("1", "none"), (VOID, "none"), ("0", "quarter")):
        evening.choose("red", choice)
        evening.play(came)
    assert evening.booked("red")[-1] == (5, "settled", "stays", 0)  # one zero: nothing to choose
    evening.correct(4, "0")  # then it was the second one
    assert evening.booked("red")[-1] == (5, "settled", "part-returned", 50)


NUMBERS = st.lists(st.sampled_from(["0", "1", "2", VOID]), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_settle_then_correct_equals_settle_right(data: st.DataObject) -> None:
    wrong = data.draw(NUMBERS)
    right = wrong.copy()
    corrections = data.draw(
        st.lists(st.tuples(st.integers(0, len(wrong) - 1), st.sampled_from(["0", "1", "2", VOID])))
    )
    with closing(open_database(":memory:")) as one, closing(open_database(":memory:")) as other:
        corrected, straight = Evening(one), Evening(other)
        for evening in (corrected, straight):
            for number in range(1, len(wrong) + 1):
                evening.bet(f"red-{number}", "even_money", "red", number=number)
                evening.bet(f"one-{number}", "straight", "1", number=number)
        for came in wrong:
            corrected.play(came)
        for place, came in corrections:
            right[place] = came
            corrected.correct(place + 1, came)
        for came in right:
            straight.play(came)
        assert corrected.cash == straight.cash
        assert corrected.living() == straight.living()
        query = "SELECT id, round, verdict, stake, state FROM bet ORDER BY id, round"
        assert one.query(query) == other.query(query)


# --- what is kept of the chains -------------------------------------------------------------------

MARK = Watermark("r1", "a" * 32, 7, "7" * 64, ("x-2", "x-3"), "kid-1", "[true]")


def test_the_watermark_is_kept_whole(database: Database) -> None:
    with database.transaction():
        database.watermarks.save(MARK)
    assert database.watermarks.load() == {MARK.chain: MARK}


def test_watermarks_of_an_older_version_are_taken_over_in_postgresql(address: str) -> None:
    with closing(open_database(address)) as database:
        for added in ("kid", "rules"):
            database.query(f"ALTER TABLE dollyd_watermark DROP COLUMN {added}")
        database.query("INSERT INTO dollyd_watermark VALUES (?, 'r1', 6, ?, '')", MARK.chain, "6" * 64)
    with closing(open_database(address)) as database:
        assert database.watermarks.load() == {MARK.chain: Watermark("r1", MARK.chain, 6, "6" * 64)}
        database.watermarks.save(MARK)
        assert database.watermarks.load() == {MARK.chain: MARK}
        database.query(f"TRUNCATE {TABLES}")


def test_only_losses_that_people_named_are_accepted() -> None:
    gap = GapError("r1", "a" * 32, 5, 7, "pruned")
    for text, accepted in (("5-7", True), ("1-900", True), ("5-6", False), ("6-7", False)):
        assert is_accepted(gap, [loss(f"{'b' * 32}:1-900"), loss(f"{gap.chain}:{text}")]) is accepted
    assert not is_accepted(gap, [loss(f"{'b' * 32}:1-900")])
    for wrong in ("", f"{gap.chain}:5", f"{gap.chain}:a-b"):
        with pytest.raises(ValueError, match=r"int|unpack"):
            loss(wrong)
