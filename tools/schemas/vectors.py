"""Test vectors for verifiers: files that are good, and files that are wrong in one way each.

The keys are public knowledge (`signer(1)` has 32 bytes of 1 as its private key): never trust them elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.chains import ChainMaker, envelope_of, header, signer
from tools.schemas.evening import (
    MOMENT,
    OUTCOME,
    RESULT,
    UNRESOLVED,
    VOID,
    Evening,
    correction,
    plain,
    whole_evening,
)

from dollyd.wire.jws import b64url, parse_envelope
from dollyd.wire.record import IncidentBody, KeyBody, Kind, RoundBody

TRUSTED = (1, 3)
"""Seeds of the keys in `keys.json`; key 2 is announced by key 1, key 4 is a stranger's."""


@dataclass(frozen=True)
class Vector:
    """A file of envelopes and what a verifier shall say of it."""

    name: str
    lines: list[bytes]
    record: int = 0
    """The line that is wrong, from 1; 0 where the file is good."""
    reason: str = ""
    """The code of docs/wire-format.md, empty where the file is good."""

    @property
    def data(self) -> bytes:
        """The file."""
        return b"".join(line + b"\n" for line in self.lines)


def vectors() -> dict[str, bytes]:
    """Every file of `docs/vectors` by name."""
    every = [
        *_good(),
        *_bad_envelopes(),
        *_bad_headers(),
        *_bad_payloads(),
        *_bad_chains(),
        *_bad_keys(),
        *_bad_persons(),
    ]
    expected = [
        {
            "file": f"{vector.name}.jsonl",
            "verdict": "bad" if vector.record else "good",
            **({"record": vector.record, "reason": vector.reason} if vector.record else {}),
        }
        for vector in every
    ]
    files = {f"{vector.name}.jsonl": vector.data for vector in every}
    files["keys.json"] = _json({"keys": [signer(seed).jwk for seed in TRUSTED]})
    files["expected.json"] = b"[\n" + b",\n".join(map(_line, expected)) + b"\n]\n"
    return files


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode("ascii") + b"\n"


def _line(value: Any) -> bytes:
    return b"  " + json.dumps(value).encode("ascii")


# --- good ----------------------------------------------------------------------------------------


def _good() -> Iterator[Vector]:
    yield Vector("good-evening", whole_evening().envelopes)
    yield Vector("good-first-record-only", Evening().begin().envelopes)
    one, two = Evening().open().result(1), Evening("r2", "b" * 32, signer(3)).open().result(1)
    mixed = [line for pair in zip(one.envelopes, two.envelopes, strict=True) for line in pair]
    yield Vector("good-two-tables", mixed)
    next_one = Evening(chain="c" * 32, by=signer(3)).begin(after=one)
    yield Vector("good-chain-after-another", [*one.envelopes, *next_one.envelopes])
    yield Vector("good-chain-after-one-that-is-not-here", next_one.envelopes)
    spaced = Evening().open()
    payload = parse_envelope(spaced.envelopes[0]).payload
    yield Vector("good-spaces-in-a-payload", [envelope_of(header(), payload.replace(b'":', b'": '))])


# --- the envelope --------------------------------------------------------------------------------


def _last_changed(name: str, old: bytes, new: bytes, reason: str = "envelope") -> Vector:
    lines = Evening().open().envelopes
    return Vector(name, [*lines[:-1], lines[-1].replace(old, new)], len(lines), reason)


def _bad_envelopes() -> Iterator[Vector]:
    lines = Evening().open().envelopes
    parsed = parse_envelope(lines[-1])
    signature, payload = b64url(parsed.signature), b64url(parsed.payload)
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    # A signature has 64 bytes: its last character carries two bits, its four others are nothing.
    unused = signature[:-1] + bytes([alphabet[alphabet.index(signature[-1]) + 1]])
    yield Vector("bad-empty", [], 1, "envelope")
    yield Vector("bad-empty-line", [*lines, b""], len(lines) + 1, "envelope")
    yield _last_changed("bad-trailing-byte", b'"}', b'"}x')
    yield _last_changed("bad-carriage-return", b'"}', b'"}\r')
    yield _last_changed("bad-space-in-envelope", b'":"', b'": "')
    yield _last_changed("bad-duplicate-member", b'"}', b'","payload":"e30"}')
    yield _last_changed("bad-unknown-member", b'"}', b'","x":"y"}')
    yield _last_changed("bad-unprotected-header", b'"}', b'","header":{"alg":"none"}}')
    yield _last_changed("bad-padding", payload, payload + b"=")
    yield _last_changed("bad-standard-alphabet", signature, b"+" + signature[1:])
    yield _last_changed("bad-unused-bits", signature, unused, "base64url")
    yield _last_changed("bad-short-signature", signature, b64url(parsed.signature[:63]))
    yield _last_changed("bad-signature", signature, b64url(parsed.signature[::-1]), "signature")
    changed = parsed.payload.replace(b'"by":"d1"', b'"by":"d2"')
    yield _last_changed("bad-changed-payload", payload, b64url(changed), "signature")


