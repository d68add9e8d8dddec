"""Records that cannot be had: asked for now and then, told, and passed over when people say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.support.chains import SITE, ChainMaker, keys, signer

from dollyd.client import (
    Delivered,
    FileWatermarks,
    GapError,
    MqttSettings,
    Patience,
    Stream,
    Watermark,
    WatermarkStore,
)
from dollyd.client.stream.reader import Reader
from dollyd.client.stream.replay import LATER_S
from dollyd.wire.record import Kind

PATIENCE = Patience(answer_s=1, answer_max_s=4, gap_s=30)


def chain(rounds: int = 10) -> ChainMaker:
    return ChainMaker().begin().play(1, rounds)


def reader(*marks: Watermark) -> Reader:
    watermarks = {mark.chain: mark for mark in marks}
    return Reader(SITE, keys(signer(), signer(2)), watermarks, patience=PATIENCE, rng=Random(1))


def everything(of: Reader) -> list[Delivered]:
    return list(iter(of.next, None))


def seqs(of: Reader) -> list[int]:
    return [delivered.record.seq for delivered in everything(of)]


def raised(of: Reader, at_s: float = 0.0) -> GapError:
    """The gap that the stream has, which the node says is pruned."""
    for request in of.requests(at_s):
        of.ended(request.chain, request.id, "pruned", at_s)
    of.requests(at_s)
    with pytest.raises(GapError) as caught:
        of.next()
    return caught.value


def with_gap(maker: ChainMaker) -> Reader:
    """A stream that lacks records 3 to 5."""
    stream = reader()
    for envelope in (*maker.envelopes[:2], *maker.envelopes[5:]):
        stream.hear("r1", envelope)
    assert seqs(stream) == [1, 2]
    return stream


def test_a_gap_that_was_raised_is_asked_for_again_after_a_pause() -> None:
    stream = with_gap(chain())
    asked, told, now_s = [], 0, 0.0
    while now_s < 10 * LATER_S:
        for request in stream.requests(now_s):
            asked.append(now_s)
            stream.ended(request.chain, request.id, "pruned", now_s)
        try:
            assert stream.next() is None
        except GapError:
            told += 1
        now_s += 0.1
    assert (len(asked), told) == (10, 10)


def test_another_gap_and_another_link_do_not_wait() -> None:
    maker = chain()
    stream = with_gap(maker)
    raised(stream)
    assert stream.requests(1.0) == []
    stream.hear("r1", maker.envelopes[2])
    assert [(one.first, one.last) for one in stream.requests(1.0)] == [(4, 5)]
    stream = with_gap(maker)
    raised(stream)
    stream.restart()
    assert [(one.first, one.last) for one in stream.requests(1.0)] == [(3, 5)]


def test_the_gap_is_told_as_far_as_it_is_one() -> None:
    """What is held behind it is not lost; and nobody's word makes it longer."""
    maker, stream = chain(), reader()
    for seq in (1, 4, 9):
        stream.hear("r1", maker.envelopes[seq - 1])
    assert seqs(stream) == [1]
    gap = raised(stream)
    assert (gap.first, gap.last) == (2, 3)
    stream = reader()
    stream.hear("r1", maker.envelopes[0])
    stream.hear("r1", maker.envelopes[3])
    assert seqs(stream) == [1]
    stranger = ChainMaker(by=signer(5)).begin().play(1, 100)
    stream.hear("r1", stranger.envelopes[-1])
    stream._chains[maker.chain].order._held.clear()  # as if it had been too far ahead to be held
    assert raised(stream).last == 4


def test_an_accepted_loss_is_passed_now_and_after_a_restart() -> None:
    maker = chain()
    stream = with_gap(maker)
    gap = raised(stream)
    mark = stream.accept_loss(gap)
    assert mark is not None
    assert replace(mark, rules="") == Watermark("r1", maker.chain, 5, "", (), signer().kid)
    again = reader(mark)
    for envelope in maker.envelopes[5:]:
        again.hear("r1", envelope)
    for one in (stream, again):
        assert seqs(one) == list(range(6, maker.seq + 1))
        one.hear("r1", maker.envelopes[4])  # it comes after all: too late
        assert one.next() is None
        assert one.requests(100.0) == []
    assert stream.accept_loss(gap) is None


