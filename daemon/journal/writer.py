"""The writer: one thread that owns every chain, signs, and makes records durable.

The event loop hands over drafts and never waits for a disk. Drafts that came while a commit was under way
share the next one. Anything that goes wrong here stops the writer for good: a chain with a doubtful record
is worse than a table that stands still.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TypeAlias

import msgspec

from dollyd.daemon.host.clock import Clock, Quality
from dollyd.daemon.journal.damage import Damage
from dollyd.daemon.journal.store import Entry, Journal, NewEntry, Tail
from dollyd.daemon.keys.signing import Signer
from dollyd.wire.errors import JournalError, ensure
from dollyd.wire.record import (
    FINAL_KINDS,
    NO_PREVIOUS,
    VERSION,
    CheckpointBody,
    KeyBody,
    Kind,
    Record,
    Time,
    encode,
)
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S, Stamp, iso_utc

_BATCH_MAX = 256
"""Records that share a commit."""
CROWD = 5_000
"""Drafts that may wait while the disk is slow; with more, devices are not read until it has caught up. Their
budgets keep even a hundred tables from getting there in the time that the watchdog gives a disk."""
_QUALITY_FRESH_NS = NS_PER_S
"""How long an answer to "how good is UTC" is good for."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A decision of the core, on its way to become a record. `capture`: the raw frames behind it."""

    table: str
    kind: Kind
    round: int
    body: bytes
    at: Stamp
    capture: bytes | None = None


@dataclass(frozen=True, slots=True)
class _CheckpointWanted:
    """Stands among the drafts where a checkpoint shall; what it says is known when its turn comes."""

    table: str
    reason: str
    at: Stamp


@dataclass(frozen=True, slots=True)
class _RotationWanted:
    """Stands among the drafts where the chain of a table goes over to another key."""

    table: str
    signer: Signer
    at: Stamp


_Item: TypeAlias = Draft | _CheckpointWanted | _RotationWanted


@dataclass(slots=True)
class _Chain:
    """Where the next record of a table goes, and whose key signs it."""

    name: str
    signer: Signer
    seq: int
    prev: str
    finals: int = 0
    checkpointed: bool = True
    """Nothing was written since the last checkpoint, or at all."""


def chain_start(
    table: str, signer: Signer, at: Stamp, damage: Damage | None, orphan: Tail | None = None
) -> Draft:
    """The first record of a new chain: its key, and what it takes the place of.

    That is a damaged journal, or a chain that nobody can sign any more: `orphan`, whose key is lost.
    """
    reason, previous = "new-journal", None
    if orphan is not None:
        reason, previous = "key-lost", (orphan.chain, orphan.seq)
    elif damage is not None:
        reason, previous = f"journal-damaged: {damage.path.name}", damage.last.get(table)
    body = KeyBody(event="chain-start", jwk=signer.jwk, reason=reason)
    if previous is not None:
        body = msgspec.structs.replace(body, previous_chain=previous[0], previous_seq=previous[1])
    return Draft(table, Kind.KEY, 0, encode(body), at)


