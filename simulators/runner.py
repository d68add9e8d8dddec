"""Drives a model over a link on a clock: real time for people, virtual time for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from dollyd.daemon.host.clock import Clock
from dollyd.simulators.line import Line


class Model(Protocol):
    """A device without I/O; all times are monotonic nanoseconds."""

    def due_ns(self) -> int | None:
        """When it next wants to act, or None."""
        ...

    def advance(self, now_ns: int) -> bytes:
        """Live up to `now_ns`; the bytes sent on the way."""
        ...

    def command(self, data: bytes, now_ns: int) -> bytes:
        """Host bytes, possibly partial; the replies."""
        ...


class Link(Protocol):
    """Where the bytes go and come from."""

    on_data: Callable[[bytes], None]

    def write(self, data: bytes) -> None:
        """Send to the host, without waiting."""
        ...


class Device:
    """A model at the end of a line. `wake` it after changing the model from outside (power, faults)."""

    def __init__(self, model: Model, link: Link, clock: Clock, line: Line) -> None:
        self._model = model
        self._link = link
        self._clock = clock
        self._line = line
        self._awake = asyncio.Event()
        self.observe: Callable[[], None] = lambda: None
        """Called after the model moved and before its bytes leave, so that a truth is known first."""
        link.on_data = self._heard

    def wake(self) -> None:
        """Look at the model again now."""
        self._awake.set()

    async def run(self) -> None:
        """Live until cancelled."""
        try:
            while True:
                self._awake.clear()
                self._step()
                await woken_or_due(self._awake, self._clock, self._due_ns())
        finally:
            self._link.on_data = lambda _: None

    def _heard(self, data: bytes) -> None:
        now_ns = self._clock.stamp().mono_ns
        self._line.heard(data, now_ns)
        self._step()
        self._send(self._model.command(data, now_ns), now_ns)
        self.wake()

    def _step(self) -> None:
        now_ns = self._clock.stamp().mono_ns
        sent = self._model.advance(now_ns)
        self.observe()
        self._send(sent, now_ns)

    def _send(self, data: bytes, now_ns: int) -> None:
        if data:
            self._line.send(data, now_ns)
        for chunk in self._line.advance(now_ns):
            self._link.write(chunk)

    def _due_ns(self) -> int | None:
        times = [time for time in (self._model.due_ns(), self._line.due_ns()) if time is not None]
        return min(times, default=None)


async def woken_or_due(awake: asyncio.Event, clock: Clock, due_ns: int | None) -> None:
    """Wait for the event, or until a monotonic time where one is given."""
    waits: list[asyncio.Task[object]] = [asyncio.create_task(awake.wait())]
    if due_ns is not None:
        waits.append(asyncio.create_task(clock.sleep_until(due_ns)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def run_device(model: Model, link: Link, clock: Clock, line: Line) -> None:
    """Drive one device until cancelled."""
    await Device(model, link, clock, line).run()
