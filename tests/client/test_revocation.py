"""A revocation that holds: what a stolen key signs counts nowhere, whatever it says of its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.client.test_trust import END, ROOT, START, at, node, trust_file, trusted
from tests.support.chains import SITE, ChainMaker, keys, signer

from dollyd.client import ChainError, Delivered, GapError, Patience, SiteTrust, Trust
from dollyd.client.archive.intake import Heard, Intake
from dollyd.client.proof.verify import verify_envelopes
from dollyd.client.stream.reader import Reader
from dollyd.client.stream.replay import AHEAD_MAX
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.key_source import KeySource
from dollyd.wire.record import Kind

THEFT = {"revoked": END, "reason": "stolen"}
"""Later than any record says that it was made: the thief dates back."""


def place(maker: ChainMaker, seq: int) -> dict[str, Any]:
    head = sha256(maker.envelopes[seq - 1]).hexdigest()
    return {"chain": maker.chain, "seq": seq, "head": head}


def revoked(*last: dict[str, Any], **more: Any) -> dict[str, Any]:
    return node(signer(), **THEFT, last=list(last), **more)


def reader(source: KeySource, *marks: Any) -> Reader:
    patience = Patience(answer_s=1, answer_max_s=4, gap_s=30)
    return Reader(SITE, source, {mark.chain: mark for mark in marks}, patience=patience, rng=Random(1))


def hear(stream: Reader, maker: ChainMaker, envelopes: Iterable[bytes]) -> Reader:
    for envelope in envelopes:
        stream.hear(maker.table, envelope)
    return stream


def seqs(stream: Reader) -> list[int]:
    return [delivered.record.seq for delivered in everything(stream)]


def everything(stream: Reader) -> Iterator[Delivered]:
    return iter(stream.next, None)


def gap_of(stream: Reader, maker: ChainMaker) -> GapError:
    """What is raised where the node's answers hold all that it has."""
    for step in range(200):
        for request in stream.requests(float(step)):
            hear(stream, maker, maker.envelopes[request.first - 1 : request.last])
            stream.ended(request.chain, request.id, "", float(step))
        try:
            list(everything(stream))
        except GapError as error:
            return error
    raise AssertionError("nothing was raised")


def fork(maker: ChainMaker, behind: int) -> ChainMaker:
    """The thief's own chain: the true one up to `behind`, and then whatever he likes."""
    forged = copy(maker)
    forged.entries = maker.entries[:behind]
    forged.seq, forged.prev = behind, sha256(maker.envelopes[behind - 1]).hexdigest()
    return forged


def archived(maker: ChainMaker, trust: Trust, *, live: bool) -> int:
    return len(Intake(SITE, trust, lambda _chain: (), live=live).take(map(Heard, maker.envelopes)))


# --- back-dated records -----------------------------------------------------------------------------


def test_attack_3a_back_dated_records_of_a_revoked_key_count_for_nobody() -> None:
    maker = ChainMaker().begin().play(1, 1)
    trust = trusted(revoked(place(maker, 4)))
    assert verify_envelopes(maker.envelopes, trust).ok
    maker.play(2, 2)  # dated before the revocation, as all of it is
    report = verify_envelopes(maker.envelopes, trust)
    assert {problem.why.split(":")[0] for problem in report.problems} == {"revoked"}
    (problem,) = (problem for problem in report.problems if problem.seq)
    assert (problem.seq, problem.why.split("; ")[-1]) == (5, "and so of 2 more records")
    assert seqs(hear(reader(trust), maker, maker.envelopes)) == [1, 2, 3, 4]
    assert archived(maker, trust, live=False) == archived(maker, trust, live=True) == 4


def test_attack_3a_a_consumer_hears_nothing_new_from_a_key_known_as_revoked() -> None:
    maker, source = ChainMaker().begin().play(1, 1), SiteTrust(ROOT.kid, SITE)
    source.offer(trust_file(node(signer())))
    stream = hear(reader(source), maker, maker.envelopes)
    assert seqs(stream) == [1, 2, 3, 4]
    source.offer(trust_file(node(signer(), **THEFT), version=2))
    with capture_logs() as logs:
        hear(stream, maker, maker.play(2, 3).envelopes)
    assert seqs(stream) == []
    assert [(log["event"], log["why"]) for log in logs] == [("key_not_trusted", "revoked")]
    assert stream.requests(1.0) == [], "nothing that could be sent again would mend it"
    assert seqs(hear(reader(source), maker, maker.envelopes)) == [], "nor does one who begins afterwards"
    assert archived(maker, trusted(node(signer(), **THEFT)), live=True) == 0


