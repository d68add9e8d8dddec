"""Takes the signed commands of people at the tables, judges them, and answers.

    message --> whose, what for, in time, new? --> remembered on the disk --> the core decides --> answer

What a person may do in a game is the core's business; here is made sure that it is this person who says it,
here, now, and once. A command that is refused is counted, answered, and told in the chain, within limits.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

from dollyd.client.proof.approvals import AHEAD_MAX_S, ApprovalError, check_person, check_signature, check_two
from dollyd.daemon.commands.admission import Admission, Waiting
from dollyd.daemon.commands.marks import CommandMarks
from dollyd.daemon.commands.moment import Moment
from dollyd.daemon.commands.orders import REFUSED_AS, event_of
from dollyd.daemon.commands.originals import read_original
from dollyd.daemon.commands.refusals import Refusals
from dollyd.daemon.core.events import Original
from dollyd.daemon.core.rulebook import GameProfile
from dollyd.daemon.core.state import Proposal
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.tasks import Pulse
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.keys.signing import Signer
from dollyd.daemon.link.inbox import Route
from dollyd.daemon.link.mqtt import LinkError, Message
from dollyd.daemon.table.engine import Input, NewRecord, house
from dollyd.wire.answer import ANSWER_TYP, ANSWER_VERSION, Answer, Came
from dollyd.wire.command import Command, Order, Signed, digest, read_command
from dollyd.wire.errors import JournalError
from dollyd.wire.judgement import Verdict
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_S, iso_utc
from dollyd.wire.topics import Topics, check_name
from dollyd.wire.trust import OperatorKey, Trust

ANSWERS_KEPT = 200
"""Answers to give again to whoever sends the same bytes again."""
CORRELATION_MAX_BYTES = 128
"""Longer correlation data is not given back."""

_LOG = Logger(__name__)


class TableAtHand(Protocol):
    """A table that can be told something."""

    @property
    def chain(self) -> str:
        """The running chain."""

    @property
    def rules(self) -> GameProfile:
        """The profile that is played by."""

    @property
    def proposal(self) -> Proposal | None:
        """What waits for a second person."""

    def tell(self, item: Input, /) -> tuple[NewRecord, ...]:
        """An input of the house, and the records that follow."""


class Send(Protocol):
    """Publish with QoS 1: topic, payload, correlation. Raises `LinkError`."""

    def __call__(self, topic: str, payload: bytes, correlation: bytes, /) -> Awaitable[None]:
        """Wait until it was handed to the broker's socket."""


