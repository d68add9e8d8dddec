"""Order out of what arrives: one chain's records by number, what is missing, and when to ask for it.

Pure: no I/O, no clock. Times are monotonic seconds that the caller hands in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Generic, Protocol, TypeVar

from dollyd.wire.errors import DollydError
from dollyd.wire.record import NO_PREVIOUS

AHEAD_MAX = 1000
"""Records of a chain held past the last one released. What is beyond is dropped and comes again by replay."""
REPLAY_MAX = 1000
"""Records that one request may ask for."""
RECENT_MAX = 500
"""Records released whose digests are remembered, so that another record with such a number is found;
as many as a node sends again after its broker has restarted."""
LATER_S = 60.0
"""Until a gap that was given up is asked for again."""
HOPELESS = frozenset({"pruned", "unreadable", "unknown-chain"})
"""Problems of an answer that asking again does not mend."""


class StreamError(DollydError):
    """A chain cannot go on. The other tables can: iterate on to have their records."""

    def __init__(self, table: str, chain: str, text: str) -> None:
        super().__init__(f"table {table}, chain {chain}: {text}")
        self.table = table
        self.chain = chain


class GapError(StreamError):
    """Records `first` to `last` are missing and could not be had; `why` is the last answer to a request.

    Nothing after them is delivered. A stream that is iterated on asks for them again after `LATER_S`; people
    may decide to go on without them (`Stream.accept_loss`).
    """

    def __init__(self, table: str, chain: str, first: int, last: int, why: str) -> None:
        super().__init__(table, chain, f"records {first} to {last} are missing ({why})")
        self.first = first
        self.last = last
        self.why = why


class ChainError(StreamError):
    """The chain is not what was signed and delivered so far: people must look. `seq` says where."""

    def __init__(self, table: str, chain: str, seq: int, why: str) -> None:
        super().__init__(table, chain, f"record {seq}: {why}")
        self.seq = seq
        self.why = why


class BrokenChain(ValueError):  # noqa: N818  a finding, named in the words of people
    """Two records that contradict each other; whoever knows table and chain makes a `ChainError` of it."""

    def __init__(self, seq: int, why: str) -> None:
        super().__init__(f"record {seq}: {why}")
        self.seq = seq
        self.why = why


class Numbered(Protocol):
    """A record, its signature checked, as far as order is concerned."""

    @property
    def seq(self) -> int:
        """Its number in the chain, from 1."""
        ...

    @property
    def prev(self) -> str:
        """Digest of the record before it."""
        ...

    @property
    def digest(self) -> str:
        """Its own digest."""
        ...


Item = TypeVar("Item", bound=Numbered)


class Taken(StrEnum):
    """What became of a record."""

    READY = "ready"
    """Nothing is missing before it: `release` gives it when its turn comes."""
    DUPLICATE = "duplicate"
    AHEAD = "ahead"
    """Held: records are missing before it."""
    BEYOND = "beyond"
    """Too far ahead to be held; that it exists is remembered."""


class Sequencer(Generic[Item]):
    """One chain: takes its records as they arrive; releases each once, in order, linked to the one before."""

    def __init__(self, seq: int = 0, digest: str = NO_PREVIOUS) -> None:
        self.seq = seq
        """The last record released, or given up for lost."""
        self.digest = digest
        """Its digest, empty where it is lost."""
        self.tip = seq
        """The highest record that is known to exist, by a signature."""
        self.hint = 0
        """A higher record that somebody spoke of, without a signature that could be checked; 0 for none."""
        self._held: dict[int, Item] = {}
        self._ready_to = seq
        self._recent = {seq: digest} if digest else {}

    @property
    def ready(self) -> bool:
        """Whether `release` has something to give."""
        return self._ready_to > self.seq

    @property
    def hole_end(self) -> int:
        """The last record of the first hole, as far as something signed says that there is more."""
        return min((seq for seq in self._held if seq > self._ready_to), default=self.tip + 1) - 1

    @property
    def incomplete(self) -> bool:
        """Whether there is more than what was released or is ready."""
        return max(self.tip, self.hint) > self._ready_to

    @property
    def following(self) -> Item | None:
        """What `release` would give."""
        return self._held.get(self.seq + 1)

    def holds_to(self, seq: int) -> bool:
        """Whether everything that was not released is held up to and with this record."""
        return self._ready_to >= seq

    def leads_to(self, seq: int, digest: str) -> bool:
        """Whether what is held is linked, record by record, to this one."""
        before = ""
        for number in range(self.seq + 1, seq + 1):
            item = self._held.get(number)
            if item is None or before not in ("", item.prev):
                return False
            before = item.digest
        return before == digest

    def take(self, item: Item) -> Taken:
        """Take a record. Raises `BrokenChain` where another one has its number."""
        held = self._held.get(item.seq)
        known = held.digest if held is not None else self._recent.get(item.seq)
        if known is not None and known != item.digest:
            raise BrokenChain(item.seq, "two different signed records have this number")
        if known is not None or item.seq <= self.seq:
            return Taken.DUPLICATE
        self.note(item.seq)
        if item.seq > self.seq + AHEAD_MAX:
            return Taken.BEYOND
        self._held[item.seq] = item
        while self._ready_to + 1 in self._held:
            self._ready_to += 1
        return Taken.READY if item.seq <= self._ready_to else Taken.AHEAD

    def note(self, seq: int) -> None:
        """Something signed says that the chain has a record `seq`."""
        self.tip = max(self.tip, seq)

    def release(self) -> Item | None:
        """The next record, None where it has not come. Raises `BrokenChain` where it does not fit."""
        item = self._held.get(self.seq + 1)
        if item is None:
            return None
        if self.digest and item.prev != self.digest:
            raise BrokenChain(item.seq, f"its prev is not the digest of record {self.seq}")
        del self._held[item.seq]
        self.seq, self.digest = item.seq, item.digest
        self._recent[item.seq] = item.digest
        self._recent.pop(item.seq - RECENT_MAX, None)
        return item

    def skip(self, seq: int) -> None:
        """Give up what is missing up to `seq` for lost; the record behind it is taken at its word."""
        self.seq, self.digest = seq, ""
        self._ready_to = seq
        while self._ready_to + 1 in self._held:
            self._ready_to += 1

    def missing(self) -> tuple[int, int] | None:
        """First and last of what to ask for: at most `REPLAY_MAX` records, and none too far to be held."""
        first = self._ready_to + 1
        last = min(max(self.tip, self.hint), self.seq + AHEAD_MAX, first + REPLAY_MAX - 1)
        while last in self._held:
            last -= 1
        return (first, last) if first <= last else None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for what, in seconds."""

    answer_s: float = 5.0
    """For a sign of an answer to a request, at first; doubled with each request in vain ..."""
    answer_max_s: float = 15.0
    """... up to this."""
    gap_s: float = 60.0
    """For a gap to become smaller, while there is a broker, before it is raised."""
    ack_s: float = 1.0
    """Between two acks of a table."""
    quiet_s: float = 60.0
    """For any node to be heard, before the next broker of several is tried."""


