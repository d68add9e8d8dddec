"""Two persons behind a result by hand or a correction: what a verifier takes, and every way round it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.chains import UTC, ChainMaker, decision, keys, signer
from tests.support.commands import (
    BOSS,
    DEALER,
    INSPECTOR,
    PEOPLE,
    TECHNICIAN,
    Person,
    Two,
    correction,
    later,
    manual,
    order,
    trust,
    two,
)

from dollyd.client.proof.derived import READING
from dollyd.client.proof.verify import PERSONS_NOT_CHECKED, Report, verify_envelopes
from dollyd.daemon.core.games import GAMES
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.record import Kind
from dollyd.wire.trust import Trust

FILE = trust()
DEALER_2 = Person("d2", "dealer", signer(44))
DEALER_AGAIN = Person("d1", "inspector", signer(45))


def by_hand(body: dict[str, Any] | None = None) -> ChainMaker:
    """A chain whose first round is unresolved and closed by a result by hand."""
    maker = ChainMaker().begin()
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.UNRESOLVED, 1, decision())
    maker.add(Kind.RESULT, 1, body or manual())
    return maker


def corrected(body: dict[str, Any] | None = None) -> ChainMaker:
    """A chain whose first round is corrected."""
    maker = ChainMaker().begin()
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.RESULT, 1, decision())
    maker.add(Kind.CORRECTION, 1, body or correction())
    return maker


def verified(maker: ChainMaker, file: Trust | None = FILE) -> Report:
    return verify_envelopes(maker.envelopes, file if file is not None else keys(signer()))


def why(maker: ChainMaker, file: Trust | None = FILE) -> str:
    report = verified(maker, file)
    assert len(report.problems) == 1, report.problems
    return report.problems[0].why


@pytest.mark.parametrize("made", [by_hand, corrected])
def test_two_persons_are_enough(made: Any) -> None:
    report = verified(made())
    assert report.problems == []
    assert PERSONS_NOT_CHECKED not in report.notes


@pytest.mark.parametrize("made", [by_hand, corrected])
def test_without_a_trust_file_the_report_says_what_was_not_checked(made: Any) -> None:
    report = verified(made(), None)
    assert report.problems == []
    assert report.notes.count(PERSONS_NOT_CHECKED) == 1


def test_a_void_by_correction_has_no_value() -> None:
    agreed = two("correct", (INSPECTOR, BOSS), value=None)
    after = {"kind": "void", "rule": "corrected", "stake_policy": "returned"}
    assert verified(corrected(correction(agreed, after=after, element="verdict"))).problems == []
    assert "outcome is not the one" in why(corrected(correction(agreed)))


@pytest.mark.parametrize(
    ("agreed", "said"),
    [
        pytest.param(two(by=(DEALER, DEALER)), "same person twice", id="twice"),
        pytest.param(two(by=(DEALER, DEALER_2)), "must be an inspector or a pit boss", id="no-supervisor"),
        pytest.param(two(by=(TECHNICIAN, BOSS)), "may not do this", id="technician"),
        pytest.param(two(second={"proposal": "c" * 64}), "does not approve", id="other-proposal"),
        pytest.param(two(second={"round": 2}), "approval is of another", id="other-round"),
        pytest.param(two(second={"value": ["32"]}), "another outcome", id="other-value"),
        pytest.param(two(round=2, second={"round": 2}), "another site, table, chain or round", id="round"),
        pytest.param(two(table="r2"), "another site, table, chain or round", id="table"),
        pytest.param(two(chain="b" * 32), "another site, table, chain or round", id="chain"),
        pytest.param(two(site="casino"), "another site, table, chain or round", id="site"),
        pytest.param(two(value=["32"]), "outcome is not the one", id="value"),
        pytest.param(two(reason="none"), "reason is not the one", id="reason"),
        pytest.param(two("correct"), "first command says correct", id="order"),
        pytest.param(
            two(second={"issued": later(UTC, 3700), "expires": later(UTC, 3710)}), "within", id="too-late"
        ),
        pytest.param(
            two(second={"issued": later(UTC, -50), "expires": later(UTC, 5)}), "within", id="before"
        ),
        pytest.param(two(second={"expires": later(UTC, -1)}), "while the approval was good", id="expired"),
        pytest.param(
            two(second={"issued": later(UTC, 6), "expires": later(UTC, 30)}), "approval was good", id="ahead"
        ),
    ],
)
def test_what_does_not_fit_is_a_problem_also_without_a_trust_file(agreed: Two, said: str) -> None:
    body = manual(agreed)
    assert said in why(by_hand(body), None)
    assert said in why(by_hand(body), trust(*PEOPLE, DEALER_2))


@pytest.mark.parametrize("approvals", [None, [], two().approvals[:1], two().approvals + two().approvals])
def test_fewer_or_more_than_two_are_a_problem(approvals: list[Any] | None) -> None:
    body = {key: value for key, value in manual(approvals=approvals).items() if value is not None}
    assert "persons stand behind it, not two" in why(by_hand(body))


def test_the_operators_role_is_the_signed_one() -> None:
    approvals = two().approvals
    approvals[1] = approvals[1] | {"role": "inspector"}
    assert "signed as pit-boss, not as inspector" in why(by_hand(manual(approvals=approvals)))


def test_a_mode_that_nobody_knows_is_a_problem() -> None:
    assert "mode 'trusted' is not known" in why(by_hand(manual(mode="trusted")))


def test_the_id_of_a_correction_is_what_was_proposed() -> None:
    assert "id is not the digest" in why(corrected(correction(id="d" * 64)))


@pytest.mark.parametrize(
    ("people", "said"),
    [
        ((DEALER, replace(BOSS, revoked=later(UTC, -3600))), "the key of p1 was revoked"),
        ((DEALER, replace(BOSS, not_after=later(UTC, -3600))), "the key of p1 was expired"),
        ((DEALER,), "is not that of p1"),
        ((DEALER, replace(BOSS, id="p2")), "is not that of p1"),
        ((DEALER, replace(BOSS, role="dealer")), "p1 has no role pit-boss"),
    ],
)
def test_the_trust_file_says_who_they_were_then(people: tuple[Person, ...], said: str) -> None:
    assert said in why(by_hand(), trust(*people))


def test_a_key_that_was_revoked_later_was_good_then() -> None:
    assert verified(by_hand(), trust(DEALER, replace(BOSS, revoked=later(UTC, 60)))).problems == []


def test_every_game_says_what_a_person_reads() -> None:
    assert set(READING) == set(GAMES)


# --- attacks -------------------------------------------------------------------------------------


def test_attack_same_person_with_two_keys() -> None:
    agreed = two(by=(DEALER, DEALER_AGAIN))
    assert "same person twice" in why(by_hand(manual(agreed)), trust(*PEOPLE, DEALER_AGAIN))


def test_attack_two_operators_with_one_key() -> None:
    """Neither does a trust file name a key twice, nor do two names make two persons of one key."""
    twin = replace(DEALER, id="i2", role="inspector")
    with pytest.raises(EnvelopeError) as error:
        trust(*PEOPLE, twin)
    assert error.value.reason == "twice"
    assert "one key has signed both" in why(by_hand(manual(two(by=(DEALER, twin)))), None)


@pytest.mark.parametrize("made", [by_hand, corrected])
def test_attack_forged_with_the_node_key_alone(made: Any) -> None:
    """Who has the node's key signs the commands with it, or with keys of his own."""
    node = signer()
    for one, other in ((node, node), (node, signer(70)), (signer(70), signer(71))):
        forgers = (replace(DEALER, key=one), replace(BOSS, key=other))
        name = "enter" if made is by_hand else "correct"
        agreed = two(name, forgers)
        body = manual(agreed) if made is by_hand else correction(agreed)
        assert "two persons must stand behind it" in why(made(body))


