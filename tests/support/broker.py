"""A real Mosquitto for tests, on its own port and in its own directory; a listener; a line to cut."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import aiomqtt
import pytest

START_S = 30.0


def find_mosquitto() -> str:
    """Path of the broker; skips the test where there is none (Debian keeps it in /usr/sbin)."""
    found = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip("mosquitto is not installed: this test needs a real broker")
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Mosquitto:
    """One broker as a context manager. `extra` is appended to its configuration.

    It listens on the same port and in the same directory whenever it is started.
    """

    def __init__(self, extra: str = "", *, persistence: bool = False, started: bool = True) -> None:
        self.port = free_port()
        self.host = "127.0.0.1"
        self._extra = extra
        self._persistence = persistence
        self._started = started
        self._binary = find_mosquitto()
        self._process: subprocess.Popen[bytes] | None = None
        self.directory = Path()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text("utf-8", errors="replace")

    @property
    def configuration(self) -> Path:
        return self.directory / "mosquitto.conf"

    def configure(self, extra: str = "", *, allow_anonymous: bool = True) -> None:
        """Write the configuration; it counts from the next start."""
        lines = [
            f"user {pwd.getpwuid(os.geteuid()).pw_name}",
            f"listener {self.port} {self.host}",
            f"allow_anonymous {str(allow_anonymous).lower()}",
            "set_tcp_nodelay true",
            f"persistence {str(self._persistence).lower()}",
            f"persistence_location {self.directory}/",
            extra,
        ]
        self.configuration.write_text("\n".join(lines) + "\n")

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="mosquitto-"))
        self.configure(self._extra)
        if self._started:
            try:
                self.start()
            except BaseException:
                self.__exit__(None, None, None)
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.directory)

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary, "-c", str(self.configuration)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"mosquitto did not start:\n{self.log}")
                time.sleep(0.01)
            else:
                return

    def stop(self) -> None:
        """End it in good order: it saves what it knows."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut does."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def reload(self) -> None:
        """Have it read its access list again."""
        self._signal(signal.SIGHUP)

    def save(self) -> None:
        """Write the persistence file now."""
        database = self.directory / "mosquitto.db"
        before = database.stat().st_mtime_ns if database.exists() else 0
        self._signal(signal.SIGUSR1)
        deadline = time.monotonic() + START_S
        while not database.exists() or database.stat().st_mtime_ns == before:
            if time.monotonic() > deadline:
                pytest.fail("mosquitto did not save")
            time.sleep(0.01)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._signal(number)
            self._signal(signal.SIGCONT)
            self._process.wait(timeout=START_S)
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            pytest.fail("the broker is not running")
        self._process.send_signal(number)


@dataclass(frozen=True, slots=True)
class Heard:
    topic: str
    payload: bytes
    retain: bool
    at_s: float


@dataclass(slots=True)
class Listener:
    """What a subscriber with a persistent session heard, over all its connections."""

    heard: list[Heard] = field(default_factory=list)
    connected: asyncio.Event = field(default_factory=asyncio.Event)

    def payloads(self, part: str = "") -> list[bytes]:
        return [heard.payload for heard in self.heard if part in heard.topic]


@asynccontextmanager
async def listening(
    broker: Mosquitto, topic_filter: str, port: int = 0, name: str = "listener"
) -> AsyncIterator[Listener]:
    """Subscribe, and again after each loss, until the block ends. Two at a time need two names."""
    listener = Listener()

    async def listen() -> None:
        while True:
            with suppress(aiomqtt.MqttError):
                async with aiomqtt.Client(
                    broker.host, port or broker.port, identifier=name, clean_session=False, timeout=2
                ) as client:
                    await client.subscribe(topic_filter, qos=1)
                    listener.connected.set()
                    async for message in client.messages:
                        assert isinstance(message.payload, bytes)
                        now_s = time.monotonic()
                        heard = Heard(message.topic.value, message.payload, message.retain, now_s)
                        listener.heard.append(heard)
            listener.connected.clear()
            await asyncio.sleep(0.02)

    task = asyncio.create_task(listen())
    try:
        await asyncio.wait_for(listener.connected.wait(), START_S)
        yield listener
    finally:
        await ended(task)


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel it until it has ended: `asyncio.wait_for` of Python 3.11, in the MQTT library, can lose one."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)


async def until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    """Wait for a condition, or fail."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.005)


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Line:
    """A TCP line to the broker that can be made deaf: open, and carrying nothing (no RST, no FIN).

    It leads to `far_port` where the broker listens on another one, too. A kind of line says in `carriers`
    what carries its bytes; all that it opened is closed at its end.
    """

    def __init__(self, broker: Mosquitto, far_port: int = 0) -> None:
        self.port = 0
        self._far_port = far_port or broker.port
        self.open = asyncio.Event()
        self.open.set()
        self._broker = broker
        self._server: asyncio.Server
        self._lives: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await asyncio.sleep(0)  # what was accepted has begun to live
        while self._lives:
            self.cut()
            await asyncio.wait(self._lives)

    def cut(self) -> None:
        """Cut what is connected; who connects anew is served."""
        for life in self._lives:
            life.cancel()

    def carriers(
        self, near: Stream, far: Stream
    ) -> tuple[Coroutine[None, None, None], Coroutine[None, None, None]]:
        """What carries the bytes to the broker, and back from it."""
        return self._carry(near[0], far[1]), self._carry(far[0], near[1])

    async def _accept(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        life = asyncio.current_task()
        assert life is not None
        self._lives.add(life)
        opened, carriers = [near_out], list[asyncio.Task[None]]()
        try:
            await self.open.wait()
            with suppress(OSError):
                far, far_out = await asyncio.open_connection(self._broker.host, self._far_port)
                opened.append(far_out)
                carriers += map(asyncio.create_task, self.carriers((near, near_out), (far, far_out)))
                await asyncio.wait(carriers)
        except asyncio.CancelledError:
            pass  # it ends here, and asyncio's server takes a handler that was cancelled for a fault
        finally:
            for carrier in carriers:
                carrier.cancel()
            for writer in opened:
                writer.transport.abort()
            await asyncio.gather(*carriers, return_exceptions=True)
            self._lives.discard(life)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await reader.read(65536):
                    await self.open.wait()
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()
