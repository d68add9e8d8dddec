"""Generators at a real table: core and engine in virtual time, ports and USB in real time."""

from __future__ import annotations

import asyncio
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.support.pty_pair import PtyPair, until
from tests.support.tables import ODDS_BOX, START, WHEEL, later, make_setup
from tests.support.wheel_lines import Game, status

from dollyd.daemon.core.events import OddsDrawn, Spoken, TableOpened
from dollyd.daemon.core.state import Bound, Setup
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.settings.load import DeviceSettings, load
from dollyd.daemon.table.capture import rederive
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op, Output, house
from dollyd.daemon.table.runner import transport_of
from dollyd.daemon.table.session import DeviceSession
from dollyd.drivers import DRIVERS
from dollyd.drivers.framing import AnyFrame
from dollyd.drivers.protocols.cammegh_ss2.driver import Ss2Protocol
from dollyd.drivers.protocols.generators import proof_of, table_of_block, truerng
from dollyd.drivers.random_blocks import BLOCK_BYTES
from dollyd.drivers.spec import DeviceProtocol, DeviceSetup, DrawOdds, Status
from dollyd.drivers.transports.usb import UsbTransport
from dollyd.simulators.generators import Generator, GeneratorOptions, OneRng, TrueRng
from dollyd.simulators.line import Line
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.runner import Device
from dollyd.simulators.usb import SimulatedUsb
from dollyd.simulators.usb_gadget import Gadget, Interface
from dollyd.wire.record import Kind

NONCE = "9C0D4E7A11B2F00D"
CHUNK_BYTES = 4096
CHUNK_MS = 90
"""45,000 bytes a second."""


def table_setup() -> Setup:
    setup = make_setup("B")
    odds = Bound(ODDS_BOX, "truerng", "odds")
    return replace(setup, devices=(*(one for one in setup.devices if one.role != "odds"), odds))


def table_protocols(setup: Setup) -> dict[str, DeviceProtocol]:
    wheel = DeviceSetup(WHEEL, "wheel", setup.layout.clockwise)
    return {WHEEL: Ss2Protocol(wheel), ODDS_BOX: truerng(DeviceSetup(ODDS_BOX, "odds"))}


class Table:
    """A wheel by the line and a generator by the byte; a status line every half second."""

    def __init__(self) -> None:
        self.setup = table_setup()
        self.engine = Engine(self.setup, table_protocols(self.setup))
        self.framing = DRIVERS["truerng"].framing()
        self.stream: Callable[[int], bytes] = Random(5).randbytes
        self.at = START
        self.records: list[NewRecord] = []
        self.feed(house(TableOpened("d1"), START))
        self.feed(Input(Op.OPEN, START, WHEEL))
        self.feed(Input(Op.OPEN, START, ODDS_BOX))
        self.hear(status(6, 16, "8"), status(6, 16, "8"))

    def feed(self, item: Input) -> Output:
        output = self.engine.feed(item)
        self.records += output.records
        for number in output.odds_wanted:
            self.feed(Input(Op.DRAW, self.at, ODDS_BOX, f"{number} {NONCE}"))
        return output

    def wait(self, ms: int) -> None:
        """Time passes, the stream runs."""
        for _ in range(0, ms, CHUNK_MS):
            self.at = later(self.at, CHUNK_MS)
            for frame in self.framing.feed(self.stream(CHUNK_BYTES)):
                self.feed(Input(Op.FRAME, self.at, ODDS_BOX, frame.raw.decode()))
            due_ns = self.engine.deadline_ns()
            if due_ns is not None and due_ns <= self.at.mono_ns:
                self.feed(Input(Op.TICK, self.at))

    def hear(self, *lines: str) -> None:
        for line in lines:
            if line.startswith("*X;"):
                self.wait(500)
            self.feed(Input(Op.FRAME, self.at, WHEEL, line))

    def play(self, game: Game | None = None) -> None:
        self.hear(*(game or Game()).lines())

    def bodies(self, kind: Kind) -> list[Any]:
        return [msgspec.json.decode(record.body) for record in self.records if record.kind is kind]


# --- the real core ---------------------------------------------------------------------------------------


def test_a_result_has_the_table_that_the_host_drew_and_its_proof() -> None:
    table = Table()
    table.play()
    (result,) = [record for record in table.records if record.kind is Kind.RESULT]
    odds = msgspec.json.decode(result.body)["odds"]
    lines = [msgspec.json.decode(line) for line in result.capture.splitlines()[1:]]
    order = next(number for number, line in enumerate(lines) if line["dir"] == "draw")
    blocks = [line["line"] for line in lines[order:] if line["dev"] == ODDS_BOX and line["dir"] == "rx"]
    (block,) = [text for text in blocks if proof_of(odds["nonce"], text) == odds["proof"]]
    assert blocks.index(block) == 1, "the first block after the order had begun before it"
    assert odds["table"] == table_of_block(block)
    assert (odds["device"], odds["counter"], odds["nonce"]) == (ODDS_BOX, 1, NONCE)
    times = msgspec.json.decode(result.body)["evidence"]["times"]
    assert times["bets_closed"]["monotonic_ns"] < odds["drawn"]["monotonic_ns"]
    assert odds["drawn"]["monotonic_ns"] < times["confirmed"]["monotonic_ns"]


