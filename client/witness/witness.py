"""What a witness states of a chain, and how an auditor uses it.

A statement is a flattened JWS of type `dolly-witness/1` by the witness's own key, on a box of its own. It
says: when I saw this checkpoint, the chain stood at this record with this digest, and nothing that I have
seen since record `from` contradicted it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import Struct

from dollyd.client.proof.verify import Report
from dollyd.client.witness.book import Finding
from dollyd.wire.jws import EnvelopeError, Keys, parse_envelope, verify_envelope
from dollyd.wire.stamp import iso_utc

WITNESS_TYP = "dolly-witness/1"


class Statement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload, as it is signed."""

    v: Literal[1]
    site: str
    table: str
    chain: str
    seq: int
    head: str
    """Digest of record `seq`'s envelope, hex."""
    checkpoint: str
    """Digest of the checkpoint's envelope, which is record `seq` + 1; empty where a contradiction was met
    before there was one."""
    first: int = msgspec.field(name="from")
    """From this record on the witness saw every one itself; `seq` + 1 where it saw the checkpoint only."""
    witness: str
    time: str
    """UTC of the witness's clock."""
    verdict: Literal["consistent", "inconsistent"]
    why: str
    """What contradicts what was seen before, empty where nothing does."""


@dataclass(frozen=True, slots=True)
class WitnessCheck:
    """A statement held against a journal. `why`: what shows that it is not the one witnessed, or empty."""

    statement: Statement
    why: str


def state(finding: Finding, site: str, witness: str, utc_ns: int) -> bytes:
    """The exact bytes of a statement, to be signed as `WITNESS_TYP`."""
    statement = Statement(
        v=1,
        site=site,
        table=finding.table,
        chain=finding.chain,
        seq=finding.seq,
        head=finding.head,
        checkpoint=finding.checkpoint,
        first=finding.first,
        witness=witness,
        time=iso_utc(utc_ns),
        verdict="inconsistent" if finding.why else "consistent",
        why=finding.why,
    )
    return msgspec.json.encode(statement)


def read_statement(envelope: bytes, keys: Keys) -> Statement:
    """Read and verify a statement by the keys of witnesses. Raises `EnvelopeError`."""
    parsed = parse_envelope(envelope, WITNESS_TYP)
    verify_envelope(parsed, keys)
    try:
        return msgspec.json.decode(parsed.payload, type=Statement)
    except msgspec.ValidationError as error:
        raise EnvelopeError("payload", str(error)) from error


def check_witness(statement: bytes, keys: Keys, report: Report) -> WitnessCheck:
    """Hold a statement against a verified journal: whether anything up to its checkpoint was changed since.

    `keys`: those of the witnesses, which are none of the nodes'. Raises `EnvelopeError` where it is no
    statement of theirs.
    """
    said = read_statement(statement, keys)
    return WitnessCheck(said, _difference(said, report))


def _difference(said: Statement, report: Report) -> str:
    if said.verdict != "consistent":
        return f"the witness found it inconsistent: {said.why}"
    head = report.heads.get(said.chain)
    if head is None or head.table != said.table:
        return f"there is no chain {said.chain} of table {said.table}"
    if any(problem.chain in ("", said.chain) for problem in report.problems):
        return "the chain is not good in itself"
    place = said.seq + 1
    if head.seq < place:
        return f"the chain ends at record {head.seq}; the witness saw its checkpoint at record {place}"
    if head.first > place:
        return f"only the part of the chain from record {head.first} on is there; the checkpoint is {place}"
    if report.checkpoints.get((said.chain, place)) != said.checkpoint:
        return f"record {place} is not the checkpoint that the witness saw: up to there it was written again"
    return ""