def test_who_reads_files_believes_the_date_where_a_revocation_names_no_records() -> None:
    maker = ChainMaker().begin().play(1, 1)
    assert verify_envelopes(maker.envelopes, trusted(node(signer(), **THEFT))).ok
    assert not verify_envelopes(maker.envelopes, trusted(revoked())).ok, "none of its records counts"


def test_attack_3b_a_chain_that_the_revocation_does_not_name_counts_nowhere() -> None:
    known, thiefs = ChainMaker().begin().play(1, 1), ChainMaker(chain="b" * 32).begin().play(1, 1)
    trust = trusted(revoked(place(known, 4)))
    assert not verify_envelopes(thiefs.envelopes, trust).ok
    assert seqs(hear(reader(trust), thiefs, thiefs.envelopes)) == []
    assert archived(thiefs, trust, live=False) == 0


def test_attack_3b_a_key_signs_for_its_own_tables_only() -> None:
    maker = ChainMaker(table="r2").begin().play(1, 1)
    trust = trusted(node(signer(), tables=["r1", "r3"]))
    report = verify_envelopes(maker.envelopes, trust)
    assert report.problems[0].why.startswith("other-table")
    assert seqs(hear(reader(trust), maker, maker.envelopes)) == []
    assert archived(maker, trust, live=False) == 0
    assert verify_envelopes(maker.envelopes, trusted(node(signer(), tables=["r2"]))).ok


# --- behind the end, and beside it ------------------------------------------------------------------


def test_attack_3c_nothing_goes_on_behind_the_last_record_of_a_revoked_key() -> None:
    maker = ChainMaker().begin().play(1, 1)
    following = ChainMaker(chain="b" * 32, by=signer(2)).begin(after=maker).play(1, 1)
    trust = trusted(revoked(place(maker, 4)), node(signer(2)))
    maker.play(2, 2)  # the thief's
    assert not verify_envelopes([*maker.envelopes, *following.envelopes], trust).ok
    stream = hear(reader(trust), following, [*maker.envelopes, *following.envelopes])
    delivered = [(one.record.chain[0], one.record.seq) for one in everything(stream)]
    assert delivered == [(chain, seq) for chain in "ab" for seq in range(1, 5)]


@pytest.mark.parametrize("behind", [1, 2, 3])
@pytest.mark.parametrize("whole", [True, False])
def test_attack_3c_another_history_up_to_the_last_record_is_not_believed(behind: int, *, whole: bool) -> None:
    """The thief writes anew what the revocation covers by its numbers; he cannot come to its digest."""
    maker = ChainMaker().begin().play(1, 2)
    trust = trusted(revoked(place(maker, 7)))
    forged = fork(maker, behind)
    for _ in range(behind, 7 if whole else 6):
        forged.add(Kind.INCIDENT, body={"what": "forged"})
    report = verify_envelopes(forged.envelopes, trust)
    assert any(problem.why.find("revoked") >= 0 for problem in report.problems)
    stream = hear(reader(trust), forged, forged.envelopes)
    assert seqs(stream) == []
    if not whole:
        hear(stream, forged, [maker.envelopes[6]])
        with pytest.raises(ChainError, match="does not lead to record 7"):
            stream.next()


def test_what_was_delivered_before_stays_and_the_rest_up_to_the_last_record_comes() -> None:
    maker, source = ChainMaker().begin().play(1, 3), SiteTrust(ROOT.kid, SITE)
    source.offer(trust_file(node(signer())))
    stream = hear(reader(source), maker, maker.envelopes[:3])
    mark = [one.watermark for one in everything(stream)][-1]
    source.offer(trust_file(revoked(place(maker, 10)), version=2))
    for goes_on in (stream, reader(source, mark)):
        assert seqs(hear(goes_on, maker, maker.envelopes[3:9])) == [], "nothing ties them yet"
        assert seqs(hear(goes_on, maker, maker.envelopes[9:])) == list(range(4, 11))


