"""The chains of one table: a stream follows one after the other, and none that does not fit."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.support.chains import SITE, ChainMaker, keys, signer

from dollyd.client import ChainError, Delivered, Watermark
from dollyd.client.proof.verify import verify_envelopes
from dollyd.client.stream.reader import Reader, Start
from dollyd.wire.record import Kind
from dollyd.wire.successors import why_behind_its_end, why_no_successor

PINNED = keys(signer(), signer(2))


def chain(rounds: int = 2, name: str = "a", by: int = 1, table: str = "r1") -> ChainMaker:
    return ChainMaker(table, name * 32, signer(by)).begin().play(1, rounds)


def after(old: ChainMaker, seq: int | None = None, name: str = "b", by: int = 2) -> ChainMaker:
    """The chain of another key that says it goes on after record `seq` of `old`."""
    maker = ChainMaker(old.table, name * 32, signer(by))
    body: dict[str, Any] = {"event": "chain-start", "jwk": maker.signer.jwk, "reason": "key-lost"}
    body |= {"previous_chain": old.chain, "previous_seq": old.seq if seq is None else seq}
    maker.add(Kind.KEY, body=body)
    return maker.play(1, 1)


def stream(*marks: Watermark, start: Start = "beginning", any_chain: bool = False) -> Reader:
    known = {mark.chain: mark for mark in marks}
    return Reader(SITE, PINNED, known, start=start, rng=Random(1), any_chain=any_chain)


def hear(reader: Reader, *makers: ChainMaker) -> None:
    for maker in makers:
        for envelope in maker.envelopes:
            reader.hear(maker.table, envelope)


def taken(reader: Reader) -> tuple[list[Delivered], list[ChainError]]:
    given: list[Delivered] = []
    errors: list[ChainError] = []
    while True:
        try:
            delivered = reader.next()
        except ChainError as error:
            errors.append(error)
            continue
        if delivered is None:
            return given, errors
        given.append(delivered)


def places(given: list[Delivered]) -> list[tuple[str, int]]:
    return [(one.record.chain[0], one.record.seq) for one in given]


def wrong(*makers: ChainMaker) -> list[str]:
    envelopes = [envelope for maker in makers for envelope in maker.envelopes]
    return [problem.why for problem in verify_envelopes(envelopes, PINNED).problems]


@pytest.mark.parametrize(
    ("intruder", "why"),
    [
        pytest.param(chain(1, "b", 2), f"does not name the one before it, {'a' * 32}", id="names-none"),
        pytest.param(after(chain(), 3), "takes up after record 3 of", id="falls-short"),
    ],
)
def test_attack_3b_a_second_chain_that_does_not_follow_the_first_is_delivered_to_nobody(
    intruder: ChainMaker, why: str
) -> None:
    old, reader = chain(), stream()
    hear(reader, old)
    assert taken(reader)[1] == []
    hear(reader, intruder)
    given, (error,) = taken(reader)
    assert given == []
    assert (error.chain, error.seq) == (intruder.chain, 1)
    assert why in error.why
    old.play(3, 3)
    hear(reader, old, intruder)
    given, errors = taken(reader)
    assert {one.record.chain for one in given} == {old.chain}
    assert errors == []


def test_attack_3b_a_chain_that_follows_one_that_nobody_has_waits_for_it_in_vain() -> None:
    old, reader = chain(), stream()
    hear(reader, old, after(chain(1, "f")))
    assert {one.record.chain for one in taken(reader)[0]} == {old.chain}
    assert [request.chain for request in reader.requests(0.0)] == ["f" * 32]
    hear(reader, chain(1, "f"))  # made up as well
    given, (error,) = taken(reader)
    assert (given, error.chain) == ([], "f" * 32)


def test_attack_3b_a_consumer_that_restarted_knows_its_chains() -> None:
    old, reader = chain(), stream()
    hear(reader, old)
    marks = [one.watermark for one in taken(reader)[0]]
    again = stream(marks[-1])
    hear(again, chain(1, "b", 2))
    given, (error,) = taken(again)
    assert (given, error.chain) == ([], "b" * 32)


def test_attack_3b_the_key_of_another_node_opens_no_chain_of_a_table_that_is_followed() -> None:
    old, other, reader = chain(), chain(table="r2", name="c", by=2), stream()
    hear(reader, old, other, chain(1, "b", 2))
    given, (error,) = taken(reader)
    assert {one.record.chain for one in given} == {old.chain, other.chain}
    assert error.chain == "b" * 32


def test_attack_3b_whole_chains_of_one_table_are_wrong_for_the_verifier_too() -> None:
    old = chain()
    assert "does not name the one before it" in wrong(old, chain(1, "b", 2))[0]
    assert "ends here at record" not in wrong(old, after(old, 3))[0]
    assert "goes on here to record 7" in wrong(old, after(old, 3))[0]
    assert "another chain goes on after, too" in wrong(old, after(old), after(old, name="d"))[0]
    assert "is one of table r1" in wrong(old, after(chain(table="r2")))[0]
    assert wrong(old, after(old)) == wrong(after(old), old) == []


def test_attack_3b_a_circle_of_chains_is_wrong() -> None:
    one, other = after(chain(1, "b"), 4, "a"), after(chain(1), 4, "b")
    assert one.seq == other.seq == 4
    assert all("comes after it" in why for why in wrong(one, other))
    assert len(wrong(one, other)) == 2


def test_attack_3c_records_behind_the_named_end_are_delivered_to_nobody() -> None:
    old = chain()
    new, reader = after(old), stream()
    hear(reader, old, new)
    assert len(taken(reader)[0]) == old.seq + new.seq
    old.play(3, 3)
    hear(reader, old)
    given, (error,) = taken(reader)
    assert given == []
    assert error.why == "the chain goes on after its end at record 7"
    assert "goes on here to record 10" in wrong(old, new)[0]


def test_attack_3c_the_named_end_outlives_a_restart() -> None:
    old = chain()
    new, reader = after(old), stream()
    hear(reader, old, new)
    marks = {one.record.chain: one.watermark for one in taken(reader)[0]}
    again = stream(*marks.values())
    hear(again, old.play(3, 3))
    given, (error,) = taken(again)
    assert (given, error.chain) == ([], old.chain)


# --- what is good stays good --------------------------------------------------------------------------


def test_a_chain_that_came_and_went_while_we_were_away_is_asked_for() -> None:
    first = chain()
    second = after(first)
    third, reader = after(second, name="c", by=1), stream()
    hear(reader, first)
    hear(reader, third)
    assert {one.record.chain for one in taken(reader)[0]} == {first.chain}
    (request,) = reader.requests(0.0)
    assert (request.chain, request.first, request.last) == (second.chain, 1, second.seq)
    hear(reader, second)
    given, errors = taken(reader)
    assert places(given) == [(m.chain[0], seq) for m in (second, third) for seq in range(1, m.seq + 1)]
    assert errors == []


def test_the_first_chain_that_is_heard_of_a_table_is_taken() -> None:
    reader, new = stream(), after(chain())
    hear(reader, new)
    assert len(taken(reader)[0]) == new.seq


def test_a_chain_from_before_the_one_we_began_with_is_the_past() -> None:
    old = chain()
    new, reader = after(old), stream()
    hear(reader, new)
    hear(reader, old)
    given, errors = taken(reader)  # nothing had been delivered yet: both are, in their order
    assert places(given) == [(m.chain[0], seq) for m in (old, new) for seq in range(1, m.seq + 1)]
    assert errors == []
    later = stream()
    hear(later, new)
    assert len(taken(later)[0]) == new.seq
    hear(later, old)
    assert taken(later) == ([], [])


def test_a_checkpoint_that_the_broker_kept_of_an_older_chain_begins_none() -> None:
    old, reader = chain(), stream(start="now")
    stands = {"reason": "hourly", "seq": old.seq, "head": old.prev, "finals": 2}
    kept = old.add(Kind.CHECKPOINT, body=stands)
    new = after(old)
    reader.hear("r1", new.envelopes[-1], kept=True)
    reader.hear("r1", kept, kept=True)
    assert taken(reader) == ([], [])
    assert reader.requests(0.0) == []


def test_people_accept_a_chain_that_does_not_fit_and_it_takes_the_place_of_the_old_one() -> None:
    old, replaced, reader = chain(), chain(1, "b", 2), stream()
    hear(reader, old)
    marks = {one.record.chain: one.watermark for one in taken(reader)[0]}
    hear(reader, replaced)
    _, (error,) = taken(reader)
    assert reader.accept_chain(ChainError("r1", old.chain, 1, "")) is None
    mark = reader.accept_chain(error)
    assert mark is not None
    for again in (reader, stream(mark, *marks.values())):
        hear(again, replaced)
        given, errors = taken(again)
        assert places(given) == [("b", seq) for seq in range(1, replaced.seq + 1)]
        assert errors == []
        hear(again, after(old, name="c"))
        assert [one.chain for one in taken(again)[1]] == ["c" * 32]


def test_a_witness_gets_every_chain_and_judges_itself() -> None:
    reader = stream(any_chain=True)
    hear(reader, chain(), chain(1, "b", 2))
    given, errors = taken(reader)
    assert (len(given), errors) == (7 + 4, [])


def test_the_rule_itself() -> None:
    assert why_no_successor(("a", 5), []) == why_no_successor(("a", 5), [("a", 5)]) == ""
    assert why_no_successor(("a", 9), [("b", 1), ("a", 5)]) == ""
    assert "takes up" in why_no_successor(("a", 4), [("a", 5)])
    assert "name the one before it, a" in why_no_successor(("", 0), [("a", 5)])
    assert why_behind_its_end(5, 5) == why_behind_its_end(9, 0) == ""
    assert why_behind_its_end(6, 5)
