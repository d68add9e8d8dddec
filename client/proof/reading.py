"""What an envelope says by itself, without those before it: its form, its record, its signature.

Nothing here depends on the order of records, so envelopes can be read in any number of processes;
`client.verify` puts together what was read.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

import msgspec

from dollyd.client.proof.told import Told, told_by
from dollyd.wire.judgement import Claim
from dollyd.wire.jws import (
    Envelope,
    EnvelopeError,
    Keys,
    from_b64url,
    open_envelope,
    parse_envelope,
    verify_envelope,
)
from dollyd.wire.lineage import Lineage
from dollyd.wire.record import (
    FINAL_KINDS,
    Capture,
    ChainName,
    CheckpointBody,
    Count,
    KeyBody,
    Kind,
    Name,
    Record,
    Setting,
    Time,
    encode,
)

DECISIONS = FINAL_KINDS | {Kind.UNRESOLVED, Kind.THROW_REJECTED}
"""Kinds that carry the digest of their raw capture."""


class Read(msgspec.Struct, array_like=True):
    """One envelope. Where `problem` says why it holds no record, nothing else does."""

    problem: str = ""
    digest: str = ""
    """SHA-256 of the envelope, hex."""
    kid: str = ""
    signed: bool | None = None
    """Whether the signature is that of key `kid`; None: not checked, or the key was not at hand."""
    v: int = 0
    kind: str = ""
    site: str = ""
    node: str = ""
    table: str = ""
    chain: str = ""
    seq: int = 0
    prev: str = ""
    round: int = 0
    utc: str = ""
    body_problem: str = ""
    jwk: dict[str, str] | None = None
    """The key that a `key` record announces."""
    previous_chain: str = ""
    """The chain that a `key` record says came before its own ..."""
    previous_seq: int = 0
    """... and the last record of that one."""
    checkpoint: CheckpointBody | None = None
    mode: str = ""
    capture: str = ""
    """SHA-256 of the raw capture behind a decision, empty where it has none."""
    rulebook: str = ""
    """Digest of the rulebook by which it was decided, where it says so."""
    profile: str = ""
    by_people: bytes = b""
    """The whole body of a result that is not automatic, or of a correction: two persons stand behind it."""
    told: Told | None = None
    """How a round ended, by a final record or a correction; the stakes of a session."""
    told_problem: str = ""
    """Why that cannot be read."""
    synchronised: bool = True
    """Whether a time service set the clock ..."""
    error_bound_us: int = 0
    """... and the largest error that it vouched for."""

    def claim(self, announced: Lineage) -> Claim:
        """What it says of who signed it, where these keys entered its chain."""
        return Claim(
            kid=self.kid,
            node=self.node,
            table=self.table,
            chain=self.chain,
            seq=self.seq,
            digest=self.digest,
            utc=self.utc,
            announced=announced,
        )


class _Evidence(msgspec.Struct):
    capture: Capture | msgspec.UnsetType = msgspec.UNSET


class _Decision(msgspec.Struct):
    """What concerns a verifier in the body of a decision."""

    evidence: _Evidence
    mode: str = ""
    setting: Setting | msgspec.UnsetType = msgspec.UNSET


class _Header(msgspec.Struct, frozen=True):
    """A record without its body, which is the last member."""

    v: int
    kind: str
    site: Name
    node: Name
    table: Name
    chain: ChainName
    seq: Count
    prev: str
    round: Count
    time: Time


_PAYLOAD_AT = len(b'{"payload":"')
_SIGNATURE_END = len(b'"}') + 86
_HEADER_MAX_CHARACTERS = 640
_BODY = b',"body":'
_READ_WHOLE = frozenset({"key", "checkpoint"})
_RECORD = msgspec.json.Decoder(Record)
_HEADER = msgspec.json.Decoder(_Header)
_KEY_BODY = msgspec.json.Decoder(KeyBody)
_CHECKPOINT_BODY = msgspec.json.Decoder(CheckpointBody)
_DECISION = msgspec.json.Decoder(_Decision)


def read(data: bytes, keys: Keys) -> Read:
    """Read an envelope whole, and check its signature where `keys` has its key."""
    try:
        envelope = parse_envelope(data)
        record = _RECORD.decode(envelope.payload)
    except (EnvelopeError, msgspec.ValidationError) as error:
        return Read(problem=f"no record: {error}")
    signed = signed_by(envelope, keys) if envelope.kid in keys else None
    found = _found(sha256(data).hexdigest(), envelope.kid, record, signed)
    _read_body(found, record)
    return found


def read_chain(data: bytes) -> Read:
    """Read only what the chain asks: the header of the record, strictly, and the digest of the whole.

    Keys and checkpoints are read whole; no signature is checked.
    """
    found = _read_header(data)
    return read(data, {}) if found is None or found.kind in _READ_WHOLE else found


def _read_header(data: bytes) -> Read | None:
    """The header alone; None where it is not as dollyd writes it, which says nothing against it."""
    end = data.find(b'"', _PAYLOAD_AT)
    # Cut to whole groups of base64: a header is far shorter.
    start = data[_PAYLOAD_AT : min(end, _PAYLOAD_AT + _HEADER_MAX_CHARACTERS)]
    try:
        kid = _kid_between(data[:_PAYLOAD_AT] + data[end:-_SIGNATURE_END])
        payload = from_b64url(start, "payload")
        header_bytes = payload[: payload.index(_BODY)] + b"}"
        header = _HEADER.decode(header_bytes)
    except (EnvelopeError, ValueError):
        return None
    if encode(header) != header_bytes or not header_bytes.isascii():
        return None
    return _found(sha256(data).hexdigest(), kid, header, None)


@lru_cache(maxsize=64)
def _kid_between(frame: bytes) -> str:
    """The key that an envelope names, of what is around its payload and before its signature."""
    payload, signature = b"e30", b"A" * 86
    whole = frame[:_PAYLOAD_AT] + payload + frame[_PAYLOAD_AT:] + signature + b'"}'
    return open_envelope(whole).kid


def signed_by(envelope: Envelope, keys: Keys) -> bool:
    """Whether the signature is right. Raises `EnvelopeError` where the key is not among `keys`."""
    try:
        verify_envelope(envelope, keys)
    except EnvelopeError as error:
        if error.reason != "signature":
            raise
        return False
    return True


def _found(digest: str, kid: str, record: Record | _Header, signed: bool | None) -> Read:
    return Read(
        "",
        digest,
        kid,
        signed,
        record.v,
        record.kind,
        record.site,
        record.node,
        record.table,
        record.chain,
        record.seq,
        record.prev,
        record.round,
        record.time.utc,
        synchronised=record.time.synchronised,
        error_bound_us=record.time.error_bound_us,
    )


def read_record(kid: str, record: Record, digest: str) -> Read:
    """What an envelope says that was taken apart already, and whose signature is right."""
    found = _found(digest, kid, record, True)
    _read_body(found, record)
    return found


def _read_body(found: Read, record: Record) -> None:
    try:
        if record.kind in DECISIONS:
            decision = _DECISION.decode(record.body)
            found.mode = decision.mode
            if record.kind == Kind.RESULT and decision.mode != "auto":
                found.by_people = bytes(record.body)
            if isinstance(decision.evidence.capture, Capture):
                found.capture = decision.evidence.capture.digest
            if isinstance(decision.setting, Setting):
                found.rulebook = decision.setting.rulebook.digest
                found.profile = decision.setting.profile.digest
        elif record.kind == Kind.CORRECTION:
            found.by_people = bytes(record.body)
        elif record.kind == Kind.KEY:
            key = _KEY_BODY.decode(record.body)
            found.jwk = key.jwk
            found.previous_chain = key.previous_chain or ""
            found.previous_seq = key.previous_seq or 0
        elif record.kind == Kind.CHECKPOINT:
            found.checkpoint = _CHECKPOINT_BODY.decode(record.body)
    except msgspec.ValidationError as error:
        found.body_problem = str(error)
    try:
        found.told = told_by(record.kind, record.body)
    except msgspec.ValidationError as error:
        found.told_problem = str(error)
