"""What happens to the whole house: the node's broker, clock, host, and its journal's files."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

from tests.support.broker import until
from tools.endure.act import TOLD_S, Act, give_order
from tools.endure.house import AGAIN_S
from tools.truth import check

DAY_S = 86_400
_LOCK = """
import sqlite3, sys
browser = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
for statement in sys.argv[2:]:
    browser.execute(statement)
print("held", flush=True)
sys.stdin.read()
"""


async def short_links(act: Act) -> None:
    """The line to the broker is cut, and again, and again."""
    for _ in range(4):
        act.scene.node_line.cut()
        await asyncio.sleep(act.rng.uniform(0.5, 1.5))


async def backlog_over_short_links(act: Act) -> None:
    """What waits at a start goes over links that do not last."""
    node, line = act.scene.node, act.scene.node_line
    line.open.clear()
    await asyncio.sleep(act.rng.uniform(2, 4))
    node.kill()
    line.cut()
    line.open.set()
    await node.again()
    await short_links(act)


async def small_packets(act: Act) -> None:
    """The broker takes short messages only, then all again."""
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
    """A reload finds a new certificate and the old key; then the key comes."""
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


async def late_order(act: Act) -> None:
    """An order that has expired comes while the clock is set back."""
    clock, table = act.scene.node.clock, act.rng.choice(act.scene.tables)
    now, back_s = datetime.now(UTC), act.rng.randrange(300, 3600)
    clock.step(-back_s)
    try:
        await give_order(act, table.name, now - timedelta(seconds=back_s + 5))
        await act.told("event=command_refused", "why=late")
    finally:
        clock.step(back_s)


async def wrong_day(act: Act) -> None:
    """UTC is more than a day wrong for a while, and nobody vouches for it."""
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
    """At a start the clock shows another year."""
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


async def stall(act: Act) -> None:
    """The machine stands still."""
    pid = act.scene.node.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(act.rng.uniform(2, 6))
    finally:
        os.kill(pid, signal.SIGCONT)
    act.over()
    await act.told("event=host_stalled")


async def log_stalls(act: Act) -> None:
    """Nobody reads what the daemon writes."""
    act.over()
    act.scene.node.reading.clear()
    try:
        await asyncio.sleep(act.rng.uniform(5, 9))
    finally:
        act.scene.node.reading.set()


async def cursor_lost(act: Act) -> None:
    """Nobody knows what was published."""
    node = act.scene.node
    node.kill()
    act.scene.house.journal.with_name("journal.db.cursor-publisher").unlink()
    await node.again()


async def killed_after_draw(act: Act) -> None:
    """The daemon is killed when an odds table was drawn."""
    boxes = [table for table in act.scene.tables if "odds" in table.ports]
    drawn = {table.name: len(table.drawn) for table in boxes}
    await until(lambda: any(len(table.drawn) > drawn[table.name] for table in boxes), TOLD_S)
    act.scene.node.kill()
    await asyncio.sleep(act.rng.uniform(0, 1))
    await act.scene.node.again()


async def busy_at_start(act: Act) -> None:
    """Another program has the journal for itself while the daemon starts."""
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
    """An older copy is renamed over the journal."""
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
    """Another program has an edit of the journal under way."""
    with holding(act, "BEGIN IMMEDIATE"):
        await act.told("event=journal_held")
        await asyncio.sleep(act.rng.uniform(0, 5))


async def capture_changed(act: Act) -> None:
    """One bit of an old capture flips; what was changed is put right afterwards."""
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
    """A table is removed while the daemon is stopped, and comes back by a reload."""
    house, node = act.scene.house, act.scene.node
    node.kill()
    house.without_spare()
    await node.again()
    await act.told("event=retained_cleared")
    house.with_spare()
    os.kill(node.pid, signal.SIGHUP)
    await act.told("event=reloaded")


class holding:  # noqa: N801  a context manager
    """Another program has the journal by these statements."""

    def __init__(self, act: Act, *statements: str) -> None:
        self._words = [sys.executable, "-c", _LOCK, str(act.scene.house.journal), *statements]

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        said = self._process.stdout.readline() if self._process.stdout else b""
        check(said == b"held\n", "the other program has its lock")

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
