"""Who is trusted to sign for a node: keys pinned by hand, or the trust file of a site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dollyd.client.jws import Keys
from dollyd.client.lineage import NOBODY, Lineage


@runtime_checkable
class KeySource(Protocol):
    """Asked for each record, so that a key that is revoked counts no longer."""

    def key(self, kid: str, node: str, utc: str, announced: Lineage = NOBODY, /) -> Ed25519PublicKey | None:
        """The key of this thumbprint, None where it is not trusted for a record of `node` made at `utc`.

        `utc` is the record's own claim (`time.utc`); `announced`: the keys that entered its chain by
        rotation, each as good as the source thinks of who announced it.
        """
        ...


@dataclass(frozen=True, slots=True)
class PinnedKeys:
    """Keys that count for every node, at any time, and with them the keys that they announced."""

    keys: Keys

    def key(self, kid: str, _node: str, _utc: str, announced: Lineage = NOBODY, /) -> Ed25519PublicKey | None:
        """The key of this thumbprint, None where it is neither pinned nor announced."""
        return self.keys.get(kid) or announced.get(kid)


def source_of(keys: Keys | KeySource) -> KeySource:
    """Both ways of saying who is trusted, as one."""
    return keys if isinstance(keys, KeySource) else PinnedKeys(keys)
