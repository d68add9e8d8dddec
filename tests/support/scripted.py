"""A device session on a scripted transport in virtual time, and a table that keeps what it is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from dollyd.daemon.table.session import DeviceSession
from dollyd.drivers.framing import AnyFrame, Frame, LineDecoder
from dollyd.simulators.clock import VirtualClock
from dollyd.wire.errors import TransportError
from dollyd.wire.stamp import NS_PER_MS

GOOD = b"*X;1;100;17;0\r\n"


class Table:
    """A sink that takes lines beginning with a star for valid, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.frames: list[AnyFrame] = []
        self.on_frames: Callable[[], None] = lambda: None

    def opened(self) -> None:
        self.told.append("opened")

    def received(self, frames: list[AnyFrame]) -> bool:
        self.frames += frames
        self.on_frames()
        return any(isinstance(frame, Frame) and frame.raw.startswith(b"*") for frame in frames)

    def lost(self, cause: str) -> None:
        self.told.append(f"lost {cause}")


class Script:
    """A transport whose opens go as written: a cause of failure, or None for success. The last one stays."""

    def __init__(self, *opens: str | None) -> None:
        self.opens = list(opens)
        self.on_open: Callable[[], None] = lambda: None
        self.asked_at_ns: list[int] = []
        self.sent: list[bytes] = []
        self.reads = True
        self.holds: list[bool] = []
        self.lost_count = 0
        self.set_otherwise = False
        self.is_open = False
        self.clock = VirtualClock()

    async def open(self, on_data: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        self.asked_at_ns.append(self.clock.stamp().mono_ns)
        cause = self.opens.pop(0) if len(self.opens) > 1 else self.opens[0]
        if cause is not None:
            raise TransportError(cause)
        self.is_open = True
        self.data, self.end = on_data, on_lost
        asyncio.get_running_loop().call_soon(self.on_open)

    def lose(self, cause: str = "eof") -> None:
        self.is_open = False
        self.end(cause)

    def write(self, data: bytes) -> bool:
        self.sent += [data] if self.reads else []
        return self.reads

    def close(self) -> None:
        self.is_open = False

    def hold(self, *, held: bool) -> None:
        self.holds.append(held)

    def overruns(self) -> int:
        return self.lost_count

    def altered(self) -> bool:
        return self.set_otherwise

    def explain(self, cause: str) -> str:
        return f"about {cause}"

    def waits_ms(self) -> list[float]:
        pairs = zip(self.asked_at_ns, self.asked_at_ns[1:], strict=False)
        return [(later - earlier) / NS_PER_MS for earlier, later in pairs]


@asynccontextmanager
async def running(session: DeviceSession) -> AsyncIterator[None]:
    task = asyncio.create_task(session.run())
    try:
        yield
    finally:
        started = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is not None
        assert time.monotonic() - started < 5


def scripted(table: Table, script: Script) -> DeviceSession:
    return DeviceSession("wheel", script, LineDecoder(), table, clock=script.clock, random=Random(1))
