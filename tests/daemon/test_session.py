"""The device session, on pseudo-terminals in real time and on a scripted transport in virtual time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.pty_pair import PtyPair, until
from tests.support.scripted import GOOD, Script, Table, running, scripted

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.table.session import Backoff, DeviceSession, NoiseGuard
from dollyd.drivers.framing import Frame, LineDecoder
from dollyd.drivers.transports.serial import SerialSettings, SerialTransport
from dollyd.simulators.clock import settle
from dollyd.wire.errors import InvariantError
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def pty(tmp_path: Path) -> Iterator[PtyPair]:
    with PtyPair(tmp_path / "wheel") as pair:
        yield pair


@pytest.fixture
def session(pty: PtyPair, table: Table) -> DeviceSession:
    transport = SerialTransport(SerialSettings(str(pty.port), 9600))
    return DeviceSession("wheel", transport, LineDecoder(), table, clock=SystemClock(), random=Random(1))


def events(log: list[Any]) -> list[str]:
    return [f"{line['event']} {line.get('cause', '')}".strip() for line in log]


async def hear(pty: PtyPair, session: DeviceSession, table: Table) -> None:
    """The device speaks until it is heard."""
    before = len(table.frames)

    def heard() -> bool:
        pty.send(GOOD)
        return len(table.frames) > before and session.cause == ""

    await until(heard, "a valid frame")


# --- on pseudo-terminals, in real time ----------------------------------------------------------


async def test_b1_unplugged_port_does_not_spin(pty: PtyPair, session: DeviceSession, table: Table) -> None:
    with capture_logs() as log:
        async with running(session):
            await hear(pty, session, table)
            pty.unplug()
            await until(lambda: session.counters["failed.not-found"] > 0, "the loss")
            cpu, started = time.process_time(), time.monotonic()
            await asyncio.sleep(2.0)
            share = (time.process_time() - cpu) / (time.monotonic() - started)
    assert share < 0.02
    assert table.told == ["opened", "lost eof"]
    assert events(log) == ["device_heard", "device_lost eof", "device_unreachable not-found"]
    assert session.cause == "not-found"


async def test_b4_device_is_back_within_2_s_of_a_replug(
    pty: PtyPair, session: DeviceSession, table: Table
) -> None:
    async with running(session):
        await hear(pty, session, table)
        pty.unplug()
        await until(lambda: session.counters["failed.not-found"] >= 5, "backoff at its longest")
        pty.plug()
        started = time.monotonic()
        await hear(pty, session, table)
        assert time.monotonic() - started < 2.0 + 2.0, "and what a busy machine may add"
    assert table.told == ["opened", "lost eof", "opened"]


async def test_b9_half_a_line_and_a_pause_are_one_frame(
    pty: PtyPair, session: DeviceSession, table: Table
) -> None:
    async with running(session):
        await until(lambda: table.told == ["opened"], "open")
        pty.send(b"*X;5;100;1")
        await asyncio.sleep(0.3)
        pty.send(b"7;0\r\n")
        await until(lambda: bool(table.frames), "the frame")
    assert table.frames == [Frame(b"*X;5;100;17;0")]


async def test_half_a_line_does_not_outlive_its_connection(
    pty: PtyPair, session: DeviceSession, table: Table
) -> None:
    async with running(session):
        await until(lambda: table.told == ["opened"], "open")
        pty.send(b"*X;5;100;1")
        await until(lambda: session.counters["bytes"] == 10, "half a line")
        pty.unplug()
        pty.plug()
        await until(lambda: table.told[-1] == "opened" and len(table.told) == 3, "open again")
        pty.send(b"7;0\r\n")
        await until(lambda: bool(table.frames), "the frame")
    assert table.frames == [Frame(b"7;0")]


async def test_b12_device_is_found_behind_a_moved_link(
    pty: PtyPair, session: DeviceSession, table: Table
) -> None:
    async with running(session):
        await hear(pty, session, table)
        with PtyPair(pty.port.with_name("other")) as elsewhere:
            pty.unplug()
            pty.port.symlink_to(elsewhere.port)
            await hear(elsewhere, session, table)
            pty.port.unlink()
            pty.plug()
    assert session.counters["opens"] == 2


async def test_b11_busy_port_is_taken_once_it_is_free(
    pty: PtyPair, session: DeviceSession, table: Table
) -> None:
    other = SerialTransport(SerialSettings(str(pty.port), 9600))
    await other.open(lambda _: None, lambda _: None)
    with capture_logs() as log:
        async with running(session):
            await until(lambda: session.counters["failed.busy"] >= 3, "refusals")
            assert session.cause == "busy"
            other.close()
            await hear(pty, session, table)
    assert events(log) == ["device_unreachable busy", "device_heard"]
    assert "pid" in log[0]["detail"]


async def test_b16_good_frames_after_noise_are_heard(
    pty: PtyPair, session: DeviceSession, table: Table
) -> None:
    noise = Random(2)
    async with running(session):
        await until(lambda: table.told == ["opened"], "open")
        for _ in range(20):
            pty.send(noise.randbytes(200))
            await asyncio.sleep(0.001)
        pty.send(GOOD + GOOD)
        await until(lambda: table.frames[-1:] == [Frame(GOOD.strip())], "recovery")
    assert table.told == ["opened"]


async def test_fault_17_endless_fast_garbage_is_cut_off(
    pty: PtyPair, session: DeviceSession, table: Table
) -> None:
    async def babble() -> None:
        while True:
            try:
                pty.send(b"\xff" * 4000)
            except BlockingIOError:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)

    with capture_logs() as log:
        async with running(session):
            babbler = asyncio.create_task(babble())
            await until(lambda: session.counters["lost.noise"] >= 3, "noise cut off")
            babbler.cancel()
            await asyncio.wait([babbler])
            assert session.counters["bytes"] < 40_000 * session.counters["opens"]
            await until(lambda: table.told[-1] == "opened", "open again")
            await hear(pty, session, table)
    assert events(log) == ["device_lost noise", "device_heard"]


async def test_b18_a_mute_device_stays_open(session: DeviceSession, table: Table) -> None:
    async with running(session):
        await asyncio.sleep(0.3)
    assert table.told == ["opened"]
    assert session.counters == {"opens": 1}


async def test_commands_reach_the_device(pty: PtyPair, session: DeviceSession, table: Table) -> None:
    session.send(b"too early")
    async with running(session):
        await until(lambda: table.told == ["opened"], "open")
        session.send(b"*V\r\n")
        received = bytearray()

        def complete() -> bool:
            received.extend(pty.received())
            return bytes(received) == b"*V\r\n"

        await until(complete, "the command")
    session.send(b"too late")
    assert session.counters["sends"] == 1
    assert session.counters["sends_dropped"] == 2


# --- on a scripted transport, in virtual time ---------------------------------------------------


async def test_b2_dying_at_once_does_not_reset_the_backoff(table: Table) -> None:
    script = Script(None)
    script.on_open = script.lose
    session = scripted(table, script)
    with capture_logs() as log:
        async with running(session):
            await script.clock.run_for(760 * NS_PER_S)
    assert session.counters["opens"] >= 1000
    assert table.told == ["opened", "lost eof"] * session.counters["opens"]
    waits_ms = script.waits_ms()
    for wait_ms, ceiling_ms in zip(waits_ms, [50, 100, 200, 400, 800] + [1000] * 2000, strict=False):
        assert ceiling_ms / 2 <= wait_ms <= ceiling_ms
    assert len(set(waits_ms)) > 900, "jitter"
    assert events(log) == ["device_lost eof"]


async def test_a_valid_frame_resets_the_backoff(table: Table) -> None:
    script = Script(*["not-found"] * 8, None)
    session = scripted(table, script)
    async with running(session):
        await script.clock.run_for(8 * NS_PER_S)
        assert script.is_open
        script.data(b"what?\r\n")
        script.lose()
        await script.clock.run_for(1 * NS_PER_S)
        assert script.waits_ms()[-1] >= 500
        script.data(GOOD)
        script.lose()
        lost_at_ns = script.clock.stamp().mono_ns
        await script.clock.run_for(1 * NS_PER_S)
        assert script.asked_at_ns[-1] - lost_at_ns <= 50 * NS_PER_MS


async def test_b1_an_hour_unplugged_logs_changes_of_cause_only(table: Table) -> None:
    script = Script(None, "not-found", "not-found", "busy", "not-found")
    session = scripted(table, script)
    with capture_logs() as log:
        async with running(session):
            await settle()
            script.data(GOOD)
            script.lose("gone")
            await script.clock.run_for(3600 * NS_PER_S)
    assert table.told == ["opened", "lost gone"]
    assert session.counters["failed.not-found"] > 3500
    told = ["device_heard", "device_lost gone", "device_unreachable not-found", "device_unreachable busy"]
    # The cause went back to not-found; a state that was logged already is logged again a minute later.
    assert events(log) == [*told, "device_unreachable not-found"]


async def test_b48_a_loose_plug_is_counted_and_logged_now_and_then(table: Table) -> None:
    script = Script(None)
    session = scripted(table, script)

    def wobble() -> None:
        script.data(GOOD)
        script.lose()

    script.on_open = wobble
    with capture_logs() as log:
        async with running(session):
            await script.clock.run_for(30 * NS_PER_S)
            assert session.counters["lost.eof"] > 500
            script.on_open = lambda: script.data(GOOD)
            await script.clock.run_for(60 * NS_PER_S)
            script.data(GOOD)
            assert session.cause == ""
    assert len(log) <= 4
    assert events(log)[-1] == "device_heard", "the last line tells how it is now"


async def test_a_dropped_wrong_device_is_not_reopened_at_full_speed(table: Table) -> None:
    script = Script(None)
    session = scripted(table, script)
    script.on_open = lambda: script.data(GOOD)
    table.on_frames = lambda: session.drop("wrong-device")
    async with running(session):
        await script.clock.run_for(10 * NS_PER_S)
        assert not script.is_open
        assert session.cause == "wrong-device"
    assert script.waits_ms()[-1] >= 500
    assert table.told == ["opened", "lost wrong-device"] * session.counters["opens"]


async def test_drop_without_a_connection_is_nothing(table: Table) -> None:
    script = Script("not-found")
    session = scripted(table, script)
    async with running(session):
        await settle()
        session.drop("wrong-device")
    assert table.told == []
    assert session.counters["lost.wrong-device"] == 0


async def test_b7_an_overrun_is_declared_as_a_loss(table: Table) -> None:
    script = Script(None)
    session = scripted(table, script)
    async with running(session):
        await settle()
        script.data(b"*X;5;1")
        script.lost_count = 2
        script.data(b"00;17;0\r\n" + GOOD)
        script.data(GOOD)
        assert script.is_open
    assert table.told == ["opened", "lost overrun", "opened"]
    assert table.frames == [Frame(GOOD.strip())]
    assert session.counters["overruns"] == 2


async def test_a_device_that_does_not_read_is_counted(table: Table) -> None:
    script = Script(None)
    script.reads = False
    session = scripted(table, script)
    async with running(session):
        await settle()
        session.send(b"*V\r\n")
    assert session.counters["sends_dropped"] == 1


async def test_an_answer_may_be_sent_as_soon_as_it_is_open(table: Table) -> None:
    script = Script(None)
    session = scripted(table, script)

    class Greeter(Table):
        def opened(self) -> None:
            session.send(b"*V\r\n")

    session._sink = Greeter()
    async with running(session):
        await settle()
    assert script.sent == [b"*V\r\n"]


@pytest.mark.parametrize("where", ["opened", "received", "lost"])
async def test_our_own_bug_ends_the_session(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bool:
        raise InvariantError("a promise")

    table = Table()
    monkeypatch.setattr(table, where, broken)
    script = Script(None)
    session = scripted(table, script)
    task = asyncio.create_task(session.run())
    await settle()
    if where == "received":
        script.data(GOOD)
    if where == "lost":
        script.lose()
    with pytest.raises(InvariantError):
        await asyncio.wait_for(task, 30)
    assert not script.is_open


async def test_shutdown_closes_the_port_and_is_no_lost_device(table: Table) -> None:
    script = Script(None)
    session = scripted(table, script)
    async with running(session):
        await settle()
    assert not script.is_open
    assert table.told == ["opened"]
    session.send(b"late")
    assert script.sent == []


def test_backoff_is_the_same_for_the_same_chance() -> None:
    first, second = Backoff(Random(7)), Backoff(Random(7))
    assert [first.next_ns() for _ in range(9)] == [second.next_ns() for _ in range(9)]


def test_noise_guard_lets_slow_noise_and_bursts_pass() -> None:
    guard = NoiseGuard()
    for tick in range(3600):  # a wrong speed at 9600 Bd, for an hour
        assert not guard.too_much(960, tick * NS_PER_S)
    guard.reset()
    assert not guard.too_much(16_384, 3600 * NS_PER_S)
    assert guard.too_much(1, 3600 * NS_PER_S)
    guard.reset()
    assert not guard.too_much(16_384, 3600 * NS_PER_S)


def test_noise_guard_cuts_off_a_fast_line_after_about_a_second() -> None:
    guard = NoiseGuard()
    for tick in range(1000):  # 230,400 Bd in steps of 10 ms
        if guard.too_much(230, tick * 10 * NS_PER_MS):
            assert 0.8 < tick / 100 < 1.5
            return
    pytest.fail("never cut off")


# --- a connection that is dead but not closed ------------------------------------------------------------


@pytest.mark.parametrize("bytes_come", [False, True], ids=["nothing-comes", "bytes-come-but-no-line"])
async def test_f5_silence_ends_a_connection_and_opens_it_anew_with_growing_pauses(bytes_come: bool) -> None:
    script, table = Script(None), Table()
    script.on_open = lambda: script.data(b"\xff\xfe") if bytes_come else None
    session = DeviceSession(
        "d", script, LineDecoder(), table, clock=script.clock, random=Random(1), patience_ms=10_000
    )
    task = asyncio.create_task(session.run())
    try:
        for _ in range(400):
            await settle()
            await script.clock.run_for(NS_PER_S)
        opened_s = [at_ns // NS_PER_S for at_ns in script.asked_at_ns]
        waits_s = [after - before for before, after in pairwise(opened_s)]
        assert waits_s[0] in (10, 11)
        assert waits_s[1] in (20, 21, 22)
        assert all(60 <= wait_s <= 63 for wait_s in waits_s[3:])
        assert session.counters["lost.silent"] == len(waits_s)
        assert table.told[:3] == ["opened", "lost silent", "opened"]
        before = len(script.asked_at_ns)
        for _ in range(100):
            script.data(GOOD)
            await script.clock.run_for(NS_PER_S)
            await settle()
        assert len(script.asked_at_ns) == before, "a device that is heard keeps its connection"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
