"""What every demo must prove of its records, and the list of what was expected and seen.

An expectation is a sentence and a pure function that says what is missing, or nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import KeySet

from dollyd.wire.jws import parse_envelope

Record = dict[str, Any]
Games = TypeVar("Games")


@dataclass(frozen=True)
class Seen(Generic[Games]):
    """The evidence."""

    games: Games
    """What the devices themselves say that they played."""
    received: tuple[bytes, ...]
    """Envelopes that the subscriber kept, in the order of their chains."""
    damaged: int
    journal: tuple[bytes, ...]
    keys: bytes
    """The node's public keys, a JWK set."""
    daemon_exit: int | None
    verified: str
    """What `dollyd verify` printed where it found the journal good; empty where it did not."""
    replayed: str
    """What `dollyd replay` printed where it derived every decision again; empty where it did not."""

    def records(self, kind: str, table: str = "") -> list[Record]:
        """Records of one kind, in order; of one table where it is named."""
        every = (msgspec.json.decode(parse_envelope(envelope).payload) for envelope in self.received)
        return [r for r in every if r["kind"] == kind and table in ("", r["table"])]


Expectation: TypeAlias = tuple[str, Callable[[Seen[Games]], str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """An expectation and what is missing of it, empty where it was met."""

    expected: str
    missing: str


def judge(seen: Seen[Games], expectations: Iterable[Expectation[Games]]) -> list[Finding]:
    """Compare what was seen with every expectation."""
    return [Finding(expected, missing(seen)) for expected, missing in expectations]


def lacking(what: str, absent: Iterable[object]) -> str:
    """`no WHAT a, b`, or nothing where nothing is absent."""
    names = ", ".join(str(one) for one in sorted(absent, key=str))
    return f"no {what} {names}" if names else ""


def _same_records(seen: Seen[Any]) -> str:
    if seen.damaged:
        return f"{seen.damaged} messages were no record, or changed one that was sent before"
    if sorted(seen.received) == sorted(seen.journal) and seen.journal:
        return ""
    missing = len(set(seen.journal) - set(seen.received))
    return f"{len(seen.received)} received, {len(seen.journal)} in the journal, {missing} not received"


def _signatures(seen: Seen[Any]) -> str:
    keys = KeySet.import_key_set(msgspec.json.decode(seen.keys))
    with warnings.catch_warnings():
        # It warns that RFC 9864 has another name for EdDSA with Ed25519; RFC 8037's is what we sign.
        warnings.simplefilter("ignore", SecurityWarning)
        for number, envelope in enumerate(seen.received, start=1):
            try:
                jws.deserialize_json(msgspec.json.decode(envelope), keys, algorithms=["EdDSA"])
            except (JoseError, ValueError) as error:
                return f"record {number}: {error}"
    return "" if seen.received else "no record"


PROOFS: tuple[Expectation[Any], ...] = (
    ("the records received are those of the journal: none lost, doubled or changed", _same_records),
    (
        "the daemon stopped in good order",
        lambda seen: "" if seen.daemon_exit == 0 else f"exit {seen.daemon_exit}",
    ),
    (
        "`dollyd verify` proves the journal offline, with the key pinned",
        lambda seen: "" if seen.verified else "no",
    ),
    (
        "`dollyd replay` derives every decision from the raw frames again, byte for byte",
        lambda seen: "" if seen.replayed else "no",
    ),
    ("a second library (joserfc) finds every signature right", _signatures),
)
"""Expected at the end of every demo."""
