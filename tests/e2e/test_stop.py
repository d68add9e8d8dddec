"""How the daemon ends: whatever blocks, in time; and what systemd sees of one that hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.broker import Mosquitto, until
from tests.support.daemon import NODE, STOP_S, TOPICS, Consumer, Daemon, Installation, journaled, verified
from tests.support.simulated_table import SimulatedTable, playing

CLOSE_BLOCKS = """
import time
from dollyd.drivers.transports.serial import SerialTransport
SerialTransport.close = lambda self: time.sleep(60)
"""
READ_BLOCKS = """
import threading
from dollyd.drivers.transports.serial import SerialTransport
threading.Thread(target=threading.Event().wait, name="usb:1d50:60c6").start()
"""
COMMIT_HANGS = """
import os, time
from dollyd.daemon.journal.store import Journal
append = Journal.append
def hang(self, entries):
    while os.path.exists({path!r}):
        time.sleep(0.02)
    return append(self, entries)
Journal.append = hang
"""
LOOP_BLOCKS = """
import os, time
from dollyd.daemon.health.upkeep import Upkeep
look = Upkeep._look_at_the_clock
def block(self):
    while os.path.exists({path!r}):
        time.sleep(0.02)
    look(self)
Upkeep._look_at_the_clock = block
"""
LIMIT_S = 1.5


@pytest.mark.parametrize("prelude", [CLOSE_BLOCKS, READ_BLOCKS], ids=["close", "read"])
async def test_a_device_that_blocks_delays_no_stop_and_costs_no_record(
    prelude: str, installation: Installation, table: SimulatedTable, consumer: Consumer
) -> None:
    with Daemon(installation, prelude=prelude) as daemon:
        await daemon.started()
        await playing(table, consumer)
        began_s = time.monotonic()
        assert await daemon.stop() == 0
        assert time.monotonic() - began_s < STOP_S
        assert daemon.log[-1].split()[1] == "event=end_forced"
    await until(lambda: consumer.latest(TOPICS.node_status(NODE)).get("state") == "offline")
    assert journaled(installation)[-1].kind == "checkpoint"
    await until(lambda: len(consumer.records) == len(journaled(installation)))
    verified(installation)


class Notified:
    """What the daemon says to its manager, and when."""

    def __init__(self, directory: Path) -> None:
        path = str(directory / "notify")
        limit_us = int(LIMIT_S * 1e6)
        self.environment = {**os.environ, "NOTIFY_SOCKET": path, "WATCHDOG_USEC": str(limit_us)}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._socket.setblocking(False)
        self.heard: list[str] = []

    def listen(self) -> list[str]:
        try:
            while True:
                self.heard.append(self._socket.recv(4096).decode())
        except BlockingIOError:
            return self.heard

    async def quiet(self) -> None:
        """Wait until it has given no sign of life for longer than the limit."""
        last_s = time.monotonic()
        while time.monotonic() - last_s < LIMIT_S:
            count = self.listen().count("WATCHDOG=1")
            await asyncio.sleep(0.05)
            if self.listen().count("WATCHDOG=1") > count:
                last_s = time.monotonic()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[Notified]:
    made = Notified(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("prelude", [COMMIT_HANGS, LOOP_BLOCKS], ids=["writer", "loop"])
async def test_b39_what_hangs_gives_no_sign_of_life_and_tells_where_it_hung(
    prelude: str, tmp_path: Path, broker: Mosquitto, installation: Installation, notified: Notified
) -> None:
    path = tmp_path / "hang"
    prelude = prelude.format(path=str(path))
    with Daemon(installation, notified.environment, prelude) as daemon:
        await daemon.started()
        await until(lambda: notified.listen().count("WATCHDOG=1") >= 4)
        assert notified.heard.index("READY=1") < notified.heard.index("WATCHDOG=1")
        path.touch()
        os.kill(daemon.pid, signal.SIGUSR1)  # the answer of the self-check is a record to be kept
        await notified.quiet()
        os.kill(daemon.pid, signal.SIGABRT)  # what systemd does
        assert await daemon.ended() == -signal.SIGABRT
        assert any("hang" in line or "block" in line for line in daemon.log if line.startswith("  File"))


async def test_b39_neither_a_dead_broker_nor_dead_devices_keep_it_from_being_ready_and_alive(
    broker: Mosquitto, installation: Installation, notified: Notified
) -> None:
    broker.kill()
    with Daemon(installation, notified.environment) as daemon:
        await daemon.started()
        await until(lambda: notified.listen().count("WATCHDOG=1") >= 8)
        os.kill(daemon.pid, signal.SIGHUP)
        await until(lambda: notified.listen().count("READY=1") == 2)
        (reloading,) = [one for one in notified.heard if one.startswith("RELOADING=1\nMONOTONIC_USEC=")]
        assert notified.heard.index("READY=1") < notified.heard.index(reloading)
        assert "STATUS=0 of 2 devices ready, no broker" in notified.heard
        assert await daemon.stop() == 0
        assert "STOPPING=1" in notified.listen()


async def test_a_stop_with_a_hung_disk_is_a_failure_in_time(
    tmp_path: Path, broker: Mosquitto, installation: Installation
) -> None:
    path = tmp_path / "hang"
    with Daemon(installation, prelude=COMMIT_HANGS.format(path=str(path))) as daemon:
        await daemon.started()
        await until(lambda: bool(journaled(installation)))
        path.touch()
        os.kill(daemon.pid, signal.SIGUSR1)
        await asyncio.sleep(0.2)
        began_s = time.monotonic()
        assert await daemon.stop() == 1
        assert time.monotonic() - began_s < STOP_S


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("table.session.DeviceSession._connection", "r1/wheel"),
        ("link.publisher.Publisher._try_brokers", "publisher"),
        ("journal.writer.Writer._sign", "writer"),
    ],
)
async def test_b43_each_critical_task_that_fails_ends_the_process(
    where: str, name: str, tmp_path: Path, broker: Mosquitto, installation: Installation
) -> None:
    module, kind, method = where.rsplit(".", 2)
    prelude = (
        f"import dollyd.daemon.{module} as module\n"
        "def fail(*_):\n    raise ZeroDivisionError('seeded')\n"
        f"module.{kind}.{method} = fail"
    )
    with Daemon(installation, prelude=prelude) as daemon:
        assert await daemon.ended() == 1
        assert any("seeded" in line for line in daemon.log), name
