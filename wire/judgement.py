"""The one question about a signature, whether its key is good for this record, and the answer.

Whoever says who is trusted (`KeySource`) answers it, and everybody who reads records asks it: a stream, a
verifier, an archive, a witness. Nobody judges a key by himself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Meta, Struct

from dollyd.wire.lineage import NOBODY, Lineage
from dollyd.wire.record import Record


class Verdict(StrEnum):
    """What a signature is worth: that of a key, in a chain, at a time."""

    VALID = "valid"
    SUPERSEDED = "superseded"
    """Replaced in its chain by another key: what it signed before is right, what comes after is not."""
    OTHER_TABLE = "other-table"
    """The key is bound to tables, and this is none of them."""
    REVOKED = "revoked"
    UNKNOWN = "unknown"
    """Nobody who is trusted has named this key, or it is that of somebody else."""
    NOT_YET = "not-yet"
    EXPIRED = "expired"
    NO_TIME = "no-time"
    """The record's time is not UTC in the one form, so it is of no time."""


class Position(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record that is known to be genuine, by its place and its digest."""

    chain: str
    seq: Annotated[int, Meta(ge=1)]
    head: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of its envelope, hex."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a record says of who signed it and where it belongs."""

    kid: str
    node: str
    table: str = ""
    """Empty: no table in particular."""
    chain: str = ""
    seq: int = 0
    digest: str = ""
    """SHA-256 of the envelope, hex; empty where it is not known."""
    utc: str
    """`time.utc` of the record, which is the claim of its box."""
    announced: Lineage = NOBODY
    """The keys that entered the chain by rotation, each as good as whoever announced it."""
    live: bool = False
    """Heard now for the first time, and not read from a file: then its own time proves nothing."""

    @classmethod
    def of(
        cls, record: Record, kid: str, digest: str = "", announced: Lineage = NOBODY, *, live: bool = False
    ) -> Claim:
        """That of a record whose envelope names this key."""
        return cls(
            kid=kid,
            node=record.node,
            table=record.table,
            chain=record.chain,
            seq=record.seq,
            digest=digest,
            utc=record.time.utc,
            announced=announced,
            live=live,
        )


_REASONS = {
    Verdict.OTHER_TABLE: "it is bound to other tables",
    Verdict.REVOKED: "its revocation does not name them as what counts",
    Verdict.UNKNOWN: "nobody who is trusted has named it for this node",
    Verdict.NOT_YET: "they are from before its not_before in the trust file",
    Verdict.EXPIRED: "they are from after its not_after in the trust file",
    Verdict.NO_TIME: "their time is not UTC in the one form",
}


def refusal(verdict: Verdict, kid: str) -> str:
    """Why records that a key signed do not count, in words."""
    name = "unknown key" if verdict is Verdict.UNKNOWN else verdict
    return f"{name}: they are signed with key {kid}; {_REASONS.get(verdict, verdict)}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer to a claim."""

    verdict: Verdict
    key: Ed25519PublicKey | None = None
    """To check the signature with, where it is known; also where it does not count, to tell who signed."""
    until: Position | None = None
    """Of a revoked key whose revocation names what counts: the record counts where its chain leads without a
    break to this one, digest included, and not before that is seen."""

    @property
    def trusted(self) -> Ed25519PublicKey | None:
        """The key where it counts, else None."""
        return self.key if self.verdict is Verdict.VALID else None
