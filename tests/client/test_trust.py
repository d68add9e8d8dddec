"""The trust file: who may sign what and when, under a root that can be rolled; strict in all it takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.chains import NODE, SITE, UTC, ChainMaker, envelope_of, signer

from dollyd.client.proof.verify import verify_envelopes
from dollyd.daemon.keys.signing import Signer
from dollyd.wire.judgement import Claim, Judgement, Verdict
from dollyd.wire.jws import EnvelopeError, keys_of_jwks
from dollyd.wire.key_source import KeySource
from dollyd.wire.record import Kind
from dollyd.wire.trust import ROOT_TYP, TRUST_TYP, Trust, load_trust, newer

ROOT = signer(90)
NEW_ROOT = signer(91)
START = "2026-01-01T00:00:00.000000000Z"
END = "2027-01-01T00:00:00.000000000Z"


def at(day: str) -> str:
    return f"2026-{day}T00:00:00.000000000Z"


def node(key: Signer, **more: Any) -> dict[str, Any]:
    return {"jwk": key.jwk, "not_before": START, "node": NODE} | more


def person(key: Signer, **more: Any) -> dict[str, Any]:
    return {"jwk": key.jwk, "not_before": START, "id": "d-17", "roles": ["dealer", "inspector"]} | more


def roll(old: Signer, new: Signer, site: str = SITE) -> str:
    payload = {"v": 1, "site": site, "issued": START, "old": old.jwk, "new": new.jwk}
    return old.sign(json.dumps(payload).encode(), ROOT_TYP).decode()


def payload(*nodes: dict[str, Any], root: Signer = ROOT, **more: Any) -> dict[str, Any]:
    base = {"v": 1, "site": SITE, "version": 1, "issued": START, "root": root.jwk}
    return base | {"nodes": list(nodes), "operators": []} | more


def trust_file(*nodes: dict[str, Any], root: Signer = ROOT, **more: Any) -> bytes:
    return root.sign(json.dumps(payload(*nodes, root=root, **more)).encode(), TRUST_TYP)


def trusted(*nodes: dict[str, Any], **more: Any) -> Trust:
    return load_trust(trust_file(*nodes, **more), ROOT.kid)


def judged(trust: Trust, kid: str, utc: str, of: str = NODE, **more: Any) -> Judgement:
    return trust.judge(Claim(kid=kid, node=of, utc=utc, **more))


# --- what it says ----------------------------------------------------------------------------------


def test_a_key_is_judged_by_the_time_of_the_record() -> None:
    trust = trusted(node(signer(1), not_after=END), node(signer(2), revoked=at("06-01"), reason="stolen"))
    first, second = signer(1).kid, signer(2).kid
    verdicts = {
        (first, "2025-12-31T23:59:59.999999999Z"): Verdict.NOT_YET,
        (first, START): Verdict.VALID,
        (first, "2026-12-31T23:59:59.999999999Z"): Verdict.VALID,
        (first, END): Verdict.EXPIRED,
        (second, "2026-05-31T23:59:59.999999999Z"): Verdict.VALID,
        (second, at("06-01")): Verdict.REVOKED,
        (signer(3).kid, START): Verdict.UNKNOWN,
    }
    assert {case: judged(trust, *case).verdict for case in verdicts} == verdicts
    assert judged(trust, first, START, "node-2").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "utc", ["", "2026-06-01", "2026-06-01T00:00:00Z", "2026-13-01T00:00:00.000000000Z", "9"]
)
def test_a_record_without_a_time_is_no_record_of_any_time(utc: str) -> None:
    assert judged(trusted(node(signer(1))), signer(1).kid, utc).verdict is Verdict.NO_TIME


def test_people_have_roles_and_are_no_nodes() -> None:
    trust = trusted(node(signer(1)), operators=[person(signer(5), revoked=at("03-01"))])
    operator = trust.operator(signer(5).kid)
    assert operator is not None
    assert (operator.id, operator.roles) == ("d-17", ("dealer", "inspector"))
    assert operator.verdict(at("02-01")) is Verdict.VALID
    assert operator.verdict(at("03-01")) is Verdict.REVOKED
    assert trust.operator(signer(1).kid) is None
    assert judged(trust, signer(5).kid, START).verdict is Verdict.UNKNOWN


def test_it_is_a_source_of_keys_for_a_stream() -> None:
    trust = trusted(node(signer(1)), node(signer(2), node="node-2"), node(signer(3), revoked=END))
    assert isinstance(trust, KeySource)
    now = at("02-01")
    own = judged(trust, signer(1).kid, now)
    assert own.trusted == own.key == keys_of_jwks([signer(1).jwk])[signer(1).kid]
    assert judged(trust, signer(1).kid, now, "node-2").trusted is None, "a node signs for its own tables only"
    assert judged(trust, signer(1).kid, "now").trusted is None
    assert judged(trust, signer(3).kid, END).trusted is None
    assert judged(trust, signer(3).kid, END).key is not None, "to tell who signed"
    assert judged(trust, signer(4).kid, now) == Judgement(Verdict.UNKNOWN)
    assert list(trust.node_keys("node-2")) == [signer(2).kid]
    assert len(trust.node_keys()) == 3


def test_the_root_is_pinned_by_key_or_thumbprint() -> None:
    data = trust_file(node(signer(1)))
    key = keys_of_jwks([ROOT.jwk])[ROOT.kid]
    assert load_trust(data, key) == load_trust(data, ROOT.kid)
    assert load_trust(data, ROOT.kid).root == ROOT.kid
    with pytest.raises(EnvelopeError, match=r"^root"):
        load_trust(data, NEW_ROOT.kid)


# --- what is refused -------------------------------------------------------------------------------

BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "a record": (lambda: ROOT.sign(json.dumps(payload()).encode()), "header-typ"),
    "signed by a node": (lambda: signer(1).sign(json.dumps(payload()).encode(), TRUST_TYP), "unknown-key"),
    "a member too many": (lambda: trust_file(extra="1"), "payload"),
    "a member of a key too many": (lambda: trust_file(node(signer(1), note="x")), "payload"),
    "a member missing": (lambda: trust_file(version=None), "json"),
    "another format": (lambda: trust_file(v=2), "payload"),
    "no version": (lambda: trust_file(version=0), "payload"),
    "an unknown role": (lambda: trust_file(operators=[person(signer(5), roles=["owner"])]), "payload"),
    "no role": (lambda: trust_file(operators=[person(signer(5), roles=[])]), "payload"),
    "a key twice": (lambda: trust_file(node(signer(1)), node(signer(1))), "twice"),
    "a node that is a person": (lambda: trust_file(node(signer(1)), operators=[person(signer(1))]), "twice"),
    "a node that is the root": (lambda: trust_file(node(ROOT)), "twice"),
    "a wild name": (lambda: trust_file(node(signer(1), node="+")), "name"),
    "a date only": (lambda: trust_file(node(signer(1), not_after="2026-06-01")), "time"),
    "month 13": (lambda: trust_file(node(signer(1), revoked=at("13-01"))), "time"),
    "a key of another kind": (lambda: trust_file(node(signer(1)) | {"jwk": {"kty": "RSA"}}), "jwk"),
    "a false kid": (lambda: trust_file(node(signer(1)) | {"jwk": signer(1).jwk | {"kid": "x"}}), "jwk"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_strictly_right_is_refused(case: str) -> None:
    make, reason = BAD[case]
    with pytest.raises(EnvelopeError) as refused:
        load_trust(make(), ROOT.kid)
    assert refused.value.reason == reason


def test_b53_a_key_written_twice_is_refused() -> None:
    text = json.dumps(payload()).replace('"version": 1', '"version": 1, "version": 2').encode()
    protected = b'{"alg":"EdDSA","kid":"%s","typ":"dolly-trust/1"}' % ROOT.kid.encode()
    with pytest.raises(EnvelopeError, match="duplicate-key"):
        load_trust(envelope_of(protected, text, ROOT), ROOT.kid)


def test_no_changed_byte_is_believed() -> None:
    data = trust_file(node(signer(1)))
    for position in range(0, len(data), 7):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(EnvelopeError):
            load_trust(bytes(changed), ROOT.kid)


# --- versions and roots ----------------------------------------------------------------------------


def test_a_version_never_goes_back() -> None:
    first, second = trusted(), trusted(version=2)
    assert newer(None, first) is first
    assert newer(first, second) is second
    assert newer(second, trusted(version=2)) == second
    with pytest.raises(EnvelopeError, match=r"^rollback"):
        newer(second, first)
    with pytest.raises(EnvelopeError, match=r"^version"):
        newer(second, trusted(node(signer(1)), version=2))
    with pytest.raises(EnvelopeError, match=r"^site"):
        newer(first, trusted(site="other", version=3))


def test_who_pins_an_old_root_follows_its_announcements() -> None:
    third = signer(92)
    data = trust_file(root=third, rolls=[roll(ROOT, NEW_ROOT), roll(NEW_ROOT, third)], version=7)
    for pinned in (ROOT, NEW_ROOT, third):
        trust = load_trust(data, pinned.kid)
        assert (trust.root, trust.pinned) == (third.kid, pinned.kid)
    with pytest.raises(EnvelopeError, match=r"^root"):
        load_trust(data, signer(1).kid)
    assert newer(trusted(version=6), load_trust(data, ROOT.kid)).root == third.kid


def test_a_root_that_was_replaced_signs_no_more_versions() -> None:
    rolled = load_trust(trust_file(root=NEW_ROOT, rolls=[roll(ROOT, NEW_ROOT)], version=2), ROOT.kid)
    with pytest.raises(EnvelopeError, match=r"^rollback"):
        newer(rolled, trusted(version=3))


@pytest.mark.parametrize(
    "rolls",
    [
        [roll(ROOT, NEW_ROOT), roll(signer(92), NEW_ROOT)],
        [roll(ROOT, signer(92))],
        [roll(ROOT, NEW_ROOT, site="other")],
        [roll(NEW_ROOT, ROOT), roll(ROOT, NEW_ROOT)],
    ],
    ids=["no chain", "leads elsewhere", "another site's", "a circle"],
)
def test_announcements_must_lead_from_root_to_root(rolls: list[str]) -> None:
    with pytest.raises(EnvelopeError, match=r"^roll"):
        load_trust(trust_file(root=NEW_ROOT, rolls=rolls), ROOT.kid)


def test_an_announcement_that_the_old_root_did_not_sign_is_refused() -> None:
    body = {"v": 1, "site": SITE, "issued": START, "old": ROOT.jwk, "new": NEW_ROOT.jwk}
    forged = NEW_ROOT.sign(json.dumps(body).encode(), ROOT_TYP).decode()
    with pytest.raises(EnvelopeError, match=r"^unknown-key"):
        load_trust(trust_file(root=NEW_ROOT, rolls=[forged]), ROOT.kid)


# --- records under a trust file ---------------------------------------------------------------------


def rotated(old: int = 1, new: int = 2) -> ChainMaker:
    maker = ChainMaker(by=signer(old)).begin().play(1, 2)
    maker.add(Kind.ROUND, 3)
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(new).jwk, "reason": "next-key"})
    maker.signer = signer(new)
    maker.add(Kind.BETS_CLOSED, 3)
    return maker


def words(maker: ChainMaker, trust: Trust) -> tuple[list[str], dict[str, str]]:
    report = verify_envelopes(maker.envelopes, trust)
    return [problem.why.split(":")[0] for problem in report.problems], report.keys


def test_b54_every_key_of_a_rotated_chain_has_its_verdict() -> None:
    old, new = signer(1).kid, signer(2).kid
    both = trusted(node(signer(1)), node(signer(2)))
    assert words(rotated(), both) == ([], {old: "superseded", new: "pinned"})
    assert words(rotated(), trusted(node(signer(1)))) == ([], {old: "superseded", new: "announced"})
    revoked = trusted(node(signer(1)), node(signer(2), revoked=UTC))
    assert words(rotated(), revoked) == (["revoked"], {old: "superseded", new: "revoked"})
    later = trusted(node(signer(1)), node(signer(2), not_before=END))
    assert words(rotated(), later) == (["not-yet"], {old: "superseded", new: "not-yet"})
    past = trusted(node(signer(1), not_after=at("02-01")))
    assert set(words(rotated(), past)[0]) == {"expired", "unknown-key"}
    strangers = trusted(node(signer(1)), node(signer(2), node="node-2"))
    assert words(rotated(), strangers) == (["unknown"], {old: "superseded", new: "unknown"})


def test_b54_a_superseded_key_signs_nothing_more() -> None:
    maker = rotated()
    maker.signer = signer(1)
    maker.add(Kind.INCIDENT)
    for keys in (trusted(node(signer(1)), node(signer(2))), keys_of_jwks([signer(1).jwk]), None):
        (problem,) = verify_envelopes(maker.envelopes, keys).problems
        assert problem.why.startswith("superseded: ")
        assert problem.seq == maker.seq


def test_a_revoked_key_announces_nobody() -> None:
    words_of, keys = words(rotated(), trusted(node(signer(1), revoked=at("02-01"))))
    assert words_of.count("revoked") == 1, "said once a key, with the number of records"
    assert words_of[-1] == "unknown-key"
    assert keys == {signer(1).kid: "revoked"}


def test_records_of_another_site_are_a_strangers() -> None:
    maker = ChainMaker().begin()
    assert words(maker, trusted(node(signer(1)), site="other"))[0] == ["unknown"]
