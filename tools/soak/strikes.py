"""Carries out the plan: each strike at its game, several at a time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.support.broker import Mosquitto, until
from tests.support.disks import MB, fill
from tools.soak.house import FLOOR_MB, House, PlayedTable, count_journaled
from tools.soak.line import FaultyLine
from tools.soak.plan import Fault, Strike
from tools.soak.processes import Consumer, Node
from tools.truth import check

AT_ONCE = 4
"""Strikes under way at a time; the next one waits."""
QUICK_AGAIN = 0.15
"""Chance that a restarted daemon is killed while it comes up."""
QUEUE = 1000
"""Messages that the broker keeps for a consumer."""
AWAY_GAMES = 400
"""Games that a consumer is away for: more records than `QUEUE`."""
GIVEN_UP_S = 3.0
"""A line that is deaf longer is given up by those at its ends: the connections of before are gone."""
CLOCK_STEPS_S = (3600, -3600, 1, -1)
RUN_S = 24 * 3600.0
_DECIDED_S = 30.0


@dataclass(frozen=True)
class Scene:
    """Everything that can be struck. `disk` is the journal's, None where it has none of its own."""

    house: House
    node: Node
    consumer: Consumer
    broker: Mosquitto
    node_line: FaultyLine
    consumer_line: FaultyLine
    tables: Sequence[PlayedTable]
    disk: Path | None

    @property
    def played(self) -> int:
        """Games played so far."""
        return sum(table.played for table in self.tables)


