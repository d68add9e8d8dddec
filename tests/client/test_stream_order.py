"""The stream without a broker: signatures, order, gaps, chains. Time is a number."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.chains import SITE, ChainMaker, keys, signer

from dollyd.client import ChainError, Delivered, GapError, Patience, Watermark
from dollyd.client.stream.reader import REPLAYS_AT_ONCE, Reader, Request, Start
from dollyd.client.stream.replay import AHEAD_MAX, LATER_S, Sequencer, Taken
from dollyd.wire.judgement import Claim, Judgement, Verdict
from dollyd.wire.record import Kind

PATIENCE = Patience(answer_s=1, answer_max_s=4, gap_s=30)
LONG = ChainMaker().begin().play(1, 700)


def chain(rounds: int = 10, **of: Any) -> ChainMaker:
    return ChainMaker(**of).begin().play(1, rounds)


def reader(*marks: Watermark, start: Start = "beginning", trusted: Any = None) -> Reader:
    watermarks = {mark.chain: mark for mark in marks}
    pinned = keys(signer()) if trusted is None else trusted
    return Reader(SITE, pinned, watermarks, start=start, patience=PATIENCE, rng=Random(1))


def everything(of: Reader) -> list[Delivered]:
    given_ = []
    while (delivered := of.next()) is not None:
        given_.append(delivered)
    return given_


def seqs(of: Reader) -> list[int]:
    return [delivered.record.seq for delivered in everything(of)]


def answer(of: Reader, request: Request, maker: ChainMaker, now_s: float, problem: str = "") -> None:
    for envelope in maker.envelopes[request.first - 1 : request.last]:
        of.hear(request.table, envelope)
    of.ended(request.chain, request.id, problem, now_s)


def settle_gaps(of: Reader, maker: ChainMaker, now_s: float = 0.0) -> list[int]:
    """Answer requests until nothing is asked for any more; gives what was delivered."""
    heard: list[int] = seqs(of)
    for step in range(200):
        requests = of.requests(now_s + step * 5)
        if not requests and step > 3:
            break
        for request in requests:
            answer(of, request, maker, now_s + step * 5)
        heard += seqs(of)
    return heard


@dataclass(frozen=True)
class Item:
    """A record as the sequencer sees it; digests are numbers."""

    seq: int

    @property
    def prev(self) -> str:
        return str(self.seq - 1)

    @property
    def digest(self) -> str:
        return str(self.seq)


# --- order ----------------------------------------------------------------------------------------

PLAYED = chain(8)
TOTAL = len(PLAYED.envelopes)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_b32_any_order_with_repeats_and_losses_gives_every_record_once(data: st.DataObject) -> None:
    heard = data.draw(st.lists(st.integers(1, TOTAL), max_size=60))
    stream = reader()
    got = []
    for seq in heard:
        stream.hear("r1", PLAYED.envelopes[seq - 1])
        if data.draw(st.booleans()):
            got += seqs(stream)
    lossy = Random(data.draw(st.integers(0, 99)))
    for step in range(200):
        for request in stream.requests(step * 5.0):
            for envelope in PLAYED.envelopes[request.first - 1 : request.last]:
                if lossy.random() < 0.7:
                    stream.hear("r1", envelope)
            stream.ended(request.chain, request.id, "", step * 5.0)
        with suppress(GapError):  # an unlucky one waited too long: it is told, and asked for again
            got += seqs(stream)
        got += seqs(stream)
    assert got == list(range(1, max(heard, default=0) + 1))


@settings(max_examples=40, deadline=None)
@given(heard=st.lists(st.integers(1, TOTAL), min_size=1, max_size=40), lost=st.integers(1, TOTAL))
def test_what_cannot_be_had_is_raised_and_nothing_after_it_is_given(heard: list[int], lost: int) -> None:
    stream = reader()
    for seq in heard:
        if seq != lost:
            stream.hear("r1", PLAYED.envelopes[seq - 1])
    highest = max([seq for seq in heard if seq != lost], default=0)
    got: list[int] = []
    raised: GapError | None = None
    for step in range(60):
        for request in stream.requests(step * 5.0):
            for seq in range(request.first, request.last + 1):
                if seq != lost:
                    stream.hear("r1", PLAYED.envelopes[seq - 1])
            stream.ended(request.chain, request.id, "", step * 5.0)
        try:
            got += seqs(stream)
        except GapError as error:
            raised = error
    if lost < highest:
        assert got == list(range(1, lost))
        assert raised is not None
        assert (raised.table, raised.chain, raised.first) == ("r1", PLAYED.chain, lost)
    else:
        assert got == list(range(1, highest + 1))
        assert raised is None


def test_a_long_absence_is_fetched_in_parts_and_what_is_ahead_stays_bounded() -> None:
    stream = reader(Watermark("r1", LONG.chain, 0, "0" * 64))
    stream.hear("r1", LONG.envelopes[-1])
    assert stream.stats.beyond == 1
    assert settle_gaps(stream, LONG) == list(range(1, len(LONG.envelopes) + 1))
    assert stream.stats.requests == 3


def test_a_slow_consumer_is_not_given_more_than_it_can_hold() -> None:
    stream = reader()
    for envelope in LONG.envelopes:
        stream.hear("r1", envelope)
    assert stream.stats.beyond == len(LONG.envelopes) - AHEAD_MAX
    assert stream.requests(0) == []  # nothing to ask for while what is held is not taken
    assert settle_gaps(stream, LONG) == list(range(1, len(LONG.envelopes) + 1))


def test_a_gap_is_asked_for_once_and_again_only_after_a_pause() -> None:
    played, stream = chain(), reader()
    for seq in (1, 2, 6):
        stream.hear("r1", played.envelopes[seq - 1])
    (request,) = stream.requests(0)
    assert (request.first, request.last) == (3, 5)
    assert stream.requests(0.5) == []
    (again,) = stream.requests(1.5)
    assert (again.first, again.last) == (3, 5)
    assert again.id == request.id  # the first one may be under way
    assert stream.requests(2.5) == []  # the pause grows


def test_the_next_part_is_asked_for_at_once_and_an_empty_answer_is_not() -> None:
    stream = reader()
    stream.hear("r1", LONG.envelopes[-1])
    (request,) = stream.requests(0)
    answer(stream, request, LONG, 0.1)
    assert len(everything(stream)) == AHEAD_MAX
    (request,) = stream.requests(0.1)
    assert (request.first, request.last) == (AHEAD_MAX + 1, 2 * AHEAD_MAX)
    stream.ended(request.chain, request.id, "", 0.2)
    assert stream.requests(0.3) == []


def test_a_pruned_gap_is_raised_at_once_and_asked_for_again_later_if_iterated_on() -> None:
    played, stream = chain(), reader()
    for seq in (1, 2, 6):
        stream.hear("r1", played.envelopes[seq - 1])
    (request,) = stream.requests(0)
    stream.ended(request.chain, request.id, "pruned", 0.1)
    stream.requests(0.2)
    assert seqs(stream) == [1, 2]  # what comes before the gap is given first
    stream.requests(0.3)
    with pytest.raises(GapError, match=r"records 3 to 5 are missing \(pruned\)") as caught:
        stream.next()
    assert (caught.value.first, caught.value.last, caught.value.why) == (3, 5, "pruned")
    assert stream.requests(LATER_S) == []
    (request,) = stream.requests(LATER_S + 0.4)
    answer(stream, request, played, LATER_S + 0.5)
    assert seqs(stream) == [3, 4, 5, 6]


def test_an_answer_to_nobody_changes_nothing() -> None:
    played, stream = chain(), reader()
    for seq in (1, 3):
        stream.hear("r1", played.envelopes[seq - 1])
    assert seqs(stream) == [1]
    stream.requests(0)
    for id_ in ("", "0" * 16):
        stream.ended(played.chain, id_, "pruned", 0.1)
    stream.requests(0.2)
    assert stream.next() is None


def test_few_requests_are_on_their_way_at_a_time() -> None:
    tables = [chain(table=f"r{number}", chain=f"{number:032x}") for number in range(10)]
    stream = reader()
    for played in tables:
        stream.hear(played.table, played.envelopes[-1])
    asked = stream.requests(0)
    assert len(asked) == REPLAYS_AT_ONCE
    for request in asked:
        answer(stream, request, next(p for p in tables if p.table == request.table), 0.1)
    assert len(stream.requests(0.2)) == REPLAYS_AT_ONCE
    assert len(everything(stream)) == REPLAYS_AT_ONCE * TOTAL + REPLAYS_AT_ONCE * 6


# --- where a consumer begins --------------------------------------------------------------------------


def test_a_watermark_is_where_it_goes_on() -> None:
    played = chain()
    first = reader()
    for envelope in played.envelopes[:12]:
        first.hear("r1", envelope)
    mark = everything(first)[6].watermark
    stream = reader(mark)
    stream.hear("r1", played.envelopes[-1])
    assert settle_gaps(stream, played) == list(range(8, len(played.envelopes) + 1))


def test_now_begins_after_what_the_broker_kept_and_with_what_is_heard_live() -> None:
    played = chain()
    kept, live = reader(start="now"), reader(start="now")
    kept.hear("r1", played.envelopes[9], kept=True)
    kept.hear("r1", played.envelopes[12])
    assert settle_gaps(kept, played) == [11, 12, 13]
    live.hear("r1", played.envelopes[12])
    live.hear("r1", played.envelopes[3])
    live.hear("r1", played.envelopes[13])
    assert settle_gaps(live, played) == [13, 14]
    assert live.stats.before == 1


def test_a_new_chain_of_a_known_table_is_read_from_its_beginning_after_the_old_one() -> None:
    old = chain(5)
    new = ChainMaker(chain="b" * 32)
    body = {"event": "chain-start", "jwk": signer().jwk, "reason": "lost-key"}
    new.add(Kind.KEY, body=body | {"previous_chain": old.chain, "previous_seq": old.seq})
    new.play(1, 3)
    stream = reader(start="now")
    for envelope in old.envelopes[:-2]:
        stream.hear("r1", envelope)
    stream.hear("r1", new.envelopes[-1])
    got = [(d.record.chain, d.record.seq) for d in everything(stream)]
    for step in range(20):
        for request in stream.requests(step * 5.0):
            answer(stream, request, old if request.chain == old.chain else new, step * 5.0)
        got += [(d.record.chain, d.record.seq) for d in everything(stream)]
    assert got == [(m.chain, seq) for m in (old, new) for seq in range(1, m.seq + 1)]


# --- signatures ---------------------------------------------------------------------------------------


def test_what_is_no_record_of_its_topic_is_counted_and_not_given() -> None:
    played, stream = chain(), reader()
    stream.hear("r1", b"{}")
    stream.hear("r1", chain(by=signer(2)).envelopes[0])
    stream.hear("r2", played.envelopes[0])
    stream.hear("r1", played.envelopes[0], kind="result")
    for nowhere in ("node", "R1", "#"):
        stream.hear(nowhere, chain(table=nowhere).envelopes[0])
    stream.hear("r1", chain(chain="x" * 5000, by=signer(2)).envelopes[0])
    stream.hear("r1", played.envelopes[0], kind="key", kept=True)
    assert everything(stream) == []
    stats = stream.stats
    # A name that no topic could have makes it no record at all.
    assert (stats.unsigned, stats.misplaced, stats.retained) == (5, 3, 1)


def test_a_wrong_signature_is_raised_and_the_true_record_still_counts() -> None:
    played, stream = chain(), reader()
    other = chain(by=signer(2))
    parts = played.envelopes[0].split(b'"signature":')
    stream.hear("r1", parts[0] + b'"signature":' + other.envelopes[0].split(b'"signature":')[1])
    with pytest.raises(ChainError, match="signature"):
        stream.next()
    stream.hear("r1", played.envelopes[0])
    assert seqs(stream) == [1]


@pytest.mark.parametrize("at", [3, 9])
def test_a_fork_is_raised_and_the_chain_stays_where_it_is(at: int) -> None:
    """Two records with one number: one that was given already, and one that is still held."""
    played = chain()
    fork = chain(0)
    for number in range(2, at + 1):
        fork.add(Kind.INCIDENT, body={"what": "other", "number": number})
    stream = reader()
    for seq in (1, 2, 3, 4, 9):
        stream.hear("r1", played.envelopes[seq - 1])
    assert seqs(stream) == [1, 2, 3, 4]
    stream.hear("r1", fork.envelopes[at - 1])
    with pytest.raises(ChainError, match=f"record {at}: two different"):
        stream.next()
    for envelope in played.envelopes:
        stream.hear("r1", envelope)
    assert everything(stream) == []


def test_a_record_that_does_not_follow_the_one_before_is_raised_after_that_one() -> None:
    played, other = chain(), chain(0)
    other.add(Kind.INCIDENT, body={"what": "other"})
    other.play(1, 1)
    stream = reader()
    for envelope in (*played.envelopes[:2], other.envelopes[2]):
        stream.hear("r1", envelope)
    elsewhere = chain(table="r2", chain="c" * 32)
    stream.hear("r2", elsewhere.envelopes[0])
    got = [(d.record.table, d.record.seq) for d in (stream.next() for _ in range(3)) if d is not None]
    assert got == [("r1", 1), ("r2", 1), ("r1", 2)]
    with pytest.raises(ChainError, match="record 3: its prev"):
        stream.next()
    stream.hear("r2", elsewhere.envelopes[1])
    assert [d.record.table for d in everything(stream)] == ["r2"]  # the other tables go on


@pytest.mark.parametrize("header", [{"v": 2}, {"kind": "round"}])
def test_a_first_record_that_is_not_as_it_must_be_is_raised(header: dict[str, Any]) -> None:
    maker = ChainMaker()
    maker.add(Kind.KEY, body={"event": "chain-start", "jwk": signer().jwk, "reason": "r"}, header=header)
    stream = reader()
    stream.hear("r1", maker.envelopes[0])
    with pytest.raises(ChainError):
        stream.next()


def rotated() -> ChainMaker:
    maker = chain(3)
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(2).jwk, "reason": "yearly"})
    maker.signer = signer(2)
    return maker.play(4, 6)


@pytest.mark.parametrize("both_pinned", [True, False])
@pytest.mark.parametrize("restarted", [True, False])
def test_a_key_that_was_replaced_signs_nothing_more(*, both_pinned: bool, restarted: bool) -> None:
    maker = rotated()
    maker.signer = signer(1)
    maker.add(Kind.INCIDENT, body={"what": "by the old key"})
    trusted = keys(signer(1), signer(2)) if both_pinned else keys(signer(1))
    stream = reader(trusted=trusted)
    for envelope in maker.envelopes[:-1]:
        stream.hear("r1", envelope)
    given = everything(stream)
    assert len(given) == len(maker.envelopes) - 1
    if restarted:
        stream = reader(given[-1].watermark, trusted=trusted)
    stream.hear("r1", maker.envelopes[-1])
    with pytest.raises(ChainError, match="superseded"):
        stream.next()


@pytest.mark.parametrize("heard", [range(1, 21), [20], [1, 2, 3, 20], [5, 13, 14, 2]])
def test_a_key_announced_by_a_trusted_one_is_trusted_however_it_comes(heard: list[int]) -> None:
    maker, stream = rotated(), reader()
    for seq in heard:
        stream.hear("r1", maker.envelopes[seq - 1])
    assert settle_gaps(stream, maker) == list(range(1, max(heard) + 1))


def test_an_announced_key_is_trusted_after_a_restart_and_in_its_chain_only() -> None:
    maker, first = rotated(), reader()
    for envelope in maker.envelopes:
        first.hear("r1", envelope)
    mark = everything(first)[14].watermark
    stream = reader(mark)
    stream.hear("r1", maker.envelopes[15])
    assert seqs(stream) == [16]
    stream.hear("r1", chain(chain="d" * 32, by=signer(2)).envelopes[0])
    assert everything(stream) == []


def test_an_unknown_key_that_nobody_announced_is_given_up_and_raises_nothing() -> None:
    stream = reader()
    for number in range(40):
        strange = chain(1, table=f"r{number}", chain=f"{number:032x}", by=signer(2))
        stream.hear(strange.table, strange.envelopes[-1])
    for step in range(100):
        for request in stream.requests(float(step)):
            stream.ended(request.chain, request.id, "unknown-chain", float(step))
        assert stream.next() is None
    assert stream.requests(200) == []
    assert stream.stats.unsigned == 40


def test_a_key_source_is_asked_for_each_record() -> None:
    class Revocable:
        revoked = False

        def judge(self, claim: Claim, /) -> Judgement:
            verdict = Verdict.REVOKED if self.revoked else Verdict.VALID
            return Judgement(verdict, keys(signer()).get(claim.kid))

    source = Revocable()
    played, stream = chain(), reader(trusted=source)
    stream.hear("r1", played.envelopes[0])
    source.revoked = True
    stream.hear("r1", played.envelopes[1])
    assert seqs(stream) == [1]
    assert stream.stats.unsigned == 1


def test_what_the_sequencer_says() -> None:
    order: Sequencer[Item] = Sequencer()
    item = {seq: Item(seq) for seq in range(1, 9)}
    assert [order.take(item[seq]) for seq in (1, 3, 3, 2)] == [
        Taken.READY,
        Taken.AHEAD,
        Taken.DUPLICATE,
        Taken.READY,
    ]
    order.note(5)
    assert order.missing() == (4, 5)
