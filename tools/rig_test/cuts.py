"""Power cuts in play, and what the machine says of them when it is back."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from random import Random

from tools.rig_test import judge
from tools.rig_test.house import TABLES, House, payload
from tools.rig_test.judge import Window
from tools.rig_test.machine import MachineError

READY_S = 180.0
"""From the shell to all wheels ready; most of it is the interpreter, under emulation."""
PLAY_S = (1.0, 14.0)
"""How long the machine plays before it is cut off: up to two games."""
SURE_S = (4.0, 3.0)
"""After ready, and before a cut: a game outside of this may be heard or not."""


@dataclass(slots=True)
class PowerCuts:
    """Cut after cut, each told of as it comes; `wrong` are the broken promises."""

    house: House
    rng: Random
    wrong: list[str] = field(default_factory=list)
    _windows: list[Window] = field(default_factory=list)
    _interrupted: int = 0

    async def run(self, cuts: int) -> str:
        """So many cuts of a machine that plays; it plays afterwards. Raises `MachineError`."""
        for number in range(1, cuts + 1):
            await self._cut(number)
        if self.wrong:
            raise MachineError("; ".join(self.wrong[:10]))
        return self._summary(cuts)

    async def _cut(self, number: int) -> None:
        house = self.house
        since_s = time.time()
        await asyncio.sleep(self.rng.uniform(*PLAY_S))
        house.cut()
        self._windows.append(Window(since_s + SURE_S[0], time.time() - SURE_S[1]))
        began = time.monotonic()
        shell_s = await house.boot()
        ready_s = shell_s + await self._until_ready()
        await house.verify()
        acknowledged = [record.envelope for record in house.consumer.records]
        journal = await house.journal()
        records = [one for one in map(payload, journal) if one["table"] in TABLES]
        found = [
            *judge.lost(journal, acknowledged),
            *judge.doubled(records),
            *judge.wrongly_ended(records),
            *judge.untrue(records, self._played()),
            *judge.unexplained(records, self._played(), self._windows),
        ]
        before, self._interrupted = self._interrupted, len(judge.interrupted(records))
        self.wrong += [f"cut {number}: {one}" for one in found]
        seen = (
            f"{len(acknowledged)} records acknowledged, all in the journal; "
            f"{self._interrupted - before} rounds interrupted, unresolved; verify good; "
            f"shell {shell_s:.0f} s, ready {ready_s:.0f} s, judged {time.monotonic() - began:.0f} s"
        )
        print(f"cut {number:2}: {'; '.join(found) or seen}", flush=True)

    async def _until_ready(self) -> float:
        """The wheels are ready, each told so by this boot: the last word of the one before does not count."""
        house = self.house
        told = len(house.listener.heard)

        def ready() -> bool:
            news = {one.topic for one in house.listener.heard[told:] if not one.retain}
            return house.ready() and all(f"/{table}/device/" in "".join(news) for table in TABLES)

        return await house.until("every wheel ready", ready, READY_S)

    def _played(self) -> dict[str, list[judge.Played]]:
        return {table: list(self.house.wheels[table].played) for table in TABLES}

    def _summary(self, cuts: int) -> str:
        played = sum(len(games) for games in self._played().values())
        records = self.house.consumer.records
        results = sum(record.kind == "result" for record in records)
        return (
            f"{cuts} cuts in play: {len(records)} records acknowledged, none lost; {results} results, all as "
            f"the wheels played ({played} games, most of them while it booted); {self._interrupted} rounds "
            f"interrupted, all unresolved; no round with two final records; dollyd verify good after each"
        )
