"""A device on a pseudo-terminal, reached by a link that outlives replugging, as udev makes them."""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

DEADLINE_S = 30.0


class PtyPair:
    """The master is the device's end; `port` is the link that a configuration would name."""

    def __init__(self, port: Path) -> None:
        self.port = port
        self.master: int | None = None
        self.plug()

    def plug(self) -> None:
        """A new node under the same link; an old one stays as it is."""
        self.master, slave = os.openpty()
        tty.setraw(slave)
        node = os.ttyname(slave)
        os.close(slave)
        os.set_blocking(self.master, False)
        fresh = self.port.with_suffix(".new")
        fresh.symlink_to(node)
        fresh.replace(self.port)

    def unplug(self) -> None:
        """The node vanishes, and the link with it."""
        if self.master is not None:
            os.close(self.master)
            self.master = None
            self.port.unlink()

    def send(self, data: bytes) -> int:
        """What the device says; the number of bytes that the line took."""
        assert self.master is not None
        return os.write(self.master, data)

    def received(self) -> bytes:
        """What has reached the device until now."""
        assert self.master is not None
        data = bytearray()
        while True:
            try:
                data += os.read(self.master, 65_536)
            except BlockingIOError:
                return bytes(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unplug()


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that other tasks bring about."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110  what is waited for knows no event
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"not within {DEADLINE_S} s: {what}") from None
