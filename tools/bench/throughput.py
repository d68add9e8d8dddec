"""Records a second through sign, journal and publish; engine and verification rates."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from tests.support.broker import Mosquitto, until
from tests.support.daemon import NODE, SITE, TOPICS, Installation
from tests.support.wheel_lines import Game, status
from tools.bench.report import Figure, at_least, at_most

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.journal.store import Entry, Journal
from dollyd.daemon.journal.writer import Draft, Writer, chain_start
from dollyd.daemon.keys.signing import Signer, load_signer
from dollyd.daemon.link.from_settings import mqtt_settings
from dollyd.daemon.link.publisher import Node, Publisher
from dollyd.daemon.settings.load import load
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_MS, Stamp

RECORDS_TARGET = 1000
FLAT_TARGET = 1.25
"""Cost of a record with 200 tables to that with one: more is not flat."""
LINE_GAP_NS = 500 * NS_PER_MS
_KEPT = (Kind.ROUND, Kind.BETS_CLOSED, Kind.RESULT)


def measure(rounds: int) -> list[Figure]:
    """All rates."""
    with tempfile.TemporaryDirectory(prefix="dollyd-bench-") as name:
        installation = Installation(Path(name), "127.0.0.1:1", variant="C", period_ms=500, silence_ms=2000)
        lines_a_second, records = engine_rate(installation, rounds)
        figures = [Figure("engine", f"{lines_a_second:,.0f} lines/s")]
        single = _written_rate(installation, records[:300], tables=1, one_by_one=True)
        # In turns, and the best of each: what else the machine does must not look like a slope.
        turns = [[_written_rate(installation, records, tables=n) for n in (1, 50, 200)] for _ in "123"]
        one, some, many = (max(rates) for rates in zip(*turns, strict=True))
        figures += [
            Figure("sign + journal, one commit a record", f"{single:,.0f} records/s"),
            Figure("sign + journal, group commit", f"{one:,.0f} records/s"),
            at_most("  cost of a record, 50 tables to 1", one / some, FLAT_TARGET, "{:.2f}"),
            at_most("  cost of a record, 200 tables to 1", one / many, FLAT_TARGET, "{:.2f}"),
        ]
        published = asyncio.run(_published_rate(installation, records))
        figures.append(at_least("sign + journal + publish", published, RECORDS_TARGET, "{:,.0f} records/s"))
    return figures


def engine_rate(installation: Installation, rounds: int) -> tuple[float, list[NewRecord]]:
    """Lines a second of one table, and the records that they made."""
    table = load(installation.config).tables["r1"]
    protocols = {name: device.driver.protocol(device.setup) for name, device in table.devices.items()}
    engine = Engine(table.setup, protocols)
    records: list[NewRecord] = []
    inputs = list(_inputs(rounds))
    began_s = time.process_time()
    for item in inputs:
        records += engine.feed(item).records
    took_s = time.process_time() - began_s
    return len(inputs) / took_s, [record for record in records if record.kind in _KEPT]


def _inputs(rounds: int) -> Iterator[Input]:
    at_ns = 0

    def said(op: Op, text: str = "") -> Input:
        nonlocal at_ns
        at_ns += LINE_GAP_NS
        return Input(op, Stamp(at_ns, at_ns), "wheel", text)

    yield Input(Op.HOUSE, Stamp(0, 0), text='{"event":"TableOpened","by":"bench"}')
    yield said(Op.OPEN)
    yield said(Op.FRAME, status(6, 1, "8"))
    game = Game(counter=1, twos=20, threes=8, fours=50, fives=10)
    for number in range(rounds):
        for line in game.lines():
            yield said(Op.FRAME, line)
        game = game.next(str(number % 37))


class Pipe:
    """A writer on a journal of its own, with any number of tables."""

    def __init__(self, installation: Installation, tables: int, name: str) -> None:
        self.signer: Signer = load_signer(installation.signing_key, config_file="", key="")
        self.journal = Journal.open(installation.directory / name)
        self.tables = [f"r{number}" for number in range(1, tables + 1)]
        self.clock = SystemClock()
        self.written = 0
        self.tell: Callable[[list[Entry]], None] = lambda _: None
        self._changed = threading.Condition()
        self.writer = Writer(
            self.journal,
            self.signer,
            site=SITE,
            node=NODE,
            clock=self.clock,
            on_written=self.on_written,
            on_failure=self.on_failure,
        )
        for table in self.tables:
            self.writer.start_chain(table, None)
            self.writer.submit(chain_start(table, self.signer, self.clock.stamp(), None))
        self.writer.start()
        self.wait(len(self.tables))

    def on_written(self, entries: list[Entry]) -> None:
        """From the writer's thread."""
        self.tell(entries)
        with self._changed:
            self.written += len(entries)
            self._changed.notify()

    def on_failure(self, error: Exception) -> None:
        """A bench that cannot write measures nothing."""
        raise error

    def wait(self, count: int) -> None:
        """Until so many records are durable."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.written >= count, timeout=60):
                raise TimeoutError(f"{self.written} of {count} records were written")

    def submit(self, number: int, record: NewRecord, first_round: int) -> None:
        """Record `number` of a run; each table plays rounds of its own."""
        table = self.tables[number // len(_KEPT) % len(self.tables)]
        capture = record.capture or None
        at = self.clock.stamp()
        self.writer.submit(Draft(table, record.kind, first_round + record.round, record.body, at, capture))

    def close(self) -> None:
        """Write what waits."""
        self.writer.close()
        self.journal.close()


def _written_rate(
    installation: Installation, records: Sequence[NewRecord], *, tables: int, one_by_one: bool = False
) -> float:
    before = len(list(installation.directory.glob("rate-*.db")))
    pipe = Pipe(installation, tables, f"rate-{before}.db")
    began_s = time.perf_counter()
    for number, record in enumerate(records):
        pipe.submit(number, record, 0)
        if one_by_one:
            pipe.wait(tables + number + 1)
    pipe.wait(tables + len(records))
    took_s = time.perf_counter() - began_s
    pipe.close()
    return len(records) / took_s


def soon(loop: asyncio.AbstractEventLoop, call: Callable[[list[Entry]], None], entries: list[Entry]) -> None:
    """From the writer's thread into the loop."""
    loop.call_soon_threadsafe(call, entries)


class Source:
    """The journal as the publisher reads it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.entries_after = journal.entries_after

    def cursor(self) -> int:
        """How far the broker has come."""
        return self._journal.cursor("publisher")

    def set_cursor(self, id_: int, /) -> None:
        """The broker has come so far."""
        self._journal.set_cursor("publisher", id_)


async def _published_rate(installation: Installation, records: Sequence[NewRecord]) -> float:
    """From the first draft to the last PUBACK."""
    loop = asyncio.get_running_loop()
    pipe = Pipe(installation, 1, installation.journal.name)
    with Mosquitto() as broker:
        installation.reconfigure("127.0.0.1:1", broker.address)
        settings = mqtt_settings(load(installation.config))
        source = Source(pipe.journal)
        publisher = Publisher(settings, TOPICS, Node(NODE, "bench", 1), source, pipe.clock, Random(1))
        pipe.tell = lambda entries: soon(loop, publisher.notify, entries)
        publishing = asyncio.create_task(publisher.run())
        await until(lambda: publisher.stats.connected)
        began_s = time.perf_counter()
        for number, record in enumerate(records):
            pipe.submit(number, record, 0)
        await until(lambda: publisher.stats.cursor > len(records), 60)
        took_s = time.perf_counter() - began_s
        await publisher.close(2)
        await publishing
    pipe.close()
    return len(records) / took_s