def test_what_a_revocation_covers_and_cannot_be_had_is_a_gap() -> None:
    maker = ChainMaker().begin().play(1, 3)
    stream = reader(trusted(revoked(place(maker, 10))))
    hear(stream, maker, maker.envelopes[:6])
    cut = fork(maker, 6)
    error = gap_of(stream, cut)
    assert (error.first, error.last) == (7, 10)
    assert seqs(stream) == []


def test_a_lower_record_that_is_named_proves_a_part_that_ends_there() -> None:
    maker = ChainMaker().begin().play(1, 4)
    trust = trusted(revoked(place(maker, 4), place(maker, 13)))
    assert verify_envelopes(maker.envelopes[:4], trust).ok
    assert verify_envelopes(maker.envelopes, trust).ok
    (problem,) = verify_envelopes(maker.envelopes[:7], trust).problems
    assert problem.why.endswith("counts up to record 13, to which what is here does not lead")
    assert seqs(hear(reader(trust), maker, maker.envelopes[:7])) == [1, 2, 3, 4]


def test_a_proof_further_away_than_can_be_held_is_said_as_revoked() -> None:
    maker = ChainMaker().begin()
    while maker.seq < AHEAD_MAX + 5:
        maker.add(Kind.INCIDENT, body={"what": "x"})
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(2).jwk, "reason": "stolen"})
    trust = trusted(revoked(place(maker, maker.seq)), node(signer(2)))
    maker.signer = signer(2)
    maker.play(1, 1)
    assert verify_envelopes(maker.envelopes, trust).ok
    error = gap_of(hear(reader(trust), maker, maker.envelopes[-3:]), maker)
    assert error.why.startswith("revoked")


# --- the reason, where records are missing ------------------------------------------------------------


def not_yet(maker: ChainMaker) -> tuple[Trust, str]:
    key = node(signer()) | {"not_before": END}
    return trusted(key, node(signer(2))), "not-yet: they are signed with key"


def unknown(_maker: ChainMaker) -> tuple[Trust, str]:
    return trusted(node(signer(2))), "unknown key: they are signed with key"


def stolen(_maker: ChainMaker) -> tuple[Trust, str]:
    return trusted(node(signer(), **THEFT), node(signer(2))), "revoked: they are signed with key"


@pytest.mark.parametrize("case", [not_yet, unknown, stolen])
def test_a_gap_says_that_records_came_and_why_they_do_not_count(case: Any) -> None:
    """Records before the trust file names their key, and good ones of the next key behind them."""
    maker = ChainMaker().begin().play(1, 1)
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(2).jwk, "reason": "yearly"})
    maker.signer = signer(2)
    maker.play(2, 2)
    trust, why = case(maker)
    stream = hear(reader(trust), maker, maker.envelopes[-3:])
    error = gap_of(stream, maker)
    assert (error.first, error.last) == (1, 5)
    assert error.why.startswith(why)
    assert signer().kid in error.why


def test_records_of_before_not_before_are_told_at_once() -> None:
    maker = ChainMaker().begin()
    key = node(signer()) | {"not_before": END}
    with capture_logs() as logs:
        hear(reader(trusted(key)), maker, maker.envelopes * 3)
    assert [(log["event"], log["why"], log["kid"]) for log in logs] == [
        ("key_not_trusted", "not-yet", signer().kid)
    ]


# --- the member of the trust file --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"revoked": ""}, "last"),
        ({"last": [{"chain": "A", "seq": 1, "head": "0" * 64}]}, "name"),
        ({"last": [{"chain": "a", "seq": 0, "head": "0" * 64}]}, "payload"),
        ({"last": [{"chain": "a", "seq": 1, "head": "0" * 63}]}, "payload"),
        ({"last": [{"chain": "a", "seq": 1, "head": "0" * 64}] * 2}, "twice"),
        ({"tables": ["R 1"]}, "name"),
    ],
)
def test_bounds_of_a_key_are_strict(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(EnvelopeError, match=rf"^{reason}"):
        trusted(revoked() | changes)


def test_the_date_holds_beside_the_position() -> None:
    maker = ChainMaker().begin().play(1, 1)
    early = node(signer(), revoked=at("06-01"), reason="x", last=[place(maker, 4)])
    assert at("06-01") > START
    assert not verify_envelopes(maker.envelopes, trusted(early)).ok, "dated after the revocation"
    assert keys(signer()).keys() == {signer().kid}
