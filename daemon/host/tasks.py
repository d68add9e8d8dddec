"""The tasks without which the daemon is not itself.

asyncio keeps weak references to tasks and tells nobody of one that ends: here each is held by name, and one
that ends before it may is a broken promise of ours, which ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from dollyd.wire.errors import InvariantError, ensure

BEAT_EVERY_S = 5
"""A duty that has nothing to do comes around so often all the same."""


class Pulse:
    """Shows the watchdog that a duty goes on: it beats each time that the duty has come around.

    At rest none is expected. So is a duty that waits for what may take any time, like a host that is away.
    """

    def __init__(self) -> None:
        self.beats = 0
        self.rests = False

    def beat(self) -> None:
        """Once more around, at work from now on."""
        self.beats += 1
        self.rests = False

    def rest(self) -> None:
        """Nothing is to be expected until the next beat."""
        self.rests = True

    async def news(self, event: asyncio.Event) -> None:
        """Wait for an event, but no longer than until the next beat is due; whether it came shows in it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BEAT_EVERY_S):
                await event.wait()
        self.beat()


class SupervisedTasks:
    """Tasks of one group, by name. `fail` is told of one that returned, or was cancelled by nobody.

    One that raises is the group's business.
    """

    def __init__(self, group: asyncio.TaskGroup, fail: Callable[[Exception], None]) -> None:
        self._group = group
        self._fail = fail
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._over = False

    def begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task that goes on until `end` or `end_all`."""
        ensure(name not in self._tasks, f"one task does the work of {name}")
        task = self._group.create_task(work, name=name)
        self._tasks[name] = task
        task.add_done_callback(partial(self._ended, name))

    async def end(self, *names: str) -> None:
        """Cancel some tasks and wait until they have ended; names that are unknown are left out."""
        tasks = {self._tasks.pop(name) for name in names if name in self._tasks}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def end_all(self, but: Container[str] = ()) -> None:
        """Cancel all, waiting for none; from now on those that are left may end by themselves."""
        self._over = True
        for name, task in self._tasks.items():
            if name not in but:
                task.cancel()

    @property
    def missing(self) -> list[str]:
        """Those that have ended and must not have."""
        return [] if self._over else [name for name, task in self._tasks.items() if task.done()]

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        raised = not task.cancelled() and task.exception() is not None
        if not (self._over or raised or task.cancelling()):
            self._fail(InvariantError(f"task {name} goes on until the stop, and has ended"))