class Striker:
    """Does to a scene what the plan says; `struck` counts it, `outcomes` what came of some of it."""

    def __init__(self, scene: Scene) -> None:
        self.struck: Counter[Fault] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.left_out: dict[Fault, str] = {}
        if scene.disk is None:
            self.left_out |= dict.fromkeys((Fault.DISK_LOW, Fault.DISK_FULL), "no disk can be mounted here")
        if not scene.node.clock.environment:
            self.left_out[Fault.CLOCK_STEPPED] = "there is no C compiler (for clock.c)"
        self._scene = scene
        self._log = scene.house.directory / "strikes.log"
        self._disk = asyncio.Lock()
        self._broker = asyncio.Lock()
        self._node_line = asyncio.Lock()
        self._consumer_line = asyncio.Lock()
        self._devices: dict[str, asyncio.Lock] = {table.name: asyncio.Lock() for table in scene.tables}

    async def carry_out(self, plan: Sequence[Strike]) -> None:
        """Everything, in order of the games at which it begins. Raises what a broken promise raises."""
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for strike in plan:
                if strike.fault in self.left_out:
                    continue
                await self.played(strike.at_game)
                await room.acquire()
                tasks.create_task(self._strike(strike, room))

    async def played(self, games: int) -> None:
        """Wait until so many games were played."""
        await until(lambda: self._scene.played >= games, RUN_S)

    async def _strike(self, strike: Strike, room: asyncio.Semaphore) -> None:
        self._note(strike, "begins")
        try:
            await self._do(strike, Random(strike.seed))
        finally:
            room.release()
        self.struck[strike.fault] += 1
        self._note(strike, "over")

    def _note(self, strike: Strike, what: str) -> None:
        """For whoever looks into a failure."""
        at = f"{datetime.now(UTC):%H:%M:%S.%f} game {self._scene.played}"
        with self._log.open("a") as log:
            log.write(f"{at} {what}: {strike.fault}, {strike.for_s:.1f} s, planned at {strike.at_game}\n")

    async def _do(self, strike: Strike, rng: Random) -> None:
        scene, for_s = self._scene, strike.for_s
        match strike.fault:
            case Fault.DAEMON_KILLED:
                await self._kill_daemon(for_s, rng)
            case Fault.BROKER_KILLED:
                await self._kill_broker(for_s)
            case Fault.ACKS_SWALLOWED:
                await self._swallow(for_s)
            case Fault.NODE_CUT:
                scene.node_line.cut()
            case Fault.NODE_DEAF:
                await self._deafen(scene.node_line, self._node_line, for_s)
            case Fault.CONSUMER_CUT:
                scene.consumer_line.cut()
            case Fault.CONSUMER_DEAF:
                await self._deafen(scene.consumer_line, self._consumer_line, for_s)
            case Fault.CONSUMER_KILLED:
                await self._kill_consumer(lambda: asyncio.sleep(for_s))
            case Fault.CONSUMER_AWAY:
                await self._kill_consumer(lambda: self.played(scene.played + AWAY_GAMES))
            case Fault.DISK_LOW:
                await self._fill_disk_nearly(for_s)
            case Fault.DISK_FULL:
                await self._fill_disk(for_s)
            case Fault.CLOCK_STEPPED:
                scene.node.clock.step(rng.choice(CLOCK_STEPS_S))
            case Fault.UNPLUGGED:
                await self._unplug(for_s, rng)
            case Fault.KEY_ROTATED:
                await self._rotate()

    # --- node, broker, consumer ----------------------------------------------------------------------

    async def _kill_daemon(self, down_s: float, rng: Random) -> None:
        node = self._scene.node
        async with node.lock:
            await self._restart(down_s)
            while rng.random() < QUICK_AGAIN:
                await asyncio.sleep(rng.uniform(0, 0.8))
                await self._restart(0)
                self.outcomes["daemon killed again while it came up"] += 1
            await node.started()

    async def _restart(self, down_s: float) -> None:
        node = self._scene.node
        node.check_alive()
        node.kill()
        await asyncio.sleep(down_s)
        node.start()

    async def _kill_broker(self, down_s: float) -> None:
        async with self._broker:
            self._scene.broker.kill()
            await asyncio.sleep(down_s)
            await asyncio.to_thread(self._scene.broker.start)

    async def _kill_consumer(self, away: Callable[[], Awaitable[None]]) -> None:
        consumer = self._scene.consumer
        async with consumer.lock:
            consumer.check_alive()
            consumer.kill()
            await away()
            consumer.start()

    async def _rotate(self) -> None:
        node = self._scene.node
        async with node.lock:
            node.check_alive()
            kid = self._scene.house.rotate()
            os.kill(node.pid, signal.SIGHUP)
            await until(lambda: any(kid in line for line in node.logged("reloaded")), 20)

    # --- lines ---------------------------------------------------------------------------------------

    async def _swallow(self, for_s: float) -> None:
        line = self._scene.node_line
        async with self._node_line:
            line.swallowing = True
            await asyncio.sleep(for_s)
            line.swallowing = False
            line.cut()

    async def _deafen(self, line: FaultyLine, lock: asyncio.Lock, for_s: float) -> None:
        async with lock:
            line.open.clear()
            await asyncio.sleep(for_s)
            if for_s > GIVEN_UP_S:
                line.cut()
            line.open.set()

    async def _unplug(self, for_s: float, rng: Random) -> None:
        table = rng.choice(self._scene.tables)
        port = rng.choice(list(table.ports.values()))
        async with self._devices[table.name]:
            port.unplug()
            await asyncio.sleep(for_s)
            port.plug()

    # --- the journal's disk --------------------------------------------------------------------------

    async def _fill_disk_nearly(self, for_s: float) -> None:
        """Room for the rounds in progress, and for none more."""
        disk = self._scene.disk
        async with self._disk:
            if disk is not None:
                filler = fill(disk, FLOOR_MB * MB // 2)
                await asyncio.sleep(for_s)
                filler.unlink()

    async def _fill_disk(self, for_s: float) -> None:
        """No room at all. The daemon finds in time that the disk is full, or a commit fails and ends it."""
        disk, node = self._scene.disk, self._scene.node
        async with self._disk, node.lock:
            node.check_alive()
            if disk is None:
                return
            filler = await self._filled(disk)
            await asyncio.sleep(for_s)
            filler.unlink()
            # A daemon whose commit has failed takes its time to end, and never writes again.
            house, journaled = self._scene.house, count_journaled(self._scene.house)
            await until(lambda: not node.running or count_journaled(house) > journaled, _DECIDED_S)
            if node.running:
                self.outcomes["disk full: the daemon halted play"] += 1
                return
            self.outcomes["disk full: the daemon stopped"] += 1
            check(await node.ended() == 1, "a disk that fills in a commit ends the daemon with 1")
            node.start()
            await node.started()

    async def _filled(self, disk: Path) -> Path:
        while True:
            try:
                return fill(disk, 0)
            except OSError:  # the daemon took some of the room meanwhile
                await asyncio.sleep(0)