def test_nothing_is_taken_for_lost_that_has_come_meanwhile() -> None:
    maker = chain()
    stream = with_gap(maker)
    gap = raised(stream)
    stream.hear("r1", maker.envelopes[3])
    assert stream.accept_loss(gap) is None
    stream.hear("r1", maker.envelopes[2])
    assert stream.accept_loss(GapError("r1", "c" * 32, 3, 5, "pruned")) is None
    assert seqs(stream) == [3, 4]


def test_behind_a_loss_the_next_record_tells_whose_turn_it_is() -> None:
    maker = chain(2)
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(2).jwk, "reason": "yearly"})
    maker.signer = signer(2)
    maker.play(3, 4)
    stream = reader()
    for envelope in (*maker.envelopes[:7], *maker.envelopes[8:]):
        stream.hear("r1", envelope)
    assert seqs(stream) == [1, 2, 3, 4, 5, 6, 7]
    gap = raised(stream)
    assert (gap.first, gap.last) == (8, 8), "the record that announces the key"
    assert stream.accept_loss(gap) is not None
    given = everything(stream)
    assert [one.record.seq for one in given] == list(range(9, maker.seq + 1))
    assert given[-1].watermark.kid == signer(2).kid


def test_a_new_chain_waits_for_the_lost_end_of_the_old_one_until_it_is_given_up() -> None:
    old, new = chain(3), ChainMaker(chain="b" * 32)
    body = {"event": "chain-start", "jwk": signer().jwk, "reason": "journal-damaged"}
    new.add(Kind.KEY, body=body | {"previous_chain": old.chain, "previous_seq": old.seq})
    new.play(1, 1)
    stream = reader()
    for envelope in (*old.envelopes[:-2], *new.envelopes):
        stream.hear("r1", envelope)
    assert len(everything(stream)) == old.seq - 2
    gap = raised(stream)
    assert (gap.chain, gap.first, gap.last) == (old.chain, old.seq - 1, old.seq)
    assert stream.accept_loss(gap) is not None
    assert [one.record.chain for one in everything(stream)] == [new.chain] * 4


def test_a_pruned_chain_is_read_from_where_the_node_keeps_it() -> None:
    maker, stream = chain(400), reader()
    stream.hear("r1", maker.envelopes[-1])
    kept_from, now_s = 1100, 0.0
    lost: list[GapError] = []
    while (delivered := stream.next()) is None:
        now_s += 1
        for request in stream.requests(now_s):
            for envelope in maker.envelopes[max(request.first, kept_from) - 1 : request.last]:
                stream.hear("r1", envelope)
            stream.ended(request.chain, request.id, "pruned", now_s)
        stream.requests(now_s)
        try:
            assert stream.next() is None
        except GapError as gap:
            lost.append(gap)
            stream.accept_loss(gap)
    assert [(gap.first, gap.last) for gap in lost] == [(1, 1000), (1001, kept_from - 1)]
    assert [delivered.record.seq, *seqs(stream)] == list(range(kept_from, maker.seq + 1))


async def test_a_stream_keeps_an_accepted_loss(tmp_path: Path) -> None:
    def stream_with(store: WatermarkStore) -> Stream:
        mqtt = MqttSettings(("127.0.0.1:1",), "")
        return Stream(mqtt, SITE, "settlement", keys(signer()), store, patience=PATIENCE)

    maker = chain()
    stream = stream_with(FileWatermarks(tmp_path / "marks.json"))
    for envelope in (*maker.envelopes[:2], *maker.envelopes[5:]):
        stream._reader.hear("r1", envelope)
    for delivered in everything(stream._reader):
        await stream.done(delivered)
    gap = raised(stream._reader)
    assert await stream.accept_loss(gap)
    assert not await stream.accept_loss(gap), "once"
    again = stream_with(FileWatermarks(tmp_path / "marks.json"))
    for envelope in maker.envelopes[5:]:
        again._reader.hear("r1", envelope)
    assert seqs(again._reader) == list(range(6, maker.seq + 1))
