"""Keys that a chain announces: as good as who announced them, for everybody, also after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.client.test_trust import END, ROOT, START, node, trust_file, trusted
from tests.support.chains import NODE, SITE, UTC, ChainMaker, keys, signer

from dollyd.client import ChainError, Delivered, MqttSettings, Patience, SiteTrust, Trust, Watermark
from dollyd.client.archive.intake import Heard, Intake
from dollyd.client.proof.verify import verify_envelopes
from dollyd.client.stream.reader import Reader
from dollyd.client.witness.book import WitnessBook
from dollyd.client.witness.service import Witness
from dollyd.wire.judgement import Claim
from dollyd.wire.jws import Keys, key_of_jwk, parse_envelope
from dollyd.wire.key_source import KeySource
from dollyd.wire.lineage import Lineage
from dollyd.wire.record import Kind, Record

FIRST, SECOND, THIRD, OTHER = map(signer, (1, 2, 3, 4))
REVOKED = {"revoked": END, "reason": "stolen"}
"""Later than any record says that it was made: who has the key dates back."""
PATIENCE = Patience(answer_s=1, answer_max_s=4, gap_s=30)


def handed_over(*turns: Any) -> ChainMaker:
    """A chain in which each key announces the next and then signs a round no more: the last one does."""
    maker = ChainMaker(by=turns[0]).begin().play(1, 1)
    for number, following in enumerate(turns[1:], 2):
        maker.add(Kind.KEY, body={"event": "rotated", "jwk": following.jwk, "reason": "yearly"})
        maker.signer = following
        maker.play(number, number)
    return maker


def until_successor() -> dict[str, Any]:
    """The first key was revoked, and the record that hands over to the second one is its last that counts."""
    handing_over = handed_over(FIRST, SECOND).envelopes[4]
    head = sha256(handing_over).hexdigest()
    return {**REVOKED, "last": [{"chain": "a" * 32, "seq": 5, "head": head}]}


def reader(trust: Keys | KeySource, *marks: Watermark) -> Reader:
    return Reader(SITE, trust, {mark.chain: mark for mark in marks}, patience=PATIENCE, rng=Random(1))


def everything(of: Reader) -> list[Delivered]:
    return list(iter(of.next, None))


# --- one verdict -----------------------------------------------------------------------------------


def streamed(maker: ChainMaker, trust: Trust) -> bool:
    stream = reader(trust)
    for envelope in maker.envelopes:
        stream.hear("r1", envelope)
    return len(everything(stream)) == maker.seq


def streamed_after_a_restart(maker: ChainMaker, trust: Trust) -> bool:
    before = reader(keys(FIRST))
    for envelope in maker.envelopes[:-1]:
        before.hear("r1", envelope)
    stream = reader(trust, everything(before)[-1].watermark)
    stream.hear("r1", maker.envelopes[-1])
    return len(everything(stream)) == 1


def archived(maker: ChainMaker, trust: Trust) -> bool:
    intake = Intake(SITE, trust, lambda _chain: ())
    return len(intake.take(map(Heard, maker.envelopes))) == maker.seq


def verified(maker: ChainMaker, trust: Trust) -> bool:
    report = verify_envelopes(maker.envelopes, trust)
    assert verify_envelopes(maker.envelopes, trust, fast=True).ok == report.ok
    return report.ok


def witnessed(maker: ChainMaker, trust: Trust, book: WitnessBook) -> bool:
    before = reader(keys(FIRST))
    for envelope in maker.envelopes:
        before.hear("r1", envelope)
    for delivered in everything(before):
        book.watermarks.save(delivered.watermark)
    witness = Witness(MqttSettings(("b",), ""), SITE, "w1", trust, book, signer(9).sign)
    parsed = parse_envelope(maker.envelopes[-1])
    return parsed.kid in witness._keys_of(msgspec.json.decode(parsed.payload, type=Record), parsed.kid)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[WitnessBook]:
    with closing(WitnessBook(tmp_path / "book.db")) as opened:
        yield opened


CASES: list[tuple[str, list[Any], list[dict[str, Any]], bool]] = [
    ("not-named-yet", [FIRST, SECOND], [node(FIRST)], True),
    ("named", [FIRST, SECOND], [node(FIRST), node(SECOND)], True),
    ("revoked", [FIRST, SECOND], [node(FIRST), node(SECOND, revoked=START, reason="x")], False),
    ("anothers", [FIRST, SECOND], [node(FIRST), node(SECOND, node="node-2")], False),
    ("announced-by-a-thief", [FIRST, SECOND], [node(FIRST, **REVOKED)], False),
    ("by-a-thief-and-then-by-his-key", [FIRST, SECOND, THIRD], [node(FIRST, **REVOKED)], False),
    (
        "announced-before-the-theft",
        [FIRST, SECOND],
        [node(FIRST, **until_successor()), node(SECOND)],
        True,
    ),
    ("by-a-good-one", [FIRST, SECOND, THIRD], [node(FIRST, **until_successor()), node(SECOND)], True),
    ("by-a-bad-one", [FIRST, SECOND, THIRD], [node(FIRST), node(SECOND, **REVOKED)], False),
]


@pytest.mark.parametrize(("turns", "nodes", "good"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_an_announced_key_is_as_good_as_its_announcer_for_everybody(
    turns: list[Any], nodes: list[dict[str, Any]], good: bool, book: WitnessBook
) -> None:
    maker, trust = handed_over(*turns), trusted(*nodes)
    judges: list[Callable[[ChainMaker, Trust], bool]] = [streamed, streamed_after_a_restart]
    verdicts = {judge.__name__: judge(maker, trust) for judge in (*judges, archived, verified)}
    assert {**verdicts, "witnessed": witnessed(maker, trust, book)} == dict.fromkeys(
        [*verdicts, "witnessed"], good
    )


def test_pinned_keys_alone_revoke_nobody() -> None:
    maker, stream = handed_over(FIRST, SECOND, THIRD), reader(keys(FIRST))
    for envelope in maker.envelopes:
        stream.hear("r1", envelope)
    assert len(everything(stream)) == maker.seq


def test_what_a_thief_announced_is_told_as_revoked() -> None:
    report = verify_envelopes(handed_over(FIRST, SECOND).envelopes, trusted(node(FIRST, **REVOKED)))
    assert report.keys == {FIRST.kid: "superseded", SECOND.kid: "revoked"}
    assert report.problems[0].why.startswith("revoked: the trust file says so of what announced key")


def test_a_key_that_comes_back_is_not_looked_for_without_end() -> None:
    maker = handed_over(FIRST, SECOND, FIRST)
    assert streamed(maker, trusted(node(FIRST)))
    lineage = Lineage()
    for announced, announcer in ((SECOND, FIRST), (FIRST, SECOND)):
        lineage.add(key_of_jwk(announced.jwk), announcer.kid)
    assert list(lineage.up_from(FIRST.kid)) == [FIRST.kid, SECOND.kid]


def test_records_of_a_new_key_are_held_until_the_trust_file_names_it() -> None:
    """The old key is revoked first; the file that names the new one comes long after its first record."""
    maker = handed_over(FIRST, SECOND)
    trust = SiteTrust(ROOT.kid, SITE)
    trust.offer(trust_file(node(FIRST, **until_successor())))
    stream = reader(trust)
    for envelope in maker.envelopes:
        stream.hear("r1", envelope)
    assert [d.record.seq for d in everything(stream)] == [1, 2, 3, 4, 5]
    for step in range(50):  # asked for, and given up
        for request in stream.requests(float(step)):
            for envelope in maker.envelopes[request.first - 1 : request.last]:
                stream.hear("r1", envelope)
            stream.ended(request.chain, request.id, "", float(step))
        assert stream.next() is None
    trust.offer(trust_file(node(FIRST, **until_successor()), node(SECOND), version=2))
    stream.hear("r1", maker.add(Kind.INCIDENT, body={"what": "x"}))
    for request in stream.requests(60.0):
        for envelope in maker.envelopes[request.first - 1 : request.last]:
            stream.hear("r1", envelope)
    assert [d.record.seq for d in everything(stream)] == [6, 7, 8, 9]


# --- whose turn it is --------------------------------------------------------------------------------


def test_another_nodes_key_does_not_go_on_with_a_chain_after_a_restart() -> None:
    maker = ChainMaker().begin()
    trust = trusted(node(FIRST), node(OTHER, node="node-2"))
    before = reader(trust)
    before.hear("r1", maker.envelopes[0])
    mark = everything(before)[-1].watermark
    assert mark.kid == FIRST.kid
    maker.signer = OTHER
    maker.add(Kind.INCIDENT, body={"what": "x"}, header={"node": "node-2"})
    for stream in (before, reader(trust, mark)):
        stream.hear("r1", maker.envelopes[1])
        with pytest.raises(ChainError, match="turn of key"):
            stream.next()


def test_who_begins_now_takes_the_kept_records_key_for_the_one_that_signs() -> None:
    maker = ChainMaker().begin().play(1, 1)
    stream = Reader(SITE, keys(FIRST, OTHER), {}, start="now", patience=PATIENCE, rng=Random(1))
    stream.hear("r1", maker.envelopes[-1], kept=True)
    maker.signer = OTHER
    stream.hear("r1", maker.add(Kind.INCIDENT, body={"what": "x"}))
    with pytest.raises(ChainError, match="turn of key"):
        stream.next()


def test_a_watermark_of_an_older_version_lets_the_next_record_decide() -> None:
    maker = handed_over(FIRST, SECOND)
    for done in (3, 7):  # before and behind the record that announces the key
        stream = reader(keys(FIRST))
        for envelope in maker.envelopes[:done]:
            stream.hear("r1", envelope)
        mark = everything(stream)[-1].watermark
        old = Watermark(mark.table, mark.chain, mark.seq, mark.digest, mark.keys)
        again = reader(keys(FIRST), old)
        for envelope in maker.envelopes[done:]:
            again.hear("r1", envelope)
        assert [d.record.seq for d in everything(again)] == list(range(done + 1, maker.seq + 1))


def test_a_key_that_was_heard_of_and_not_delivered_is_in_no_watermark() -> None:
    maker = handed_over(FIRST, SECOND)
    stream = reader(keys(FIRST))
    for envelope in maker.envelopes:
        stream.hear("r1", envelope)
    marks = [delivered.watermark for delivered in everything(stream)]
    assert [len(mark.keys) for mark in marks] == [0, 0, 0, 0, 1, 1, 1, 1]
    again = reader(keys(FIRST), marks[2])
    for envelope in maker.envelopes[3:]:
        again.hear("r1", envelope)
    assert [d.record.seq for d in everything(again)] == [4, 5, 6, 7, 8]


def test_a_record_without_a_time_is_of_no_announced_key() -> None:
    maker, trust = handed_over(FIRST, SECOND), trusted(node(FIRST))
    lineage = Lineage()
    kid = lineage.add(key_of_jwk(SECOND.jwk), FIRST.kid)
    claim = Claim(kid=kid, node=NODE, utc=UTC, announced=lineage)
    assert trust.judge(claim).trusted is not None
    assert trust.judge(replace(claim, utc="9999")).trusted is None
    assert streamed(maker, trust)
