"""Nights at a simulated table: wheel and odds box with faults, bad lines, pulled cables, and the staff."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from random import Random

from tests.support.simulated import PERIOD_NS, SimulatedTable
from tests.support.tables import ODDS_BOX, WHEEL

from dollyd.daemon.core.events import DeviceTrouble, Spoken, TableClosed, VoidDeclared
from dollyd.daemon.table.engine import NewRecord, house
from dollyd.simulators import faults
from dollyd.wire.record import Kind

PERIODS = 8_000
"""About two hundred games a night."""
STUCK_PERIODS = 400

WHEEL_FAULTS = faults.names("ss2")
# A generator that is stuck for good would end the night; it has a test with the odds box's protocol.
BOX_FAULTS = [name for name in faults.names("odds-box") if name != "odds-stuck"]
# On this fast wheel a burst of 60 old lines is more than a whole game, a stall of 5 s more than four, and
# small chunks are slower than the lines come.
LINE_FAULTS = [
    name for name in faults.names("line") if name not in {"line-old-frames", "line-stall", "line-chunks"}
]


@dataclass
class Night:
    """One night with its staff: they close unresolved rounds, restart dead devices, pull and plug cables."""

    seed: int
    table: SimulatedTable = field(init=False)
    struck: Counter[str] = field(default_factory=Counter)
    deaf: list[tuple[int, int]] = field(default_factory=list)
    """When the wheel's line was spoilt or unplugged, from and to."""

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.table = SimulatedTable(self.seed)
        self.table.on_record = self._staff
        self.table.on_event = self._technician

    def play(self, periods: int) -> None:
        table = self.table
        table.start()
        end_ns = periods * PERIOD_NS
        seen, seen_ns = 0, 0
        while table.now_ns < end_ns:
            table.run(self.rng.randint(5, 25))
            if self.rng.random() < 0.3:
                self._trouble()
            if len(table.wheel.played) > seen:
                seen, seen_ns = len(table.wheel.played), table.now_ns
            elif table.now_ns - seen_ns > STUCK_PERIODS * PERIOD_NS:
                self._power_cycle()
                seen_ns = table.now_ns
        table.run(200)
        table.disconnect(WHEEL)
        table.feed(house(VoidDeclared("d1", "dealer", "closing time"), table.at()))
        table.feed(house(TableClosed("d1"), table.at()))

    # --- what goes wrong -----------------------------------------------------------------------------

    def _trouble(self) -> None:
        match self.rng.randrange(10):
            case 0:
                self._spoil_line()
            case 1:
                self._unplug()
            case 2 | 3 | 4:
                self._strike(self.table.box.faults, BOX_FAULTS)
            case _:
                self._strike(self.table.wheel.faults, WHEEL_FAULTS)

    def _strike(self, switches: faults.Switchboard, names: list[str]) -> None:
        # One fault a game: a device that lies twice at once can make a false story look true.
        if not any(switches.on(name) for name in names):
            name = self.rng.choice(names)
            self.struck[name] += 1
            switches.set(name)

    def _spoil_line(self) -> None:
        name, device = self.rng.choice(LINE_FAULTS), self.rng.choice([WHEEL, ODDS_BOX])
        self.struck[name] += 1
        line = self.table.devices[device].line
        line.faults.set(name)
        periods = self.rng.randint(3, 40)
        self._deaf_for(device, periods)
        self.table.after(periods, lambda: line.faults.clear(name))

    def _unplug(self) -> None:
        device = self.rng.choice([WHEEL, ODDS_BOX])
        self.struck["unplugged"] += 1
        periods = self.rng.randint(3, 40)
        self._deaf_for(device, periods)
        self.table.disconnect(device)
        self.table.after(periods, lambda: self.table.connect(device))

    def _deaf_for(self, device: str, periods: int) -> None:
        if device == WHEEL:
            # One period more: a line that was begun may be lost with its end.
            self.deaf.append((self.table.now_ns, self.table.now_ns + (periods + 1) * PERIOD_NS))

    def _power_cycle(self) -> None:
        wheel = self.table.wheel
        wheel.power_off(self.table.now_ns)
        self.table.after(10, lambda: wheel.power_on(self.table.now_ns))

    # --- the staff -------------------------------------------------------------------------------------

    def _staff(self, record: NewRecord) -> None:
        if record.kind is Kind.UNRESOLVED:
            self.table.after(self.rng.randint(1, 60), self._void)

    def _void(self) -> None:
        self.table.feed(house(VoidDeclared("d1", "dealer", "cannot be known"), self.table.at()))

    def _technician(self, event: Spoken) -> None:
        if isinstance(event, DeviceTrouble) and event.device == ODDS_BOX and event.status == "fault":
            self.table.after(20, lambda: self.table.box.power_off(self.table.now_ns))
            self.table.after(30, lambda: self.table.box.power_on(self.table.now_ns))


@cache
def night(seed: int) -> Night:
    played = Night(seed)
    played.play(PERIODS)
    return played
