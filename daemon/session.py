"""One device: a transport that comes and goes, a framing, and what they say to the table.

    transport --bytes--> framing --frames--> sink        calls, in the event loop, nothing queued
                   '--lost--> backoff --> open again

Device trouble is counted, told to the sink and survived. An exception of the sink is our bug: it ends `run`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol

import structlog

from dollyd.daemon.clock import Clock
from dollyd.daemon.core.stamp import NS_PER_MS, NS_PER_S
from dollyd.daemon.errors import TransportError
from dollyd.drivers.framing import AnyFrame, FrameDecoder

_FIRST_BACKOFF_MS = 50
_LONGEST_BACKOFF_MS = 1000
"""A replugged device must be ready within 2 s: this wait, the open, and one status period of 0.5 s."""
_NOISE_BYTES = 16_384
_NOISE_BYTES_PER_S = 8192
"""Endless garbage: more than this rate, until `_NOISE_BYTES` are exceeded (1 s of a full 230,400 Bd line)."""
_LOG_AGAIN_NS = 60 * NS_PER_S
"""A loose plug comes and goes many times a second: each of its states is logged at most once in this time."""


class Transport(Protocol):
    """Bytes to and from a device. All calls belong to the event loop."""

    async def open(self, on_data: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Connect. Neither callback is called before this returned; `on_lost` once, when already closed.

        Raises `TransportError`, whose text is the cause in one word.
        """
        ...

    def write(self, data: bytes) -> bool:
        """Send soon; False where nothing was taken. Calls back nobody."""
        ...

    def close(self) -> None:
        """Close at once, without a callback. Never raises, may be called again."""
        ...

    def overruns(self) -> int:
        """Losses of received bytes since open that the host knows of."""
        ...

    def explain(self, cause: str) -> str:
        """What else is known of a failed open, for people."""
        ...


class Sink(Protocol):
    """Whom a device session tells. An exception from here ends the session's `run`."""

    def opened(self) -> None:
        """A connection begins; nothing heard before belongs to it."""
        ...

    def received(self, frames: list[AnyFrame]) -> bool:
        """Frames came. True where at least one was valid for the protocol."""
        ...

    def lost(self, cause: str) -> None:
        """The connection ended; once for every `opened`."""
        ...


