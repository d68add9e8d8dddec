"""A table in play without a daemon: its configuration, its journal with captures, its evidence files."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import msgspec
from tests.support.chains import NODE, SITE, ChainMaker
from tests.support.daemon import Installation
from tests.support.wheel_lines import Game, status

from dollyd.client.proof import tar
from dollyd.daemon.evidence.export import Exported, Wanted, export
from dollyd.daemon.evidence.texts import texts_of
from dollyd.daemon.journal.store import Journal, NewEntry
from dollyd.daemon.settings.load import load
from dollyd.daemon.table.capture import engine_of
from dollyd.daemon.table.engine import Input, NewRecord, Op
from dollyd.wire.record import FINAL_KINDS, VERSION, Kind, Record, Time, encode
from dollyd.wire.stamp import NS_PER_MS, Stamp, iso_utc

LINE_GAP_NS = 500 * NS_PER_MS
EPOCH_NS = 1_796_000_000_000_000_000
"""UTC of a table's beginning."""


def played(installation: Installation, games: int, table: str = "r1") -> list[NewRecord]:
    """What the engine of a table says of some good games."""
    engine = engine_of(load(installation.config).tables[table])
    return [record for item in _inputs(games) for record in engine.feed(item).records]


def _inputs(games: int) -> Iterator[Input]:
    at_ns = 0

    def said(op: Op, text: str = "") -> Input:
        nonlocal at_ns
        at_ns += LINE_GAP_NS
        return Input(op, Stamp(at_ns, EPOCH_NS + at_ns), "wheel", text)

    yield Input(Op.HOUSE, Stamp(0, EPOCH_NS), text='{"event":"TableOpened","by":"d1"}')
    yield said(Op.OPEN)
    yield said(Op.FRAME, status(6, 1, "8"))
    game = Game(1, "17", before="8")
    for number in range(games):
        for line in game.lines():
            yield said(Op.FRAME, line)
        game = game.next(str(number % 37))


class Chain(ChainMaker):
    """A chain of what an engine said, each record at its time."""

    def say(self, new: NewRecord) -> None:
        record = Record(
            v=VERSION,
            kind=str(new.kind),
            site=SITE,
            node=NODE,
            table=self.table,
            chain=self.chain,
            seq=self.seq + 1,
            prev=self.prev,
            round=new.round,
            time=_time(new.at),
            body=msgspec.Raw(new.body),
        )
        envelope = self.signer.sign(encode(record))
        self.seq, self.prev = record.seq, sha256(envelope).hexdigest()
        entry = (self.table, self.chain, self.seq, record.kind, new.round, new.kind in FINAL_KINDS)
        self.entries.append(NewEntry(*entry, envelope, new.capture or None))

    def checkpoint(self, at: Stamp) -> None:
        finals = sum(entry.final for entry in self.entries)
        body = {"reason": "hourly", "seq": self.seq, "head": self.prev, "finals": finals}
        self.add(Kind.CHECKPOINT, body=body, header={"time": _time(at)})


def _time(at: Stamp) -> Time:
    return Time(
        utc=iso_utc(at.utc_ns), monotonic_ns=at.mono_ns, boot="b", synchronised=True, error_bound_us=10
    )


def a_chain(records: list[NewRecord], table: str, chain: str, checkpoints: tuple[int, ...] = ()) -> Chain:
    """A chain with what was said, and a checkpoint after the records of some rounds."""
    maker = Chain(table, chain)
    maker.add(
        Kind.KEY,
        body={"event": "chain-start", "jwk": maker.signer.jwk, "reason": "new-journal"},
        header={"time": _time(Stamp(0, EPOCH_NS))},
    )
    for record in records:
        maker.say(record)
        if record.kind in FINAL_KINDS and record.round in checkpoints:
            maker.checkpoint(record.at)
    return maker


def fill(installation: Installation, *chains: ChainMaker) -> None:
    """A journal with these chains."""
    with closing(Journal.open(installation.journal)) as journal:
        for chain in chains:
            journal.append(chain.entries)


def exported(
    installation: Installation, out: Path, wanted: Wanted | None = None, exported_id: int = 0
) -> Exported:
    """An evidence file, as `dollyd export` makes it."""
    texts = texts_of(installation.config, load(installation.config))
    with closing(Journal.open(installation.journal, read_only=True)) as journal:
        return export(out, journal, wanted or Wanted(), texts, exported_id)


def contents(path: Path) -> dict[str, bytes]:
    """The members of an evidence file, as any tar reads them."""
    with tarfile.open(path) as file:
        return {member.name: file.extractfile(member).read() for member in file}  # type: ignore[union-attr]  # plain files only


def changed(path: Path, out: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The file with its members changed, in the same form."""
    members = contents(path)
    change(members)
    parts = (tar.header(name, len(data)) + data + tar.padding(len(data)) for name, data in members.items())
    out.write_bytes(b"".join(parts) + tar.END)
    return out
