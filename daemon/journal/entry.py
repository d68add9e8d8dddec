"""One record as it stands in the journal, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dollyd.wire.errors import JournalError
from dollyd.wire.jws import parse_envelope, strict_object
from dollyd.wire.stamp import NS_PER_S

ENTRY = (
    "SELECT entry.id, chain.tbl, chain.name, entry.seq, entry.kind, entry.round, entry.final, entry.envelope"
    " FROM entry LEFT JOIN chain ON chain.id = entry.chain "
)
"""The beginning of every query for entries; `entry_of` takes its rows. A damaged chain hides no entry."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A signed record to be kept, with the raw capture behind it where there is one."""

    table: str
    chain: str
    seq: int
    kind: str
    round: int
    final: bool
    envelope: bytes
    capture: bytes | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A record in the journal. `id` counts from 1 over all tables, in the order of writing."""

    id: int
    table: str
    chain: str
    seq: int
    kind: str
    round: int
    final: bool
    envelope: bytes


def entry_of(row: tuple[Any, ...]) -> Entry:
    """A row of `ENTRY`. Raises `JournalError` where it belongs to no chain."""
    id_, table, chain, seq, kind, round_number, final, envelope = row
    if chain is None:
        raise JournalError(f"entry {id_} of the journal is damaged: it belongs to no chain")
    return Entry(id_, table, chain, seq, kind, round_number, bool(final), envelope)


def payload_of(envelope: bytes) -> dict[str, Any]:
    """The parsed record in an envelope of ours."""
    return strict_object(parse_envelope(envelope).payload, "payload")


def utc_ns(text: str) -> int:
    """Nanoseconds since 1970 of a record's time, as `iso_utc` wrote it. Raises ValueError."""
    second, fraction = text.rstrip("Z").split(".")
    return int(datetime.fromisoformat(f"{second}+00:00").timestamp()) * NS_PER_S + int(fraction)
