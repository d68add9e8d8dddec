"""What systemd is told, and when it is left to think that we hang."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs
from tests.support.broker import until
from tests.support.desk import at_desk

from dollyd.daemon.consumers.replay import ReplayService
from dollyd.daemon.host.hotplug import Hotplug
from dollyd.daemon.host.systemd import Manager, Watchdog, watchdog_us
from dollyd.daemon.host.tasks import Pulse, SupervisedTasks
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.journal.stream_source import Entry
from dollyd.daemon.link.inbox import Inbox
from dollyd.daemon.link.mqtt import MqttLink, MqttSettings
from dollyd.daemon.link.node_status import Node
from dollyd.daemon.link.publisher import Publisher
from dollyd.simulators.clock import VirtualClock, settle
from dollyd.wire.errors import InvariantError
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S
from dollyd.wire.topics import Topics


class FakeManager:
    """The socket that systemd gives to a service."""

    def __init__(self, address: str) -> None:
        self.environ = {"NOTIFY_SOCKET": address}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def close(self) -> None:
        self._socket.close()

    def heard(self) -> list[str]:
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return messages


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeManager]:
    address = str(tmp_path / "notify") if request.param == "file" else f"@dollyd-test-{os.getpid()}"
    fake = FakeManager(address)
    yield fake
    fake.close()


class FakeHeart:
    """A thread that answers at once, or hangs."""

    def __init__(self) -> None:
        self.hangs = False
        self.asked = self.answered = 0

    def ask(self) -> int:
        self.asked += 1
        self.answered = self.answered if self.hangs else self.asked
        return self.asked


def test_all_that_is_told_has_the_words_of_the_protocol(manager: FakeManager) -> None:
    told = Manager(manager.environ)
    told.status("opening the journal")
    told.status("opening the journal")
    told.ready()
    told.reloading()
    told.alive()
    told.stopping()
    status, ready, reloading, alive, stopping = manager.heard()
    assert (status, ready, alive, stopping) == (
        "STATUS=opening the journal",
        "READY=1",
        "WATCHDOG=1",
        "STOPPING=1",
    )
    word, stamp = reloading.split("\n")
    assert word == "RELOADING=1"
    assert stamp.startswith("MONOTONIC_USEC=")


def test_without_a_manager_or_with_a_deaf_one_nothing_fails(tmp_path: Path) -> None:
    with capture_logs() as logs:
        Manager({}).ready()
        gone = Manager({"NOTIFY_SOCKET": str(tmp_path / "gone")})
        gone.alive()
        gone.alive()
    assert [one["event"] for one in logs] == ["service_manager_deaf"]


@pytest.mark.parametrize(
    ("environ", "limit_us"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "300000"}, 300_000),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "77"}, 60_000_000),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "78"}, 0),  # meant for another process
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_b39_the_limit_is_the_managers_and_only_for_us(environ: dict[str, str], limit_us: int) -> None:
    assert watchdog_us(environ, pid=77) == limit_us


@pytest.mark.parametrize("limit_ms", [300, 2_000, 60_000])
async def test_b39_a_sign_of_life_comes_three_times_within_any_limit(limit_ms: int, tmp_path: Path) -> None:
    manager = FakeManager(str(tmp_path / "notify"))
    clock, heart, missing = VirtualClock(), FakeHeart(), list[str]()
    dog = Watchdog(limit_ms * 1000, Manager(manager.environ), clock, heart, lambda: missing, {})
    task = asyncio.create_task(dog.run())

    async def pass_ms(count: int) -> int:
        """Let time pass in steps of a third; the signs of life that came."""
        signs = 0
        for _ in range(3 * count // limit_ms):
            await until(lambda: clock.next_wake_ns() is not None)
            clock.advance(limit_ms * NS_PER_MS // 3)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            signs += manager.heard().count("WATCHDOG=1")
        return signs

    assert await pass_ms(4 * limit_ms) == 12
    heart.hangs = True  # a commit that does not end
    assert await pass_ms(limit_ms) <= 1
    assert await pass_ms(4 * limit_ms) == 0
    heart.hangs = False  # it ended in time after all
    assert await pass_ms(2 * limit_ms) >= 5
    missing.append("r1/wheel")
    assert await pass_ms(2 * limit_ms) == 0
    task.cancel()
    await asyncio.wait({task})
    manager.close()


class NoEntries:
    """A journal without a record."""

    def entries_after(self, _id: int, _limit: int, /) -> Sequence[Entry]:
        return ()

    def cursor(self) -> int:
        return 0

    def set_cursor(self, _id: int, /) -> None:
        pytest.fail("there is nothing to acknowledge")


async def never(*_arguments: object) -> None:
    await asyncio.get_running_loop().create_future()


async def test_a_duty_that_hangs_is_named_and_starves_the_watchdog(
    manager: FakeManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dollyd.daemon.host.tasks.BEAT_EVERY_S", 0.001)
    limit_s = 30
    async with at_desk(tmp_path) as bench:
        pulses = {"commands": bench.desk.pulse}
        dog = Watchdog(limit_s * 10**6, Manager(manager.environ), bench.clock, FakeHeart(), list, pulses)
        task = asyncio.create_task(dog.run())

        async def round_of_the_watchdog() -> int:
            await asyncio.sleep(0.02)  # an idle duty comes around some times
            bench.clock.advance(limit_s * NS_PER_S // 3)
            await settle()
            return manager.heard().count("WATCHDOG=1")

        assert [await round_of_the_watchdog() for _ in range(12)] == [1] * 12
        monkeypatch.setattr(bench.desk, "_send", never)
        bench.put(b"no command")  # whose answer is never taken, nor refused
        with capture_logs() as logs:
            rounds = [await round_of_the_watchdog() for _ in range(12)]
        # It has begun the command: one more beat, and then six rounds, which are 60 s, are its due.
        assert rounds.index(0) in {6, 7}
        assert not any(rounds[7:])
        assert ("watchdog_not_fed", "commands") in [(one["event"], one.get("stuck")) for one in logs]
        task.cancel()
        await asyncio.wait({task})


async def test_a_duty_at_rest_and_a_machine_that_slept_starve_nobody(manager: FakeManager) -> None:
    clock, pulses = VirtualClock(), {"resting": Pulse(), "working": Pulse()}
    pulses["resting"].rest()
    dog = Watchdog(30_000_000, Manager(manager.environ), clock, FakeHeart(), list, pulses)
    task = asyncio.create_task(dog.run())
    for _ in range(20):
        await settle()
        clock.advance(3600 * NS_PER_S)  # all late alike, by an hour
        await settle()
        assert manager.heard() == ["WATCHDOG=1"]
        pulses["working"].beat()
    task.cancel()
    await asyncio.wait({task})


async def test_idle_duties_come_around_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dollyd.daemon.host.tasks.BEAT_EVERY_S", 0.001)
    line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    hotplug = Hotplug(lambda: pytest.fail("nothing was plugged in"), lambda: line)
    journal = Journal.open(tmp_path / "journal.db")
    replay = ReplayService([], Topics("hall"), journal, never, VirtualClock())
    tasks = {asyncio.create_task(hotplug.run()), asyncio.create_task(replay.run())}
    await until(lambda: min(hotplug.pulse.beats, replay.pulse.beats) > 3)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    journal.close()
    far.close()


async def test_a_broker_that_does_not_answer_is_waited_for_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MqttLink, "__aenter__", never)  # as with a name server that is away
    mqtt, clock = MqttSettings(("broker:1883",), "node-1"), VirtualClock()
    publisher = Publisher(mqtt, Topics("hall"), Node("node-1", "1", 1), NoEntries(), clock, Random(1))
    inbox = Inbox(mqtt, clock, Random(1), lambda: "")
    tasks = {asyncio.create_task(publisher.run()), asyncio.create_task(inbox.run())}
    await until(lambda: publisher.pulse.rests and inbox.pulse.rests)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def watch(failed: asyncio.Future[None]) -> None:
    await failed


@pytest.mark.parametrize("end", ["return", "raise", "cancelled-by-nobody"])
async def test_b43_a_task_that_ends_is_a_fault_however_it_ends(end: str) -> None:
    failed = asyncio.get_running_loop().create_future()

    async def duty() -> None:
        await asyncio.sleep(0)
        if end == "raise":
            raise ValueError("a bug")
        if end == "cancelled-by-nobody":
            raise asyncio.CancelledError

    async def other() -> None:
        await asyncio.Event().wait()

    async def daemon() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(failed))
            duties = SupervisedTasks(group, failed.set_exception)
            duties.begin("other", other())
            duties.begin("wheel", duty())

    with pytest.raises(BaseExceptionGroup) as raised:
        await daemon()
    (error,) = raised.value.exceptions
    assert isinstance(error, ValueError if end == "raise" else InvariantError)
    assert end == "raise" or "wheel" in str(error)


async def test_b43_no_task_is_collected_and_one_may_be_ended_and_begun_anew() -> None:
    failed = asyncio.get_running_loop().create_future()
    began: list[str] = []

    async def duty(name: str) -> None:
        began.append(name)
        await asyncio.get_running_loop().create_future()  # nobody else holds this

    async with asyncio.TaskGroup() as group:
        duties = SupervisedTasks(group, failed.set_exception)
        duties.begin("wheel", duty("first"))
        await asyncio.sleep(0)
        for _ in range(3):
            gc.collect()
            await asyncio.sleep(0)
        assert duties.missing == []
        await duties.end("wheel", "unknown")
        duties.begin("wheel", duty("second"))
        await asyncio.sleep(0)
        duties.end_all()
    assert began == ["first", "second"]
    assert not failed.done()
