"""Which part of a chain an export takes: whole ranges from checkpoint to checkpoint where it can.

A checkpoint says by itself where the chain stood, so a part that begins and ends with one is anchored at both
ends. The beginning of a chain is as good. The order of records is not that of their times, since clocks step:
a part reaches from the first record of the time asked for to the last one. Where the table's next chain has
its beginning in the file, it reaches to the end of its own chain: the first record over there names it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dollyd.client.proof.reading import read_chain
from dollyd.daemon.journal.store import Journal
from dollyd.wire.errors import JournalError
from dollyd.wire.record import Kind


@dataclass(frozen=True, slots=True)
class Part:
    """From record `first` to record `last`, both included; `last` 0: the chain has none in the range."""

    first: int
    last: int
    keys: tuple[dict[str, str], ...]
    """Keys that the chain announces up to `last`, as JWK."""
    outside_id: int
    """Journal id of the first record that was not exported before, and is not now."""


@dataclass(slots=True)
class _Search:
    first: int = 0
    """First record of the time asked for, or the boundary before it."""
    last: int = 0
    boundary: int = 0
    """Last checkpoint met, or the chain's first record."""
    closed: bool = False
    """`last` is a checkpoint."""
    new: tuple[int, int] = (0, 0)
    """Seq and id of the first record that was not exported before."""
    after_id: int = 0
    """Id of the record after `last`, 0 for none."""
    end: int = 0
    """Last record met."""
    keys: list[dict[str, str]] = field(default_factory=list)

    def take(self, seq: int, id_: int, *, wanted: bool, checkpoint: bool) -> None:
        self.end = seq
        if checkpoint or not self.boundary:
            self.boundary = seq
        if wanted:
            self.first = self.first or self.boundary
        if wanted or (checkpoint and self.last and not self.closed):
            self.last, self.closed, self.after_id = seq, checkpoint, 0
        elif self.last and not self.after_id:
            self.after_id = id_


def part_of(
    journal: Journal,
    chain: str,
    from_utc: str,
    to_utc: str,
    exported_id: int,
    upto_id: int,
    *,
    to_end: bool = False,
) -> Part:
    """The part of `chain` with all records of times in [`from_utc`, `to_utc`), among entries up to `upto_id`.

    `to_end`: and with all records behind them. Raises `JournalError` where the journal or a record in it
    cannot be read.
    """
    search = _Search()
    for entry in journal.entries(chain):
        if entry.id > upto_id:
            break
        found = read_chain(entry.envelope)
        if found.problem:
            raise JournalError(f"{journal.path}: record {entry.seq} of chain {chain}: {found.problem}")
        if found.jwk is not None:
            search.keys.append(found.jwk)
        if entry.id > exported_id and not search.new[0]:
            search.new = (entry.seq, entry.id)
        wanted = found.utc >= from_utc and (not to_utc or found.utc < to_utc)
        search.take(entry.seq, entry.id, wanted=wanted, checkpoint=entry.kind == Kind.CHECKPOINT)
    if to_end and search.last:
        search.last, search.after_id = search.end, 0
    return Part(search.first, search.last, tuple(search.keys), _outside(search, upto_id))


def _outside(search: _Search, upto_id: int) -> int:
    seq, id_ = search.new
    if not seq:
        return upto_id + 1
    if search.last and search.first <= seq <= search.last:
        return search.after_id or upto_id + 1
    return id_
