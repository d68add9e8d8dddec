"""The faults of a port, met by the real transport. Names t<n> are numbers of the list of wire faults."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from dollyd.daemon.host.clock import SystemClock
from dollyd.drivers.random_blocks import BLOCK_BYTES
from dollyd.drivers.transports.serial import SerialSettings, SerialTransport
from dollyd.simulators.clock import VirtualClock
from dollyd.simulators.control import Bench
from dollyd.simulators.faults import FAULTS
from dollyd.simulators.generators import Generator, GeneratorOptions
from dollyd.simulators.line import Line
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.ss2 import COMPACT, Ss2Wheel
from dollyd.wire.errors import TransportError
from dollyd.wire.stamp import NS_PER_S

LINE = b"*X;4;146;12;0;161;1\r\n"


class Host:
    """The real transport, and what it called back."""

    def __init__(self, path: Path) -> None:
        self.transport = SerialTransport(SerialSettings(str(path), 9600, write_deadline_ms=200))
        self.heard = b""
        self.losses: list[str] = []

    async def open(self) -> None:
        def hear(data: bytes) -> None:
            self.heard += data

        await self.transport.open(hear, self.losses.append)


@pytest.fixture
async def link(tmp_path: Path) -> AsyncIterator[PtyLink]:
    port = PtyLink(tmp_path / "wheel")
    port.plug()
    yield port
    port.unplug()


@pytest.fixture
async def host(link: PtyLink) -> AsyncIterator[Host]:
    host = Host(link.path)
    yield host
    host.transport.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for is the kernel's
            await asyncio.sleep(0.002)


async def refusal(host: Host) -> str:
    with pytest.raises(TransportError) as caught:
        await host.open()
    return str(caught.value)


def test_every_number_of_the_list_has_a_switch() -> None:
    assert {entry for fault in FAULTS.values() for entry in fault.entries} == set(range(1, 54))


async def test_t18_writes_into_a_jammed_port_end_by_a_deadline(link: PtyLink, host: Host) -> None:
    heard = bytearray()
    link.on_data = heard.extend
    await host.open()
    await until(link.host_is_there)
    link.faults.set("port-jammed")

    def lost_under_writes() -> bool:
        host.transport.write(bytes(500))
        return bool(host.losses)

    await until(lost_under_writes)
    assert host.losses == ["write-timeout"]
    link.faults.clear("port-jammed")
    await host.open()
    host.transport.write(b"*V\r\n")
    await until(lambda: heard.endswith(b"*V\r\n"))


async def test_t22_a_port_without_a_name_is_not_there(link: PtyLink, host: Host) -> None:
    link.faults.set("port-missing")
    assert await refusal(host) == "not-found"
    link.faults.clear("port-missing")
    await host.open()


async def test_t22_a_denied_port_can_be_opened_by_root_only(link: PtyLink) -> None:
    link.faults.set("port-denied")
    assert stat.S_IMODE(link.path.stat().st_mode) == 0
    link.faults.clear("port-denied")
    assert stat.S_IMODE(link.path.stat().st_mode) == 0o620


async def test_t22_a_locked_port_is_busy_until_it_is_free(link: PtyLink, host: Host) -> None:
    link.faults.set("port-busy")
    assert await refusal(host) == "busy"
    link.faults.clear("port-busy")
    await host.open()


async def test_t24_the_same_name_leads_to_another_number(link: PtyLink, host: Host) -> None:
    await host.open()
    before = link.path.resolve()
    link.faults.set("port-renumbered")
    assert link.path.resolve() != before
    await until(lambda: bool(host.losses))
    await host.open()
    await until(link.host_is_there)
    link.write(LINE)
    await until(lambda: host.heard == LINE)


async def test_t26_stolen_bytes_are_missing_and_the_port_is_not_lost(link: PtyLink, host: Host) -> None:
    await host.open()
    link.faults.set("port-thief")
    for _ in range(50):
        link.write(LINE)
    await asyncio.sleep(0.02)
    link.faults.clear("port-thief")
    link.write(LINE)
    await until(lambda: host.heard.endswith(LINE))
    assert len(host.heard) < 51 * len(LINE)
    assert host.losses == []


async def test_t28_a_device_boots_when_the_host_opens_its_port(link: PtyLink, host: Host) -> None:
    clock = SystemClock()
    wheel = Ss2Wheel(COMPACT, Random(1), clock.stamp().mono_ns)
    bench = Bench(wheel, Line(Random(1)), link, clock, {})
    boots: list[int] = []
    power_on = wheel.power_on

    def counted(now_ns: int) -> None:
        boots.append(now_ns)
        power_on(now_ns)

    wheel.power_on = counted  # type: ignore[method-assign]  # only counted
    bench.obey("fault port-reset-on-open")
    life = asyncio.create_task(bench.live())
    try:
        await host.open()
        await until(lambda: len(boots) == 1)
        host.transport.close()
        await until(lambda: not link.host_is_there())
        await asyncio.sleep(0.05)  # the port is looked at now and then
        await host.open()
        await until(lambda: len(boots) == 2)
    finally:
        life.cancel()
        with suppress(asyncio.CancelledError):
            await life


def test_t30_a_knocked_generator_gives_text() -> None:
    model = Generator(GeneratorOptions(), Random(1), 0)
    model.faults.set("rng-knocked")
    data = model.advance(NS_PER_S)
    assert len(data) > BLOCK_BYTES
    assert data.isascii()


def test_t21_utc_jumps_and_the_monotonic_clock_does_not() -> None:
    clock = VirtualClock()
    before = clock.stamp()
    clock.faults.set("clock-jump")
    assert clock.stamp().utc_ns - before.utc_ns == 3600 * NS_PER_S
    assert clock.stamp().mono_ns == before.mono_ns
    clock.faults.clear("clock-jump")
    assert clock.stamp() == before
