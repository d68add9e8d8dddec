"""The book of the example service, record by record, in SQLite and in PostgreSQL."""

from __future__ import annotations

from contextlib import closing

import pytest
from examples.settlement.__main__ import is_accepted, loss
from examples.settlement.book import HELD
from examples.settlement.database import Database, open_database
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.settled_evening import TABLES, VOID, Evening

from dollyd.client import GapError, Watermark
from dollyd.wire.record import Kind

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