class Backoff:
    """Waits between attempts: doubling from 50 ms to 1 s, each shortened by chance by up to a half."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._ceiling_ms = _FIRST_BACKOFF_MS

    def next_ns(self) -> int:
        """The next wait."""
        wait_ms = self._ceiling_ms * self._random.uniform(0.5, 1.0)
        self._ceiling_ms = min(2 * self._ceiling_ms, _LONGEST_BACKOFF_MS)
        return int(wait_ms * NS_PER_MS)

    def reset(self) -> None:
        """Begin with the shortest wait again."""
        self._ceiling_ms = _FIRST_BACKOFF_MS


class NoiseGuard:
    """A leaky bucket of bytes that made no valid frame."""

    def __init__(self) -> None:
        self._level_bytes = 0.0
        self._at_ns = 0

    def reset(self) -> None:
        """A valid frame came, or a connection begins."""
        self._level_bytes = 0.0

    def too_much(self, count: int, mono_ns: int) -> bool:
        """Whether `count` more bytes of garbage are one too many."""
        leaked = _NOISE_BYTES_PER_S * max(0, mono_ns - self._at_ns) / NS_PER_S
        self._level_bytes = max(0.0, self._level_bytes - leaked) + count
        self._at_ns = mono_ns
        return self._level_bytes > _NOISE_BYTES


class DeviceSession:
    """Keeps one device connected for as long as `run` runs.

    `cause`: why the device was last lost or could not be opened; empty once a valid frame came.
    `counters`: for the health topic, e.g. `opens`, `bytes`, `lost.eof`, `failed.busy`, `sends_dropped`.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        framing: FrameDecoder,
        sink: Sink,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self.cause = ""
        self.counters: Counter[str] = Counter()
        self._transport = transport
        self._framing = framing
        self._sink = sink
        self._clock = clock
        self._backoff = Backoff(random)
        self._noise = NoiseGuard()
        self._log = structlog.get_logger().bind(device=name)
        self._logged = ("", "")
        self._logged_ns: dict[tuple[str, str], int] = {}
        self._open = False
        self._overruns = 0
        self._ended = asyncio.Event()
        self._waiting: asyncio.Future[None] | None = None
        self._bug: Exception | None = None

    async def run(self) -> None:
        """Connect, stay, reconnect, until cancelled. Raises what the sink raised.

        Being cancelled is no lost device: it closes the port and tells the sink nothing.
        """
        try:
            while True:
                await self._connection()
                await self._pause()
        finally:
            self.leave()

    def wake(self) -> None:
        """Something was plugged in: a wait for the next attempt ends now, and the waits begin short again."""
        if self._waiting is not None:
            self._backoff.reset()
            self._waiting.cancel()

    def send(self, data: bytes) -> None:
        """Send to the device; counted and dropped where it is not connected or does not read."""
        taken = self._open and self._transport.write(data)
        self.counters["sends" if taken else "sends_dropped"] += 1

    def leave(self) -> None:
        """Close at once and tell the sink nothing: the session is at its end, `run` is to be cancelled."""
        self._open = False
        self._transport.close()

    def drop(self, cause: str) -> None:
        """Close and connect anew after the backoff; tells the sink before it returns."""
        if self._open:
            self._transport.close()
            self._leave(cause)

    async def _connection(self) -> None:
        """One attempt, and if it succeeds the time until the connection is lost."""
        self._ended.clear()
        try:
            await self._transport.open(self._on_data, self._on_lost)
        except TransportError as error:
            self.counters[f"failed.{error}"] += 1
            self._note("device_unreachable", str(error))
            return
        self.counters["opens"] += 1
        self._framing.reset()
        self._noise.reset()
        self._overruns = 0
        self._open = True
        self._sink.opened()
        await self._ended.wait()
        if self._bug is not None:
            raise self._bug

    async def _pause(self) -> None:
        """Wait for the next attempt, or until `wake`."""
        due_ns = self._clock.stamp().mono_ns + self._backoff.next_ns()
        self._waiting = asyncio.ensure_future(self._clock.sleep_until(due_ns))
        try:
            await asyncio.wait({self._waiting})
        finally:
            self._waiting.cancel()
            self._waiting = None

    def _on_data(self, data: bytes) -> None:
        try:
            self._take(data)
        except Exception as error:  # noqa: BLE001  callback of the loop, which would only log it: run() raises it
            self._stop_for(error)

    def _on_lost(self, cause: str) -> None:
        try:
            self._leave(cause)
        except Exception as error:  # noqa: BLE001  as above
            self._stop_for(error)

    def _stop_for(self, bug: Exception) -> None:
        self._bug = bug
        self._transport.close()
        self._ended.set()

    def _take(self, data: bytes) -> None:
        self.counters["bytes"] += len(data)
        overruns = self._transport.overruns()
        if overruns > self._overruns:
            self._declare_loss(overruns)
            return
        frames = self._framing.feed(data)
        valid = bool(frames) and self._sink.received(frames)
        if not self._open:  # the sink dropped it: a wrong device must not be reopened at full speed
            return
        if valid:
            self._recovered()
        elif self._noise.too_much(len(data), self._clock.stamp().mono_ns):
            self.drop("noise")

    def _declare_loss(self, overruns: int) -> None:
        """Bytes are missing somewhere in this chunk: what came before and what follows do not join."""
        self.counters["overruns"] += overruns - self._overruns
        self._overruns = overruns
        self._framing.reset()
        self._sink.lost("overrun")
        self._sink.opened()

    def _recovered(self) -> None:
        self._backoff.reset()
        self._noise.reset()
        self._note("device_heard", "")

    def _leave(self, cause: str) -> None:
        self._open = False
        self._ended.set()
        self.counters[f"lost.{cause}"] += 1
        self._note("device_lost", cause)
        self._sink.lost(cause)

    def _note(self, event: str, cause: str) -> None:
        """Keep the cause and log a change; one held back is made up for at a later call, if still so."""
        self.cause = cause
        state = (event, cause)
        if state == self._logged:
            return
        now_ns = self._clock.stamp().mono_ns
        if state in self._logged_ns and now_ns - self._logged_ns[state] < _LOG_AGAIN_NS:
            return
        self._logged = state
        self._logged_ns[state] = now_ns
        if cause:
            self._log.warning(event, cause=cause, detail=self._transport.explain(cause))
        else:
            self._log.info(event)
