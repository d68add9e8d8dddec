"""The keys that entered a chain by rotation, and who announced each: a key is as good as its announcer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dollyd.wire.jws import key_of_jwk, thumbprint


class Lineage:
    """Announced keys of one chain, by `kid`. Who puts one here has checked the record that announces it."""

    def __init__(self) -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}
        self._announcers: dict[str, str] = {}

    @classmethod
    def of(cls, first: str, xs: Iterable[str]) -> Lineage:
        """Keys (`x` of the JWK) of which each announced the next; `first` (`kid`) announced the first one.

        Raises `EnvelopeError` where one is no key.
        """
        lineage, announcer = cls(), first
        for x in xs:
            announcer = lineage.add(key_of_x(x), announcer)
        return lineage

    def add(self, key: Ed25519PublicKey, announcer: str) -> str:
        """Take a key that `announcer` (`kid`, empty where not known) has announced; gives its own `kid`.

        Of several who announced it the first one counts.
        """
        kid = thumbprint(key)
        self._keys[kid] = key
        self._announcers.setdefault(kid, announcer)
        return kid

    def get(self, kid: str) -> Ed25519PublicKey | None:
        """The announced key, None where nobody announced it."""
        return self._keys.get(kid)

    def up_from(self, kid: str) -> Iterator[str]:
        """The key itself, the one that announced it, the one that announced that, as far as is known."""
        seen: set[str] = set()
        while kid and kid not in seen:
            seen.add(kid)
            yield kid
            kid = self._announcers.get(kid, "")


NOBODY: Final = Lineage()
"""No key was announced."""


def key_of_x(x: str) -> Ed25519PublicKey:
    """The key of a JWK's `x`. Raises `EnvelopeError`."""
    return key_of_jwk({"kty": "OKP", "crv": "Ed25519", "x": x})
