"""Proof that decisions follow from raw frames: every captured record of a journal is derived once more.

The capture that a record's digest seals is fed to the same rules; the payload built from what they say must
be the signed payload, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dollyd.client.jws import parse_envelope
from dollyd.client.sources import JournalFile
from dollyd.daemon.core.record import Capture, Kind, Named, Record, Setting, encode
from dollyd.daemon.replay import CaptureError, rederive
from dollyd.daemon.settings import TableSettings

DECISIONS = frozenset({Kind.RESULT, Kind.VOID, Kind.UNRESOLVED, Kind.THROW_REJECTED})


@dataclass(frozen=True, slots=True)
class Derived:
    """One decision of a journal. `why` is empty where the same payload was derived."""

    table: str
    seq: int
    round: int
    kind: str
    why: str


class _Evidence(msgspec.Struct):
    capture: Capture


class _Body(msgspec.Struct):
    evidence: _Evidence
    setting: Setting | None = None
    """A rejected throw has none; the end of its round has."""


def rederive_journal(path: Path, tables: Mapping[str, TableSettings]) -> Iterator[Derived]:
    """Derive every decision of a journal again. Raises `SourceError` or `EnvelopeError` if it is damaged."""
    with closing(JournalFile(path)) as journal:
        for envelope in journal.envelopes():
            payload = parse_envelope(envelope).payload
            record = msgspec.json.decode(payload, type=Record)
            if record.kind in DECISIONS:
                why = _why_not(
                    record, payload, journal.capture(record.chain, record.seq), tables.get(record.table)
                )
                yield Derived(record.table, record.seq, record.round, record.kind, why)


def _why_not(record: Record, payload: bytes, capture: bytes | None, table: TableSettings | None) -> str:
    """Why a decision cannot be derived, empty where it is the same byte for byte."""
    if table is None:
        return "the configuration has no such table"
    body = msgspec.json.decode(record.body, type=_Body)
    if body.setting and (other := _other_rules(body.setting, table)):
        return other
    if capture is None:
        return "the raw capture is not kept any more"
    protocols = {name: device.driver.protocol(device.setup) for name, device in table.devices.items()}
    try:
        decisions = [new for new in rederive(table.setup, protocols, capture) if new.capture]
    except CaptureError as error:
        return str(error)
    if not decisions:
        return "the capture gives no decision"
    derived = msgspec.structs.replace(
        record, kind=str(decisions[-1].kind), round=decisions[-1].round, body=msgspec.Raw(decisions[-1].body)
    )
    return "" if encode(derived) == payload else "the capture gives another decision"


def _other_rules(setting: Setting, table: TableSettings) -> str:
    setup = table.setup
    pairs: tuple[tuple[str, Named, Named], ...] = (
        ("rulebook", setting.rulebook, setup.rulebook),
        ("profile", setting.profile, setup.profile),
    )
    for what, then, now in pairs:
        if then != now:
            return f"decided under {what} {then.id} {then.digest[:12]}, now it is {now.id} {now.digest[:12]}"
    return ""
