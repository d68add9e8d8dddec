"""The witness's book and statements: an honest chain is countersigned, a rewritten one is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.chains import ChainMaker, decision, keys, signer

from dollyd.client.proof.verify import Report, Start, verify_envelopes
from dollyd.client.witness.book import Finding, WitnessBook, WitnessError
from dollyd.client.witness.witness import WITNESS_TYP, check_witness, read_statement, state
from dollyd.wire.jws import EnvelopeError, parse_envelope
from dollyd.wire.record import CheckpointBody, Kind, Record, encode

UTC_NS = 1_796_000_000_000_000_000
WITNESS = signer(9)


def checkpoint(maker: ChainMaker, finals: int) -> bytes:
    body = CheckpointBody(reason="hourly", seq=maker.seq, head=maker.prev, finals=finals)
    return maker.add(Kind.CHECKPOINT, body=msgspec.to_builtins(body))


def honest(rounds: int = 4, chain: str = "a" * 32, capture: bytes | None = None) -> ChainMaker:
    """A chain with a checkpoint after every two rounds; `capture` is that of the second result."""
    maker = ChainMaker(chain=chain).begin()
    for number in range(1, rounds + 1):
        maker.add(Kind.ROUND, number)
        maker.add(Kind.RESULT, number, decision(capture if number == 2 else None))
        if number % 2 == 0:
            checkpoint(maker, number)
    return maker


def successor(previous_chain: str, previous_seq: int, chain: str = "b" * 32) -> ChainMaker:
    maker = ChainMaker(chain=chain)
    body: dict[str, Any] = {"event": "chain-start", "jwk": maker.signer.jwk, "reason": "key-lost"}
    if previous_chain:
        body |= {"previous_chain": previous_chain, "previous_seq": previous_seq}
    maker.add(Kind.KEY, body=body)
    maker.add(Kind.ROUND, 1)
    checkpoint(maker, 0)
    return maker


def take(book: WitnessBook, envelopes: Iterable[bytes]) -> list[Finding]:
    findings = (
        book.take(msgspec.json.decode(parse_envelope(envelope).payload, type=Record), envelope)
        for envelope in envelopes
    )
    return [finding for finding in findings if finding is not None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "book.db"


@pytest.fixture
def book(path: Path) -> Iterator[WitnessBook]:
    with closing(WitnessBook(path)) as opened:
        yield opened


# --- the book --------------------------------------------------------------------------------------


def test_every_checkpoint_of_an_honest_chain_is_consistent(book: WitnessBook) -> None:
    maker = honest()
    found = take(book, maker.envelopes)
    assert [(f.first, f.seq, f.why) for f in found] == [(1, 5, ""), (1, 10, "")]
    payloads = [msgspec.json.decode(parse_envelope(envelope).payload) for envelope in maker.envelopes]
    assert [f.head for f in found] == [payloads[5]["prev"], payloads[10]["prev"]]
    assert found[1].checkpoint == maker.prev
    assert take(book, maker.envelopes[:-1]) == []  # what comes again is nothing new


def test_a_checkpoint_is_stated_again_when_it_comes_again_after_a_crash(path: Path) -> None:
    maker = honest()
    with closing(WitnessBook(path)) as book:
        found = take(book, maker.envelopes)
    with closing(WitnessBook(path)) as book:
        assert take(book, maker.envelopes[-1:]) == found[-1:]


def rewritten_behind() -> Iterable[bytes]:
    return honest(6, capture=b"other").envelopes[11:]


def rewritten_before() -> Iterable[bytes]:
    return honest(4, capture=b"other").envelopes[8:]


def gone_back() -> Iterable[bytes]:
    maker = honest(3)
    maker.add(Kind.ROUND, 77)
    return maker.envelopes[8:]


def an_old_checkpoint_more() -> Iterable[bytes]:
    maker = ChainMaker().begin().play(1, 0)
    checkpoint(maker, 0)
    return maker.envelopes[1:]


def one_without_a_word() -> Iterable[bytes]:
    return successor("", 0).envelopes


def one_that_names_another() -> Iterable[bytes]:
    return successor("f" * 32, 11).envelopes


def one_that_forgets_the_end() -> Iterable[bytes]:
    return successor("a" * 32, 9).envelopes


def one_from_its_middle() -> Iterable[bytes]:
    return successor("a" * 32, 11).envelopes[1:]


@pytest.mark.parametrize("after_restart", [False, True])
@pytest.mark.parametrize(
    ("tampered", "why"),
    [
        (rewritten_behind, "record 12 does not follow on record 11 as it was seen"),
        (rewritten_before, "record 9 is not the one that was seen before"),
        (gone_back, "record 9 is not the one"),
        (an_old_checkpoint_more, "record 2 was no checkpoint when it was seen before"),
        (one_without_a_word, "a new chain that does not name the one before it"),
        (one_that_names_another, "a new chain that does not name the one before it"),
        (one_that_forgets_the_end, "takes up after record 9 of"),
        (one_from_its_middle, "a new chain that does not name the one before it"),
    ],
)
def test_a_rewritten_history_is_found_and_stays_found(
    path: Path, tampered: Callable[[], Iterable[bytes]], why: str, *, after_restart: bool
) -> None:
    book = WitnessBook(path)
    assert not any(finding.why for finding in take(book, honest().envelopes))
    if after_restart:
        book.close()
        book = WitnessBook(path)
    found = take(book, tampered())
    assert found
    assert all(why in finding.why for finding in found), found
    book.close()
    with closing(WitnessBook(path)) as book:
        assert [finding.why for finding in book.contradictions] == [found[0].why]
        later = ChainMaker(chain=found[0].chain)
        later.seq, later.prev = 50, "c" * 64
        checkpoint(later, 9)
        assert [finding.why for finding in take(book, later.envelopes)] == [found[0].why]


def test_a_new_chain_that_names_the_end_of_the_old_one_is_consistent(book: WitnessBook) -> None:
    old = honest()
    take(book, old.envelopes[:-2])
    assert [f.why for f in take(book, successor("a" * 32, 11).envelopes)] == [""]
    assert [f.why for f in take(book, old.envelopes[-2:])] == [""]  # its end came late
    old.add(Kind.ROUND, 5)
    assert ["goes on after its end at record 11" in f.why for f in take(book, old.envelopes[-1:])] == [True]


def test_a_new_chain_does_not_make_the_old_one_good(book: WitnessBook) -> None:
    take(book, honest().envelopes)
    take(book, rewritten_behind())
    found = take(book, successor("a" * 32, 17).envelopes)
    assert found
    assert all("the chain before it: record 12 does not follow" in f.why for f in found)


def test_who_joined_late_says_from_where(book: WitnessBook) -> None:
    envelopes = honest(6).envelopes
    assert [(f.first, f.seq) for f in take(book, envelopes[7:11])] == [(8, 10)]
    assert [(f.first, f.seq) for f in take(book, envelopes[13:])] == [(14, 15)]  # some were missed


def test_one_contradiction_is_told_once_between_checkpoints(book: WitnessBook) -> None:
    take(book, honest().envelopes)
    maker = honest(6, capture=b"other")
    assert [f.checkpoint for f in take(book, maker.envelopes[11:])] == ["", maker.prev]
    assert book.contradict("a" * 32, "again") is None


def test_other_tables_are_not_drawn_in(book: WitnessBook) -> None:
    take(book, honest().envelopes)
    other = ChainMaker("r2", "d" * 32).begin()
    checkpoint(other, 0)
    assert [(f.table, f.why) for f in take(book, other.envelopes)] == [("r2", "")]
    take(book, rewritten_behind())
    checkpoint(other, 0)
    assert [(f.table, f.why) for f in take(book, other.envelopes[2:])] == [("r2", "")]


def test_the_book_keeps_checkpoints_and_what_is_new(book: WitnessBook) -> None:
    take(book, honest(40).envelopes)
    kept = book._connection.execute("SELECT count(*), sum(checkpoint) FROM seen").fetchone()
    assert kept == (24, 20)  # 20 checkpoints, and the 4 records after the last but one


def test_a_book_has_one_owner(path: Path, book: WitnessBook) -> None:
    with pytest.raises(WitnessError, match="locked"):
        WitnessBook(path)


# --- statements ------------------------------------------------------------------------------------


def signed(finding: Finding) -> bytes:
    return WITNESS.sign(state(finding, "house", "w1", UTC_NS), WITNESS_TYP)


def verified(maker: ChainMaker) -> Report:
    return verify_envelopes(maker.envelopes, keys(signer()))


def test_a_statement_says_what_was_seen(book: WitnessBook) -> None:
    maker = honest(2)
    statement = signed(take(book, maker.envelopes)[0])
    said = msgspec.json.decode(parse_envelope(statement, WITNESS_TYP).payload)
    payload = msgspec.json.decode(parse_envelope(maker.envelopes[-1]).payload)
    assert said == {
        "v": 1,
        "site": "house",
        "table": "r1",
        "chain": "a" * 32,
        "seq": 5,
        "head": payload["prev"],
        "checkpoint": maker.prev,
        "from": 1,
        "witness": "w1",
        "time": "2026-11-30T00:53:20.000000000Z",
        "verdict": "consistent",
        "why": "",
    }
    assert encode(read_statement(statement, keys(WITNESS))) == parse_envelope(statement, WITNESS_TYP).payload


def test_a_journal_that_grew_is_the_one_that_was_witnessed(book: WitnessBook) -> None:
    statement = signed(take(book, honest(2).envelopes)[0])
    assert check_witness(statement, keys(WITNESS), verified(honest(6))).why == ""


@pytest.mark.parametrize(
    ("journal", "why"),
    [
        (lambda: honest(4, capture=b"other"), "up to there it was written again"),
        (lambda: honest(4, chain="e" * 32), "there is no chain"),
        (lambda: honest(3), "ends at record 8; the witness saw its checkpoint at record 11"),
    ],
)
def test_an_auditor_finds_a_journal_that_was_written_again(
    book: WitnessBook, journal: Callable[[], ChainMaker], why: str
) -> None:
    statement = signed(take(book, honest(4).envelopes)[-1])
    report = verified(journal())
    assert report.ok
    assert why in check_witness(statement, keys(WITNESS), report).why


def test_a_part_from_behind_the_checkpoint_proves_nothing(book: WitnessBook) -> None:
    maker = honest(4)
    statement = signed(take(book, maker.envelopes)[0])
    prev = msgspec.json.decode(parse_envelope(maker.envelopes[7]).payload)["prev"]
    starts = {maker.chain: Start(8, prev)}
    report = verify_envelopes(maker.envelopes[7:], keys(signer()), starts=starts)
    assert report.ok, report.problems
    assert (
        "only the part of the chain from record 8 on" in check_witness(statement, keys(WITNESS), report).why
    )


def test_a_chain_that_is_not_good_in_itself_is_not_proven(book: WitnessBook) -> None:
    maker = honest(2)
    statement = signed(take(book, maker.envelopes)[0])
    maker.entries.insert(0, maker.entries.pop(2))
    assert check_witness(statement, keys(WITNESS), verified(maker)).why == "the chain is not good in itself"


def test_an_inconsistent_verdict_proves_nothing_good(book: WitnessBook) -> None:
    take(book, honest().envelopes)
    statement = signed(take(book, rewritten_behind())[0])
    check = check_witness(statement, keys(WITNESS), verified(honest()))
    assert (check.statement.verdict, "does not follow" in check.why) == ("inconsistent", True)


def test_only_the_witnesss_own_key_makes_a_statement(book: WitnessBook) -> None:
    finding = take(book, honest(2).envelopes)[0]
    by_node = signer().sign(state(finding, "house", "w1", UTC_NS), WITNESS_TYP)
    as_record = WITNESS.sign(state(finding, "house", "w1", UTC_NS))
    of_another_form = WITNESS.sign(b'{"v":2}', WITNESS_TYP)
    for envelope, reason in (
        (by_node, "unknown-key"),
        (as_record, "header-typ"),
        (of_another_form, "payload"),
    ):
        with pytest.raises(EnvelopeError) as refused:
            read_statement(envelope, keys(WITNESS))
        assert refused.value.reason == reason
