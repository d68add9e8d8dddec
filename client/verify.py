"""Offline verification: that nothing was changed, removed, added or moved, and that rounds keep the rules.

Feed it the envelopes of whole chains, of one or many tables mixed, in their order. What no chain can show of
itself is whether records are missing from its end: compare `Report.heads` with what was published last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dollyd.client.jws import (
    Envelope,
    EnvelopeError,
    Keys,
    key_of_jwk,
    parse_envelope,
    thumbprint,
    verify_envelope,
)
from dollyd.client.round_rules import RoundRules
from dollyd.client.sources import JournalFile, SourceError
from dollyd.daemon.core.record import FINAL_KINDS, NO_PREVIOUS, VERSION, Capture, KeyBody, Kind, Record

PROBLEMS_MAX = 100
"""A verification ends when it has found as many."""
PINNED, ANNOUNCED, NOT_PINNED = "pinned", "announced", "not pinned"

CaptureOf: TypeAlias = Callable[[str, int], bytes | None]
"""The raw capture behind a record (chain, seq), None where it is not at hand."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and where. `at` counts envelopes from 1 as they came; no table: it cannot be read."""

    at: int
    table: str
    chain: str
    seq: int
    why: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends."""

    table: str
    seq: int
    digest: str
    """SHA-256 of the last envelope, hex."""
    open_round: int
    """The round without a final record, 0 for none."""


@dataclass(slots=True)
class Report:
    """What was verified."""

    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    """Rounds with a final record."""
    heads: dict[str, Head] = field(default_factory=dict)
    """By chain."""
    keys: dict[str, str] = field(default_factory=dict)
    """Keys that signed, by `kid`: `pinned`, `announced` (by a pinned one), or `not pinned`."""
    captures: int = 0
    """Raw captures that were at hand and are what was signed."""
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.problems

    @property
    def tables(self) -> list[str]:
        """Tables seen."""
        return sorted({head.table for head in self.heads.values()})


def verify_envelopes(
    envelopes: Iterable[bytes], keys: Keys | None = None, capture_of: CaptureOf | None = None
) -> Report:
    """Verify envelopes in their order.

    `keys` are the keys trusted; None takes each chain's word for its key, and reports it as `not pinned`.
    Whatever is wrong with the input is a `Problem`, never an exception.
    """
    verifier = _Verifier(keys, capture_of)
    try:
        for data in envelopes:
            verifier.take(data)
            if len(verifier.problems) >= PROBLEMS_MAX:
                break
    except SourceError as error:
        verifier.add_problem(str(error))
    return verifier.report()


def verify_journal(path: Path, keys: Keys | None = None) -> Report:
    """Verify a journal file, and the captures in it. Read-only; the daemon may be running."""
    try:
        with closing(JournalFile(path)) as journal:
            return verify_envelopes(journal.envelopes(), keys, journal.capture)
    except SourceError as error:
        return Report(problems=[Problem(0, "", "", 0, str(error))])


# --- one record after the other --------------------------------------------------------------------


class _Evidence(msgspec.Struct):
    capture: Capture | msgspec.UnsetType = msgspec.UNSET


class _Decision(msgspec.Struct):
    """What concerns us in the body of a result, a void or an unresolved round."""

    evidence: _Evidence
    mode: str = ""


_RECORD = msgspec.json.Decoder(Record)
_KEY_BODY = msgspec.json.Decoder(KeyBody)
_DECISION = msgspec.json.Decoder(_Decision)
_DECISION_KINDS = FINAL_KINDS | {Kind.UNRESOLVED}
_KINDS = {kind.value: kind for kind in Kind}


@dataclass(slots=True)
class _Chain:
    """What the next record of a chain must fit."""

    table: str
    site: str
    keys: dict[str, Ed25519PublicKey]
    seq: int = 0
    digest: str = NO_PREVIOUS
    rules: RoundRules = field(default_factory=RoundRules)


class _Verifier:
    def __init__(self, pinned: Keys | None, capture_of: CaptureOf | None) -> None:
        self.problems: list[Problem] = []
        self._pinned = pinned
        self._capture_of = capture_of
        self._chains: dict[str, _Chain] = {}
        self._records = 0
        self._captures = 0
        self._kinds: Counter[str] = Counter()
        self._signers: dict[str, str] = {}

    def add_problem(self, why: str, record: Record | None = None) -> None:
        table, chain, seq = (record.table, record.chain, record.seq) if record else ("", "", 0)
        self.problems.append(Problem(self._records, table, chain, seq, why))

    def report(self) -> Report:
        if not self._records and not self.problems:
            self.add_problem("there is nothing to verify")  # emptied is not proven
        heads = {
            name: Head(chain.table, chain.seq, chain.digest, chain.rules.open_round)
            for name, chain in self._chains.items()
        }
        rounds = sum(self._kinds[kind] for kind in FINAL_KINDS)
        return Report(self._records, self._kinds, rounds, heads, self._signers, self._captures, self.problems)

    def take(self, data: bytes) -> None:
        self._records += 1
        try:
            envelope = parse_envelope(data)
            record = _RECORD.decode(envelope.payload)
        except (EnvelopeError, msgspec.ValidationError) as error:
            self.add_problem(f"no record: {error}")
            return
        chain = self._chains.get(record.chain)
        if chain is None:
            chain = self._chains[record.chain] = _Chain(record.table, record.site, dict(self._pinned or {}))
        signed = self._check_signature(envelope, record, chain)
        if self._check_place(record, chain, signed):
            chain.seq, chain.digest = record.seq, sha256(data).hexdigest()
            self._check_content(record, chain)

    def _check_signature(self, envelope: Envelope, record: Record, chain: _Chain) -> bool:
        try:
            if self._pinned is None and chain.seq == 0:
                _trust(record, chain)
            verify_envelope(envelope, chain.keys)
            self._note_signer(envelope.kid)
            if record.kind == Kind.KEY:
                _trust(record, chain)
        except EnvelopeError as error:
            self.add_problem(str(error), record)
            return False
        return True

    def _note_signer(self, kid: str) -> None:
        if kid not in self._signers:
            pinned = self._pinned
            self._signers[kid] = NOT_PINNED if pinned is None else PINNED if kid in pinned else ANNOUNCED

    def _check_place(self, record: Record, chain: _Chain, signed: bool) -> bool:
        """Whether the chain goes on with this record."""
        expected = chain.seq + 1
        if record.seq < expected:
            self.add_problem(f"comes again or too late: the chain is at record {chain.seq}", record)
            return False
        if record.seq > expected:
            self.add_problem(f"records {expected} to {record.seq - 1} are missing before it", record)
            return signed  # a number that nobody signed moves nothing
        if record.prev != chain.digest:
            self.add_problem(f"its prev is not the digest of record {chain.seq}", record)
        return True

    def _check_content(self, record: Record, chain: _Chain) -> None:
        if record.v != VERSION:
            self.add_problem(f"version {record.v} is not known", record)
        if (record.table, record.site) != (chain.table, chain.site):
            self.add_problem(f"the chain belongs to table {chain.table} of site {chain.site}", record)
        kind = _KINDS.get(record.kind)
        if kind is None:
            self.add_problem(f"kind {record.kind!r} is not known", record)
            return
        self._kinds[kind.value] += 1
        if record.seq == 1 and kind is not Kind.KEY:
            self.add_problem("the chain does not begin with its key", record)
        mode = self._check_decision(record) if kind in _DECISION_KINDS else ""
        if why := chain.rules.take(kind, record.round, mode):
            self.add_problem(why, record)

    def _check_decision(self, record: Record) -> str:
        """Compare the raw capture with what was signed of it; gives a result's mode."""
        try:
            decision = _DECISION.decode(record.body)
        except msgspec.ValidationError as error:
            self.add_problem(f"its body is not that of a {record.kind}: {error}", record)
            return ""
        signed = decision.evidence.capture
        if self._capture_of is not None and isinstance(signed, Capture):
            capture = self._capture_of(record.chain, record.seq)
            if capture is not None and sha256(capture).hexdigest() != signed.digest:
                self.add_problem("the raw capture is not the one that was signed", record)
            elif capture is not None:
                self._captures += 1
        return decision.mode


def _trust(record: Record, chain: _Chain) -> None:
    """Take the key that a `key` record announces into the keys of its chain."""
    if record.kind != Kind.KEY:
        raise EnvelopeError("no-key", "the chain does not begin with its key, and none was given")
    try:
        key = key_of_jwk(_KEY_BODY.decode(record.body).jwk)
    except msgspec.ValidationError as error:
        raise EnvelopeError("jwk", f"no key in the body: {error}") from error
    chain.keys[thumbprint(key)] = key
