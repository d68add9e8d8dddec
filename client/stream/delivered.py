"""What a stream gives: records in their place, and the count of everything that was none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec

from dollyd.client.proof.chain_rules import Persons
from dollyd.client.stream.watermark import Watermark
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Record


@dataclass(frozen=True)
class Delivered:
    """One record, in its place: verified, linked to the one before, by the rules of its chain, given once."""

    record: Record
    envelope: bytes
    """The exact bytes, as signed and journaled."""
    keys: tuple[str, ...] = ()
    kid: str = ""
    rules: str = ""
    """See `Watermark` for these three."""
    persons: Persons = Persons.NONE
    """What is known of the two persons behind a result by hand or a correction. `form`: keys are pinned and
    there is no trust file, so that whoever has the node's key may have made up both persons."""
    unchecked: tuple[str, ...] = ()
    """What could not be checked, since the stream began behind it: one line each, for people."""

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The whole record as plain JSON objects, as settlement reads it."""
        payload: dict[str, Any] = msgspec.json.decode(parse_envelope(self.envelope).payload)
        return payload

    @cached_property
    def watermark(self) -> Watermark:
        """That everything up to this record is done."""
        record = self.record
        digest = sha256(self.envelope).hexdigest()
        return Watermark(record.table, record.chain, record.seq, digest, self.keys, self.kid, self.rules)


@dataclass(slots=True)
class StreamStats:
    """What was heard, and what became of it. Everything that is dropped is counted."""

    delivered: int = 0
    duplicates: int = 0
    ahead: int = 0
    """Heard before one that comes before it."""
    beyond: int = 0
    """Too far ahead to be held; they come again by replay."""
    retained: int = 0
    """Records that somebody made the broker keep: no record is retained."""
    misplaced: int = 0
    """Of another site, table, kind or chain than the topic says."""
    unsigned: int = 0
    """No envelope, or by a key that is not trusted."""
    forged: int = 0
    """The signature is wrong; raised as `ChainError`."""
    before: int = 0
    """From before where this consumer began: done in an earlier run, or older than `now`."""
    gaps: int = 0
    """Raised as `GapError`."""
    requests: int = 0
    """For replay."""
    links: int = 0
    """Connections to a broker."""