def _bad_headers() -> Iterator[Vector]:
    headers = {
        "alg-none": header(alg="none"),
        "alg-hs256": header(alg="HS256"),
        "alg-ed448": header(alg="Ed448"),
        "alg-missing": header(alg=None),
        "typ": header(typ="dolly-trust/1"),
        "typ-of-a-later-version": header(typ="dolly-record/2"),
        "typ-missing": header(typ=None),
        "critical": header(crit=["b64"], b64=False),
        "jwk-in-header": header(jwk=signer(4).jwk),
        "duplicate-alg": header()[:-1] + b',"alg":"none"}',
        "header-order": b'{"typ":"dolly-record/1",' + header(typ=None)[1:],
    }
    for name, protected in headers.items():
        yield Vector(f"bad-{name}", [_with_header(protected)], 1, "header")
    yield Vector("bad-kid-of-a-stranger", [_with_header(header(kid=signer(4).kid))], 1, "key")
    yield Vector("bad-kid-of-another", [_with_header(header(kid=signer(3).kid))], 1, "signature")


def _with_header(protected: bytes) -> bytes:
    return envelope_of(protected, parse_envelope(Evening().begin().envelopes[0]).payload)


def _bad_payloads() -> Iterator[Vector]:
    changes = {
        "duplicate-key": (b'"v":1', b'"v":1,"v":1'),
        "duplicate-key-escaped": (b'"v":1', b'"v":1,"\\u0076":1'),
        "duplicate-key-inside": (b'"boot":"b"', b'"boot":"a","boot":"b"'),
        "nan": (b'"round":0', b'"round":NaN'),
        "float": (b'"round":0', b'"round":0.0'),
        "exponent": (b'"round":0', b'"round":0e0'),
        "null": (b'"v":1', b'"v":1,"x":null'),
        "large-integer": (b'"v":1', b'"v":1,"x":9223372036854775808'),
        "leading-zero": (b'"v":1', b'"v":01'),
        "key-not-ascii": (b'"v":1', '"v":1,"ä":1'.encode()),
        "half-a-character": (b'"v":1', b'"v":1,"x":"\\ud800"'),
        "not-utf-8": (b'"v":1', b'"v":1,"x":"\xff"'),
        "byte-order-mark": (b'{"v":1', b'\xef\xbb\xbf{"v":1'),
        "space-before": (b'{"v":1', b' {"v":1'),
        "nested-too-deep": (b'"v":1', b'"v":1,"x":' + b"[" * 11 + b"]" * 11),
    }
    payload = parse_envelope(Evening().begin().envelopes[0]).payload
    for name, (old, new) in changes.items():
        yield Vector(f"bad-{name}", [envelope_of(header(), payload.replace(old, new, 1))], 1, "payload")
    yield Vector("bad-trailing-bytes", [envelope_of(header(), payload + b"x")], 1, "payload")
    for name, new in {"version": b'"v":2', "text-for-a-number": b'"v":"1"', "missing": b'"w":1'}.items():
        yield Vector(
            f"bad-record-{name}", [envelope_of(header(), payload.replace(b'"v":1', new, 1))], 1, "record"
        )
    places: dict[str, dict[str, Any]] = {
        "name-of-a-table": {"table": "r1/../r2"},
        "name-with-a-line-end": {"table": "r1\n"},
        "name-of-a-site": {"site": "#"},
        "name-of-a-node": {"node": "n" * 41},
        "name-of-a-chain": {"chain": "../../" + "a" * 26},
        "round-beyond-numbers": {"round": 2**53},
        "round-below-zero": {"round": -1},
        "seq-beyond-numbers": {"seq": 2**53},
    }
    for name, place in places.items():
        yield _added(f"bad-{name}", Kind.INCIDENT, 0, _incident(), "record", place)


# --- the chain -----------------------------------------------------------------------------------


