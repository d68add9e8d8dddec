"""Chains of signed records, well made unless a test asks otherwise."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dollyd.daemon.journal.store import NewEntry
from dollyd.daemon.keys.signing import Signer
from dollyd.wire.jws import Keys, b64url, keys_of_jwks
from dollyd.wire.record import FINAL_KINDS, NO_PREVIOUS, TYP, VERSION, Kind, Record, Time, encode

SITE = "house"
NODE = "node-1"
UTC = "2026-11-29T18:41:20.000000005Z"


def signer(seed: int = 1) -> Signer:
    return Signer(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


def keys(*signers: Signer) -> Keys:
    return keys_of_jwks(s.jwk for s in signers)


SETTING: dict[str, Any] = {
    "game": "roulette",
    "variant": "A",
    "rulebook": {"id": "b", "digest": "1" * 64},
    "profile": {"id": "p", "digest": "2" * 64},
}
PLAYED: dict[str, Any] = {
    "setting": SETTING,
    "gaming_date": "2026-11-29",
    "stakes": {"minimum": 100, "maximum": 1000, "currency": "EUR"},
}


def decision(capture: bytes | None = None, mode: str = "auto", pocket: str = "32") -> dict[str, Any]:
    """A body that does for a result, a void and what is unresolved."""
    evidence: dict[str, Any] = {"game_ref": "wheel/s/1"}
    if capture is not None:
        evidence["capture"] = {"digest": sha256(capture).hexdigest(), "lines": 1}
    said = {"outcome": {"pocket": pocket}, "rule": "declared", "stake_policy": "returned"}
    return PLAYED | said | {"mode": mode, "evidence": evidence}


BODIES: dict[Kind, dict[str, Any]] = {Kind.INCIDENT: {"what": "relaunch"}}
"""What stands in a record of which a test says nothing; otherwise nothing does."""


class ChainMaker:
    """Adds record after record to one chain; `entries` is what a journal would be given."""

    def __init__(self, table: str = "r1", chain: str = "a" * 32, by: Signer | None = None) -> None:
        self.table = table
        self.chain = chain
        self.signer = by or signer()
        self.seq = 0
        self.prev = NO_PREVIOUS
        self.entries: list[NewEntry] = []

    def add(
        self,
        kind: Kind,
        round_number: int = 0,
        body: dict[str, Any] | None = None,
        capture: bytes | None = None,
        header: dict[str, Any] | None = None,
    ) -> bytes:
        fields: dict[str, Any] = {
            "v": VERSION,
            "kind": kind.value,
            "site": SITE,
            "node": NODE,
            "table": self.table,
            "chain": self.chain,
            "seq": self.seq + 1,
            "prev": self.prev,
            "round": round_number,
            "time": Time(utc=UTC, monotonic_ns=1, boot="b", synchronised=True, error_bound_us=10),
            "body": msgspec.Raw(msgspec.json.encode(body or BODIES.get(kind, {}))),
        }
        envelope = self.signer.sign(encode(Record(**(fields | (header or {})))))
        self.seq, self.prev = self.seq + 1, sha256(envelope).hexdigest()
        self.entries.append(
            NewEntry(
                self.table,
                self.chain,
                self.seq,
                kind.value,
                round_number,
                kind in FINAL_KINDS,
                envelope,
                capture,
            )
        )
        return envelope

    def begin(self, after: ChainMaker | None = None) -> ChainMaker:
        body: dict[str, Any] = {"event": "chain-start", "jwk": self.signer.jwk, "reason": "new-journal"}
        if after is not None:
            body |= {"reason": "key-lost", "previous_chain": after.chain, "previous_seq": after.seq}
        self.add(Kind.KEY, body=body)
        return self

    def play(self, first: int, last: int, capture: bytes | None = None) -> ChainMaker:
        """Rounds `first` to `last`, each with its result."""
        for number in range(first, last + 1):
            self.add(Kind.ROUND, number)
            self.add(Kind.BETS_CLOSED, number)
            self.add(Kind.RESULT, number, decision(capture), capture)
        return self

    @property
    def envelopes(self) -> list[bytes]:
        return [entry.envelope for entry in self.entries]


def envelope_of(protected: bytes, payload: bytes, by: Signer | None = None) -> bytes:
    """An envelope with a right signature over whatever header and payload."""
    key = (by or signer())._private_key
    signed = b64url(protected) + b"." + b64url(payload)
    parts = (b64url(payload), b64url(protected), b64url(key.sign(signed)))
    return b'{"payload":"%s","protected":"%s","signature":"%s"}' % parts


def header(**changes: Any) -> bytes:
    """The protected header with members changed, or left out (None)."""
    members = {"alg": "EdDSA", "kid": signer().kid, "typ": TYP} | changes
    return msgspec.json.encode({key: value for key, value in members.items() if value is not None})
