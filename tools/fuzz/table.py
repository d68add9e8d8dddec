"""A table that hears damaged streams in virtual time: real framing, real protocols, the real core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tools.fuzz.streams import Packet

from dollyd.daemon.core.events import Event, HouseEvent, Inspected, Spoken, TableOpened, VoidDeclared
from dollyd.daemon.core.round import Phase, phase
from dollyd.daemon.core.state import Setup
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op, Output, house
from dollyd.drivers.framing import BadFrame, FrameDecoder, LineDecoder
from dollyd.drivers.spec import DeviceProtocol
from dollyd.wire.stamp import NS_PER_MS, Stamp

_START = Stamp(10**15, 10**15)
_AFTER_MS = 600_000
"""The silence behind a stream, in which everything that was waited for is given up."""


class HearingTable:
    """One table. People do at once what lets play go on: they close what is unresolved, they inspect."""

    def __init__(
        self,
        setup: Setup,
        protocols: Mapping[str, DeviceProtocol],
        framings: Mapping[str, FrameDecoder] | None = None,
    ) -> None:
        self.engine = Engine(setup, protocols)
        self.records: list[NewRecord] = []
        self.events: list[Spoken] = []
        self.at = _START
        self._decoders = {name: (framings or {}).get(name, LineDecoder()) for name in protocols}
        self.tell(TableOpened("fuzz"))
        for name in protocols:
            self.feed(Input(Op.OPEN, self.at, name))

    def people(self) -> Iterable[HouseEvent]:
        """What people say now, nothing where play goes on by itself. Asked after every input."""
        if phase(self.engine.table) is Phase.BLOCKED:
            yield VoidDeclared("fuzz", "dealer", "closed by the fuzz run")
        if self.engine.table.inspection:
            yield Inspected("fuzz")

    def play(self, packets: Iterable[Packet]) -> None:
        """A whole stream, and the silence behind it."""
        for packet in packets:
            self.hear(packet)
        self.wait(_AFTER_MS)

    def hear(self, packet: Packet) -> None:
        """Bytes from a device."""
        self.wait(packet.gap_ms)
        for frame in self._decoders[packet.device].feed(packet.data):
            op = Op.BAD_FRAME if isinstance(frame, BadFrame) else Op.FRAME
            self.feed(Input(op, self.at, packet.device, frame.raw.decode("latin-1")))

    def wait(self, ms: int) -> None:
        """Time passes; the table is woken at its deadlines."""
        if not ms:
            return
        until_ns = self.at.mono_ns + ms * NS_PER_MS
        while (due_ns := self.engine.deadline_ns()) is not None and due_ns <= until_ns:
            due_ns = max(due_ns, self.at.mono_ns)
            self.at = Stamp(due_ns, due_ns)
            self.feed(Input(Op.TICK, self.at))
        self.at = Stamp(until_ns, until_ns)

    def tell(self, event: Event) -> None:
        """Somebody says something."""
        self.feed(house(event, self.at))

    def feed(self, item: Input) -> Output:
        """One input, and what people say to it."""
        output = self._take(item)
        for event in self.people():
            self._take(house(event, item.at))
        return output

    def _take(self, item: Input) -> Output:
        output = self.engine.feed(item)
        self.records += output.records
        self.events += output.events
        return output

    def drop_port(self, device: str, cause: str) -> None:
        """The port is lost, and opened again at once."""
        self.feed(Input(Op.LOST, self.at, device, cause))
        self._decoders[device].reset()
        self.feed(Input(Op.OPEN, self.at, device))