def _bad_chains() -> Iterator[Vector]:
    lines = Evening().open().result(1).envelopes
    yield Vector("bad-hole", [*lines[:2], *lines[3:]], 3, "chain")
    yield Vector("bad-begins-in-the-middle", lines[1:], 1, "chain")
    next_one = Evening(chain="c" * 32, by=signer(3)).begin(after=Evening().open().result(1))
    yield Vector("bad-end-before-the-next-chain", [*lines[:-1], *next_one.envelopes], len(lines), "chain")
    longer = Evening().open().result(1).say(Kind.INCIDENT, 0, _incident()).envelopes
    yield Vector("bad-goes-on-behind-its-end", [*longer, *next_one.envelopes], len(longer) + 1, "chain")
    unnamed = Evening(chain="d" * 32, by=signer(3)).begin().envelopes
    yield Vector("bad-second-chain-names-none", [*lines, *unnamed], len(lines) + 1, "chain")
    twin = Evening(chain="d" * 32, by=signer(3)).begin(after=Evening().open().result(1)).envelopes
    yield Vector("bad-two-chains-after-one", [*lines, *next_one.envelopes, *twin], len(lines) + 2, "chain")
    other = Evening("r2", "e" * 32, signer(3)).begin(after=Evening().open().result(1)).envelopes
    yield Vector("bad-after-a-chain-of-another-table", [*lines, *other], len(lines) + 1, "chain")
    yield Vector("bad-order", [*lines[:2], lines[3], lines[2]], 3, "chain")
    yield Vector("bad-record-twice", [*lines[:3], lines[2]], 4, "chain")
    yield Vector("bad-no-key-first", Evening().say(Kind.INCIDENT, 0, _incident()).envelopes, 1, "chain")
    yield _added("bad-record-of-another-table", Kind.INCIDENT, 0, _incident(), "chain", {"table": "r2"})
    yield _added("bad-record-of-another-site", Kind.INCIDENT, 0, _incident(), "chain", {"site": "casino"})
    yield _added("bad-prev", Kind.INCIDENT, 0, _incident(), "chain", {"prev": "f" * 64})
    yield _added("bad-renumbered", Kind.INCIDENT, 0, _incident(), "chain", {"seq": 7})
    yield _added("bad-unknown-kind", Kind.INCIDENT, 0, _incident(), "record", {"kind": "jackpot"})
    forged = {"kind": "x\nbad-forged-verdict.jsonl: good: 9 records in 1 chains"}
    yield _added("bad-forged-verdict", Kind.INCIDENT, 0, _incident(), "record", forged)
    yield _added("bad-second-final-record", Kind.RESULT, 1, RESULT, "round")
    yield _added("bad-void-after-result", Kind.VOID, 1, VOID, "round")
    yield _added("bad-result-of-no-round", Kind.RESULT, 2, RESULT, "round")
    yield _added("bad-round-number-again", Kind.ROUND, 1, RoundBody(game_ref="g", opened=MOMENT), "round")
    yield _added("bad-correction-of-no-round", Kind.CORRECTION, 2, correction(Evening(), 2), "round")
    yield _added("bad-round-never-opened", Kind.INCIDENT, 9, _incident(), "round")
    doubt = Evening().open().bet(1).say(Kind.UNRESOLVED, 1, UNRESOLVED).say(Kind.RESULT, 1, RESULT)
    yield Vector("bad-automatic-result-of-unresolved", doubt.envelopes, doubt.seq, "round")
    for name, finals in {"head": 1, "count": 2}.items():
        chain = Evening().open().result(1)
        if name == "head":
            chain.add(
                Kind.CHECKPOINT, 0, {"reason": "asked", "seq": chain.seq, "head": "f" * 64, "finals": finals}
            )
        else:
            chain.checkpoint(finals)
        yield Vector(f"bad-checkpoint-{name}", chain.envelopes, chain.seq, "body")
    bare = plain(RESULT)
    del bare["evidence"]
    chain = Evening().open().bet(1)
    chain.add(Kind.RESULT, 1, bare)
    yield Vector("bad-result-without-evidence", chain.envelopes, chain.seq, "body")


def _incident() -> IncidentBody:
    return IncidentBody(what="device-lost", text="unplugged", details={})


def _added(
    name: str, kind: Kind, number: int, body: Any, reason: str, changed: dict[str, Any] | None = None
) -> Vector:
    """One round with its result, and a signed record that must not be there."""
    chain = Evening().open().result(1)
    chain.add(kind, number, plain(body), header=changed)
    return Vector(name, chain.envelopes, chain.seq, reason)


