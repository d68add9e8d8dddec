"""One blocking call in a thread of its own, for drivers in the kernel that take their time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from dollyd.wire.errors import TransportError

T = TypeVar("T")


class Aside(Generic[T]):
    """Begins at once. Whoever loses patience leaves, and the call goes on until the kernel lets it end.

    `too_late` gets a result for which nobody waits any more. The interpreter does not wait for the thread.
    """

    def __init__(self, call: Callable[[], T], too_late: Callable[[T], object] | None = None) -> None:
        self._call = call
        self._too_late = too_late
        self._loop = asyncio.get_running_loop()
        self._result: asyncio.Future[T] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._thread = self._begin(self._run)

    async def result(self, within_s: float) -> T:
        """What the call gives. Raises what it raises, and `TransportError` (`hung`) after the time."""
        try:
            async with asyncio.timeout(within_s):
                return await self._result
        except TimeoutError:
            self._leave()
            raise TransportError("hung") from None
        except asyncio.CancelledError:
            self._leave()
            raise

    async def ended(self, within_s: float) -> bool:
        """Wait for the end, however it ends; False after the time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._ended.wait()
        return self._ended.is_set()

    def wait(self, within_s: float) -> None:
        """Hold up the event loop for the end, for a moment."""
        self._thread.join(within_s)

    # What follows runs in a thread.

    def _run(self) -> None:
        try:
            result = self._call()
        except Exception as error:  # noqa: BLE001  whoever awaits the result gets it
            self._post(self._failed, error)
        else:
            self._post(self._done, result)

    def _give_back(self, result: T) -> None:
        with contextlib.suppress(Exception):  # boundary of the device: nobody waits to hear how it ended
            if self._too_late is not None:
                self._too_late(result)
        self._post(self._ended.set)

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(callback, *args)

    # What follows is called in the event loop.

    def _begin(self, target: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, name="aside", daemon=True)
        thread.start()
        return thread

    def _leave(self) -> None:
        """Nobody waits any more; the result may have come in this very moment."""
        if self._result.done() and not self._result.cancelled() and self._result.exception() is None:
            self._ended.clear()
            self._begin(self._give_back, self._result.result())

    def _done(self, result: T) -> None:
        if self._result.done():  # whoever waited was cancelled, or has lost patience
            self._begin(self._give_back, result)
        else:
            self._result.set_result(result)
            self._ended.set()

    def _failed(self, error: Exception) -> None:
        if not self._result.done():
            self._result.set_exception(error)
        self._ended.set()
