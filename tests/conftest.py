"""What every test is held to: it ends the tasks, threads and processes that it began.

A test that leaves one behind fails at its teardown, whatever it asserted. Tests that want other random
numbers in each run take the fixture `seed`; a failed one prints it, and `--seed N` plays it again.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
import threading
from collections.abc import AsyncIterator, Iterator, Mapping

import psutil
import pytest

END_S = 2.0
"""How long a thread that was told to end may take to do so."""
EXECUTOR = "asyncio_"
"""Threads of a loop's default executor are so called; pytest-asyncio ends them with the loop, after us."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="play a failed test again with the seed that it printed")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A fresh seed; pytest shows the line only where the test fails."""
    given: int | None = request.config.getoption("--seed")
    value = secrets.randbits(32) if given is None else given
    print(f"seed {value}; the same again: pytest --seed {value} '{request.node.nodeid}'")  # noqa: T201  pytest's to show
    return value


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test after which a task, a thread or a child process is still there."""
    threads, children = set(threading.enumerate()), _children()
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("no_task_left")  # only there a loop is running
    yield
    left = [f"thread {t.name!r}" for t in set(threading.enumerate()) - threads if _lives_on(t)]
    left += [f"process {_describe(child)}" for child in _children() - children]
    if left:
        pytest.fail(f"left behind: {', '.join(left)}", pytrace=False)


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Fail an asynchronous test after which, its fixtures being torn down, tasks or connections are there."""
    yield
    await asyncio.sleep(0)  # what was cancelled as the last deed of the test may end now
    transports: Mapping[int, asyncio.Transport] = getattr(asyncio.get_running_loop(), "_transports", {})
    connections = [transport for transport in transports.values() if not transport.is_closing()]
    for connection in connections:
        connection.abort()
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        names = ", ".join(f"{task.get_name()!r} in {task.get_coro()}" for task in tasks)
        pytest.fail(f"left behind: task {names}", pytrace=False)
    if connections:
        pytest.fail(f"left behind: {', '.join(map(repr, connections))}", pytrace=False)


def _lives_on(thread: threading.Thread) -> bool:
    if thread.name.startswith(EXECUTOR):
        return False
    thread.join(END_S)
    return thread.is_alive()


def _children() -> set[psutil.Process]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()  # the common case, without a look at all processes of the machine
    return set(psutil.Process().children(recursive=True))


def _describe(child: psutil.Process) -> str:
    try:
        return f"{child.pid} ({child.status()}: {' '.join(child.cmdline()) or child.name()})"
    except psutil.Error:
        return str(child.pid)
