"""Writes evidence files (`client.evidence`) from a journal that may be in use.

The journal is read in short reads up to the record that was the newest at the start. Nothing is held in
memory that grows with it: records and captures go through files without a name beside the one that is made.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from dollyd.client.proof.evidence import (
    CONFIG,
    KEYS,
    MANIFEST,
    RECORDS,
    TEXT_FOLDERS,
    TRUST,
    ChainPart,
    Manifest,
    MemberDigest,
    MissingText,
    capture_name,
)
from dollyd.client.proof.reading import Read, read
from dollyd.client.proof.tar import END, header, padding
from dollyd.daemon.evidence.range import Part, part_of
from dollyd.daemon.journal.store import Entry, Journal
from dollyd.wire.errors import JournalError
from dollyd.wire.files import sync_directory

_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records: of `table` (empty: all), decided from `from_utc` up to before `to_utc` (empty: open)."""

    from_utc: str = ""
    to_utc: str = ""
    table: str = ""


@dataclass(frozen=True, slots=True)
class Texts:
    """What goes with the records. Rule texts by folder and digest."""

    site: str
    rules: Mapping[str, Mapping[str, bytes]]
    config: bytes
    trust: bytes | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written. `upto_id`: every record up to this one is in this file or was exported before."""

    records: int
    manifest: Manifest
    upto_id: int


def export(out: Path, journal: Journal, wanted: Wanted, texts: Texts, exported_id: int) -> Exported:
    """Write an evidence file; it has its name only when it is whole and on the disk.

    `exported_id`: up to there all records were exported before. Raises `JournalError` where the journal
    cannot be read or has nothing in the range, `OSError`, and `TarError` where a table has more than 8 GiB.
    """
    upto_id = journal.last_id
    searched = _search(journal, wanted, exported_id, upto_id)
    parts = [(table, chain, part) for table, chain, part in searched if part.last]
    if not parts:
        raise JournalError(f"{journal.path}: no record in this range")
    with ExitStack() as files:
        collector = _Collector(lambda: files.enter_context(_unnamed(out.parent)), journal)
        for table in dict.fromkeys(table for table, _, _ in parts):
            collector.take_table(table, [(chain, part) for name, chain, part in parts if name == table])
        manifest, members = _members(collector, wanted, texts)
        _write(out, members)
    if wanted.table:
        return Exported(collector.records, manifest, exported_id)  # of the other tables nothing is known
    outside_id = min(part.outside_id for _, _, part in searched)
    return Exported(collector.records, manifest, max(exported_id, outside_id - 1))


def _search(journal: Journal, wanted: Wanted, exported_id: int, upto_id: int) -> list[tuple[str, str, Part]]:
    """The part of each chain with its table and name, oldest chain first."""
    searched: list[tuple[str, str, Part]] = []
    next_begins: dict[str, bool] = {}
    """By table: whether the chain after this one is in the file from its beginning."""
    for table, chain in reversed(journal.chains()):
        if wanted.table not in ("", table):
            continue
        times, to_end = (wanted.from_utc, wanted.to_utc), next_begins.get(table, False)
        part = part_of(journal, chain, *times, exported_id, upto_id, to_end=to_end)
        next_begins[table] = part.first == 1
        searched.append((table, chain, part))
    return searched[::-1]


# --- collecting ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Spool:
    """Bytes on their way into a member."""

    file: BinaryIO
    size: int = 0
    digest: str = ""


@dataclass(slots=True)
class _Collector:
    """Takes records and their captures out of the journal, into files without a name."""

    new_file: Callable[[], BinaryIO]
    journal: Journal
    records: int = 0
    tables: dict[str, _Spool] = field(default_factory=dict)
    chains: list[ChainPart] = field(default_factory=list)
    keys: dict[str, dict[str, str]] = field(default_factory=dict)
    rules: dict[str, set[str]] = field(default_factory=lambda: {"rulebooks": set(), "profiles": set()})
    captures: BinaryIO = field(init=False)
    """Members already, with their headers."""

    def __post_init__(self) -> None:
        self.captures = self.new_file()

    def take_table(self, table: str, parts: Iterable[tuple[str, Part]]) -> None:
        spool = self.tables[table] = _Spool(self.new_file())
        digest = sha256()
        for chain, part in parts:
            for jwk in part.keys:
                self.keys[jwk.get("kid", "")] = jwk
            for line in self._take_chain(table, chain, part):
                spool.file.write(line)
                spool.size += len(line)
                digest.update(line)
        spool.digest = digest.hexdigest()

    def _take_chain(self, table: str, chain: str, part: Part) -> Iterator[bytes]:
        first, prev, last, head, captures_from = 0, "", 0, "", 0
        for entry in self.journal.entries(chain, part.first, part.last):
            found = _read(entry)
            if last and entry.seq != last + 1:
                raise JournalError(f"{self.journal.path}: records were removed meanwhile; export again")
            if not first:
                first, prev, captures_from = entry.seq, found.prev, entry.seq
            last, head = entry.seq, found.digest
            if found.rulebook:
                self.rules["rulebooks"].add(found.rulebook)
                self.rules["profiles"].add(found.profile)
            if found.capture and not self._take_capture(entry):
                captures_from = entry.seq + 1
            self.records += 1
            yield entry.envelope + b"\n"
        self.chains.append(
            ChainPart(
                table=table,
                chain=chain,
                first_seq=first,
                last_seq=last,
                prev=prev,
                head=head,
                captures_from=captures_from,
            )
        )

    def _take_capture(self, entry: Entry) -> bool:
        capture = self.journal.capture(entry.chain, entry.seq)
        if capture is None:
            return False
        self.captures.write(header(capture_name(entry.chain, entry.seq), len(capture)))
        self.captures.write(capture + padding(len(capture)))
        return True


def _read(entry: Entry) -> Read:
    found = read(entry.envelope, {})
    if found.problem:
        raise JournalError(f"record {entry.seq} of table {entry.table}, chain {entry.chain}: {found.problem}")
    return found


def _members(collector: _Collector, wanted: Wanted, texts: Texts) -> tuple[Manifest, Iterator[bytes]]:
    """The manifest, and the bytes of the whole tar."""
    jwks = msgspec.json.encode({"keys": [collector.keys[kid] for kid in sorted(collector.keys)]})
    before = ({TRUST: texts.trust} if texts.trust is not None else {}) | {KEYS: jwks}
    after, missing = _rule_texts(collector.rules, texts)
    manifest = Manifest(
        v=1,
        site=texts.site,
        from_utc=wanted.from_utc,
        to_utc=wanted.to_utc,
        chains=tuple(collector.chains),
        members=(
            *(_digest_of(name, data) for name, data in before.items()),
            *(
                MemberDigest(name=f"{RECORDS}{table}.jsonl", size=spool.size, sha256=spool.digest)
                for table, spool in collector.tables.items()
            ),
            *(_digest_of(name, data) for name, data in after.items()),
        ),
        missing=tuple(missing),
    )

    def chunks() -> Iterator[bytes]:
        yield from _in_memory({MANIFEST: msgspec.json.encode(manifest)} | before)
        for table, spool in collector.tables.items():
            yield header(f"{RECORDS}{table}.jsonl", spool.size)
            yield from _content(spool.file)
            yield padding(spool.size)
        yield from _content(collector.captures)
        yield from _in_memory(after)
        yield END

    return manifest, chunks()


def _rule_texts(named: Mapping[str, set[str]], texts: Texts) -> tuple[dict[str, bytes], list[MissingText]]:
    """The texts that records or the configuration name, and the configuration; and those not to be found."""
    found: dict[str, bytes] = {}
    missing = []
    for folder in TEXT_FOLDERS:
        rules = texts.rules[folder]
        configured = {digest for digest in rules if f"{folder}/{digest}.toml".encode() in texts.config}
        for digest in sorted(configured | named.get(folder, set())):
            if digest in rules:
                found[f"{folder}/{digest}.toml"] = rules[digest]
            else:
                missing.append(MissingText(folder=folder, digest=digest))
    return found | {CONFIG: texts.config}, missing


def _digest_of(name: str, data: bytes) -> MemberDigest:
    return MemberDigest(name=name, size=len(data), sha256=sha256(data).hexdigest())


def _in_memory(members: Mapping[str, bytes]) -> Iterator[bytes]:
    for name, data in members.items():
        yield header(name, len(data)) + data + padding(len(data))


def _content(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(_COPY_BYTES):
        yield chunk


# --- writing -------------------------------------------------------------------------------------


def _unnamed(directory: Path) -> BinaryIO:
    return cast("BinaryIO", tempfile.TemporaryFile(dir=directory))


def _write(out: Path, chunks: Iterable[bytes]) -> None:
    partial = out.with_name(out.name + ".partial")
    try:
        partial.unlink(missing_ok=True)  # of one that was killed; a link is not followed
        with partial.open("xb") as file:
            if out.suffix == ".gz":
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                    for chunk in chunks:
                        packed.write(chunk)
            else:
                file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(out)
    finally:
        partial.unlink(missing_ok=True)
    sync_directory(out.parent)