class Asker:
    """When to ask for the missing records of one chain, and when to give them up."""

    def __init__(self, patience: Patience, rng: Random) -> None:
        self._patience = patience
        self._rng = rng
        self.rest()

    def rest(self) -> None:
        """Nothing is missing, or all begins anew."""
        self.why = "no answer"
        self.waiting = False
        """Whether an answer is on its way, as far as known."""
        self._first, self._certain = 0, False
        self._tries = 0
        self._id = ""
        self._moved = False
        self._again_s = self._since_s = 0.0
        self._hopeless = False

    def give_up(self, now_s: float) -> None:
        """Leave the gap alone for `LATER_S`; another one is asked for at once."""
        first, certain = self._first, self._certain
        self.rest()
        self._first, self._certain, self._again_s = first, certain, now_s + LATER_S

    def look(self, first: int, now_s: float, *, certain: bool) -> None:
        """Take note of the time, and of the first missing record, which tells progress.

        `certain`: something signed says that there is one; what was asked for on a mere word begins anew.
        """
        moves = (first, certain) != (self._first, self._certain)
        if moves and self._tries:  # give it time
            self._moved, self._hopeless, self._tries = True, False, 1
            self._since_s, self._again_s = now_s, now_s + self._patience.answer_s
        elif moves:
            self._again_s = now_s
        self._first, self._certain = first, certain
        if now_s >= self._again_s:
            self.waiting = False

    def due(self, now_s: float) -> bool:
        """Whether to ask now."""
        return now_s >= self._again_s

    def asked(self, now_s: float) -> str:
        """A request goes out; gives its id. One that is only repeated keeps its id: it may be under way."""
        self._since_s = now_s if self._tries == 0 else self._since_s
        wait_s = min(self._patience.answer_s * 2 ** min(self._tries, 20), self._patience.answer_max_s)
        self._again_s = now_s + wait_s * self._rng.uniform(0.75, 1.25)
        self._tries += 1
        self._moved = False
        self.waiting = True
        self._id = self._id or f"{self._rng.getrandbits(64):016x}"
        return self._id

    def ended(self, id_: str, problem: str, now_s: float) -> None:
        """An answer is complete. Answers to other requests change nothing."""
        if not id_ or id_ != self._id:
            return
        self._id, self.waiting = "", False
        self.why = problem or "the answer does not hold them"
        self._hopeless = problem in HOPELESS
        if self._moved and not problem:
            self._again_s = now_s  # the next part; in vain, it is asked for again only after a pause

    def expired(self, now_s: float) -> bool:
        """Whether the gap must be raised."""
        return self._hopeless or (self._tries > 0 and now_s - self._since_s >= self._patience.gap_s)
