"""One set of rules for all who read a chain: what is wrong for the verifier is delivered to nobody."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from tests.support.chains import NODE, PLAYED, SITE, ChainMaker, decision, keys, signer
from tests.support.commands import BOSS, INSPECTOR, ROOT, START, Person, Two, correction, manual, trust, two

from dollyd.client import ChainError, Delivered, GapError, SiteTrust, Watermark
from dollyd.client.proof.chain_rules import REMEMBERED, Persons
from dollyd.client.proof.ended import NOT_COMPARED
from dollyd.client.proof.verify import verify_envelopes
from dollyd.client.stream.reader import Reader
from dollyd.wire.jws import Keys
from dollyd.wire.key_source import KeySource
from dollyd.wire.record import Kind
from dollyd.wire.trust import TRUST_TYP, Trust

FILE = trust()
PINNED = keys(signer())


def round_one(pocket: str = "32") -> ChainMaker:
    """Key, session, and a round with its result in record 4."""
    maker = ChainMaker().begin()
    maker.add(Kind.SESSION, body=PLAYED | {"event": "opened", "by": "d1"})
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.RESULT, 1, decision(pocket=pocket))
    return maker


def void_round() -> ChainMaker:
    maker = round_one()
    maker.add(Kind.ROUND, 2)
    maker.add(Kind.VOID, 2, decision())
    return maker


def delivered_of(
    maker: ChainMaker, source: Keys | KeySource = FILE, mark: Watermark | None = None
) -> list[Delivered]:
    """All that a stream gives before it raises."""
    reader = Reader(SITE, source, {mark.chain: mark} if mark else {}, rng=Random(1))
    for envelope in maker.envelopes:
        reader.hear(maker.table, envelope)
    given: list[Delivered] = []
    while True:
        try:
            delivered = reader.next()
        except (ChainError, GapError):
            return given
        if delivered is None:
            return given
        given.append(delivered)


def refused(maker: ChainMaker, source: Trust | Keys = FILE) -> str:
    """Why the last record is refused, by the verifier and by the stream."""
    report = verify_envelopes(maker.envelopes, source)
    assert {problem.at for problem in report.problems} == {maker.seq}, report.problems
    assert [one.record.seq for one in delivered_of(maker, source)] == list(range(1, maker.seq))
    reader = Reader(SITE, source, {}, rng=Random(1))
    for envelope in maker.envelopes:
        reader.hear(maker.table, envelope)
    error = None
    while error is None:
        try:
            assert reader.next() is not None
        except ChainError as raised:
            error = raised
    assert error.why == report.problems[0].why
    return error.why


def corrected(body: dict[str, Any], maker: ChainMaker | None = None, number: int = 1) -> ChainMaker:
    maker = maker or round_one()
    maker.add(Kind.CORRECTION, number, body)
    return maker


def agreed(value: list[str] | None = None, **changes: Any) -> Two:
    return two("correct", (INSPECTOR, BOSS), value=value, **changes)


FITS = correction(corrects=4)
TO_VOID = {"kind": "void", "rule": "corrected", "stake_policy": "returned"}
VOIDED = correction(agreed(), corrects=4, element="verdict", after=TO_VOID)


# --- what the paying consumer takes ---------------------------------------------------------------


@pytest.mark.parametrize("source", [FILE, PINNED], ids=["trust-file", "pinned"])
def test_what_two_persons_decided_is_delivered_and_says_what_was_checked(source: Any) -> None:
    maker = corrected(FITS)
    assert verify_envelopes(maker.envelopes, source).problems == []
    given = delivered_of(maker, source)
    assert [one.record.seq for one in given] == [1, 2, 3, 4, 5]
    assert [one.persons for one in given[:-1]] == [Persons.NONE] * 4
    assert given[-1].persons == (Persons.CHECKED if source is FILE else Persons.FORM)
    assert [one.unchecked for one in given] == [()] * 5


def _second_result(maker: ChainMaker) -> None:
    maker.add(Kind.RESULT, 1, decision(pocket="17"))


def _never_opened(maker: ChainMaker) -> None:
    maker.add(Kind.RESULT, 9, decision(pocket="17"))


def _by_hand(maker: ChainMaker) -> None:
    maker.add(Kind.ROUND, 2)
    body = {key: value for key, value in manual().items() if key != "approvals"}
    maker.add(Kind.RESULT, 2, body)


def _correction_by_nobody(maker: ChainMaker) -> None:
    maker.add(Kind.CORRECTION, 1, FITS | {"approvals": []})


def _checkpoint(maker: ChainMaker) -> None:
    stands = {"reason": "asked", "seq": maker.seq, "head": maker.prev, "finals": 2}
    maker.add(Kind.CHECKPOINT, body=stands)


@pytest.mark.parametrize("source", [FILE, PINNED], ids=["trust-file", "pinned"])
@pytest.mark.parametrize(
    "attack", [_second_result, _never_opened, _by_hand, _correction_by_nobody, _checkpoint]
)
def test_attack_1_what_a_node_s_key_makes_alone_is_delivered_to_nobody(
    attack: Callable[[ChainMaker], None], source: Any
) -> None:
    maker = round_one()
    attack(maker)
    refused(maker, source)


def test_attack_1_persons_made_up_by_the_node_are_refused_by_the_trust_file() -> None:
    """With pinned keys alone they cannot be told from real ones, and `Delivered` says so."""
    by = (INSPECTOR, type(BOSS)("p1", "pit-boss", signer(77)))
    maker = corrected(correction(two("correct", by), corrects=4))
    assert "is not that of p1" in refused(maker)
    assert delivered_of(maker, PINNED)[-1].persons is Persons.FORM


def test_attack_1_after_a_refusal_nothing_more_of_the_chain_is_delivered() -> None:
    maker = round_one()
    _second_result(maker)
    maker.add(Kind.ROUND, 2)
    maker.add(Kind.RESULT, 2, decision())
    assert [one.record.seq for one in delivered_of(maker)] == [1, 2, 3, 4]


def test_a_person_whom_a_newer_trust_file_knows_is_believed_then() -> None:
    file = {"v": 1, "site": SITE, "issued": START, "root": ROOT.jwk}
    file |= {"nodes": [{"jwk": signer().jwk, "not_before": START, "node": NODE}]}

    def version(number: int, *people: Person) -> bytes:
        said = {"version": number, "operators": [person.entry() for person in people]}
        return ROOT.sign(msgspec.json.encode(file | said), TRUST_TYP)

    source, maker = SiteTrust(ROOT.kid, SITE), corrected(FITS)
    assert source.offer(version(1, INSPECTOR))
    reader = Reader(SITE, source, {}, rng=Random(1))
    for envelope in maker.envelopes:
        reader.hear(maker.table, envelope)
    assert [reader.next() is not None for _ in range(4)] == [True] * 4
    with pytest.raises(ChainError, match="is not that of p1"):
        reader.next()
    assert reader.requests(0.0) == []
    assert source.offer(version(2, INSPECTOR, BOSS))
    (request,) = reader.requests(1.0)
    assert (request.first, request.last) == (5, 5)
    reader.hear(maker.table, maker.envelopes[4])
    given = reader.next()
    assert given is not None
    assert (given.record.seq, given.persons) == (5, Persons.CHECKED)


def test_attack_1_the_persons_of_a_site_are_known_to_a_stream_that_follows_its_trust_file() -> None:
    source = SiteTrust(FILE.pinned, SITE)
    assert source.offer(FILE.envelope)
    assert delivered_of(corrected(FITS), source)[-1].persons is Persons.CHECKED


# --- what two persons sign is little: all else is held against the chain ----------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param({"corrects": 3}, "it corrects record 3; the round ended with record 4", id="corrects"),
        pytest.param({"corrects": 999}, "it corrects record 999", id="corrects-nothing"),
        pytest.param(
            {"before": {"kind": "result", "outcome": {"pocket": "31"}}},
            "what it takes away is not what record 4 says",
            id="before",
        ),
        pytest.param(
            {"stakes": PLAYED["stakes"] | {"maximum": 10**12}}, "its stakes are not those", id="stakes"
        ),
        pytest.param({"stakes": None}, "its stakes are not those", id="no-stakes"),
        pytest.param(
            {"setting": PLAYED["setting"] | {"variant": "D"}}, "its setting", id="variant"
        ),
        pytest.param(
            {"setting": PLAYED["setting"] | {"zero_rule": "prison"}}, "its setting", id="zero-rule"
        ),
        pytest.param({"gaming_date": "2026-11-28"}, "gaming date", id="date"),
        pytest.param(
            {
                "odds": {
                    "table": 2, "device": "odds", "counter": 1, "nonce": "0", "proof": "0",
                    "drawn": {"utc": "2026-11-29T18:41:20.000000005Z", "monotonic_ns": 1},
                }
            },
            "odds are not those of the round",
            id="odds",
        ),
        pytest.param({"after": {"kind": "x", "outcome": {"pocket": "15"}}}, "neither a result", id="kind"),
        pytest.param({"element": "verdict"}, "its element is 'verdict'", id="element"),
        pytest.param(
            {"after": {"kind": "result", "outcome": {"pocket": "15", "colour": "red"}}},
            "colour is 'red'; from 15 follows 'black'",
            id="colour",
        ),
        pytest.param(
            {"after": {"kind": "result", "outcome": {"pocket": "15", "dozen": "1-12"}}}, "dozen", id="dozen"
        ),
        pytest.param(
            {"after": {"kind": "result", "outcome": {"pocket": "15"}, "stake_policy": "carried"}},
            "neither rule nor stake policy",
            id="policy",
        ),
    ],
)  # fmt: skip
def test_attack_5_of_a_correction_nothing_but_the_truth_is_taken(changed: dict[str, Any], said: str) -> None:
    body = {key: value for key, value in (FITS | changed).items() if value is not None}
    assert said in refused(corrected(body))
    assert said in refused(corrected(body), PINNED)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (TO_VOID | {"outcome": {"pocket": "15"}}, "outcome"),
        (
            TO_VOID | {"stake_policy": "carried"},
            "policy is carried; that of its profile is returned",
        ),
        (TO_VOID | {"stake_policy": "kept"}, "not known"),
    ],
)
def test_attack_5_a_void_by_correction_is_like_any_other_void(after: dict[str, Any], said: str) -> None:
    body = correction(agreed(), corrects=4, element="verdict", after=after)
    assert said in refused(corrected(body, void_round()))


def test_attack_5_the_stakes_of_a_void_are_those_of_the_session() -> None:
    body = correction(agreed(["15"], round=2), corrects=6, element="verdict", before=_void_finding())
    assert delivered_of(corrected(body, void_round(), 2))[-1].record.kind == Kind.CORRECTION
    body |= {"stakes": PLAYED["stakes"] | {"maximum": 10**12}}
    assert "its stakes are not those" in refused(corrected(body, void_round(), 2))


def _void_finding() -> dict[str, Any]:
    return {"kind": "void", "rule": "declared", "stake_policy": "returned"}


def test_attack_5_a_result_by_hand_contradicts_itself() -> None:
    maker = round_one()
    maker.add(Kind.ROUND, 2)
    maker.add(Kind.RESULT, 2, manual(two(round=2), outcome={"pocket": "15", "parity": "even"}))
    assert "parity is 'even'; from 15 follows 'odd'" in refused(maker)


def test_a_correction_of_a_correction_is_held_against_the_last_one() -> None:
    maker = corrected(FITS)
    counts = {"kind": "result", "outcome": {"pocket": "15"}}
    later = agreed(["17"], nonce="8" * 32)
    after = {"kind": "result", "outcome": {"pocket": "17"}}
    good = correction(later, corrects=5, before=counts, after=after)
    assert verify_envelopes(corrected(good, corrected(FITS)).envelopes, FILE).problems == []
    assert "it corrects record 4" in refused(corrected(good | {"corrects": 4}, maker))


# --- the phase of a game ----------------------------------------------------------------------------

CRAPS = PLAYED | {"setting": PLAYED["setting"] | {"game": "craps"}}


def craps(*rolls: tuple[int, int, int]) -> ChainMaker:
    """Rounds of craps: two dice and the point before the roll, 0 for none."""
    maker = ChainMaker().begin()
    for number, (first, second, point) in enumerate(rolls, 1):
        maker.add(Kind.ROUND, number)
        maker.add(Kind.RESULT, number, decision() | CRAPS | {"outcome": roll(first, second, point)})
    return maker


def roll(first: int, second: int, point: int) -> dict[str, Any]:
    said = {"die_1": first, "die_2": second, "sum": first + second, "pair": first == second}
    return said | {"phase": "point" if point else "come-out"} | ({"point": point} if point else {})


@pytest.mark.parametrize(("point", "good"), [(4, True), (6, False), (0, False)])
def test_attack_5_the_point_of_a_corrected_roll_is_that_of_the_rounds_before(point: int, good: bool) -> None:
    maker = craps((2, 2, 0), (1, 1, 4))
    body = CRAPS | correction(
        agreed(["3", "4"], round=2),
        corrects=5,
        before={"kind": "result", "outcome": roll(1, 1, 4)},
        after={"kind": "result", "outcome": roll(3, 4, point)},
        setting=CRAPS["setting"],
    )
    maker.add(Kind.CORRECTION, 2, body)
    if good:
        assert verify_envelopes(maker.envelopes, FILE).problems == []
    else:
        assert "its outcome contradicts itself" in refused(maker)


# --- from a watermark -------------------------------------------------------------------------------


def test_attack_5_a_consumer_that_restarted_holds_a_correction_against_what_it_had() -> None:
    mark = delivered_of(round_one())[-1].watermark
    assert len(mark.rules) < 500
    good = delivered_of(corrected(FITS), mark=mark)
    assert [(one.record.seq, one.unchecked) for one in good] == [(5, ())]
    assert delivered_of(corrected(FITS | {"corrects": 3}), mark=mark) == []
    maker = round_one()
    _second_result(maker)
    assert delivered_of(maker, mark=mark) == []


def test_a_stream_that_begins_in_the_middle_says_what_it_could_not_check() -> None:
    mark = delivered_of(round_one())[-1].watermark
    bare = Watermark(mark.table, mark.chain, mark.seq, mark.digest, mark.keys, mark.kid)
    (given,) = delivered_of(corrected(FITS | {"corrects": 3}), mark=bare)
    assert given.unchecked == (NOT_COMPARED,)


def test_what_a_watermark_carries_stays_small() -> None:
    maker = ChainMaker().begin()
    for number in range(1, 500):
        maker.add(Kind.ROUND, number)
        maker.add(Kind.RESULT, number, decision(pocket=str(number % 37)))
    given = delivered_of(maker)
    assert len(given[-1].rules) < 4000
    assert REMEMBERED > 20