class _RefusedError(Exception):
    """A command goes no further. `code` is counted, `detail` is for people."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


class CommandDesk:
    """Takes commands through its `routes`, and deals with one after the other in `run`.

    `trust` gives the trust file that counts now, `signer` the key of `node` that signs now. `unwritten` tells
    how many records are not durable yet: an answer waits for them; `written` is to be called when some are.
    """

    def __init__(
        self,
        tables: Mapping[str, TableAtHand],
        topics: Topics,
        journal: Journal,
        marks: CommandMarks,
        *,
        trust: Callable[[], Trust | None],
        node: str,
        signer: Callable[[], Signer],
        send: Send,
        unwritten: Callable[[], int],
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._topics = topics
        self._journal = journal
        self._marks = marks
        self._trust = trust
        self._node = node
        self._signer = signer
        self._send = send
        self._unwritten = unwritten
        self._clock = clock
        self._moment = Moment(clock, journal)
        self._synchronised = True  # as told in the log
        self.pulse = Pulse()
        self._waiting = Admission(trust, clock)
        self._wake = asyncio.Event()
        self._wrote = asyncio.Event()
        self._answers: OrderedDict[tuple[str, str], Came] = OrderedDict()  # by table and digest
        self._refusals = Refusals(clock, self._incident)
        self._done = 0
        self._refused: Counter[str] = Counter()

    def routes(self) -> list[Route]:
        """Where commands come in. Retained ones too: that somebody tries is worth knowing."""
        return [self.route(table) for table in self._tables]

    def route(self, table: str) -> Route:
        """Where the commands for one table come in."""
        return Route(self._topics.command(table), partial(self._take, table), retained=True, judges=True)

    def tasks(self) -> dict[str, Any]:
        """What runs until the node stops, by name."""
        return {"commands": self.run(), "command-refusals": self._refusals.run()}

    def stop(self) -> None:
        """Tell what of this minute is not told yet; the tables still take incidents."""
        self._refusals.sum_up()

    def written(self) -> None:
        """Records are durable: no order is judged by an earlier time than theirs."""
        self._moment.look()
        self._wrote.set()

    def snapshot(self) -> dict[str, Any]:
        """For the health topic: commands that were done, that wait, and that were refused, by reason."""
        return {"done": self._done, "waiting": len(self._waiting), "refused": dict(self._refused)}

    def _take(self, table: str, message: Message) -> None:
        problem = self._waiting.take(table, message)
        if problem:
            self._count(table, problem, f"{problem}: more commands come than can be dealt with")
        self._wake.set()

    async def run(self) -> None:
        """Deal with commands until cancelled. Raises `JournalError` where they cannot be remembered."""
        while True:
            self._wake.clear()
            if not self._waiting:
                await self.pulse.news(self._wake)
                continue
            self.pulse.beat()
            one = self._waiting.pop()
            came = await self._deal(one.table, one.message)
            await self._answer(one, came)

    # --- one command ---------------------------------------------------------------------------------

    async def _deal(self, table: str, message: Message) -> Came:
        if table not in self._tables:  # removed while the command waited
            return Came("", "", "refused", "no-table: it is no longer played here")
        known = (table, digest(message.payload))
        if not message.retain and known in self._answers:
            return self._answers[known]
        try:
            signed = _read(message)
        except _RefusedError as error:
            self._count(table, error.code, error.code)  # nobody has signed for the rest of the text
            return Came("", "", "refused", str(error))
        command, by, here = signed.command, "", self._tables[table]
        try:
            person, trust = self._person(signed)
            by = f"{command.order} of {person.id}: "
            self._judge(table, signed, person, trust)
            await asyncio.to_thread(self._marks.take, signed.kid, command.issued)
            original = await self._original(command, here.proposal)
            at = self._clock.stamp()
            self._check_time(command, here)  # again: the disk may have taken its time
            self._check_still_played(table, here)
        except _RefusedError as error:
            self._count(table, error.code, f"{by}{error if by else error.code}")
            return Came(str(command.order), command.nonce, "refused", str(error))
        answer = await self._do(here, command, house(event_of(signed, person.id, original), at))
        self._answers[known] = answer
        if len(self._answers) > ANSWERS_KEPT:
            self._answers.popitem(last=False)
        return answer

    async def _do(self, table: TableAtHand, command: Command, item: Input) -> Came:
        """Tell the core, and wait until what follows is on the disk."""
        records = table.tell(item)
        refused = REFUSED_AS[command.order]
        told = [msgspec.json.decode(record.body) for record in records if record.kind is Kind.INCIDENT]
        why = next((body["text"] for body in told if body["what"] == refused), "")
        while self._unwritten():
            self._wrote.clear()
            await self.pulse.news(self._wrote)
        if why:
            self._refused["not-possible"] += 1
        else:
            self._done += 1
        follow: list[dict[str, str | int]] = [
            {"kind": str(r.kind), "round": r.round} for r in records if r.told
        ]
        return Came(str(command.order), command.nonce, "refused" if why else "done", why, follow)

    # --- judgement -----------------------------------------------------------------------------------

    def _person(self, signed: Signed) -> tuple[OperatorKey, Trust]:
        """Whose command it is: known, really theirs, and still theirs now. Raises `_RefusedError`."""
        trust = self._trust()
        if trust is None:
            raise _RefusedError("no-trust-file", "nobody is known who might command")
        person = trust.operator(signed.kid)
        if person is None:
            raise _RefusedError("unknown-key", f"key {signed.kid} is not that of an operator")
        try:
            check_signature(signed, person)
        except EnvelopeError as error:
            raise _RefusedError("signature", error.detail) from error
        verdict = person.verdict(self._moment.utc())
        if verdict is not Verdict.VALID:
            raise _RefusedError("key", f"the key of {person.id} is {verdict}")
        try:
            return check_person(signed, trust), trust
        except ApprovalError as error:
            raise _RefusedError("not-entitled", str(error)) from error

    def _judge(self, table: str, signed: Signed, person: OperatorKey, trust: Trust) -> None:
        """Whether it is meant for here and now, and new. Raises `_RefusedError`."""
        command, here = signed.command, self._tables[table]
        if command.site != self._topics.site:
            raise _RefusedError("other-site", f"it is for site {command.site}")
        if command.table != table:
            raise _RefusedError("other-table", f"it is for table {command.table}")
        if command.chain not in {here.chain, "" if command.order is Order.OPEN else here.chain}:
            raise _RefusedError("other-chain", f"it is for chain {command.chain}")
        self._check_time(command, here)
        if command.issued <= self._marks.newest(signed.kid):
            raise _RefusedError("replayed", f"{person.id} has given a later one")
        proposal = here.proposal
        if command.order is Order.APPROVE and proposal and proposal.digest == command.proposal:
            try:
                first = read_command(proposal.command.encode())
                check_two(first, signed, (proposal.by, person.id), trust)
            except ApprovalError as error:
                raise _RefusedError("approval", str(error)) from error

    def _check_time(self, command: Command, here: TableAtHand) -> None:
        """Raises `_RefusedError` for a command that is not good at this moment."""
        synchronised = self._moment.synchronised
        if synchronised != self._synchronised:
            self._synchronised = synchronised
            log = _LOG.info if synchronised else _LOG.warning
            log("orders_judged_by_a_clock", synchronised=synchronised)
        if here.rules.orders_clock == "synchronised" and not synchronised:
            why = "the node's clock is not synchronised, and the profile asks for that"
            raise _RefusedError("clock", why)
        if command.expires <= self._moment.utc():
            raise _RefusedError("late", f"it was good until {command.expires}")
        if command.issued > self._moment.utc(AHEAD_MAX_S * NS_PER_S):
            raise _RefusedError("future", f"it is of {command.issued}, which is yet to come")

    def _check_still_played(self, table: str, here: TableAtHand) -> None:
        """Raises `_RefusedError` for a table that was removed while the command was being remembered."""
        if self._tables.get(table) is not here:
            raise _RefusedError("no-table", "it is no longer played here")

    async def _original(self, command: Command, proposal: Proposal | None) -> Original | None:
        """The round that a correction, or its approval, is about, as the journal has it at this moment.

        The core compares it with the last round that it knows of. Raises `_RefusedError` where the journal
        has it not.
        """
        number = command.round
        if command.order is Order.APPROVE and proposal and proposal.original:
            number = proposal.round
        elif command.order is not Order.CORRECT:
            return None
        try:
            original = await asyncio.to_thread(read_original, self._journal, command.chain, number)
        except JournalError as error:
            raise _RefusedError("unreadable-record", str(error)) from error
        if original is None:
            raise _RefusedError("no-final-record", f"the journal has none of round {number}")
        return original

    # --- answers and refusals ------------------------------------------------------------------------

    async def _answer(self, one: Waiting, came: Came) -> None:
        message = one.message
        if message.retain:
            return  # whoever left it there has gone
        correlation = message.correlation
        if len(correlation) > CORRELATION_MAX_BYTES:
            correlation = b""
        try:
            topic = self._reply_topic(one.table, message.response_topic)
            await self._send(topic, self._signed(one, came), correlation)
        except LinkError:
            self._refused["answer-lost"] += 1  # who asked asks again, and gets the same answer

    def _signed(self, one: Waiting, came: Came) -> bytes:
        """The envelope of an answer, by the key that signs records now."""
        quality = self._clock.quality()
        answer = Answer(
            *msgspec.structs.astuple(came),
            v=ANSWER_VERSION,
            site=self._topics.site,
            table=one.table,
            node=self._node,
            command=digest(one.message.payload),
            utc=iso_utc(self._clock.stamp().utc_ns),
            synchronised=quality.synchronised,
            error_bound_us=quality.error_bound_us,
        )
        return self._signer().sign(msgspec.json.encode(answer), ANSWER_TYP)

    def _reply_topic(self, table: str, response_topic: str) -> str:
        """`<table>/command/reply`, or the topic below it that was asked for; never any other."""
        name = response_topic.rpartition("/")[2]
        if check_name(name) and response_topic == self._topics.command_reply(table, name):
            return response_topic
        return self._topics.command_reply(table)

    def _count(self, table: str, code: str, why: str) -> None:
        if code not in self._refused:  # told once, counted on
            _LOG.warning("command_refused", table=table, why=code)
        self._refused[code] += 1
        self._refusals.note(table, why)

    def _incident(self, table: str, event: Any) -> None:
        if table in self._tables:
            self._tables[table].tell(house(event, self._clock.stamp()))


def _read(message: Message) -> Signed:
    if message.retain:
        raise _RefusedError("retained", "a command is never retained")
    try:
        return read_command(message.payload)
    except EnvelopeError as error:
        raise _RefusedError(error.reason, error.detail) from error
