"""Which records of a stolen key count: looked up in what the site holds, named in the key's revocation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from dollyd.client.proof.evidence import EvidenceFile, is_evidence, verify_evidence
from dollyd.client.proof.sources import JournalFile, SourceError
from dollyd.client.proof.verify import verify_journal
from dollyd.client.stream.replay import AHEAD_MAX
from dollyd.client.stream.watermark import FileWatermarks
from dollyd.client.witness.witness import read_statement
from dollyd.wire.errors import ConfigError
from dollyd.wire.judgement import Position
from dollyd.wire.jws import EnvelopeError, Keys, parse_envelope
from dollyd.wire.record import Record
from dollyd.wire.trust import Trust

_TIE_EVERY = AHEAD_MAX // 2
"""A record is named so often besides the last, so that who follows a chain can hold the way to the next."""
_TIES_MAX = 100
"""Records named of a chain: the trust file must stay small."""


@dataclass(frozen=True, slots=True)
class Found:
    """What counts of a key in one chain."""

    table: str
    utc: str
    """When the last one was made, by its own time; empty where the source does not say."""
    positions: tuple[Position, ...]
    """The lowest first; the last one is the last that counts."""


def of_file(path: Path, kid: str, trust: Trust, before: str) -> list[Found]:
    """What a journal or an evidence file holds of a key, dated before a moment.

    Of keys that the trust file does not name too: this one may have announced them. Raises `ConfigError`
    where the file is not good by the trust file as it is.
    """
    remedy = "run `dollyd verify`; what is certain can be named by --last CHAIN:SEQ:HEAD"
    try:
        evidence = is_evidence(path)
        report = verify_evidence(path, trust) if evidence else verify_journal(path, trust)
        if report.problems:
            raise ConfigError(str(path), "", f"not good: {report.problems[0].why}", remedy)
        with closing(EvidenceFile(path) if evidence else JournalFile(path)) as source:
            return [*_counted(source.envelopes(), kid, trust, before)]
    except (SourceError, OSError) as error:
        raise ConfigError(str(path), "", str(error), "give a journal or an evidence file") from error


def of_watermarks(path: Path) -> list[Found]:
    """How far a consumer has come in each chain, by its file of watermarks. Raises `ConfigError`."""
    try:
        marks = FileWatermarks(path).load().values()
    except OSError as error:
        raise ConfigError(str(path), "", str(error.strerror), "give a file of watermarks") from error
    return [
        Found(mark.table, "", (Position(chain=mark.chain, seq=mark.seq, head=mark.digest),))
        for mark in marks
        if mark.digest and mark.seq
    ]


def of_statements(path: Path, keys: Keys) -> list[Found]:
    """Where a witness saw each chain, by its statements, one a line. Raises `ConfigError`."""
    found = []
    try:
        for line in path.read_bytes().splitlines():
            said = read_statement(line, keys)
            if said.verdict == "consistent":
                position = Position(chain=said.chain, seq=said.seq, head=said.head)
                found.append(Found(said.table, said.time, (position,)))
    except (OSError, EnvelopeError) as error:
        remedy = "give statements of witnesses, one a line, and their keys by --witness-keys"
        raise ConfigError(str(path), "", str(error), remedy) from error
    return found


def of_text(text: str) -> Found:
    """`CHAIN:SEQ:HEAD`, as an operator writes it. Raises `ConfigError`."""
    chain, _, place = text.partition(":")
    seq, _, head = place.partition(":")
    try:
        position = msgspec.convert({"chain": chain, "seq": seq, "head": head}, Position, strict=False)
    except msgspec.ValidationError as error:
        remedy = "give CHAIN:SEQ:HEAD, the digest in 64 hexadecimal digits, as `dollyd verify` tells it"
        raise ConfigError("dollyd", "--last", f"{text!r}: {error}", remedy) from error
    return Found("", "", (position,))


def named(found: Sequence[Found]) -> tuple[Position, ...]:
    """All of them for the trust file, each once. Raises `ConfigError` where two contradict each other."""
    heads: dict[tuple[str, int], Position] = {}
    for at in (at for one in found for at in one.positions):
        if heads.setdefault((at.chain, at.seq), at) != at:
            problem = f"chain {at.chain}: two different records {at.seq}"
            raise ConfigError("dollyd", "--last", problem, "find out which of the sources is right")
    return tuple(sorted(heads.values(), key=lambda at: (at.chain, at.seq)))


@dataclass(slots=True)
class _Chain:
    table: str
    digests: list[tuple[int, str]]
    """Of every record from which another one may be tied."""
    last: tuple[int, str, str] | None = None
    """The last that counts: number, digest, time."""
    ended: bool = False


def _counted(envelopes: Iterable[bytes], kid: str, trust: Trust, before: str) -> Iterator[Found]:
    chains: dict[str, _Chain] = {}
    signed = set()
    for data in envelopes:
        envelope = parse_envelope(data)
        record = msgspec.json.decode(envelope.payload, type=Record)
        chain = chains.setdefault(record.chain, _Chain(record.table, []))
        if envelope.kid == kid:
            signed.add(record.chain)
        chain.ended = chain.ended or record.time.utc >= before
        if chain.ended:
            continue
        digest = sha256(data).hexdigest()
        if record.seq % _TIE_EVERY == 0:
            chain.digests.append((record.seq, digest))
        if envelope.kid == kid or envelope.kid not in trust.nodes:
            chain.last = (record.seq, digest, record.time.utc)
    for name in sorted(signed):
        if (last := chains[name].last) is not None:
            seq, digest, utc = last
            ties = [tie for tie in chains[name].digests if tie[0] < seq]
            step = len(ties) // _TIES_MAX + 1
            places = [*ties[::step], (seq, digest)]
            positions = tuple(Position(chain=name, seq=at, head=head) for at, head in places)
            yield Found(chains[name].table, utc, positions)