def test_the_decision_is_derived_again_from_its_capture() -> None:
    table = Table()
    table.play()
    result = table.records[-1]
    assert result.kind is Kind.RESULT
    again = rederive(table.setup, table_protocols(table.setup), result.capture)
    assert [record for record in again if record.capture][-1] == result


def test_a_stream_leaves_captures_small() -> None:
    table = Table()
    table.play()
    result = table.records[-1]
    lines = result.capture.splitlines()
    assert len(lines) < 100
    assert len(result.capture) < 20_000


def test_each_round_is_drawn_with_its_own_bytes() -> None:
    table, game = Table(), Game()
    for number in range(20):
        table.play(game)
        game = game.next(str(number))
    odds = [body["odds"] for body in table.bodies(Kind.RESULT)]
    assert [one["counter"] for one in odds] == list(range(1, 21))
    assert len({one["proof"] for one in odds}) == 20


@pytest.mark.parametrize(
    "stream",
    [lambda count: b"\xa5" * count, lambda count: (Random(1).randbytes(64) * count)[:count]],
    ids=["stuck", "repeats"],
)
def test_a_generator_that_breaks_in_mid_round_leaves_it_unresolved(stream: Callable[[int], bytes]) -> None:
    table = Table()
    table.hear(*Game().lines("2"))
    table.stream = stream
    table.hear(*Game().lines("345"))
    assert table.bodies(Kind.RESULT) == []
    assert [body["rule"] for body in table.bodies(Kind.UNRESOLVED)] == ["odds-missing"]
    (refused,) = [body for body in table.bodies(Kind.INCIDENT) if body["what"] == "odds-refused"]
    assert refused["text"].startswith(("health:", "generator is health:"))
    assert table.engine.table.blocked


def test_a_stream_that_stalls_after_no_more_bets_leaves_the_round_unresolved() -> None:
    table = Table()
    table.hear(*Game().lines("23"))
    table.stream = lambda _: b""
    table.hear(*Game().lines("45"))
    table.wait(10_000)
    assert table.bodies(Kind.RESULT) == []
    assert [body["rule"] for body in table.bodies(Kind.UNRESOLVED)] == ["odds-missing"]


# --- ports -----------------------------------------------------------------------------------------------


def settings_of(folder: Path, driver: str, port: str) -> DeviceSettings:
    """The settings of a table of the shipped example with this generator for an odds box."""
    example = files("dollyd").joinpath("config", "examples", "roulette-b.toml").read_text()
    head = "[tables.roulette-1.devices.odds]"
    path = folder / "dollyd.toml"
    odds = f'driver = "{driver}"\nrole = "odds"\nport = "{port}"\n'
    path.write_text(f"{example[: example.index(head)]}{head}\n{odds}")
    return load(path).tables["roulette-1"].devices["odds"]


class Sink:
    """What the table does with a session, for one device and one draw after the other."""

    def __init__(self, driver: str) -> None:
        self.protocol = DRIVERS[driver].protocol(DeviceSetup("odds", "odds", period_ms=500))
        self.session: DeviceSession
        self.clock = SystemClock()
        self.events: list[Spoken] = []
        self.frames = 0

    def opened(self) -> None:
        said = self.protocol.opened(self.clock.stamp())
        self.events += said.events
        for data in said.send:
            self.session.send(data)

    def received(self, frames: list[AnyFrame]) -> bool:
        self.frames += len(frames)
        for frame in frames:
            self.events += self.protocol.received(frame, self.clock.stamp()).events
        return self.status in {Status.READY, Status.FAULT}

    def lost(self, cause: str) -> None:
        self.events += self.protocol.lost(cause, self.clock.stamp()).events

    @property
    def status(self) -> Status:
        return self.protocol.status

    @property
    def drawn(self) -> list[OddsDrawn]:
        return [event for event in self.events if isinstance(event, OddsDrawn)]

    async def draw(self, number: int) -> OddsDrawn:
        self.events += self.protocol.order(DrawOdds(number, NONCE), self.clock.stamp()).events
        await until(lambda: bool(self.drawn) and self.drawn[-1].round == number, "the draw")
        return self.drawn[-1]


