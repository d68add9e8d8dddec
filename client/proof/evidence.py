"""The evidence file: everything an auditor takes home, in one file, to be verified without a network.

A tar (`client.tar`), compressed by gzip where its name ends in `.gz`, with members in this order:

    manifest.json               what is in it: `Manifest`
    trust.json                  the site's trust file, where there is one
    keys.json                   the keys that the chains announce, a JWK set: for reading, not for trusting
    records/<table>.jsonl       envelopes as they were signed, one a line, chain after chain
    captures/<chain>/<seq>.jsonl  raw captures behind decisions, in the order of the records
    rulebooks/<digest>.toml     rule texts, named by their SHA-256
    profiles/<digest>.toml
    layouts/<digest>.toml
    config.toml                 the tables as configured, without secrets; it names the rule texts above

The manifest is not signed. What it says is checked against what is: a chain that begins later than with
record 1 is told of, and everything after that hangs together by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from dollyd.client.proof.sources import CAPTURE_MAX_BYTES, SourceError
from dollyd.client.proof.tar import BLOCK, Member, TarError, member_at, members
from dollyd.client.proof.unpack import GZIP_MAGIC, UNPACKED_MAX_BYTES, unpack
from dollyd.client.proof.verify import PROBLEMS_MAX, Judged, Problem, Report, Start, verify_envelopes
from dollyd.wire.decoding import from_json
from dollyd.wire.jws import ENVELOPE_MAX_BYTES, EnvelopeError, Keys, keys_of_jwks, strict_object
from dollyd.wire.record import ChainName, Count, Name
from dollyd.wire.trust import Trust

USTAR_MAGIC, USTAR_MAGIC_AT = b"ustar\x00", 257
MANIFEST, TRUST, KEYS, CONFIG = "manifest.json", "trust.json", "keys.json", "config.toml"
RECORDS, CAPTURES = "records/", "captures/"
TEXT_FOLDERS = ("rulebooks", "profiles", "layouts")
_NAMES = re.compile(
    r"(manifest|trust|keys)\.json|config\.toml|records/[a-z0-9-]{1,40}\.jsonl"
    r"|captures/[0-9a-f]{32}/[1-9][0-9]{0,15}\.jsonl|(rulebooks|profiles|layouts)/[0-9a-f]{64}\.toml"
)
"""All names that a member can have: never a path that leads elsewhere."""
_MEMBERS_MAX = 10_000
"""Members that are no captures: a few for each table and each rule text."""
_TEXT_MAX_BYTES = 4 << 20
_COPY_BYTES = 1 << 20


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in the manifest."""


class ChainPart(_Part, frozen=True, kw_only=True):
    """The part of a chain that is in the file: all records from `first_seq` to `last_seq`."""

    table: Name
    chain: ChainName
    first_seq: Count
    last_seq: Count
    prev: str
    """`prev` of the first record."""
    head: str
    """SHA-256 of the last envelope, hex."""
    captures_from: Count
    """From this record on every raw capture that a record names is in the file; older ones were not kept."""


class MemberDigest(_Part, frozen=True, kw_only=True):
    """A member that is neither the manifest nor a capture, whose digest is in its signed record."""

    name: str
    size: Count
    sha256: str


class MissingText(_Part, frozen=True, kw_only=True):
    """A rule text that a record names and that could not be found."""

    folder: str
    digest: str


class Manifest(_Part, frozen=True, kw_only=True):
    """What is in the file. `from` and `to` are what was asked for, UTC, empty where it was open."""

    v: Literal[1]
    site: Name
    from_utc: str = msgspec.field(name="from")
    to_utc: str = msgspec.field(name="to")
    chains: tuple[ChainPart, ...]
    members: tuple[MemberDigest, ...]
    missing: tuple[MissingText, ...]


def is_evidence(path: Path) -> bool:
    """Whether the file is a tar or compressed, as an evidence file is. Raises `OSError`."""
    with path.open("rb") as file:
        head = file.read(BLOCK)
    return head.startswith(GZIP_MAGIC) or head[USTAR_MAGIC_AT:].startswith(USTAR_MAGIC)


def capture_name(chain: str, seq: int) -> str:
    """The member that holds a capture."""
    return f"{CAPTURES}{chain}/{seq}.jsonl"


