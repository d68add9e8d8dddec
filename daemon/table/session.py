"""One device: a transport that comes and goes, a framing, and what they say to the table.

    transport --bytes--> framing --frames--> sink        calls, in the event loop, nothing queued
                   '--lost--> backoff --> open again

Device trouble is counted, told to the sink and survived, whatever it is: an exception of any type that comes
out of a transport, or of the library behind it, is trouble of the device. An exception of the sink is our
bug: it ends `run`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from dollyd.daemon.core.budget import FORGIVEN_MS, PAUSE_MAX_MS, PAUSE_MS
from dollyd.daemon.core.state import HOST_STALLED, TOO_FAST
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.stall import OLD_MS, STALL_MS
from dollyd.drivers.framing import AnyFrame, FrameDecoder
from dollyd.drivers.transports.ports import DRIVER_ERROR, SETTINGS_CHANGED
from dollyd.wire.errors import InvariantError, TransportError
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

T = TypeVar("T")

_FIRST_BACKOFF_MS = 50
_LONGEST_BACKOFF_MS = 1000
"""A replugged device must be ready within 2 s: this wait, the open, and one status period of 0.5 s."""
_NOISE_BYTES = 16_384
_NOISE_BYTES_PER_S = 8192
"""Endless garbage: more than this rate, until `_NOISE_BYTES` are exceeded (1 s of a full 230,400 Bd line)."""
_PENALISED = frozenset({TOO_FAST, DRIVER_ERROR})
"""Causes after which a device is left alone for longer each time, also where it is plugged in anew."""
_LONGEST_PATIENCE_NS = 60 * NS_PER_S
OPEN_S = 30.0
"""An attempt to connect that is not over by then hangs: it is left, and another begins after the pause."""
_LOOK_NS = 2 * NS_PER_S
"""How often an open line is looked at; in between it is before what comes is believed."""
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

    def altered(self) -> bool:
        """Whether another program has set the line otherwise than `open` did."""
        ...

    def explain(self, cause: str) -> str:
        """What else is known of a failed open or a loss, for people."""
        ...

    def hold(self, *, held: bool) -> None:
        """Read nothing until told otherwise; a new connection reads."""
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

    def __init__(
        self, random: Random, first_ms: int = _FIRST_BACKOFF_MS, longest_ms: int = _LONGEST_BACKOFF_MS
    ) -> None:
        self._random = random
        self._first_ms, self._longest_ms = first_ms, longest_ms
        self._ceiling_ms = first_ms

    def next_ns(self) -> int:
        """The next wait."""
        wait_ms = self._ceiling_ms * self._random.uniform(0.5, 1.0)
        self._ceiling_ms = min(2 * self._ceiling_ms, self._longest_ms)
        return int(wait_ms * NS_PER_MS)

    def reset(self) -> None:
        """Begin with the shortest wait again."""
        self._ceiling_ms = self._first_ms


class Penalty:
    """Much longer waits, for a device that would cost others something: from 10 s to 5 minutes."""

    def __init__(self, random: Random) -> None:
        self._backoff = Backoff(random, PAUSE_MS, PAUSE_MAX_MS)
        self._last_ns = 0

    def next_ns(self, mono_ns: int) -> int:
        """The next wait. A device that did well for long enough begins again with the shortest."""
        if mono_ns - self._last_ns > FORGIVEN_MS * NS_PER_MS:
            self._backoff.reset()
        self._last_ns = mono_ns
        return self._backoff.next_ns()


class Patience:
    """How long a connection may be without a valid frame; doubles with each that was ended for it.

    `first_ms` is 0 for a device whose silence means nothing: then no connection is ended.
    """

    def __init__(self, first_ms: int) -> None:
        self._first_ns = first_ms * NS_PER_MS
        self.limit_ns = self._first_ns

    def grow(self) -> None:
        """It was too long, and may be again: a device that is switched off is not opened without end."""
        self.limit_ns = min(2 * self.limit_ns, max(self._first_ns, _LONGEST_PATIENCE_NS))

    def reset(self) -> None:
        """A valid frame came."""
        self.limit_ns = self._first_ns


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
    `counters`: for the health topic, e.g. `opens`, `bytes`, `lost.eof`, `failed.busy`, `sends_dropped`;
    `heard_bytes`: what `bytes` was when the last valid frame came.
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
        look: Callable[[], None] = lambda: None,
        held: bool = False,
        patience_ms: int = 0,
        table: str = "",
    ) -> None:
        """`look` is called before anything is read: see `StallWatch`. `held`: as after `hold`.

        `patience_ms`: see `Patience`. `table`: whose device it is, for the log.
        """
        self.cause = ""
        self.counters: Counter[str] = Counter()
        self._transport = transport
        self._framing = framing
        self._sink = sink
        self._clock = clock
        self._backoff = Backoff(random)
        self._penalty = Penalty(random)
        self._look = look
        self._held = held
        self._held_ns = clock.stamp().mono_ns
        self._old_until_ns = 0
        self._noise = NoiseGuard()
        self._log = Logger(__name__).bind(**{"table": table} if table else {}, device=name)
        self._logged = ("", "")
        self._logged_ns: dict[tuple[str, str], int] = {}
        self._open = False
        self._overruns = 0
        self._ended = asyncio.Event()
        self._patience = Patience(patience_ms)
        self._heard_ns = 0
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
        if self._waiting is not None and self.cause not in _PENALISED:
            self._backoff.reset()
            self._waiting.cancel()

    def send(self, data: bytes) -> None:
        """Send to the device; counted and dropped where it is not connected or does not read."""
        taken = self._open and bool(self._ask(lambda: self._transport.write(data)))
        self.counters["sends" if taken else "sends_dropped"] += 1

    def leave(self) -> None:
        """Close at once and tell the sink nothing: the session is at its end, `run` is to be cancelled."""
        self._open = False
        self._close()

    def drop(self, cause: str) -> None:
        """Close and connect anew after the backoff; tells the sink before it returns."""
        if self._open:
            self._close()
            self._leave(cause)

    def stalled(self) -> None:
        """The host stood still: what waits to be read is old and left out, and a new session begins."""
        if self._open:
            self._old_until_ns = self._clock.stamp().mono_ns + OLD_MS * NS_PER_MS
            self._begin_anew(HOST_STALLED)

    def hold(self, *, held: bool) -> None:
        """Do not read the device until told otherwise. What waited for too long meanwhile is old."""
        if held == self._held:
            return
        now_ns = self._clock.stamp().mono_ns
        waited_ms = (now_ns - self._held_ns) // NS_PER_MS
        self._held, self._held_ns = held, now_ns
        if not self._open:
            return
        if not held and waited_ms >= STALL_MS:
            self.counters["held"] += 1
            self.stalled()
        self._ask(lambda: self._transport.hold(held=held))

    async def _connection(self) -> None:
        """One attempt, and if it succeeds the time until the connection is lost."""
        self._ended.clear()
        try:
            await self._opened()
        except InvariantError:
            raise
        except Exception as error:  # noqa: BLE001  boundary of the device: a library may raise anything
            cause = self._cause_of(error)
            self.counters[f"failed.{cause}"] += 1
            self._note("device_unreachable", cause)
            return
        self.counters["opens"] += 1
        self._framing.reset()
        self._noise.reset()
        self._overruns = 0
        self._open = True
        self._sink.opened()
        if self._held:
            self._ask(lambda: self._transport.hold(held=True))
        self._heard_ns = self._clock.stamp().mono_ns
        await self._until_ended()
        if self._bug is not None:
            raise self._bug

    async def _opened(self) -> None:
        bound = asyncio.timeout(OPEN_S)
        try:
            async with bound:
                await self._transport.open(self._on_data, self._on_lost)
        except TimeoutError:
            if not bound.expired():
                raise
            self._close()
            raise TransportError("hung") from None

    async def _until_ended(self) -> None:
        """Until the connection is lost. One that is dead but not closed is ended by its silence.

        So is one whose settings another program has changed.
        """
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            while not self._ended.is_set():
                now_ns = self._clock.stamp().mono_ns
                look_ns = now_ns + _LOOK_NS
                if self._held:  # nothing is read: the silence is ours
                    self._heard_ns = now_ns
                elif not self._as_set():
                    break
                if limit_ns := self._patience.limit_ns:
                    due_ns = self._heard_ns + limit_ns
                    if now_ns >= due_ns:
                        self._patience.grow()
                        self.drop("silent")
                        continue
                    look_ns = min(look_ns, due_ns)
                asleep = asyncio.ensure_future(self._clock.sleep_until(look_ns))
                try:
                    await asyncio.wait({ended, asleep}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    asleep.cancel()
            await ended
        finally:
            ended.cancel()

    async def _pause(self) -> None:
        """Wait for the next attempt, or until `wake`."""
        now_ns = self._clock.stamp().mono_ns
        penalised = self.cause in _PENALISED
        due_ns = now_ns + (self._penalty.next_ns(now_ns) if penalised else self._backoff.next_ns())
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
        self._close()
        self._ended.set()

    def _take(self, data: bytes) -> None:
        self._look()
        self.counters["bytes"] += len(data)
        if not self._as_set():
            return
        if self._clock.stamp().mono_ns < self._old_until_ns:
            self.counters["old_bytes"] += len(data)
            return
        overruns = self._ask(self._transport.overruns)
        if overruns is None:
            return
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
        self._begin_anew("overrun")

    def _begin_anew(self, cause: str) -> None:
        """What was heard and what will be do not join; the port stays open."""
        self._framing.reset()
        self._sink.lost(cause)
        self._sink.opened()

    def _as_set(self) -> bool:
        """Whether the line is set as we set it; else it is lost, and what came is not believed."""
        if self._ask(self._transport.altered):
            self.drop(SETTINGS_CHANGED)
        return self._open

    # --- the boundary of the device ------------------------------------------------------------------

    def _ask(self, call: Callable[[], T]) -> T | None:
        """What the transport answers; None where it raises anything: the device is lost by that."""
        try:
            return call()
        except Exception as error:  # noqa: BLE001  boundary of the device: a library may raise anything
            self.drop(self._cause_of(error))
            return None

    def _cause_of(self, error: Exception) -> str:
        """One word for an exception; one that no transport names is logged in full, with its type."""
        if isinstance(error, TransportError):
            return str(error)
        if self.cause != DRIVER_ERROR:
            self._log.error("driver_error", error=f"{type(error).__name__}: {error}", exc_info=error)
        return DRIVER_ERROR

    def _close(self) -> None:
        try:
            self._transport.close()
        except Exception as error:  # noqa: BLE001  boundary of the device: it is left in any case
            self._cause_of(error)

    def _explain(self, cause: str) -> str:
        try:
            return self._transport.explain(cause)
        except Exception as error:  # noqa: BLE001  boundary of the device: people are told less
            return f"{type(error).__name__}: {error}"

    def _recovered(self) -> None:
        self._heard_ns = self._clock.stamp().mono_ns
        self.counters["heard_bytes"] = self.counters["bytes"]
        self._patience.reset()
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
            self._log.warning(event, cause=cause, detail=self._explain(cause))
        else:
            self._log.info(event)
