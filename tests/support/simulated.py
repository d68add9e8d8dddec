"""A whole table in virtual time without I/O: a simulated wheel, an odds box, their lines, and the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from tests.support.tables import ODDS_BOX, WHEEL, make_setup

from dollyd.daemon.core.events import Spoken, TableOpened
from dollyd.daemon.core.state import Setup
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op, Output, house
from dollyd.drivers.framing import BadFrame, LineDecoder
from dollyd.drivers.protocols.cammegh_ss2.driver import Ss2Protocol
from dollyd.drivers.protocols.tlp.odds_box import OddsBoxProtocol
from dollyd.drivers.spec import DeviceProtocol, DeviceSetup
from dollyd.simulators.line import Line
from dollyd.simulators.odds_box import OddsBox, OddsBoxOptions
from dollyd.simulators.runner import Model
from dollyd.simulators.ss2 import COMPACT, Ss2Wheel
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S, Stamp

PERIOD_MS = 50
PERIOD_NS = PERIOD_MS * NS_PER_MS
UTC_OFFSET_NS = 1_796_000_000 * NS_PER_S
KEY = b"0123456789abcdef"
SETUP = make_setup("B", odds_timeout_ms=20 * PERIOD_MS, draw_timeout_ms=240 * PERIOD_MS)
"""The odds box may take so long that the wheel's next game begins meanwhile."""


def protocols(setup: Setup = SETUP) -> dict[str, DeviceProtocol]:
    """Fresh protocols for the two devices."""
    wheel = DeviceSetup(WHEEL, "wheel", setup.layout.clockwise, period_ms=PERIOD_MS, silence_ms=4 * PERIOD_MS)
    odds = DeviceSetup(ODDS_BOX, "odds", period_ms=PERIOD_MS, silence_ms=4 * PERIOD_MS, secret=KEY)
    return {WHEEL: Ss2Protocol(wheel), ODDS_BOX: OddsBoxProtocol(odds)}


@dataclass
class Plugged:
    """A model at the end of its line."""

    model: Model
    line: Line
    decoder: LineDecoder = field(default_factory=LineDecoder)
    connected: bool = False


class SimulatedTable:
    """Runs a table as the daemon does: frames, ticks at the deadline, nonces, bytes to devices."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.now_ns = 0
        self.wheel = Ss2Wheel(replace(COMPACT, period_ms=PERIOD_MS), Random(rng.random()), 0)
        self.box = OddsBox(OddsBoxOptions(period_ms=PERIOD_MS), KEY, Random(rng.random()), 0)
        self.devices = {
            WHEEL: Plugged(self.wheel, Line(Random(rng.random()))),
            ODDS_BOX: Plugged(self.box, Line(Random(rng.random()))),
        }
        self.engine = Engine(SETUP, protocols())
        self.inputs: list[Input] = []
        self.records: list[NewRecord] = []
        self.most_lines = 0
        self.on_record: Callable[[NewRecord], None] = lambda _: None
        self.on_event: Callable[[Spoken], None] = lambda _: None
        self._nonces = Random(rng.random())
        self._later: list[tuple[int, Callable[[], None]]] = []

    def at(self) -> Stamp:
        return Stamp(self.now_ns, self.now_ns + UTC_OFFSET_NS)

    def start(self) -> None:
        """Open the table and plug both devices in."""
        self.feed(house(TableOpened("configuration"), self.at()))
        for name in self.devices:
            self.connect(name)

    def connect(self, name: str) -> None:
        device = self.devices[name]
        if not device.connected:
            device.connected = True
            device.decoder.reset()
            self.feed(Input(Op.OPEN, self.at(), name))

    def disconnect(self, name: str, cause: str = "unplugged") -> None:
        device = self.devices[name]
        if device.connected:
            device.connected = False
            self.feed(Input(Op.LOST, self.at(), name, cause))

    def after(self, periods: int, act: Callable[[], None]) -> None:
        """Do something later."""
        self._later.append((self.now_ns + periods * PERIOD_NS, act))

    def run(self, periods: int) -> None:
        """Let time pass."""
        end_ns = self.now_ns + periods * PERIOD_NS
        while (due_ns := self._due_ns()) <= end_ns:
            self.now_ns = max(self.now_ns, due_ns)
            for name, device in self.devices.items():
                self._say(name, device.model.advance(self.now_ns))
            due = [act for at_ns, act in self._later if at_ns <= self.now_ns]
            self._later = [one for one in self._later if one[0] > self.now_ns]
            for act in due:
                act()
            deadline_ns = self.engine.deadline_ns()
            if deadline_ns is not None and deadline_ns <= self.now_ns:
                self.feed(Input(Op.TICK, self.at()))
                after_ns = self.engine.deadline_ns()
                assert after_ns is None or after_ns > self.now_ns, "a tick must move its deadline"
        self.now_ns = end_ns

    def feed(self, item: Input) -> Output:
        self.inputs.append(item)
        output = self.engine.feed(item)
        self.most_lines = max(self.most_lines, len(self.engine._lines))
        self.records += output.records
        for record in output.records:
            self.on_record(record)
        for event in output.events:
            self.on_event(event)
        for name, data in output.send:
            if self.devices[name].connected:
                self._say(name, self.devices[name].model.command(data, self.now_ns))
        for number in output.odds_wanted:
            nonce = f"{self._nonces.getrandbits(64):016X}"
            self.feed(Input(Op.DRAW, self.at(), ODDS_BOX, f"{number} {nonce}"))
        return output

    def of_kind(self, *kinds: Kind) -> list[NewRecord]:
        return [record for record in self.records if record.kind in kinds]

    def _due_ns(self) -> int:
        due = [at_ns for at_ns, _ in self._later]
        due += [
            at_ns
            for device in self.devices.values()
            for at_ns in (device.model.due_ns(), device.line.due_ns())
            if at_ns is not None
        ]
        deadline_ns = self.engine.deadline_ns()
        return min(due if deadline_ns is None else [*due, deadline_ns])

    def _say(self, name: str, data: bytes) -> None:
        """Bytes of a device onto its line, and what the line lets through to the engine."""
        device = self.devices[name]
        if data:
            device.line.send(data, self.now_ns)
        for chunk in device.line.advance(self.now_ns):
            if device.connected:
                for frame in device.decoder.feed(chunk):
                    op = Op.BAD_FRAME if isinstance(frame, BadFrame) else Op.FRAME
                    self.feed(Input(op, self.at(), name, frame.raw.decode("latin-1")))
