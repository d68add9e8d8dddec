"""Files that a stolen key of a node has signed: `STOLEN`, by name. Each takes a generator, gives lines."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tests.support.chains import ChainMaker, decision, signer
from tests.support.malice import MALICE, Malice, evening, second_chain, signed

from dollyd.wire.record import Kind

Stolen: TypeAlias = Callable[[Random], list[bytes]]


def _untouched(_: Random) -> list[bytes]:
    return signed(evening()).envelopes


def _twice(change: Malice) -> Stolen:
    """One change, or two on top of each other."""

    def signed_again(rng: Random) -> list[bytes]:
        steps = change(evening(), rng)
        if rng.random() < 0.2 and len(steps) > 1:
            steps = rng.choice(list(MALICE.values()))(steps, rng)
        return signed(steps).envelopes

    return signed_again


def _second_chain(rng: Random) -> list[bytes]:
    """Another chain of the table, and maybe more of the first one behind its end."""
    old = signed(evening())
    new = second_chain(old, rng)
    behind = old.play(9, 9).envelopes[-3:] if rng.random() < 0.3 else []
    return [*old.envelopes[: old.seq - len(behind)], *new.envelopes, *behind]


def _other_node(rng: Random) -> list[bytes]:
    """A record, or all from one on, signed by another key that is trusted, or by a stranger's."""
    maker = signed(evening()[: rng.randrange(1, 8)], checkpoint=False)
    own = maker.signer
    maker.signer = signer(rng.choice([3, 4]))
    maker.play(9, 9)
    if rng.random() < 0.5:
        maker.signer = own
        maker.play(10, 10)
    return maker.envelopes


def _key_back(rng: Random) -> list[bytes]:
    """A key that was replaced signs again."""
    maker, new = signed(evening(), checkpoint=False), signer(rng.choice([2, 3]))
    old = maker.signer
    maker.add(Kind.KEY, 0, {"event": "rotated", "jwk": new.jwk, "reason": "planned"})
    maker.signer = new
    maker.play(9, 9)
    if rng.random() < 0.7:
        maker.signer = old
        maker.play(10, 10)
    return maker.envelopes


def _number_again(rng: Random) -> list[bytes]:
    """A place in the chain that has two records."""
    maker = ChainMaker().begin().play(1, 3)
    other = ChainMaker().begin().play(1, 1)
    other.add(Kind.ROUND, 2)
    other.add(Kind.RESULT, 2, decision(pocket="17"))
    at = rng.randrange(maker.seq)
    return [*maker.envelopes[:at], *other.envelopes[-1:], *maker.envelopes[at:]]


STOLEN: dict[str, Stolen] = {
    "stolen: untouched": _untouched,
    **{f"stolen: {name}": _twice(change) for name, change in MALICE.items()},
    "stolen: second chain": _second_chain,
    "stolen: other node's key": _other_node,
    "stolen: key back": _key_back,
    "stolen: number again": _number_again,
}
