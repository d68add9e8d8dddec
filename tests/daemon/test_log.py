"""The log decides about nothing: whatever becomes of its lines, the daemon goes on (case N1)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.support.daemon import Installation

from dollyd.daemon.host.log import LINES_MAX, LogWriter, _OfLibraries

MakeLog: TypeAlias = Callable[..., LogWriter]
WAIT_S = 60
"""No bound on anything: a test that waits so long has failed."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


@pytest.fixture
def log_to() -> Iterator[MakeLog]:
    """Makes writers to descriptors, and ends their threads."""
    made: list[LogWriter] = []

    def log(descriptor: int, lines_max: int = LINES_MAX) -> LogWriter:
        made.append(LogWriter(descriptor, lines_max))
        return made[-1]

    yield log
    for writer in made:
        writer.close()


def read_lines(descriptor: int, last: str) -> list[str]:
    """Lines up to one that holds `last`."""
    data = b""
    while not (data.endswith(b"\n") and last in data.decode().splitlines()[-1]):
        data += os.read(descriptor, 1 << 16)
    return data.decode().splitlines()


def test_lines_come_out_in_order(pipe: tuple[int, int], log_to: MakeLog) -> None:
    writer = log_to(pipe[1])
    for number in range(100):
        writer.write(f"line {number}")
    assert writer.flush(WAIT_S)
    assert read_lines(pipe[0], "line 99") == [f"line {number}" for number in range(100)]
    assert writer.dropped == 0


def test_n1_a_full_disk_drops_and_counts(log_to: MakeLog) -> None:
    with Path("/dev/full").open("wb") as full:
        writer = log_to(full.fileno())
        for _ in range(5):
            writer.write("lost")
        assert writer.flush(WAIT_S)
        assert writer.dropped == 5


def test_n1_a_reader_that_is_gone_drops_and_counts(pipe: tuple[int, int], log_to: MakeLog) -> None:
    os.close(pipe[0])
    writer = log_to(pipe[1])
    writer.write("lost")
    assert writer.flush(WAIT_S)
    assert writer.dropped == 1


@pytest.mark.parametrize("blocking", [True, False])
def test_n1_a_reader_that_stalls_holds_nobody_up_and_is_told_of_later(
    pipe: tuple[int, int], log_to: MakeLog, blocking: bool
) -> None:
    os.set_blocking(pipe[1], blocking)
    writer = log_to(pipe[1], 10)
    many = 3000
    for number in range(many):
        writer.write(f"{number} " + "x" * 1000)
    assert writer.dropped > 0
    lines: list[str] = []
    unfinished = b""
    while sum("log_lines" not in line for line in lines) < many - writer.dropped:
        *whole, unfinished = (unfinished + os.read(pipe[0], 1 << 16)).split(b"\n")
        lines += [line.decode() for line in whole]
    told = [line for line in lines if "log_lines_dropped" in line]
    assert sum(int(line.split("lines=")[1].split()[0]) for line in told) == writer.dropped
    assert f"total={writer.dropped}" in told[-1]


def test_what_libraries_log_is_one_line_of_ours(pipe: tuple[int, int], log_to: MakeLog) -> None:
    writer = log_to(pipe[1])
    record = logging.LogRecord("asyncio", logging.ERROR, "f", 1, "lost\n\x1b[2J", None, None)
    _OfLibraries(writer).emit(record)
    (line,) = read_lines(pipe[0], "lost")
    assert line.startswith("level=error event=library")
    assert line.isprintable()


# --- every command that logs ---------------------------------------------------------------------


@asynccontextmanager
async def deaf_broker() -> AsyncIterator[tuple[str, asyncio.Semaphore]]:
    """An address where every connection is closed at once; each is a trouble that is logged."""
    tried, loop = asyncio.Semaphore(0), asyncio.get_running_loop()

    def refuse() -> None:
        connection, _ = listening.accept()
        connection.close()
        tried.release()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        loop.add_reader(listening, refuse)
        host, port = listening.getsockname()
        try:
            yield f"{host}:{port}", tried
        finally:
            loop.remove_reader(listening)


def run(where: Installation, _broker: str) -> list[str]:
    return ["run", "--config", str(where.config)]


def archive(where: Installation, broker: str) -> list[str]:
    store = ["--database", str(where.directory / "archive.db")]
    return ["archive", "--broker", broker, "--site", "house", "--keys", str(where.jwks), *store]


def witness(where: Installation, broker: str) -> list[str]:
    own = ["--name", "w1", "--key", str(where.directory / "signing.pem"), "--state", str(where.directory)]
    return ["witness", "--broker", broker, "--site", "house", "--keys", str(where.jwks), *own]


COMMANDS = (run, archive, witness)


def nowhere(folder: Path, how: str) -> int:
    """A standard error that takes nothing."""
    if how == "full":
        return os.open("/dev/full", os.O_WRONLY)
    reader, writer = os.pipe()
    if how == "gone":
        os.close(reader)
        return writer
    (folder / "reader").write_text(str(reader))
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    return writer


@pytest.mark.parametrize("how", ["full", "gone", "stalled"])
@pytest.mark.parametrize("command", COMMANDS)
async def test_n1_a_log_that_takes_nothing_neither_ends_nor_stalls_a_service(
    tmp_path: Path, command: Callable[[Installation, str], list[str]], how: str
) -> None:
    async with deaf_broker() as (broker, tried):
        where = Installation(tmp_path, broker)
        descriptor = nowhere(tmp_path, how)
        words = ["-m", "dollyd.daemon", *command(where, broker)]
        service = await asyncio.create_subprocess_exec(
            sys.executable, *words, stderr=descriptor, stdout=subprocess.DEVNULL
        )
        os.close(descriptor)
        try:
            for _ in range(3):  # it logs after each, and tries again
                await asyncio.wait_for(tried.acquire(), WAIT_S)
            assert service.returncode is None
            service.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(service.wait(), WAIT_S) == 0
        finally:
            with suppress(ProcessLookupError):
                service.kill()
            await service.wait()
            with suppress(OSError):
                os.close(int((tmp_path / "reader").read_text()))


def test_the_queue_holds_a_burst() -> None:
    assert LINES_MAX >= 100
