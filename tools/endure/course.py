"""The course of an evening: what happens when, and how long each table needs to play again."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from random import Random

from tools.endure.act import Act, Strikes, Trouble
from tools.endure.house import Scene
from tools.endure.troubles import NOT_MADE, TROUBLES
from tools.soak.house import PlayedTable
from tools.truth import SoakError, check

from dollyd.wire.stamp import NS_PER_S

LOOK_S = 0.1
LANES = ((Strikes.HOUSE, 1), (Strikes.TABLE, 2), (Strikes.READER, 1))
"""How many troubles of a kind are under way at a time, at most."""
PAUSES_S = {Strikes.HOUSE: 1.5, Strikes.TABLE: 6.0, Strikes.READER: 8.0}
"""Before the next one of a kind, at most."""
LONGEST_S = 300.0
"""A table that is struck again and again must play again in between all the same."""


def deck(rng: Random, kind: Strikes, troubles: Sequence[Trouble]) -> Iterator[tuple[int, Trouble, int]]:
    """All troubles of a kind in a random order, then all in another one, and so on.

    How many came before it, the trouble, and a seed for all else that there is to decide.
    """
    own, numbers = [one for one in troubles if one.strikes is kind], count()
    while own:
        rng.shuffle(own)
        for one in own:
            yield next(numbers), one, rng.getrandbits(32)


@dataclass
class Account:
    """What became of one kind of trouble."""

    times: int = 0
    longest_s: float = 0.0


class Turns:
    """Who makes trouble now: one for the whole house, or any number at single tables.

    A device that is struck while the node is down is heard by nobody. Getting over it may overlap.
    """

    def __init__(self) -> None:
        self._tables = 0
        self._house = False
        self._waiting = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def take(self, kind: Strikes) -> AsyncIterator[None]:
        """Wait for the turn; the house goes before tables that come later."""
        if kind is Strikes.READER:
            yield
            return
        is_house = kind is Strikes.HOUSE
        async with self._changed:
            self._waiting += is_house
            free = self._free_for_the_house if is_house else self._free_for_a_table
            try:
                await self._changed.wait_for(free)
            finally:
                self._waiting -= is_house
            self._house |= is_house
            self._tables += not is_house
        try:
            yield
        finally:
            async with self._changed:
                self._house &= not is_house
                self._tables -= not is_house
                self._changed.notify_all()

    def _free_for_the_house(self) -> bool:
        return not self._house and not self._tables

    def _free_for_a_table(self) -> bool:
        return not self._house and not self._waiting


@dataclass
class Course:
    """Makes troubles for some time, and measures. A promise that is broken raises `SoakError`."""

    scene: Scene
    seed: int
    seconds: float
    left_out: Mapping[str, str]
    """Numbers of what does not happen, and why."""
    accounts: defaultdict[str, Account] = field(default_factory=lambda: defaultdict(Account))
    _turns: Turns = field(default_factory=Turns)
    _busy: set[str] = field(default_factory=set)
    """Tables of which a device is struck."""
    _houses: int = 0
    """Troubles of the whole house that are under way."""
    _houses_begun: int = 0

    async def run(self) -> None:
        """Every kind at least once, and on until the time is over."""
        ends_s = time.monotonic() + self.seconds
        async with asyncio.TaskGroup() as tasks:
            for kind, count in LANES:
                due = deck(Random(f"endure {self.seed} {kind.name}"), kind, self._possible)
                must = sum(one.strikes is kind for one in self._possible)
                for _ in range(count):
                    tasks.create_task(self._lane(kind, due, must, ends_s))

    @property
    def _possible(self) -> list[Trouble]:
        return [one for one in TROUBLES if one.number not in self.left_out]

    async def _lane(
        self, kind: Strikes, due: Iterator[tuple[int, Trouble, int]], must: int, ends_s: float
    ) -> None:
        for number, trouble, seed in due:
            if time.monotonic() > ends_s and number >= must:
                return
            rng = Random(seed)
            await asyncio.sleep(rng.uniform(0, PAUSES_S[kind]))
            try:
                await self._happen(trouble, rng)
            except (AssertionError, OSError, SoakError) as error:
                raise SoakError(f"{trouble.number}, {trouble.what}: {str(error) or 'not in time'}") from error

    async def _happen(self, trouble: Trouble, rng: Random) -> None:
        is_house = trouble.strikes is Strikes.HOUSE
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(self._turns.take(trouble.strikes))
            table = self._free_table(trouble, rng)
            names = {table.name} if table else set()
            self._busy |= names
            self._houses += is_house
            self._houses_begun += is_house
            begun = -1 if self._houses else self._houses_begun
            act = Act(self.scene, rng, table)
            self._note(act, trouble, "begins")
            try:
                await trouble.make(act)
                act.over()
                await turn.aclose()
                longest_s = await self._recovered(trouble, act, names)
            finally:
                self._busy -= names
                self._houses -= is_house
        parts = [part.format(table=table.name if table else "") for part in trouble.told]
        if parts:
            await act.told(*parts)
            lines = act.logged(*parts)
            alone = is_house or self._houses_begun == begun
            check(lines <= trouble.most or not alone, f"it is told {lines} times: {' '.join(parts)}")
        account = self.accounts[trouble.number]
        account.times += 1
        account.longest_s = max(account.longest_s, longest_s)
        self._note(act, trouble, f"over, played again after {longest_s:.1f} s")

    def _free_table(self, trouble: Trouble, rng: Random) -> PlayedTable | None:
        if trouble.strikes is not Strikes.TABLE:
            return None
        fitting = [table for table in self.scene.tables if trouble.driver in ("", table.driver)]
        return rng.choice([table for table in fitting if table.name not in self._busy])

    async def _recovered(self, trouble: Trouble, act: Act, names: set[str]) -> float:
        """Wait until the tables have played again; how long the last of them took.

        While the whole house is struck again a single table's time stands still.
        """
        is_house = trouble.strikes is Strikes.HOUSE
        reads = self.scene.second if trouble.strikes is Strikes.READER else self.scene.consumer
        waiting = names or {table.name for table in self.scene.tables}
        took_s, looked_ns = 0.0, act.over_ns
        while True:
            waiting = waiting - reads.played_after(act.over_ns) - (self._busy if is_house else set())
            now_ns = time.monotonic_ns()
            if is_house or not self._houses:
                took_s += (now_ns - looked_ns) / NS_PER_S
            looked_ns = now_ns
            if not waiting:
                return took_s
            late = f"{', '.join(sorted(waiting))} plays again within {trouble.bound_s} s"
            check(took_s < trouble.bound_s, late)
            check(now_ns < act.over_ns + LONGEST_S * NS_PER_S, late)
            await asyncio.sleep(LOOK_S)

    def _note(self, act: Act, trouble: Trouble, what: str) -> None:
        """For whoever looks into a failure."""
        table = f" {act.table.name}" if trouble.strikes is Strikes.TABLE else ""
        with (self.scene.house.directory / "course.log").open("a") as log:
            log.write(f"{datetime.now(UTC):%H:%M:%S.%f} {trouble.number}{table} {what}\n")


def table_of(accounts: Mapping[str, Account], left_out: Mapping[str, str]) -> str:
    """What happened, for people."""
    lines = [f"{'':4} {'trouble':34} {'times':>5} {'longest':>8} {'bound':>6}"]
    for one in TROUBLES:
        account = accounts.get(one.number, Account())
        said = f"  left out: {left_out[one.number]}" if one.number in left_out else ""
        longest = f"{account.longest_s:6.1f} s {one.bound_s:4.0f} s"
        lines.append(f"{one.number:4} {one.what:34} {account.times:5} {longest}{said}")
    lines += [f"{number:4} not made: {why}" for number, why in NOT_MADE.items()]
    return "\n".join(lines)
