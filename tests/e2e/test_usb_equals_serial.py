"""The way to a device changes nothing: the same games over a serial port and over USB give the same records.

Time is virtual, the ways are real: a pseudo-terminal with the serial transport, a simulated bus with the USB
transport. Bytes arrive before time goes on, so nothing needs to be set equal: records, their times, names of
sessions and captures are compared as they are. Cut into pieces, as FTDI chips do, they are the same again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.tables import game_setup
from tests.support.tlp_lines import setup_of
from tests.support.usb_line import PID, VID, settings

from dollyd.daemon.core.events import BetsClosed, HouseEvent, Permitted, TableOpened, VoidDeclared
from dollyd.daemon.core.state import Betting, Draw, Setup
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op, house
from dollyd.daemon.table.session import DeviceSession, Transport
from dollyd.drivers import DRIVERS
from dollyd.drivers.framing import AnyFrame, BadFrame, LineDecoder
from dollyd.drivers.transports.serial import SerialSettings, SerialTransport
from dollyd.drivers.transports.usb import UsbTransport
from dollyd.simulators.clock import VirtualClock
from dollyd.simulators.dice_camera import DiceCamera, DiceCameraOptions
from dollyd.simulators.money_wheel import MoneyWheel, MoneyWheelOptions
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.runner import Link
from dollyd.simulators.usb import SimulatedUsb
from dollyd.simulators.usb_gadget import Gadget
from dollyd.wire.record import Kind

SEED = 4711
ARRIVES_S = 5.0
WHOLE = 1 << 20


@dataclass(frozen=True)
class Scene:
    """A device, its table, and the fault that strikes after so many games."""

    talker: str
    setup: Setup
    model: Callable[[int], Any]
    faults: dict[int, str]
    games: int


SCENES = {
    "money-wheel": Scene(
        "MW",
        game_setup("money-wheel"),
        lambda now_ns: MoneyWheel(MoneyWheelOptions(), Random(SEED), now_ns),
        {1: "money-one-turn"},
        3,
    ),
    "dice-camera": Scene(
        "DC",
        game_setup("tuplanoppa"),
        lambda now_ns: DiceCamera(DiceCameraOptions(), Random(SEED), now_ns),
        {1: "dice-cocked", 4: "dice-unread"},
        8,
    ),
}
EXPECTED = {
    "money-wheel": {Kind.RESULT, Kind.VOID},
    "dice-camera": {Kind.RESULT, Kind.THROW_REJECTED, Kind.UNRESOLVED, Kind.VOID},
}


class Bench:
    """One device at the end of one way, and its table; time goes on when all bytes have arrived."""

    def __init__(self, scene: Scene, link: Link, transport: Transport, piece_bytes: int) -> None:
        self.clock = VirtualClock()
        self.records: list[NewRecord] = []
        self._scene = scene
        self._link = link
        self._pieces = Random(piece_bytes)
        self._piece_bytes = piece_bytes
        self._model = scene.model(self.now_ns)
        self._replies = b""
        self._to_host = self._to_device = self._heard = 0
        place = setup_of(scene.talker, scene.setup.game.name)
        self._name = place.name
        self._engine = Engine(scene.setup, {self._name: DRIVERS["tlp"].protocol(place)})
        self._session = DeviceSession(
            self._name, transport, LineDecoder(), self, clock=self.clock, random=Random(1)
        )
        link.on_data = self._obey

    @property
    def now_ns(self) -> int:
        return self.clock.stamp().mono_ns

    async def play(self) -> None:
        """All games of the scene."""
        faults = dict(self._scene.faults)
        session = asyncio.create_task(self._session.run())
        self.tell(TableOpened("test"))
        await self._wait(lambda: self._session.counters["opens"] == 1)
        try:
            while len(self._model.played) < self._scene.games:
                if fault := faults.pop(len(self._model.played), ""):
                    self._model.faults.set(fault)
                await self._instant()
                due = [at for at in (self._model.due_ns(), self._engine.deadline_ns()) if at is not None]
                self.clock.advance(max(0, min(due) - self.now_ns))
        finally:
            session.cancel()
            await asyncio.wait([session])
        assert self._session.counters["opens"] == 1
        assert self._session.counters["sends_dropped"] == 0

    async def _instant(self) -> None:
        """Everything that happens now, until nobody has more to say."""
        said = self._model.advance(self.now_ns)
        while True:
            for piece in self._cut(said):
                self._to_host += len(piece)
                self._link.write(piece)
                await self._arrived()
            await self._arrived()
            said, self._replies = self._replies, b""
            if not said:
                break
        deadline_ns = self._engine.deadline_ns()
        if deadline_ns is not None and deadline_ns <= self.now_ns:
            self._feed(Input(Op.TICK, self.clock.stamp()))
            await self._arrived()

    def _cut(self, data: bytes) -> Iterable[bytes]:
        while data:
            size = self._pieces.randint(1, self._piece_bytes) if self._piece_bytes < WHOLE else len(data)
            yield data[:size]
            data = data[size:]

    async def _arrived(self) -> None:
        await self._wait(
            lambda: (self._session.counters["bytes"], self._heard) == (self._to_host, self._to_device)
        )

    async def _wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(ARRIVES_S):
            while not condition():  # noqa: ASYNC110  what is waited for knows no event
                await asyncio.sleep(0.0002)

    def _obey(self, data: bytes) -> None:
        self._heard += len(data)
        self._replies += self._model.command(data, self.now_ns)

    # --- the session's sink, and the people at the table -----------------------------------------------

    def opened(self) -> None:
        self._feed(Input(Op.OPEN, self.clock.stamp(), self._name))

    def received(self, frames: list[AnyFrame]) -> bool:
        for frame in frames:
            op = Op.BAD_FRAME if isinstance(frame, BadFrame) else Op.FRAME
            self._feed(Input(op, self.clock.stamp(), self._name, frame.raw.decode("latin-1")))
        return True

    def lost(self, cause: str) -> None:
        raise AssertionError(f"the line was lost: {cause}")

    def tell(self, event: HouseEvent) -> None:
        self._feed(house(event, self.clock.stamp()))

    def _feed(self, item: Input) -> None:
        output = self._engine.feed(item)
        self.records += output.records
        for _, data in output.send:
            self._to_device += len(data)
            self._session.send(data)
        current = self._engine.table.round
        if current is None:
            return
        dice = self._scene.setup.game.throws
        if current.unresolved:
            self.tell(VoidDeclared("test", "dealer", "not to be known"))
        elif dice and current.betting is Betting.OPEN:
            self.tell(BetsClosed("test"))
        elif dice and not current.throw.permitted and current.draw is Draw.NOT_STARTED:
            self.tell(Permitted("test"))


@asynccontextmanager
async def serial(folder: Path) -> AsyncIterator[tuple[Link, Transport]]:
    link = PtyLink(folder / "port")
    link.plug()
    transport = SerialTransport(SerialSettings(str(link.path), 115_200))
    try:
        yield link, transport
    finally:
        transport.close()
        link.unplug()
    assert link.dropped_bytes == 0


@asynccontextmanager
async def usb(_folder: Path) -> AsyncIterator[tuple[Link, Transport]]:
    gadget = Gadget(VID, PID)
    bus = SimulatedUsb(gadget)
    transport = UsbTransport(settings(), bus)
    try:
        yield gadget, transport
    finally:
        transport.close()
        if transport._last is not None:
            await transport._last.join()
    assert bus.complaints == []
    assert bus.open_handles() == 0


WAYS = {
    "serial, in pieces": (serial, 62),
    "usb": (usb, WHOLE),
    "usb, in pieces": (usb, 40),
}


async def played(name: str, way: Any, folder: Path, piece_bytes: int) -> list[NewRecord]:
    async with way(folder) as (link, transport):
        bench = Bench(SCENES[name], link, transport, piece_bytes)
        await bench.play()
    return bench.records


@pytest.mark.parametrize("name", SCENES)
async def test_a_device_gives_the_same_records_over_usb_and_over_serial(name: str, tmp_path: Path) -> None:
    expected = await played(name, serial, tmp_path, WHOLE)
    assert {record.kind for record in expected} >= EXPECTED[name]
    assert any(record.capture for record in expected)
    for what, (way, piece_bytes) in WAYS.items():
        assert await played(name, way, tmp_path, piece_bytes) == expected, what