@asynccontextmanager
async def running(driver: str, transport: Any) -> AsyncIterator[Sink]:
    sink = Sink(driver)
    framing = DRIVERS[driver].framing()
    sink.session = DeviceSession("odds", transport, framing, sink, clock=sink.clock, random=Random(1))
    task = asyncio.create_task(sink.session.run())
    try:
        yield sink
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def simulated(model: Generator, link: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(Device(model, link, SystemClock(), Line(Random(1))).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


MODELS: dict[str, type[Generator]] = {"truerng": TrueRng, "onerng": OneRng}


@pytest.mark.parametrize("driver", MODELS)
async def test_a_generator_on_a_port_from_plug_to_draw(driver: str, tmp_path: Path) -> None:
    options = GeneratorOptions(bytes_per_s=200_000)
    model = MODELS[driver](options, Random(3), SystemClock().stamp().mono_ns)
    link = PtyLink(tmp_path / "rng")
    link.plug()
    try:
        transport = transport_of(settings_of(tmp_path, driver, str(tmp_path / "rng")))
        async with simulated(model, link), running(driver, transport) as sink:
            await until(lambda: sink.status is Status.READY, "ready")
            assert [(await sink.draw(number)).counter for number in (1, 2)] == [1, 2]
            model.faults.set("rng-stuck")
            await until(lambda: sink.status is Status.FAULT, "the stuck generator is found")
            assert sink.session.counters["opens"] == 1, "never taken for noise"
    finally:
        link.unplug()


async def test_a_truerng_is_never_opened_at_another_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unplugged and plugged in again, failing, silent: the port is only ever set to the one speed."""
    speeds: set[int] = set()
    plain = termios.tcsetattr

    def noted(fd: int, when: int, attributes: Any) -> None:
        speeds.update(attributes[4:6])
        plain(fd, when, attributes)

    monkeypatch.setattr(termios, "tcsetattr", noted)
    with PtyPair(tmp_path / "rng") as pty:
        transport = transport_of(settings_of(tmp_path, "truerng", str(pty.port)))
        async with running("truerng", transport) as sink:
            for number in range(3):
                await until(lambda n=number: sink.session.counters["opens"] > n, "open")  # type: ignore[misc]  # bound now
                await feed(pty, Random(number).randbytes(BLOCK_BYTES), sink)
                await until(lambda: sink.status is Status.READY, "ready")
                await feed(pty, b"\x00" * 1024, sink)
                await until(lambda: sink.status is Status.FAULT, "fault")
                pty.unplug()
                await until(lambda: sink.status is Status.LOST, "lost")
                pty.plug()
    assert sink.session.counters["opens"] == 3
    assert speeds == {termios.B115200}
    assert DRIVERS["truerng"].serial is not None
    assert DRIVERS["truerng"].serial.baud not in {110, 300, 1200, 2400, 4800, 9600, 19_200}


async def feed(pty: PtyPair, data: bytes, sink: Sink) -> None:
    """As much as the line takes, until it has all."""
    while data:
        try:
            data = data[pty.send(data[:1024]) :]
        except BlockingIOError:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)


# --- USB -------------------------------------------------------------------------------------------------


@pytest.fixture
async def gadget() -> Gadget:
    interface = Interface(endpoint_in=0x85, endpoint_out=None, kernel_driver=True)
    device = Gadget(0x1D50, 0x60C6, interfaces=(interface,))
    device.marks_ends = False
    return device


async def test_a_chaoskey_over_usb_from_plug_to_draw(gadget: Gadget, tmp_path: Path) -> None:
    bus, rng = SimulatedUsb(gadget), Random(9)
    wanted = settings_of(tmp_path, "chaoskey", "usb:1d50:60c6").usb
    assert wanted is not None
    transport = UsbTransport(wanted, bus)
    async with running("chaoskey", transport) as sink:

        async def stream(byte: Callable[[], bytes]) -> None:
            while True:
                gadget.write(byte())
                await asyncio.sleep(0.005)

        good = asyncio.create_task(stream(lambda: rng.randbytes(2048)))
        await until(lambda: sink.status is Status.READY, "ready")
        first, second = await sink.draw(1), await sink.draw(2)
        assert (first.counter, second.counter) == (1, 2)
        good.cancel()
        stuck = asyncio.create_task(stream(lambda: b"\xa5" * 2048))
        await until(lambda: sink.status is Status.FAULT, "the stuck generator is found")
        stuck.cancel()
        bus.unplug(gadget)
        await until(lambda: sink.status is Status.LOST, "lost")
        bus.plug(gadget)
        good = asyncio.create_task(stream(lambda: rng.randbytes(2048)))
        await until(lambda: sink.status is Status.READY, "good again after it was plugged in again")
        assert (await sink.draw(3)).counter == 3
        good.cancel()
        await asyncio.gather(good, stuck, return_exceptions=True)
    await transport._last.join()  # type: ignore[union-attr]  # there was a connection
    assert bus.complaints == []
    assert bytes(gadget.heard) == b"", "nothing is ever written to it"
