"""Records again, for consumers who missed some: answers replay requests out of the journal.

    <table>/replay/<consumer>/ask {"chain","from","to","id"}
        --> <table>/replay/<consumer>: the envelopes verbatim, in order, and one `End`

Who asks is what the topic says: the broker's access list vouches for it. Play comes first: answers go over
the inbox's link and not the publisher's, the journal is read in a thread, and so many records a second are
sent, a few at a time. Consumers take turns (`turns.py`), and so do the tables of one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from dollyd.daemon.consumers.turns import Turns
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.tasks import Pulse
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.link.inbox import Route
from dollyd.daemon.link.mqtt import Cause, LinkError, Message
from dollyd.wire.decoding import from_json
from dollyd.wire.errors import JournalError
from dollyd.wire.stamp import NS_PER_S
from dollyd.wire.topics import Topics, check_name

RECORDS_A_REQUEST = 1000
"""Who asked for more gets these, and asks again from the next one on."""
RECORDS_PER_S = 500
"""For all consumers of a node together."""
RECORDS_A_TURN = 25
WAITING_A_TABLE = 3
"""Requests of one consumer for one table that wait to be answered, or to be told that they cannot be."""
CORRELATION_MAX_BYTES = 128

UNKNOWN_CHAIN = "unknown-chain"
BEYOND_THE_END = "beyond-the-end"
PRUNED = "pruned"
UNREADABLE = "unreadable"
BAD_REQUEST = "bad-request"
BUSY = "busy"

_LOG = Logger(__name__)
_Seq = Annotated[int, Meta(ge=1, lt=2**53)]


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """Payload of `<table>/replay/<consumer>/ask`: records `from` to `to` of a chain, both included.

    `id` is given back.
    """

    chain: Annotated[str, Meta(min_length=1, max_length=64)]
    from_: _Seq = msgspec.field(name="from")
    to: _Seq
    id: Annotated[str, Meta(max_length=64)]


class End(Struct, frozen=True):
    """The last message of an answer. `sent` records came before it, in order.

    `problem` is empty, or why there are not more: `unknown-chain`, `beyond-the-end` (the chain ends before
    `to`), `pruned` (the journal keeps no longer all of these), `unreadable` (the journal is damaged there:
    those were left out), `bad-request`, or `busy` (another request of the same consumer for the same table
    is being answered). Nobody gets more than `RECORDS_A_REQUEST`.
    """

    end: str
    chain: str
    from_: int = msgspec.field(name="from")
    to: int
    sent: int
    problem: str


class _Asker(Struct, frozen=True):
    """What can be read of a request that is none, to tell its sender so."""

    id: Annotated[str, Meta(max_length=64)] = ""


class Send(Protocol):
    """Publish with QoS 1: topic, payload, correlation. Raises `LinkError`.

    With `Cause.DENIED` the broker refuses this topic, and only this one.
    """

    def __call__(self, topic: str, payload: bytes, correlation: bytes, /) -> Awaitable[None]:
        """Wait until it was handed to the broker's socket."""
        ...


@dataclass(slots=True)
class _Answer:
    """A request on its way; `problem` is set where the answer is an `End` and nothing else."""

    table: str
    consumer: str
    request: Request
    correlation: bytes
    problem: str = ""
    gone: int = 0
    """Records passed over, because of `why_gone`."""
    why_gone: str = ""
    sent: int = 0

    @property
    def next_seq(self) -> int:
        return self.request.from_ + self.gone + self.sent

    def pass_over(self, count: int, why: str) -> None:
        """Go on behind records that cannot be had."""
        if count:
            self.gone, self.why_gone = self.gone + count, why

    @property
    def last_seq(self) -> int:
        return min(self.request.to, self.request.from_ + RECORDS_A_REQUEST - 1)


