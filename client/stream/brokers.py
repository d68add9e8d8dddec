"""Where a client of several brokers is: one rule for all who have a list of them.

The same broker again first, the next one where it gives no link that lasts. A broker at which no node is
heard for a while is the wrong one, however well its link stands: the nodes speak at another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from dollyd.daemon.host.logger import Logger
from dollyd.daemon.link.mqtt import Cause, LinkError, MqttLink

PAUSE_FIRST_S = 0.2
PAUSE_MAX_S = 30.0
"""Pauses between links, doubled from the first to the longest, each shortened by up to half by chance."""
STEADY_S = 10.0
"""A link that lived so long ends the doubling."""
SHORT_LINKS = 3
"""After so many shorter ones in a row the next broker is tried."""
TICK_S = 0.1
"""Between two attempts to cancel a task that Python 3.11 did not end."""

_LOG = Logger(__name__)


class Brokers:
    """Of one client. `quiet_s`: for any node to be heard, before the next broker of several is tried."""

    def __init__(self, brokers: tuple[str, ...], quiet_s: float, rng: Random) -> None:
        self.fresh = False
        """Nobody was heard on the last link: the session that the broker kept may be dead."""
        self._brokers = brokers
        self._quiet_s = quiet_s
        self._rng = rng
        self._at = 0
        self._links = 0
        self._short = 0
        self._failures = 0
        self._told = ""
        self._began_s = self._heard_s = 0.0

    async def keep(self, use: Callable[[str], Awaitable[None]]) -> None:
        """Keep a link until cancelled, or closed. `use` connects to a broker, and raises the link's error."""
        while True:
            links = self._links
            for _ in self._brokers:
                broker = self._brokers[self._at]
                try:
                    await use(broker)
                except LinkError as error:
                    self._lost(broker, error)
                    if error.cause is Cause.LEFT:
                        return
                    if self._links > links:
                        self._ended(error.cause)
                        break
                self._at = (self._at + 1) % len(self._brokers)
            pause_s = min(PAUSE_MAX_S, PAUSE_FIRST_S * 2 ** min(self._failures, 30))
            self._failures += 1
            await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.0))

    def linked(self) -> None:
        """There is a link."""
        self._links += 1
        self._began_s = self._heard_s = time.monotonic()
        self.fresh = False

    def listens(self, broker: str, link: MqttLink) -> None:
        """It is subscribed; where nobody is heard at all, each new link is no news."""
        if self._told != Cause.SILENT:
            _LOG.info("broker_connected", broker=broker, session_present=link.session_present)

    def heard(self) -> None:
        """A message came. With one broker that is enough: then silence is only that of everybody."""
        self._told = ""
        if len(self._brokers) == 1:
            self._heard_s = time.monotonic()

    def look(self, *, online: bool) -> None:
        """Raise `LinkError` where no node was heard for too long; `online`: whether one is there now."""
        now_s = time.monotonic()
        if online and len(self._brokers) > 1:
            self._heard_s = now_s
        if now_s - self._heard_s > self._quiet_s:
            self._at = (self._at + 1) % len(self._brokers)
            self.fresh = True
            raise LinkError(Cause.SILENT, "no node is heard at this broker")

    def _lost(self, broker: str, error: LinkError) -> None:
        """Log the step from one trouble to another, not each retry."""
        if error.cause not in {Cause.LEFT, self._told}:
            self._told = error.cause
            _LOG.warning("broker_lost", broker=broker, **error.told)

    def _ended(self, cause: Cause) -> None:
        """A link that there was has ended."""
        if time.monotonic() - self._began_s > STEADY_S:
            self._failures = self._short = 0
        elif cause is not Cause.SILENT:
            self._short += 1
        if self._short >= SHORT_LINKS:
            self._short = 0
            self._at = (self._at + 1) % len(self._brokers)


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Do all until one fails, and raise what it raised; a `LinkError` last, for all see the same one.

    Not a TaskGroup: that of Python 3.11 can drop our own cancellation when a task of it fails meanwhile.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await _cancel(tasks)
    errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    raise min(errors, key=lambda error: isinstance(error, LinkError))


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: `asyncio.wait_for` of Python 3.11, in the library, can lose one."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=TICK_S)
