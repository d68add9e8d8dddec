"""Where the time goes: the daemon's own parts in this process, with a stamp between each two of them."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, TypeVar

from tests.support.broker import Mosquitto, until
from tests.support.daemon import NODE, SITE, TOPICS, Installation
from tests.support.wheel_lines import Game, status
from tools.bench.report import Figure

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.journal.store import Entry, Journal, NewEntry
from dollyd.daemon.journal.writer import Draft, Writer, chain_start
from dollyd.daemon.keys.signing import load_signer
from dollyd.daemon.link.from_settings import mqtt_settings
from dollyd.daemon.link.publisher import Node, Publisher
from dollyd.daemon.settings.load import load
from dollyd.daemon.table.engine import Op
from dollyd.daemon.table.runner import TableRunner

STAGES = (
    ("framing", "read"),
    ("engine", "framed"),
    ("hand over to the writer", "submitted"),
    ("encode and sign", "writing"),
    ("commit (fsync)", "signed"),
    ("back to the loop", "committed"),
    ("publish to the socket", "told"),
    ("PUBACK and cursor", "sent"),
    ("all", "acknowledged"),
)
"""Each stage, and the stamp at which it begins; a stage ends where the next begins."""
PAUSE_S = 0.06

T = TypeVar("T")


class Stamps:
    """When what happened in the round that is being measured."""

    def __init__(self) -> None:
        self.at_ns: dict[str, int] = {}
        self.rounds: list[dict[str, int]] = []

    def mark(self, what: str) -> None:
        """Now; in a round only the first time counts."""
        self.at_ns.setdefault(what, time.perf_counter_ns())

    def begin(self) -> None:
        """A new round; what was marked since the last one is forgotten."""
        self.at_ns = {}


class StampedJournal:
    """The journal as the writer and the publisher use it."""

    def __init__(self, journal: Journal, stamps: Stamps) -> None:
        self._journal = journal
        self._stamps = stamps

    def append(self, entries: Sequence[NewEntry]) -> list[Entry]:
        """Keep records."""
        self._stamps.mark("signed")
        written = self._journal.append(entries)
        self._stamps.mark("committed")
        return written

    def entries_after(self, id_: int, limit: int, /) -> list[Entry]:
        """Read records."""
        return self._journal.entries_after(id_, limit)

    def cursor(self) -> int:
        """How far the broker has come."""
        return self._journal.cursor("publisher")

    def set_cursor(self, id_: int, /) -> None:
        """The broker has come so far."""
        self._journal.set_cursor("publisher", id_)
        self._stamps.mark("acknowledged")


class StampedWriter(Writer):
    """The writer, with a stamp where its thread begins to work."""

    stamps: Stamps

    def submit(self, draft: Draft) -> None:
        """Hand over a draft."""
        self.stamps.mark("submitted")
        super().submit(draft)

    def _write(self, drafts: list[Any]) -> None:
        self.stamps.mark("writing")
        super()._write(drafts)


def measure(games: int) -> list[Figure]:
    """Median of each stage."""
    return asyncio.run(_measure(games))


async def _measure(games: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="dollyd-bench-") as name, Mosquitto() as broker:
        installation = Installation(Path(name), broker.address, variant="C", period_ms=500)
        settings, clock, stamps = load(installation.config), SystemClock(), Stamps()
        signer = load_signer(installation.signing_key, config_file="", key="")
        kept = Journal.open(installation.journal)
        journal = StampedJournal(kept, stamps)
        publisher = Publisher(
            mqtt_settings(settings), TOPICS, Node(NODE, "bench", 1), journal, clock, Random(1)
        )
        loop = asyncio.get_running_loop()

        def written(entries: list[Entry]) -> None:
            stamps.mark("told")
            publisher.notify(entries)
            stamps.mark("sent")

        writer = StampedWriter(
            journal,  # type: ignore[arg-type]  # only `append` is used
            signer,
            site=SITE,
            node=NODE,
            clock=clock,
            on_written=lambda entries: _in_loop(loop, written, entries),
            on_failure=lambda error: _in_loop(loop, _give_up, error),
        )
        writer.stamps = stamps
        writer.start_chain("r1", None)
        writer.submit(chain_start("r1", signer, clock.stamp(), None))
        writer.start()
        table = TableRunner(settings.tables["r1"], writer, clock, Random(1), lambda _: None, _give_up)
        publishing = asyncio.create_task(publisher.run())
        try:
            await until(lambda: publisher.stats.connected)
            table.start(None)
            await _play(games, table, stamps)
        finally:
            table.stop()
            await asyncio.to_thread(writer.close)
            await publisher.close(2)
            await publishing
            kept.close()
    return _figures(stamps)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[T], None], argument: T) -> None:
    loop.call_soon_threadsafe(call, argument)


def _give_up(error: Exception) -> None:
    raise error


async def _play(games: int, table: TableRunner, stamps: Stamps) -> None:
    framing = table.settings.devices["wheel"].driver.framing()

    def hear(*lines: str) -> None:
        frames = framing.feed("".join(f"{line}\r\n" for line in lines).encode("ascii"))
        stamps.mark("framed")
        for frame in frames:
            table.feed(Op.FRAME, "wheel", frame.raw.decode("latin-1"))

    table.feed(Op.OPEN, "wheel")
    hear(status(6, 1, "8"))
    game = Game(counter=1)
    for number in range(games):
        hear(*game.hurried(), game.pocket.rjust(2))
        await asyncio.sleep(PAUSE_S)
        stamps.begin()
        stamps.mark("read")
        hear(game.line(5))
        await until(lambda: "acknowledged" in stamps.at_ns)
        stamps.rounds.append(stamps.at_ns)
        game = game.next(str(number % 37))


def _figures(stamps: Stamps) -> list[Figure]:
    figures = []
    for (stage, begin), (_, end) in pairwise(STAGES):
        took_us = median((at[end] - at[begin]) / 1000 for at in stamps.rounds)
        figures.append(Figure(f"  {stage}", f"{took_us:.0f} us"))
    all_us = median((at["sent"] - at["read"]) / 1000 for at in stamps.rounds)
    return [Figure("line in to bytes in the socket, in this process", f"{all_us:.0f} us"), *figures]