class ReplayService:
    """Takes requests through its `routes`, and answers them in `run`."""

    def __init__(self, tables: list[str], topics: Topics, journal: Journal, send: Send, clock: Clock) -> None:
        self._tables = tables
        self._topics = topics
        self._journal = journal
        self._send = send
        self._clock = clock
        self.pulse = Pulse()
        self._waiting: dict[str, deque[_Answer]] = {}
        """By consumer; of each, the first answer is next."""
        self._turns = Turns()
        self._wake = asyncio.Event()
        self._free_ns = 0  # when the next records may go
        self._sent = 0
        self._requests: Counter[str] = Counter()
        self._unreadable: set[str] = set()
        """Chains that are in the journal, of which some records cannot be read."""

    def routes(self) -> list[Route]:
        """Where requests come in."""
        return [self.route(table) for table in self._tables]

    def route(self, table: str) -> Route:
        """Where the requests for one table come in."""
        return Route(self._topics.every_replay_ask(table), partial(self._take, table))

    def snapshot(self) -> dict[str, Any]:
        """For the health topic: records sent, answers under way, and requests by how they ended."""
        waiting = sum(map(len, self._waiting.values()))
        return {"sent": self._sent, "waiting": waiting, "requests": dict(self._requests)}

    # --- requests ------------------------------------------------------------------------------------

    def _take(self, table: str, message: Message) -> None:
        consumer = message.topic.split("/")[-2]
        if not check_name(consumer):
            self._requests["nobody-to-answer"] += 1
            return
        answer = self._answer(table, consumer, message)
        others = [one for one in self._waiting.get(consumer, ()) if one.table == table]
        if any(one.request == answer.request for one in others):
            self._requests["repeated"] += 1  # sent twice, by the broker or in impatience: it is under way
            return
        if len(others) >= WAITING_A_TABLE:
            self._requests["dropped"] += 1
            return
        if any(not one.problem for one in others):
            answer.problem = answer.problem or BUSY
        self._queue(answer)

    def _answer(self, table: str, consumer: str, message: Message) -> _Answer:
        """What is to be answered to what came.

        Answers go to the consumer's own topic and nowhere else: if a response topic could be any other,
        records would be published again as if they were new, or to whatever they would confuse, with our
        rights.
        """
        problem, id_ = "", ""
        correlation = message.correlation
        if len(correlation) > CORRELATION_MAX_BYTES:
            problem, correlation = BAD_REQUEST, b""
        if message.response_topic not in {"", self._topics.replay_answer(table, consumer)}:
            problem = BAD_REQUEST
        try:
            request = from_json(message.payload, Request)
        except msgspec.DecodeError:
            problem = BAD_REQUEST
            with suppress(msgspec.DecodeError):
                id_ = from_json(message.payload, _Asker).id
            request = Request("", 0, 0, id_)
        return _Answer(table, consumer, request, correlation, problem)

    def _queue(self, answer: _Answer) -> None:
        pushed_out = self._turns.come(answer.consumer)
        if pushed_out:
            self._requests["dropped"] += max(1, len(self._waiting.pop(pushed_out, ())))
        if pushed_out != answer.consumer:
            self._waiting.setdefault(answer.consumer, deque()).append(answer)
            self._wake.set()

    # --- answers -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Answer until cancelled. A lost link ends all answers: who misses the `End` asks again."""
        while True:
            self._wake.clear()
            if not self._waiting:
                await self.pulse.news(self._wake)
                continue
            self.pulse.beat()
            await self._clock.sleep_until(self._free_ns)
            try:
                await self._take_turn()
            except LinkError as error:
                if error.cause is Cause.DENIED:
                    continue  # of one consumer: its requests are gone
                self._requests["link-lost"] += sum(map(len, self._waiting.values()))
                for consumer in self._waiting:
                    self._turns.leave(consumer)
                self._waiting.clear()

    async def _take_turn(self) -> None:
        """A few records of one answer; then it is another consumer's turn."""
        consumer = self._turns.next()
        answers = self._waiting[consumer]
        sent_before = self._sent
        try:
            ended = await self._go_on(answers[0])
        except LinkError as error:
            if error.cause is Cause.DENIED:  # the broker lets us tell this consumer nothing
                self._requests["denied"] += len(answers)
                self._leave(consumer, answers)
            raise
        cost = 1 + self._sent - sent_before
        self._free_ns = self._clock.stamp().mono_ns + cost * NS_PER_S // RECORDS_PER_S
        self._turns.charge(consumer, cost)
        answer = answers.popleft()
        if not ended:
            answers.append(answer)
        if not answers:
            self._leave(consumer, answers)

    def _leave(self, consumer: str, answers: deque[_Answer]) -> None:
        """Forget what a consumer waited for, unless others of its requests have taken that place."""
        if self._waiting.get(consumer) is answers:
            del self._waiting[consumer]
            self._turns.leave(consumer)

    async def _go_on(self, answer: _Answer) -> bool:
        """Send the next records of an answer; tells whether it has come to its end."""
        topic = self._topics.replay_answer(answer.table, answer.consumer)
        if not answer.problem:
            last = min(answer.last_seq, answer.next_seq + RECORDS_A_TURN - 1)
            read = partial(self._read, answer.table, answer.request.chain, answer.next_seq, last)
            envelopes, unreadable, answer.problem = await asyncio.to_thread(read)
            answer.pass_over(unreadable, UNREADABLE)
            if answer.problem == PRUNED and not answer.sent:
                await self._pass_over_pruned(answer)
            for envelope in envelopes:
                await self._send(topic, envelope, answer.correlation)
                answer.sent += 1
                self._sent += 1
        if not answer.problem and answer.next_seq <= answer.last_seq:
            return False
        request, problem = answer.request, answer.why_gone or answer.problem
        end = End(request.id, request.chain, request.from_, request.to, answer.sent, problem)
        await self._send(topic, msgspec.json.encode(end), answer.correlation)
        self._requests[problem or "answered"] += 1
        return True

    async def _pass_over_pruned(self, answer: _Answer) -> None:
        """Begin with the first record that is kept, so that nobody takes more for lost than what is."""
        upto_seq = await asyncio.to_thread(self._journal.pruned_upto, answer.request.chain)
        if upto_seq < answer.last_seq:
            answer.pass_over(upto_seq + 1 - answer.request.from_, PRUNED)
            answer.problem = ""

    # What follows runs in a thread.

    def _read(self, table: str, chain: str, first: int, last: int) -> tuple[list[bytes], int, str]:
        """Envelopes from `first` on, how many cannot be read, and why there are none up to `last`."""
        if (table, chain) not in self._journal.chains():
            return [], 0, UNKNOWN_CHAIN
        unreadable = 0
        try:
            envelopes = [entry.envelope for entry in self._journal.entries(chain, first, last)]
        except JournalError as error:
            envelopes, unreadable = self._read_one_by_one(chain, first, last)
            self._tell_unreadable(table, chain, first, error)
        if first <= self._journal.pruned_upto(chain):  # asked after reading: it only grows
            return [], 0, PRUNED
        return envelopes, unreadable, "" if len(envelopes) + unreadable > last - first else BEYOND_THE_END

    def _read_one_by_one(self, chain: str, first: int, last: int) -> tuple[list[bytes], int]:
        """What can be read where old records are damaged; those of today are written all the same."""
        envelopes, unreadable = [], 0
        for seq in range(first, last + 1):
            try:
                envelopes += [entry.envelope for entry in self._journal.entries(chain, seq, seq)]
            except JournalError:
                unreadable += 1
        return envelopes, unreadable

    def _tell_unreadable(self, table: str, chain: str, first: int, error: JournalError) -> None:
        """Log it once a chain: it is asked for again and again."""
        if chain not in self._unreadable:
            self._unreadable.add(chain)
            _LOG.error("records_unreadable", table=table, seq=first, problem=str(error))