def test_attack_an_automatic_result_of_an_unresolved_round_with_the_node_key() -> None:
    assert "automatic result" in why(by_hand(manual() | {"mode": "auto"}))


def test_attack_a_signature_that_was_altered() -> None:
    agreed = two()
    approval = order("approve", later(UTC, -10), value=["15"], proposal=agreed.id, nonce="2" * 32)
    stolen = BOSS.sign(approval).rpartition(b'"signature":')[2]
    spoilt = agreed.second.rpartition(b'"signature":')[0] + b'"signature":' + stolen
    assert "the command of p1: signature" in why(by_hand(manual(replace(agreed, second=spoilt))))


def test_attack_an_approval_copied_from_another_record() -> None:
    """The approval of one proposal under another one, which the same person has made for the same round."""
    real, other = two(), two(nonce="9" * 32)
    copied = replace(other, second=real.second)
    assert "does not approve the first one" in why(by_hand(manual(copied)))


def test_attack_both_approvals_copied_into_a_second_correction() -> None:
    maker = corrected()
    again = {"kind": "result", "outcome": {"pocket": "15"}}
    maker.add(Kind.CORRECTION, 1, correction(corrects=4, before=again))
    (problem,) = verified(maker).problems
    assert problem.why == "the two persons decided record 4, and not this one too"


def test_attack_approvals_of_another_chain() -> None:
    maker = ChainMaker(chain="c" * 32).begin()
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.RESULT, 1, decision())
    maker.add(Kind.CORRECTION, 1, correction())
    assert "another site, table, chain or round" in why(maker)
