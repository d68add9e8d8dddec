"""Who is trusted to sign for a node: keys pinned by hand, or the trust file of a site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dollyd.wire.judgement import Claim, Judgement, Verdict
from dollyd.wire.jws import Keys


@runtime_checkable
class KeySource(Protocol):
    """Asked for each record, so that a key that is revoked counts no longer."""

    def judge(self, claim: Claim, /) -> Judgement:
        """What the signature of a record is worth. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class PinnedKeys:
    """Keys that count for every node, at any time, and with them the keys that they announced."""

    keys: Keys

    def judge(self, claim: Claim, /) -> Judgement:
        """Valid where the key is pinned or announced; nobody else is known."""
        key = self.keys.get(claim.kid) or claim.announced.get(claim.kid)
        return Judgement(Verdict.UNKNOWN if key is None else Verdict.VALID, key)


def source_of(keys: Keys | KeySource) -> KeySource:
    """Both ways of saying who is trusted, as one."""
    return keys if isinstance(keys, KeySource) else PinnedKeys(keys)
