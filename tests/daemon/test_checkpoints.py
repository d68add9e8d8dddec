"""Checkpoints: written when due, say where the chain stood, and are found out when they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import msgspec
import pytest
from tests.support.chains import ChainMaker, decision, keys, signer

from dollyd.client.proof.verify import verify_envelopes
from dollyd.daemon.health.upkeep import Upkeep
from dollyd.daemon.host.clock import Clock, Quality
from dollyd.daemon.journal.store import Entry, Journal
from dollyd.daemon.journal.writer import Draft, Writer, chain_start
from dollyd.daemon.settings.load import Settings
from dollyd.daemon.settings.sections import JournalSection
from dollyd.daemon.table.tables import Tables
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import ClockBody, Kind, encode
from dollyd.wire.stamp import NS_PER_S, Stamp

AT = Stamp(NS_PER_S, 1_796_000_000 * NS_PER_S)


@dataclass
class JumpingClock:
    """Time passes when somebody sleeps; whoever sleeps past `end_ns` sleeps for ever."""

    now_ns: int = NS_PER_S
    end_ns: int = 10**18
    boot: str = "boot-1"
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def stamp(self) -> Stamp:
        return Stamp(self.now_ns, self.now_ns)

    def quality(self) -> Quality:
        return Quality(synchronised=True, error_bound_us=1)

    async def sleep_until(self, mono_ns: int) -> None:
        if mono_ns > self.end_ns:
            self.over.set()
            await asyncio.Event().wait()
        self.now_ns = max(self.now_ns, mono_ns)
        await asyncio.sleep(0)


def written(journal: Journal, ask: Callable[[Writer], None], *tables: str) -> None:
    """One run of a writer on the tables: what `ask` submits, then the end."""
    failures: list[Exception] = []
    clock: Clock = JumpingClock()
    writer = Writer(
        journal,
        signer(),
        site="house",
        node="node-1",
        clock=clock,
        on_written=lambda _: None,
        on_failure=failures.append,
    )
    for table in tables or ("r1",):
        tail = journal.tail(table)
        writer.start_chain(table, tail)
        if tail is None:
            writer.submit(chain_start(table, signer(), AT, None))
    ask(writer)
    writer.start()
    writer.close()
    assert not failures


def play(writer: Writer, number: int, table: str = "r1") -> None:
    writer.submit(Draft(table, Kind.ROUND, number, b"{}", AT))
    writer.submit(Draft(table, Kind.RESULT, number, msgspec.json.encode(decision()), AT))


def checkpoints(entries: Iterable[Entry]) -> list[tuple[str, int, dict[str, Any]]]:
    """Table, seq and body of every checkpoint."""
    return [
        (entry.table, entry.seq, msgspec.json.decode(parse_envelope(entry.envelope).payload)["body"])
        for entry in entries
        if entry.kind == Kind.CHECKPOINT
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_a_checkpoint_says_where_the_chain_stands_when_its_turn_comes(path: Path) -> None:
    def ask(writer: Writer) -> None:
        play(writer, 1)
        writer.checkpoint("r1", "hourly", AT)
        play(writer, 2)
        play(writer, 3)
        writer.checkpoint("r1", "stopped", AT)

    with closing(Journal.open(path)) as journal:
        written(journal, ask)
        entries = journal.entries_after(0, 100)
        payloads = [msgspec.json.decode(parse_envelope(entry.envelope).payload) for entry in entries]
        assert [(seq, body["reason"], body["finals"]) for _, seq, body in checkpoints(entries)] == [
            (4, "hourly", 1),
            (9, "stopped", 3),
        ]
        for _, seq, body in checkpoints(entries):
            assert (body["seq"], body["head"]) == (seq - 1, payloads[seq - 1]["prev"])
        report = verify_envelopes((entry.envelope for entry in entries), keys(signer()))
        assert report.ok, report.problems
        assert report.kinds["checkpoint"] == 2


def test_a_quiet_table_gets_none_also_after_a_restart(path: Path) -> None:
    def ask(writer: Writer) -> None:
        writer.checkpoint("r1", "hourly", AT)
        writer.checkpoint("r1", "hourly", AT)
        writer.submit(Draft("r2", Kind.CLOCK, 0, encode(ClockBody(step_ns=1)), AT))
        writer.checkpoint("r1", "stopped", AT)
        writer.checkpoint("r2", "stopped", AT)

    with closing(Journal.open(path)) as journal:
        written(journal, ask, "r1", "r2")
        both = [("r1", 2), ("r2", 3)]
        assert [(table, seq) for table, seq, _ in checkpoints(journal.entries_after(0, 9))] == both
        written(journal, lambda writer: writer.checkpoint("r1", "stopped", AT), "r1", "r2")
        assert [(table, seq) for table, seq, _ in checkpoints(journal.entries_after(0, 9))] == both


def test_the_count_of_ended_rounds_goes_on_after_restarts(path: Path) -> None:
    def ask(number: int, *, checkpoint: bool) -> Callable[[Writer], None]:
        def act(writer: Writer) -> None:
            play(writer, number)
            if checkpoint:
                writer.checkpoint("r1", "stopped", AT)

        return act

    with closing(Journal.open(path)) as journal:
        for number, checkpoint in enumerate((False, True, False, True), 1):
            written(journal, ask(number, checkpoint=checkpoint))
        entries = journal.entries_after(0, 100)
        assert [body["finals"] for _, _, body in checkpoints(entries)] == [2, 4]
        assert verify_envelopes((entry.envelope for entry in entries), keys(signer())).ok
        tail = journal.tail("r1")
        assert tail is not None
        assert (tail.finals, tail.checkpoint) == (4, entries[-1])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seq": 3}, "is of record 3, not of the one before it"),
        ({"head": "0" * 64}, "not of the one before it"),
        ({"finals": 2}, "counts 2 ended rounds; the chain has 1"),
        ({"finals": "1"}, "its body is not that of a checkpoint"),
    ],
)
def test_a_checkpoint_that_says_something_else_is_found(change: dict[str, Any], why: str) -> None:
    maker = ChainMaker().begin().play(1, 1)
    body = {"reason": "hourly", "seq": maker.seq, "head": maker.prev, "finals": 1}
    maker.add(Kind.CHECKPOINT, body=body | change)
    report = verify_envelopes(maker.envelopes, keys(signer()))
    assert [why in problem.why for problem in report.problems] == [True], report.problems


async def test_checkpoints_are_asked_for_every_so_often() -> None:
    clock = JumpingClock(end_ns=100 * NS_PER_S)
    asked: list[int] = []
    settings = SimpleNamespace(journal=JournalSection("unused", checkpoint_every_s=30))
    upkeep = Upkeep(
        cast("Settings", settings),
        clock,
        cast("Journal", SimpleNamespace(prune_captures=lambda _: 0, check_files=lambda: None, held_by="")),
        {},
        lambda: None,
        lambda: asked.append(clock.now_ns // NS_PER_S),
    )
    task = asyncio.create_task(upkeep.run())
    over = asyncio.create_task(clock.over.wait())
    await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
    for one in (task, over):
        one.cancel()
    ends = await asyncio.gather(task, over, return_exceptions=True)
    assert isinstance(ends[0], asyncio.CancelledError), ends[0]
    assert asked == [31, 61, 91]
    assert JournalSection("unused").checkpoint_every_s == 3600


def test_a_table_that_closes_gets_one_unless_the_daemon_stops_anyway() -> None:
    tables = MagicMock(runners={})
    tables._clock = JumpingClock()
    maker = ChainMaker("r7").begin()
    for event in ("opened", "closed", "resumed"):
        maker.add(Kind.SESSION, body={"event": event})
    entries = [
        Entry(n, e.table, e.chain, e.seq, e.kind, e.round, e.final, e.envelope)
        for n, e in enumerate(maker.entries, 1)
    ]
    Tables.written(tables, entries, stopping=False)
    tables._writer.checkpoint.assert_called_once_with("r7", "table-closed", tables._clock.stamp())
    Tables.written(tables, entries, stopping=True)
    tables._writer.checkpoint.assert_called_once()