def _bad_keys() -> Iterator[Vector]:
    old, new = signer(1), signer(2)
    rotated = Evening().open().rotate(new).result(1)
    rotated.signer = old
    rotated.say(Kind.INCIDENT, 0, _incident())
    yield Vector("bad-superseded-key-again", rotated.envelopes, rotated.seq, "key")
    early = Evening().open()
    early.signer = new
    early.say(Kind.INCIDENT, 0, _incident())
    yield Vector("bad-key-not-announced", early.envelopes, early.seq, "key")
    other = Evening().open()
    other.signer = signer(3)
    other.say(Kind.INCIDENT, 0, _incident())
    yield Vector("bad-trusted-key-out-of-turn", other.envelopes, other.seq, "key")
    stranger = Evening(by=signer(4)).open()
    yield Vector("bad-chain-of-a-stranger", stranger.envelopes, 1, "key")
    named = ChainMaker()
    named.add(Kind.KEY, 0, plain(KeyBody(event="chain-start", jwk=signer(3).jwk, reason="new-journal")))
    yield Vector("bad-first-key-did-not-sign", named.envelopes, 1, "key")
    for name, jwk in {
        "another-curve": old.jwk | {"crv": "X25519"},
        "another-keys-name": old.jwk | {"kid": new.kid},
        "short": old.jwk | {"x": old.jwk["x"][:-4]},
        "of-small-order": _jwk(1),
        "not-canonical": _jwk(2**255 - 19 + 3),
    }.items():
        chain = ChainMaker()
        chain.add(Kind.KEY, 0, {"event": "chain-start", "jwk": jwk, "reason": "new-journal"})
        yield Vector(f"bad-jwk-{name}", chain.envelopes, 1, "body")


def _jwk(y: int) -> dict[str, str]:
    """The key of a point by its y; it has no name, as one that nobody should have."""
    return {"kty": "OKP", "crv": "Ed25519", "x": b64url(y.to_bytes(32, "little")).decode()}


# --- persons -------------------------------------------------------------------------------------


def _bad_persons() -> Iterator[Vector]:
    """A correction of round 1 that two persons have signed; of the rest the node has changed one thing."""
    good = plain(correction(Evening(), 1))
    first, second = good["approvals"]
    limits, setting = good["stakes"], good["setting"]
    changes: dict[str, dict[str, Any]] = {
        "nobody": {"approvals": []},
        "one": {"approvals": [first]},
        "same-person-twice": {"approvals": [first, first]},
        "other-order": {"approvals": [second, first]},
        "other-role": {"approvals": [first | {"role": "pit-boss"}, second]},
        "outcome-nobody-signed": {"after": good["after"] | {"outcome": OUTCOME | {"pocket": "30"}}},
        "reason-nobody-signed": {"reason": "another"},
        "id": {"id": "0" * 64},
        "corrects": {"corrects": 3},
        "before": {"before": {"kind": "result", "outcome": OUTCOME | {"pocket": "27"}}},
        "stakes": {"stakes": limits | {"maximum": 10**12}},
        "variant": {"setting": setting | {"variant": "D"}},
        "gaming-date": {"gaming_date": "2026-11-28"},
        "element": {"element": "verdict"},
        "policy-of-a-result": {"after": good["after"] | {"stake_policy": "carried"}},
        "colour": {"after": _with(good["after"], colour="green")},
        "dozen": {"after": _with(good["after"], dozen="none")},
        "number-for-a-text": {"after": _with(good["after"], column=2)},
    }
    for name, change in changes.items():
        chain = Evening().open().result(1)
        chain.add(Kind.CORRECTION, 1, good | change)
        yield Vector(f"bad-correction-{name}", chain.envelopes, chain.seq, "persons")
    twice = Evening().open().result(1).say(Kind.CORRECTION, 1, correction(Evening(), 1))
    twice.add(Kind.CORRECTION, 1, good | {"corrects": 6, "before": good["after"]})
    yield Vector("bad-correction-decided-twice", twice.envelopes, twice.seq, "persons")
    alone = Evening().open().bet(1)
    alone.add(Kind.RESULT, 1, plain(RESULT) | {"mode": "manual", "reason": "the sensor is dead"})
    yield Vector("bad-result-by-hand-of-nobody", alone.envelopes, alone.seq, "persons")
    void = Evening().open().bet(1)
    void.add(Kind.VOID, 1, plain(VOID) | {"stake_policy": "kept"})
    yield Vector("bad-void-stake-policy", void.envelopes, void.seq, "persons")


def _with(finding: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A finding in whose outcome something else stands beside what the persons have read."""
    return finding | {"outcome": finding["outcome"] | members}
