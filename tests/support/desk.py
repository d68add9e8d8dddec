"""A command desk on virtual time, with a table that is the engine alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.chains import NODE, SITE, signer
from tests.support.commands import CHAIN, Person, later, order, trust
from tests.support.tables import WHEEL, make_setup

from dollyd.daemon.commands.desk import CommandDesk
from dollyd.daemon.commands.marks import CommandMarks, marks_path
from dollyd.daemon.core.events import BetsClosed, DeviceTrouble, GameRef, GameStarted, TableOpened
from dollyd.daemon.core.round import step
from dollyd.daemon.core.rulebook import GameProfile
from dollyd.daemon.core.state import Proposal
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.keys.signing import Signer
from dollyd.daemon.link.mqtt import Cause, LinkError, Message
from dollyd.daemon.table.engine import Engine, Input, NewRecord, house
from dollyd.simulators.clock import VirtualClock
from dollyd.wire.answer import ANSWER_TYP
from dollyd.wire.command import digest
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Kind
from dollyd.wire.stamp import iso_utc
from dollyd.wire.topics import Topics
from dollyd.wire.trust import Trust

TOPICS = Topics(SITE)
REPLY = TOPICS.command_reply("r1")


class AtHand:
    """A table as the desk knows it: the engine, without devices."""

    def __init__(self, clock: VirtualClock) -> None:
        self.chain = CHAIN
        self.clock = clock
        self.engine = Engine(make_setup("A", confirm="dealer"), {})
        self.records: list[NewRecord] = []

    @property
    def rules(self) -> GameProfile:
        return self.engine.setup.rules

    @property
    def proposal(self) -> Proposal | None:
        return self.engine.table.proposal

    def tell(self, item: Input) -> tuple[NewRecord, ...]:
        records = self.engine.feed(item).records
        self.records += records
        return records

    def happen(self, *events: Any) -> None:
        """What devices say."""
        for event in events:
            self.engine.table, _ = step(self.engine.setup, self.engine.table, event, self.clock.stamp())

    def in_play(self) -> None:
        """Round 1, no more bets."""
        self.tell(house(TableOpened("d1"), self.clock.stamp()))
        self.happen(GameStarted(GameRef(WHEEL, "s", "1")), BetsClosed("d1"))

    @property
    def incidents(self) -> list[str]:
        """Texts of refused commands."""
        bodies = [json.loads(r.body) for r in self.records if r.kind is Kind.INCIDENT]
        return [body["text"] for body in bodies if body["what"] == "command-refused"]

    @property
    def kinds(self) -> list[str]:
        return [str(record.kind) for record in self.records]


@dataclass
class Bench:
    """A desk with its table, on virtual time, and everything it sent."""

    clock: VirtualClock
    table: AtHand
    journal: Journal
    marks: Path
    trust: Trust | None
    sent: list[tuple[str, dict[str, Any], bytes]] = field(default_factory=list)
    envelopes: list[bytes] = field(default_factory=list)
    signer: Signer = field(default_factory=signer)
    unwritten: int = 0
    lost: bool = False
    desk: CommandDesk = field(init=False)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        """A desk anew, as after a restart."""
        self.desk = CommandDesk(
            {"r1": self.table},
            TOPICS,
            self.journal,
            CommandMarks(self.marks),
            trust=lambda: self.trust,
            node=NODE,
            signer=lambda: self.signer,
            send=self._send,
            unwritten=lambda: self.unwritten,
            clock=self.clock,
        )
        self.tasks.append(asyncio.create_task(self.desk.run()))

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)

    async def _send(self, topic: str, data: bytes, correlation: bytes) -> None:
        if self.lost:
            raise LinkError(Cause.CLOSED)
        answer = json.loads(parse_envelope(data, ANSWER_TYP).payload)
        self.sent.append((topic, answer, correlation))
        self.envelopes.append(data)

    def now(self, seconds: float = 0) -> str:
        return later(iso_utc(self.clock.stamp().utc_ns), seconds)

    def put(self, data: bytes, *, retain: bool = False, response: str = "", correlation: bytes = b"") -> None:
        message = Message(TOPICS.command("r1"), data, retain, response, correlation)
        (route,) = self.desk.routes()
        route.take(message)

    async def idle(self) -> None:
        """Until nothing waits any more."""
        for _ in range(2000):
            await asyncio.sleep(0.001)
            if not self.desk.snapshot()["waiting"] and len(self.sent) >= self._awaited:
                return
        pytest.fail("the desk is still at work")

    _awaited: int = 0

    async def give(self, data: bytes, **how: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._awaited = len(self.sent) + 1
        self.put(data, **how)
        await self.idle()
        return self.sent[-1][1]

    async def say(self, who: Person, name: str, **changes: Any) -> dict[str, Any]:
        """A command that is issued now, one millisecond after whatever was before."""
        self.clock.advance(1_000_000)
        return await self.give(who.sign(order(name, self.now(), **changes)))


@asynccontextmanager
async def at_desk(directory: Path) -> AsyncIterator[Bench]:
    """Round 1 in play, and a desk that knows everybody."""
    clock = VirtualClock()
    journal = Journal.open(directory / "journal.db")
    made = Bench(clock, AtHand(clock), journal, marks_path(journal.path), trust())
    made.start()
    made.table.in_play()
    try:
        yield made
    finally:
        await made.stop()
        journal.close()


def why(answer: dict[str, Any]) -> str:
    assert answer["answer"] == "refused", answer
    return str(answer["why"].split(":")[0])


async def two_persons(bench: Bench, first: Person, second: Person, **changes: Any) -> dict[str, Any]:
    """A result by hand: proposed, and the answer to its approval."""
    bench.table.happen(DeviceTrouble(WHEEL, "lost", "unplugged"))
    proposal = first.sign(order("enter", bench.now()))
    assert (await bench.give(proposal))["answer"] == "done"
    return await bench.say(second, "approve", **{"proposal": digest(proposal)} | changes)
