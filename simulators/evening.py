"""Plays a scenario: devices at their ports, orders at their times, and the truth of what happened.

The truth is a stream of JSON objects, in order: `{"scenario": ...}`, then what each device really did
(`{"device": ..., "kind": ..., ...}`) and each order as it was given (`{"order": ..., "device": ...}`), last
`{"end": "games"}`, `{"end": "time"}` or `{"end": "stopped"}`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from random import Random
from typing import Any

from dollyd.daemon.host.clock import Clock
from dollyd.simulators.clock import VirtualClock
from dollyd.simulators.control import Bench, PluggableLink, until_done
from dollyd.simulators.faults import Switchboard
from dollyd.simulators.kinds import KINDS, Built
from dollyd.simulators.line import Line
from dollyd.simulators.runner import woken_or_due
from dollyd.simulators.scenario import OrderEntry, Scenario
from dollyd.wire.stamp import NS_PER_S

_NOMINAL_PERIOD_MS = 500
_BETS, _RESULT = 2, 5


class NoLink:
    """A port that nobody hears: for rehearsals."""

    def __init__(self) -> None:
        self.faults = Switchboard("port")
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.host_came: Callable[[], None] = lambda: None

    def write(self, data: bytes) -> None:
        """Lost."""

    def plug(self) -> None:
        """Nothing appears."""

    def unplug(self) -> None:
        """Nothing vanishes."""


class Evening:
    """One run of a scenario. `tell` gets the truth. Raises `ConfigError` for options that cannot be."""

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        link: Callable[[str], PluggableLink],
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        self.done = asyncio.Event()
        self._scenario = scenario
        self._clock = clock
        self._tell = tell
        self._second_ns = scenario.period_ms * NS_PER_S // _NOMINAL_PERIOD_MS
        self._built: dict[str, Built] = {}
        self._benches: dict[str, Bench] = {}
        for name in scenario.devices:
            self._make(name, link)
        self._told = dict.fromkeys(scenario.devices, 0)
        self._reason = "stopped"
        self._state = 0
        self._games = 0
        self._due: list[tuple[int, int, OrderEntry]] = []
        self._order = itertools.count()
        self._awake = asyncio.Event()

    async def run(self) -> None:
        """To the end of its games or its time, or until `done`. Raises `PortError`."""
        scenario = self._scenario
        self._tell({"scenario": scenario.name, "seed": scenario.seed, "games": scenario.games})
        for entry in scenario.orders:
            if entry.at_s is not None:
                self._plan(entry, entry.at_s)
        await until_done(self._live(), self.done)
        self._tell({"end": self._reason})

    def rehearse(self) -> None:
        """Try every order in no time. Raises `ConfigError` naming the first that cannot be."""
        for place, entry in enumerate(self._scenario.orders):
            try:
                self._benches[entry.device].obey(entry.order)
            except ValueError as error:
                raise self._scenario.wrong(
                    f"orders[{place}].order", str(error), f"give {entry.device} another order"
                ) from error

    def _make(self, name: str, link: Callable[[str], PluggableLink]) -> None:
        scenario, device = self._scenario, self._scenario.devices[name]
        seed = f"{scenario.seed} {name}" if device.seed is None else str(device.seed)
        options = {"period_ms": scenario.period_ms, **device.options}
        try:
            built = KINDS[device.kind].build(
                options, Random(seed), self._clock.stamp().mono_ns, dict(self._built)
            )
        except ValueError as error:
            raise scenario.wrong(f"devices.{name}.options", str(error), "mend or remove it") from error
        line = Line(Random(f"line {seed}"), binary=built.binary)
        self._built[name] = built
        bench = Bench(built.model, line, link(device.link or name), self._clock, built.orders)
        bench.device.observe = partial(self._observed, name)
        self._benches[name] = bench

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for bench in self._benches.values():
                tasks.create_task(bench.live())
            tasks.create_task(self._give_orders())

    async def _give_orders(self) -> None:
        end_ns = self._clock.stamp().mono_ns + round(self._scenario.longest_seconds * self._second_ns)
        while (now_ns := self._clock.stamp().mono_ns) < end_ns:
            self._awake.clear()
            while self._due and self._due[0][0] <= now_ns:
                self._give(heapq.heappop(self._due)[2])
            await woken_or_due(self._awake, self._clock, self._due[0][0] if self._due else end_ns)
        self._end("time")

    def _give(self, entry: OrderEntry) -> None:
        self._tell({"order": entry.order, "device": entry.device, "game": self._games})
        self._benches[entry.device].obey(entry.order)

    def _plan(self, entry: OrderEntry, after_s: float) -> None:
        due_ns = self._clock.stamp().mono_ns + round(after_s * self._second_ns)
        heapq.heappush(self._due, (due_ns, next(self._order), entry))
        self._awake.set()

    def _observed(self, name: str) -> None:
        """A device has moved: tell what is new, follow the games."""
        built = self._built[name]
        truth = built.truth()
        for happened in truth[self._told[name] :]:
            self._tell({"device": name, "kind": self._scenario.devices[name].kind, **asdict(happened)})
        self._told[name] = len(truth)
        if name == self._scenario.games_of:
            self._follow(built.state())
            if len(truth) >= self._scenario.games and built.state() != _RESULT:
                self._end("games")

    def _follow(self, state: int) -> None:
        if state == self._state:
            return
        self._state = state
        self._games += state == _BETS
        for entry in self._scenario.orders:
            in_game = entry.every_game or entry.at_game == self._games
            if in_game and entry.at_s is None and entry.state == state:
                self._plan(entry, entry.after_s)

    def _end(self, reason: str) -> None:
        if not self.done.is_set():
            self._reason = reason
            self.done.set()


def check(scenario: Scenario) -> None:
    """Make every device and try every order, in no time and at no port. Raises `ConfigError`."""
    Evening(scenario, VirtualClock(), lambda _: NoLink(), lambda _: None).rehearse()
