"""What happens: one table of troubles, one function each.

A function makes the trouble and takes away what people or the outside would; it calls `Act.over` where what
follows is the daemon's own work, else that begins with its return. From then on every table that was struck
must play again by itself within the trouble's bound.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from random import Random

import aiomqtt
import psycopg
from tests.support.broker import until
from tests.support.commands import TECHNICIAN, order
from tests.support.daemon import TOPICS
from tools.endure.house import AGAIN_S, SPARE, Scene
from tools.soak.house import SS2, TLP, PlayedTable
from tools.truth import check

from dollyd.daemon.core.stamp import iso_utc

TOLD_S = 60.0
"""What is due to be told is waited for so long."""
DAY_S = 86_400
_LOCK = """
import sqlite3, sys
browser = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
for statement in sys.argv[2:]:
    browser.execute(statement)
print("held", flush=True)
sys.stdin.read()
"""


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
        assert self._table is not None
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
    """One kind. `told`: parts of the line that tells of it, `{table}` being the one that is struck; empty:
    nothing is to be told. It stands in the log once, or at most `most` times."""

    number: str
    what: str
    strikes: Strikes
    make: Callable[[Act], Awaitable[None]]
    bound_s: float
    told: Sequence[str] = ()
    most: int = 1
    driver: str = ""
    """Tables of which driver it can happen to; empty: all."""


# --- devices -------------------------------------------------------------------------------------


async def contradiction(act: Act) -> None:
    act.table.spoil("bare-differs")
    await act.told("event=unresolved", f"table={act.table.name} ", "rule=witnesses-disagree")


async def other_device(act: Act) -> None:
    act.table.spoil("tlp-other-device")
    await act.told("what=device-changed", f"table={act.table.name} ")
    await asyncio.sleep(act.rng.uniform(0, 2))
    await give_order(act, act.table.name, datetime.now(UTC))


async def dead_line(act: Act) -> None:
    act.over()
    faults, port = act.table.wheel_line.faults, act.table.ports["wheel"]
    faults.set("line-silence")
    await until(lambda: not port.host_is_there(), TOLD_S)
    faults.clear("line-silence")


async def library_raises(act: Act) -> None:
    port = act.table.ports["wheel"]
    flag = act.scene.house.directory / "raise" / port.path.name
    flag.touch()
    port.unplug()
    port.plug()
    await act.told("event=driver_error", f"table={act.table.name} ")
    flag.unlink()


async def port_set_otherwise(act: Act) -> None:
    port = os.open(act.table.ports["wheel"].node, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        settings = termios.tcgetattr(port)
        settings[4] = settings[5] = termios.B115200 if settings[4] != termios.B115200 else termios.B1200
        termios.tcsetattr(port, termios.TCSANOW, settings)
    finally:
        os.close(port)
    act.over()
    await act.told("what=device-lost", "why=settings-changed ", f"table={act.table.name} ")


# --- the broker and the line to it ---------------------------------------------------------------


async def short_links(act: Act) -> None:
    for _ in range(4):
        act.scene.node_line.cut()
        await asyncio.sleep(act.rng.uniform(0.5, 1.5))


async def backlog_over_short_links(act: Act) -> None:
    node, line = act.scene.node, act.scene.node_line
    line.open.clear()
    await asyncio.sleep(act.rng.uniform(2, 4))
    node.kill()
    line.cut()
    line.open.set()
    await node.again()
    await short_links(act)


async def small_packets(act: Act) -> None:
    broker = act.scene.broker
    broker.set_up(small=True)
    try:
        broker.stop()
        await asyncio.to_thread(broker.start)
        await act.told("event=publish_denied")
        await asyncio.sleep(act.rng.uniform(0, 2))
    finally:
        broker.set_up()
        broker.stop()
        await asyncio.to_thread(broker.start)


async def half_renewed(act: Act) -> None:
    certificates, node = act.scene.certificates, act.scene.node
    act.over()
    key = certificates.renew_half()
    os.kill(node.pid, signal.SIGHUP)
    await act.told("event=reload_refused")
    await asyncio.sleep(act.rng.uniform(0, 3))
    check(act.logged("event=broker_lost") == 0, "a reload that cannot be used gives no link up")
    certificates.renew_rest(key)
    os.kill(node.pid, signal.SIGHUP)
    await act.told("event=reloaded")


# --- the clock -----------------------------------------------------------------------------------


async def late_order(act: Act) -> None:
    clock, table = act.scene.node.clock, act.rng.choice(act.scene.tables)
    now, back_s = datetime.now(UTC), act.rng.randrange(300, 3600)
    clock.step(-back_s)
    try:
        await give_order(act, table.name, now - timedelta(seconds=back_s + 5))
        await act.told("event=command_refused", "why=late")
    finally:
        clock.step(back_s)


async def wrong_day(act: Act) -> None:
    clock, step_s = act.scene.node.clock, act.rng.choice((-30, 30)) * 3600
    clock.vouch(vouched=False)
    clock.step(step_s)
    try:
        await asyncio.sleep(act.rng.uniform(1.5, 3))
    finally:
        clock.step(-step_s)
        clock.vouch(vouched=True)
    await asyncio.sleep(1.5)


async def years_ahead(act: Act) -> None:
    node = act.scene.node
    node.kill()
    step_s = act.rng.randrange(2, 70) * 365 * DAY_S
    node.clock.vouch(vouched=False)
    node.clock.step(step_s)
    try:
        await node.again()
        await act.told("event=clock ")
    finally:
        node.clock.step(-step_s)
        node.clock.vouch(vouched=True)
    await asyncio.sleep(1.5)


# --- the host and the journal's files --------------------------------------------------------------


async def stall(act: Act) -> None:
    pid = act.scene.node.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(act.rng.uniform(2, 6))
    finally:
        os.kill(pid, signal.SIGCONT)
    act.over()
    await act.told("event=host_stalled")


async def log_stalls(act: Act) -> None:
    act.over()
    act.scene.node.reading.clear()
    try:
        await asyncio.sleep(act.rng.uniform(5, 9))
    finally:
        act.scene.node.reading.set()


async def cursor_lost(act: Act) -> None:
    node = act.scene.node
    node.kill()
    act.scene.house.journal.with_name("journal.db.cursor-publisher").unlink()
    await node.again()


async def killed_after_draw(act: Act) -> None:
    boxes = [table for table in act.scene.tables if "odds" in table.ports]
    drawn = {table.name: len(table.drawn) for table in boxes}
    await until(lambda: any(len(table.drawn) > drawn[table.name] for table in boxes), TOLD_S)
    act.scene.node.kill()
    await asyncio.sleep(act.rng.uniform(0, 1))
    await act.scene.node.again()


async def busy_at_start(act: Act) -> None:
    node = act.scene.node
    node.kill()
    with holding(act, "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"):
        node.start()
        await asyncio.sleep(act.rng.uniform(2, 8))
        again = asyncio.create_task(node.again()) if not node.running else None
    if again is not None:
        await again
    elif not await comes_up(act):
        await asyncio.sleep(AGAIN_S)
        await node.again()


async def journal_replaced(act: Act) -> None:
    house, node = act.scene.house, act.scene.node
    copy = house.directory / "copy.db"
    with closing(sqlite3.connect(house.journal)) as journal, closing(sqlite3.connect(copy)) as target:
        journal.backup(target)
    await asyncio.sleep(act.rng.uniform(0, 2))
    copy.replace(house.journal)
    check(await node.ended() == 1, "a journal that was replaced ends the daemon with 1")
    await asyncio.sleep(AGAIN_S)
    await node.again()


async def write_lock(act: Act) -> None:
    with holding(act, "BEGIN IMMEDIATE"):
        await act.told("event=journal_held")
        await asyncio.sleep(act.rng.uniform(0, 5))


async def capture_changed(act: Act) -> None:
    house, node = act.scene.house, act.scene.node
    soon = house.directory / "audit-soon"
    with closing(sqlite3.connect(house.journal, isolation_level=None, timeout=10)) as journal:
        upto, data = journal.execute("SELECT upto, data FROM capture ORDER BY upto LIMIT 1").fetchone()
        change = "UPDATE capture SET data = ? WHERE upto = ?"
        soon.touch()
        node.kill()
        journal.execute(change, (data[:-1] + bytes((data[-1] ^ 1,)), upto))
        try:
            await node.again()
            act.over()
            await act.told("event=journal_unsound")
        finally:
            journal.execute(change, (data, upto))
            soon.unlink()


async def retained_of_the_past(act: Act) -> None:
    house, node = act.scene.house, act.scene.node
    node.kill()
    house.without_spare()
    await node.again()
    await act.told("event=retained_cleared")
    house.with_spare()
    os.kill(node.pid, signal.SIGHUP)
    await act.told("event=reloaded")


# --- those who read --------------------------------------------------------------------------------


async def second_broker(act: Act) -> None:
    line = act.scene.second_line
    line.refusing = True
    line.cut()
    await asyncio.sleep(act.rng.uniform(6, 10))
    line.refusing = False
    act.over()


async def read_only(act: Act) -> None:
    archive, database = act.scene.archive, act.scene.database
    assert archive is not None
    before = len(archive.log)
    with psycopg.connect(database, autocommit=True) as server:
        server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        server.execute("SELECT pg_reload_conf()")
        try:
            await until(lambda: any("event=archive_waits" in line for line in archive.log[before:]), TOLD_S)
        finally:
            server.execute("SET default_transaction_read_only = off")
            server.execute("ALTER SYSTEM RESET default_transaction_read_only")
            server.execute("SELECT pg_reload_conf()")
    act.over()
    await until(lambda: any("event=archive_goes_on" in line for line in archive.log[before:]), TOLD_S)


# --- what several of them do -------------------------------------------------------------------------


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


class holding:  # noqa: N801  a context manager
    """Another program has the journal by these statements."""

    def __init__(self, act: Act, *statements: str) -> None:
        self._words = [sys.executable, "-c", _LOCK, str(act.scene.house.journal), *statements]

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        check(self._process.stdout.readline() == b"held\n", "the other program has its lock")

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=20)


async def comes_up(act: Act) -> bool:
    """Whether the start that is under way comes to good; one that does not must end with 1."""
    node = act.scene.node
    while not node.logged("started"):
        if not node.running:
            check(await node.ended() == 1, "a start that may come to good ends with 1")
            return False
        await asyncio.sleep(0.02)
    return True


TABLE, HOUSE, READER = Strikes.TABLE, Strikes.HOUSE, Strikes.READER
_ONE = "table={table} "
TROUBLES = (
    Trouble("F1", "a wheel contradicts itself", TABLE, contradiction, 30, ("event=unresolved", _ONE), 3, SS2),
    Trouble(
        "F2", "another device, inspected", TABLE, other_device, 30, ("what=device-changed", _ONE), 1, TLP
    ),
    Trouble("F5", "a line dead but open", TABLE, dead_line, 60, ("what=device-lost", "why=silent ", _ONE)),
    Trouble("F6", "a driver library raises", TABLE, library_raises, 45, ("event=driver_error", _ONE)),
    Trouble(
        "N7",
        "a port set otherwise",
        TABLE,
        port_set_otherwise,
        30,
        ("what=device-lost", "why=settings-changed ", _ONE),
    ),
    Trouble("F3", "a backlog over short links", HOUSE, backlog_over_short_links, 45),
    Trouble("F4", "four short links", HOUSE, short_links, 30, ("event=broker_lost", "cause=closed"), 4),
    Trouble("F7", "a late order, the clock set back", HOUSE, late_order, 30, ("event=command_refused",)),
    Trouble("F8", "the cursor is lost", HOUSE, cursor_lost, 45, ("event=cursor_lost",)),
    Trouble("F9", "another gaming day for a while", HOUSE, wrong_day, 30, ("event=clock ",), 44),
    Trouble("F10", "killed after a draw", HOUSE, killed_after_draw, 45),
    Trouble("F11", "an old capture is changed", HOUSE, capture_changed, 45, ("event=journal_unsound",)),
    Trouble("N1", "nobody reads the log", HOUSE, log_stalls, 30),
    Trouble("N2", "another has the journal at a start", HOUSE, busy_at_start, 60),
    Trouble(
        "N3", "the journal's file is replaced", HOUSE, journal_replaced, 60, ("while the journal was open",)
    ),
    Trouble("N4", "a broker of short messages", HOUSE, small_packets, 90, ("event=publish_denied",), 20),
    Trouble("N6", "a start years ahead", HOUSE, years_ahead, 45, ("event=clock ",), 44),
    Trouble("N8", "a table gone while stopped", HOUSE, retained_of_the_past, 45, ("event=retained_cleared",)),
    Trouble("N10", "the host stands still", HOUSE, stall, 30, ("event=host_stalled",), 2),
    Trouble("N13", "a certificate before its key", HOUSE, half_renewed, 30, ("event=reload_refused",)),
    Trouble("N14", "another has the write lock", HOUSE, write_lock, 30, ("event=journal_held",)),
    Trouble("N5", "a broker where no node is heard", READER, second_broker, 150),
    Trouble("N11", "the archive's server is read-only", READER, read_only, 60),
)
NOT_MADE = {
    "F12": "a setting of the profile, no trouble",
    "N9": "the archive is behind a pooler in transaction mode all the time",
}