class Writer:
    """Drafts in, durable entries out, in the order of `submit`."""

    def __init__(
        self,
        journal: Journal,
        signer: Signer,
        *,
        site: str,
        node: str,
        clock: Clock,
        on_written: Callable[[list[Entry]], None],
        on_failure: Callable[[Exception], None],
        on_crowded: Callable[[bool], None] = lambda _: None,
        crowd: int = CROWD,
    ) -> None:
        """`on_written` and `on_failure` are called from the writer's thread; the latter once, as the last.

        `on_crowded` is told when more than `crowd` drafts wait, and again when it is half of that: in between
        nobody may bring more than what is under way. It is called from any thread.
        """
        self._journal = journal
        self._signer = signer
        self._site = site
        self._node = node
        self._clock = clock
        self._on_written = on_written
        self._on_failure = on_failure
        self._on_crowded = on_crowded
        self._crowd = crowd
        self._crowded = False
        self._chains: dict[str, _Chain] = {}
        self._waiting: deque[_Item] = deque()
        """Drafts that are not durable yet, those of the commit under way included."""
        self._changed = threading.Condition()
        self._closing = False
        self._failure: Exception | None = None
        self._asked = 0
        self.answered = 0
        """What the thread has answered last: see `ask`."""
        self._quality = Quality(synchronised=False, error_bound_us=-1)
        self._quality_until_ns = 0
        # A daemon thread: a disk that hangs for ever must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)

    def start_chain(self, table: str, tail: Tail | None, signer: Signer | None = None) -> str:
        """Go on with the chain of `table`, or begin one (`tail` None: submit `chain_start` first).

        `signer` is the key whose turn it is in the chain, the writer's own unless given. Gives the chain's
        id. The first draft of `table` comes after it.
        """
        signer = signer or self._signer
        ensure(table not in self._chains, "a table has one chain")
        if tail is None:
            self._chains[table] = _Chain(secrets.token_hex(16), signer, 0, NO_PREVIOUS)
        else:
            checkpointed = tail.checkpoint is not None and tail.checkpoint.seq == tail.seq
            self._chains[table] = _Chain(tail.chain, signer, tail.seq, tail.prev, tail.finals, checkpointed)
        return self._chains[table].name

    def chain(self, table: str) -> str:
        """The chain of a table that was started."""
        return self._chains[table].name

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, draft: Draft) -> None:
        """Hand over a draft; never waits for the disk. `JournalError` when failed or closed."""
        self._queue(draft)

    def checkpoint(self, table: str, reason: str, at: Stamp) -> None:
        """Have a checkpoint written behind all that was submitted; raises as `submit`.

        None is written where the last record is one: it still says everything.
        """
        self._queue(_CheckpointWanted(table, reason, at))

    def rotate(self, signer: Signer, at: Stamp) -> None:
        """Have every chain go over to another key behind all that was submitted; raises as `submit`.

        The old key signs a `key` record that announces the new one, which signs all that comes after it.
        Chains that have gone over already stay as they are. A stop in between leaves some chains behind:
        they go over at the next start.
        """
        for table in self._chains:
            self._queue(_RotationWanted(table, signer, at))

    def _queue(self, item: _Item) -> None:
        with self._changed:
            if self._failure is not None:
                raise JournalError(f"the writer has failed: {self._failure}") from self._failure
            if self._closing:
                raise JournalError("the writer has been closed")
            ensure(item.table in self._chains, "a draft belongs to a table with a chain")
            self._waiting.append(item)
            self._tell_the_crowd()
            self._changed.notify()

    def _tell_the_crowd(self) -> None:
        """To be called with the lock: so whoever is told hears it in order."""
        waiting = len(self._waiting)
        crowded = waiting > (self._crowd // 2 if self._crowded else self._crowd)
        if crowded != self._crowded:
            self._crowded = crowded
            self._on_crowded(crowded)

    def close(self, deadline_s: float = 5.0) -> None:
        """Write what waits, then end the thread. `JournalError` when that takes longer than `deadline_s`."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is None:
            return
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            raise JournalError(f"{self.depth} records were not written within {deadline_s} s")

    def ask(self) -> int:
        """Have the thread show that it goes on: `answered` becomes the number given, unless it hangs."""
        with self._changed:
            self._asked += 1
            self._changed.notify()
            return self._asked

    def has_chain(self, table: str) -> bool:
        """Whether the chain of a table has been started."""
        return table in self._chains

    def holds(self, table: str) -> bool:
        """Whether drafts of a table are not durable yet."""
        with self._changed:
            return any(item.table == table for item in self._waiting)

    @property
    def depth(self) -> int:
        """Drafts that are not durable yet."""
        return len(self._waiting)

    def oldest_ms(self, now: Stamp) -> int:
        """How long the oldest of them has waited."""
        with self._changed:
            return max(0, now.mono_ns - self._waiting[0].at.mono_ns) // NS_PER_MS if self._waiting else 0

    # --- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while items := self._next_batch():
                self._write(items)
        except Exception as error:  # noqa: BLE001  # the thread's boundary: told, and nothing more is written
            with self._changed:
                self._failure = error
            self._on_failure(error)

    def _next_batch(self) -> list[_Item]:
        """Wait for drafts; empty when closing and all is written."""
        with self._changed:
            self.answered = self._asked
            while not self._waiting and not self._closing:
                self._changed.wait()
                self.answered = self._asked
            return list(islice(self._waiting, _BATCH_MAX))

    def _write(self, items: list[_Item]) -> None:
        entries = self._journal.append(list(self._signed(items)))
        with self._changed:
            for _ in items:
                self._waiting.popleft()
            self._tell_the_crowd()
        self._on_written(entries)

    def _signed(self, items: list[_Item]) -> Iterator[NewEntry]:
        for item in items:
            draft = self._draft_of(item)
            if draft is not None:
                yield self._sign(draft)
            if isinstance(item, _RotationWanted):
                self._chains[item.table].signer = item.signer

    def _draft_of(self, item: _Item) -> Draft | None:
        """What to sign next; to be called when all before it is signed."""
        if isinstance(item, Draft):
            return item
        chain = self._chains[item.table]
        if isinstance(item, _RotationWanted):
            if item.signer.kid == chain.signer.kid:
                return None
            announcement = KeyBody(event="rotated", jwk=item.signer.jwk, reason="next-key")
            return Draft(item.table, Kind.KEY, 0, encode(announcement), item.at)
        if chain.checkpointed:
            return None
        body = CheckpointBody(reason=item.reason, seq=chain.seq, head=chain.prev, finals=chain.finals)
        return Draft(item.table, Kind.CHECKPOINT, 0, encode(body), item.at)

    def _sign(self, draft: Draft) -> NewEntry:
        chain = self._chains[draft.table]
        ensure(chain.seq > 0 or draft.kind is Kind.KEY, "the first record of a chain is its key")
        quality = self._quality_at(draft.at)
        record = Record(
            v=VERSION,
            kind=draft.kind.value,
            site=self._site,
            node=self._node,
            table=draft.table,
            chain=chain.name,
            seq=chain.seq + 1,
            prev=chain.prev,
            round=draft.round,
            time=Time(
                utc=iso_utc(draft.at.utc_ns),
                monotonic_ns=draft.at.mono_ns,
                boot=self._clock.boot,
                synchronised=quality.synchronised,
                error_bound_us=quality.error_bound_us,
            ),
            body=msgspec.Raw(draft.body),
        )
        envelope = chain.signer.sign(encode(record))
        chain.seq, chain.prev = record.seq, sha256(envelope).hexdigest()
        final = draft.kind in FINAL_KINDS
        chain.finals += final
        chain.checkpointed = draft.kind is Kind.CHECKPOINT
        return NewEntry(
            draft.table, chain.name, record.seq, record.kind, draft.round, final, envelope, draft.capture
        )

    def _quality_at(self, at: Stamp) -> Quality:
        if at.mono_ns >= self._quality_until_ns:
            self._quality = self._clock.quality()
            self._quality_until_ns = at.mono_ns + _QUALITY_FRESH_NS
        return self._quality