class EvidenceFile:
    """An evidence file opened to read. Every method raises `SourceError`.

    Captures come in the order of their records, so that no list of them need be kept. `max_bytes` is what
    a compressed one may take unpacked, in the temporary directory.
    """

    def __init__(self, path: Path, max_bytes: int = UNPACKED_MAX_BYTES) -> None:
        self._file = _opened(path, max_bytes)
        try:
            self._length = self._file.seek(0, 2)
            self._members: dict[str, Member] = {}
            self._next_capture: Member | None = None
            self.captures = self._walk()
            self.manifest = self._read_manifest()
        except TarError as error:
            self.close()
            raise SourceError(str(error)) from error
        except BaseException:
            self.close()
            raise
        self._order = {part.chain: place for place, part in enumerate(self.manifest.chains)}
        self._lost: list[Problem] = []
        self._passed = 0
        """Captures that were come to, one behind the other ..."""
        self._strays = 0
        """... and those of them that belong to no record."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def starts(self) -> dict[str, Start]:
        """By chain, where its part begins, and with the keys in the file."""
        try:
            jwks = from_json(self.text(KEYS) or b'{"keys":[]}', dict[str, list[dict[str, str]]])
            keys = keys_of_jwks(jwks.get("keys", []))
        except (EnvelopeError, msgspec.DecodeError) as error:
            raise SourceError(f"{KEYS} cannot be read: {error}") from error
        return {part.chain: Start(part.first_seq, part.prev, keys) for part in self.manifest.chains}

    def text(self, name: str) -> bytes | None:
        """A member, None where there is none."""
        member = self._members.get(name)
        if member is None:
            return None
        if member.size > _TEXT_MAX_BYTES:
            raise SourceError(f"{name} has {member.size} bytes; {_TEXT_MAX_BYTES} are taken")
        return self._read(member)

    def names(self) -> list[str]:
        """All members but the captures, in their order."""
        return list(self._members)

    def envelopes(self) -> Iterator[bytes]:
        """The envelopes of all tables, chain after chain."""
        for member in self._members.values():
            if member.name.startswith(RECORDS):
                yield from self._lines(member)

    def capture(self, chain: str, seq: int) -> bytes | None:
        """The raw capture behind a record; to be asked for in the order of the records."""
        place = self._order.get(chain)
        if place is None:
            return None
        while self._next_capture is not None and self._place(self._next_capture) < (place, seq):
            self._strays += 1
            self._step()
        found = self._next_capture
        if found is None or self._place(found) != (place, seq):
            part = self.manifest.chains[place]
            if seq >= part.captures_from and len(self._lost) < PROBLEMS_MAX:
                why = "its raw capture is not in the file; the manifest says that it is"
                self._lost.append(Problem(0, part.table, chain, seq, why))
            return None
        self._step()
        return self._read(found) if found.size <= CAPTURE_MAX_BYTES else b""

    def check(self, report: Report, *, fast: bool) -> None:
        """Compare what was verified with what the manifest says, and the rule texts with their names."""
        self._check_chains(report)
        self._check_members(report, fast=fast)
        if not fast:
            self._check_captures(report)
            self._check_rules(report)

    # --- what is in the file -----------------------------------------------------------------

    def _walk(self) -> int:
        """Find all members; gives the number of captures."""
        captures = 0
        for member in members(self._file, self._length):
            if not _NAMES.fullmatch(member.name):
                raise TarError(f"{member.name!r} is no name of a member")
            if member.name.startswith(CAPTURES):
                captures += 1
                self._next_capture = self._next_capture or member
            elif member.name in self._members or len(self._members) == _MEMBERS_MAX:
                raise TarError(f"{member.name} is there twice, or there are too many members")
            else:
                self._members[member.name] = member
        return captures

    def _read_manifest(self) -> Manifest:
        data = self.text(MANIFEST)
        if data is None:
            raise SourceError("no evidence file: it has no manifest.json")
        try:
            strict_object(data, "manifest")
            return msgspec.json.decode(data, type=Manifest)
        except (EnvelopeError, msgspec.ValidationError) as error:
            raise SourceError(f"manifest.json cannot be read: {error}") from error

    def _read(self, member: Member) -> bytes:
        self._file.seek(member.offset)
        return self._file.read(member.size)

    def _lines(self, member: Member) -> Iterator[bytes]:
        at, end, number = member.offset, member.offset + member.size, 0
        while at < end:
            self._file.seek(at)
            chunk = self._file.read(min(_COPY_BYTES + ENVELOPE_MAX_BYTES, end - at))
            *lines, rest = chunk.split(b"\n")  # no other byte ends a line
            if not lines:
                raise SourceError(f"{member.name}: line {number + 1} is longer than any envelope, or cut off")
            yield from lines
            at += len(chunk) - len(rest)
            number += len(lines)

    def _step(self) -> None:
        if self._next_capture is not None:
            following = member_at(self._file, self._next_capture.next, self._length)
            is_capture = following is not None and following.name.startswith(CAPTURES)
            self._passed += 1
            self._next_capture = following if is_capture else None

    def _place(self, member: Member) -> tuple[int, int]:
        """Where a capture belongs; before all others where it belongs nowhere."""
        chain, _, name = member.name.removeprefix(CAPTURES).partition("/")
        seq = name.removesuffix(".jsonl")
        known = chain in self._order and seq.isdecimal() and len(seq) < 20
        if not known or member.name != capture_name(chain, int(seq)):
            return (-1, 0)
        return (self._order[chain], int(seq))

    # --- what must fit -----------------------------------------------------------------------

    def _check_chains(self, report: Report) -> None:
        for part in self.manifest.chains:
            where = f"table {part.table}, chain {part.chain}"
            head = report.heads.get(part.chain)
            if head and head.site != self.manifest.site:
                report.add_problem(f"{where}: of site {head.site}; the manifest says {self.manifest.site}")
            if head is None:
                report.add_problem(f"{where}: no record of it is here; the manifest has {part.last_seq}")
            elif (head.table, head.seq, head.digest) != (part.table, part.last_seq, part.head):
                report.add_problem(
                    f"{where}: ends at record {head.seq} of table {head.table};"
                    f" the manifest says record {part.last_seq}, digest {part.head}"
                )
        for chain in report.heads.keys() - self._order.keys():
            report.add_problem(f"chain {chain} is not in the manifest")

    def _check_members(self, report: Report, *, fast: bool) -> None:
        wanted = [MANIFEST, *(entry.name for entry in self.manifest.members)]
        there = list(self._members)
        for name in wanted:
            if name not in self._members:
                report.add_problem(f"{name} is not in the file; the manifest says that it is")
        for name in sorted(set(there) - set(wanted)):
            report.add_problem(f"{name} is not in the manifest")
        if set(there) == set(wanted) and there != wanted:
            report.add_problem("members are not in their order")
        for entry in self.manifest.members:
            member = self._members.get(entry.name)
            if fast and entry.name.startswith(RECORDS):
                continue  # the chain has said more
            digest = self._digest(member) if member else entry.sha256
            if digest != entry.sha256 or (member and member.size != entry.size):
                report.add_problem(f"{entry.name} is not what the manifest says")
            folder, _, name = entry.name.partition("/")
            if folder in TEXT_FOLDERS and name != f"{digest}.toml":
                report.add_problem(f"{entry.name} is not the text that it is named after")

    def _digest(self, member: Member) -> str:
        digest, left = sha256(), member.size
        self._file.seek(member.offset)
        while left:
            chunk = self._file.read(min(_COPY_BYTES, left))
            digest.update(chunk)
            left -= len(chunk)
        return digest.hexdigest()

    def _check_captures(self, report: Report) -> None:
        report.problems += self._lost
        while self._next_capture is not None:
            self._strays += 1
            self._step()
        self._strays += self.captures - self._passed
        if self._strays:
            report.add_problem(f"captures: {self._strays} belong to no record that is here")

    def _check_rules(self, report: Report) -> None:
        missing = {(text.folder, text.digest) for text in self.manifest.missing}
        for folder, digests in report.rules.items():
            for digest in sorted(digests):
                if f"{folder}/{digest}.toml" in self._members:
                    continue
                if (folder, digest) in missing:
                    report.notes.append(f"{folder}/{digest}.toml could not be found when it was exported")
                else:
                    report.add_problem(f"{folder}/{digest}.toml, by which was decided, is not in the file")


def verify_evidence(
    path: Path,
    keys: Keys | Trust | None = None,
    *,
    jobs: int = 1,
    fast: bool = False,
    max_bytes: int = UNPACKED_MAX_BYTES,
    judged: Judged | None = None,
) -> Report:
    """Verify an evidence file, everything in it; see `verify_envelopes` and `EvidenceFile`."""
    report = Report()
    try:
        with closing(EvidenceFile(path, max_bytes)) as evidence:
            report = verify_envelopes(
                evidence.envelopes(),
                keys,
                evidence.capture,
                starts=evidence.starts(),
                jobs=jobs,
                fast=fast,
                judged=judged,
            )
            evidence.check(report, fast=fast)
    except (SourceError, TarError) as error:
        report.add_problem(str(error))
    return report


def _opened(path: Path, max_bytes: int) -> BinaryIO:
    """The tar; where it is compressed, unpacked into a file without a name: it is read at any place."""
    try:
        with ExitStack() as files:
            file = files.enter_context(path.open("rb"))
            if file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                return unpack(file, max_bytes)
            files.pop_all()
            return file
    except (OSError, TarError) as error:
        raise SourceError(f"cannot be read: {error}") from error


def trust_of(path: Path, max_bytes: int = UNPACKED_MAX_BYTES) -> bytes | None:
    """The trust file in an evidence file, not verified yet; None where there is none.

    Raises `SourceError`.
    """
    with closing(EvidenceFile(path, max_bytes)) as evidence:
        return evidence.text(TRUST)
