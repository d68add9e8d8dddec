"""Which envelopes are archived: form, place, key and signature of each, judged by itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256

import msgspec

from dollyd.client.archive.rows import Row, rows_of
from dollyd.daemon.host.logger import Logger
from dollyd.wire.judgement import Claim, Verdict
from dollyd.wire.jws import (
    Envelope,
    EnvelopeError,
    Keys,
    key_of_jwk,
    parse_envelope,
    thumbprint,
    verify_envelope,
)
from dollyd.wire.key_source import KeySource, source_of
from dollyd.wire.lineage import Lineage, key_of_x
from dollyd.wire.record import VERSION, KeyBody, Kind, Record
from dollyd.wire.topics import NO_TABLES, check_name

_RECORD = msgspec.json.Decoder(Record)
_KEY_BODY = msgspec.json.Decoder(KeyBody)
_SEQ_MAX = 2**53
_DIGEST = re.compile(r"[0-9a-f]{64}")

_LOG = Logger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record to be archived: verified, its place in the chain not yet."""

    site: str
    table: str
    chain: str
    seq: int
    prev: str
    digest: str
    """SHA-256 of the envelope, hex."""
    utc: str
    envelope: bytes
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """What came, and where it says that it belongs; empty where nothing was said."""

    envelope: bytes
    table: str = ""
    kind: str = ""


class Refused(Exception):  # noqa: N818  a verdict, not a failure
    """The envelope is not archived. `reason` is a short code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Intake:
    """Judges envelopes of a site.

    `keys`: who is trusted. `announced`: asked for the keys (`x` of the JWK) that entered a chain by rotation,
    each with the `kid` of the key that announced it, by whichever instance they were archived. `live`: what
    it takes was heard just now, and does not come from a file.
    """

    def __init__(
        self,
        site: str,
        keys: Keys | KeySource,
        announced: Callable[[str], Iterable[tuple[str, str]]],
        *,
        live: bool = False,
    ) -> None:
        self.refused: Counter[str] = Counter()
        """Envelopes refused, by reason."""
        self.suspects: dict[str, int] = {}
        """By chain, of what was taken last: the highest record signed with a key that nobody has announced.
        The record that announces it may be missing."""
        self._site = site
        self._trusted = source_of(keys)
        self._announced = announced
        self._live = live
        self._lineages: dict[str, Lineage] = {}
        """Of chains with announced keys."""

    def take(self, heard: Iterable[Heard]) -> list[Entry]:
        """The entries of all envelopes that are what they should be; the others are counted."""
        entries: list[Entry] = []
        self.suspects = {}
        for one in heard:
            try:
                entries.append(self._judge(one))
            except Refused as refusal:
                if refusal.reason not in self.refused:
                    _LOG.warning("envelope_refused", reason=refusal.reason, table=one.table)
                self.refused[refusal.reason] += 1
        return entries

    def _judge(self, heard: Heard) -> Entry:
        """Raises `Refused`."""
        try:
            envelope = parse_envelope(heard.envelope)
            record = _RECORD.decode(envelope.payload)
        except (EnvelopeError, msgspec.ValidationError):
            raise Refused("no-record") from None
        self._check_place(record, heard)
        digest = sha256(heard.envelope).hexdigest()
        self._check_signature(envelope, record, digest)
        try:
            rows = rows_of(record, heard.envelope)
        except ValueError:
            raise Refused("time") from None
        if record.kind == Kind.KEY:
            self._take_key(envelope, record)
        utc = str(rows[0].columns["utc"])
        return Entry(
            record.site,
            record.table,
            record.chain,
            record.seq,
            record.prev,
            digest,
            utc,
            heard.envelope,
            tuple(rows),
        )

    def _check_place(self, record: Record, heard: Heard) -> None:
        names = (record.table, record.chain, record.node)
        told = (self._site, heard.table or record.table, heard.kind or record.kind)
        if (record.site, record.table, record.kind) != told:
            raise Refused("misplaced")
        if not all(map(check_name, names)) or record.table in NO_TABLES or not 0 < record.seq < _SEQ_MAX:
            raise Refused("misplaced")
        if not _DIGEST.fullmatch(record.prev):
            raise Refused("no-record")
        if record.v != VERSION or (record.seq == 1) > (record.kind == Kind.KEY):
            raise Refused("no-record")

    def _check_signature(self, envelope: Envelope, record: Record, digest: str) -> None:
        claim = Claim.of(record, envelope.kid, digest, live=self._live)
        judged = self._trusted.judge(claim)
        if judged.key is None:
            judged = self._trusted.judge(replace(claim, announced=self._lineage(record.chain, envelope.kid)))
        key = judged.trusted
        if key is None:
            if judged.verdict is Verdict.UNKNOWN:
                self.suspects[record.chain] = max(record.seq, self.suspects.get(record.chain, 0))
                raise Refused("unknown-key")
            raise Refused(judged.verdict)
        try:
            verify_envelope(envelope, {envelope.kid: key})
        except EnvelopeError:
            raise Refused("forged") from None

    def _lineage(self, chain: str, kid: str) -> Lineage:
        """What was announced in a chain; looked up where `kid` is not known to be."""
        lineage = self._lineages.get(chain) or Lineage()
        if lineage.get(kid) is None:
            for x, announcer in self._announced(chain):
                lineage.add(key_of_x(x), announcer)
            if lineage.get(kid) is not None:
                self._lineages[chain] = lineage
        return lineage

    def _take_key(self, envelope: Envelope, record: Record) -> None:
        """A rotated key counts for the records after it, also for those of the same batch."""
        try:
            body = _KEY_BODY.decode(record.body)
            key = key_of_jwk(body.jwk)
        except (EnvelopeError, msgspec.ValidationError):
            raise Refused("no-record") from None
        kid = thumbprint(key)
        if body.event == "rotated":
            self._lineages.setdefault(record.chain, Lineage()).add(key, envelope.kid)
        elif record.seq != 1 or kid != envelope.kid:
            raise Refused("no-record")  # a chain begins once, with the key that signs it
