"""One time that a trouble happens, what a kind of trouble is, and what people order."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from random import Random

import aiomqtt
from tests.support.broker import until
from tests.support.commands import TECHNICIAN, order
from tests.support.daemon import TOPICS
from tools.endure.house import Scene
from tools.soak.house import PlayedTable
from tools.truth import SoakError, check

from dollyd.wire.stamp import iso_utc

TOLD_S = 60.0
"""What is due to be told is waited for so long."""


class Strikes(Enum):
    """What of the house a trouble is about."""

    TABLE = auto()
    """One table's device; other tables play on meanwhile."""
    HOUSE = auto()
    """The node, its host, its journal or its broker: all tables."""
    READER = auto()
    """One who reads the records; no table is struck."""


class Act:
    """One time that a trouble happens."""

    def __init__(self, scene: Scene, rng: Random, table: PlayedTable | None) -> None:
        self.scene = scene
        self.rng = rng
        self._table = table
        self.over_ns = 0
        self.mark = scene.node.marks()
        """Where the log stood when it began."""

    @property
    def table(self) -> PlayedTable:
        """The table that is struck."""
        if self._table is None:
            raise SoakError("no single table is struck")
        return self._table

    def over(self) -> None:
        """From here on it is for the daemon to get over it."""
        self.over_ns = self.over_ns or time.monotonic_ns()

    def logged(self, *parts: str) -> int:
        """How many lines of the log since the beginning have all these parts."""
        return sum(all(part in f"{line} " for part in parts) for line in self.scene.node.since(self.mark))

    async def told(self, *parts: str) -> None:
        """Wait until the log has such a line."""
        try:
            await until(lambda: self.logged(*parts) > 0, TOLD_S)
        except AssertionError:
            check(False, f"the log tells: {' '.join(parts)}")


@dataclass(frozen=True)
class Trouble:
    """One kind.

    `told`: parts of the line that tells of it, `{table}` being the one that is struck; empty: nothing is to
    be told. It stands in the log once, or at most `most` times.
    """

    number: str
    what: str
    strikes: Strikes
    make: Callable[[Act], Awaitable[None]]
    bound_s: float
    told: Sequence[str] = ()
    most: int = 1
    driver: str = ""
    """Tables of which driver it can happen to; empty: all."""


async def give_order(act: Act, table: str, issued: datetime) -> None:
    """The technician says that the table was inspected."""
    chain = chain_of(act.scene, table)
    utc = iso_utc(int(issued.timestamp() * 1e9))
    members = order("inspected", utc, table=table, chain=chain, nonce=f"{act.rng.getrandbits(128):032x}")
    broker = act.scene.broker
    async with aiomqtt.Client(broker.host, broker.port, timeout=10) as desk:
        await desk.publish(TOPICS.command(table), TECHNICIAN.sign(members), qos=1)


def chain_of(scene: Scene, table: str) -> str:
    """The chain of a table that goes on."""
    uri = f"{scene.house.journal.as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as journal:
        query = "SELECT name FROM chain WHERE tbl = ? ORDER BY id DESC LIMIT 1"
        return str(journal.execute(query, (table,)).fetchone()[0])
