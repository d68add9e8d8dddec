"""The display output of a wheel: the number alone on its line, once a game, and nothing else ever.

    display: ` 7` CR LF      `17` CR LF

It looks at the games of a simulated wheel, which it belongs to or stands beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dollyd.simulators.faults import Switchboard
from dollyd.simulators.tlp_wheel import PlayedSpin
from dollyd.wire.stamp import NS_PER_MS


@dataclass(frozen=True, slots=True)
class NumberDisplayOptions:
    """It looks at its wheel every `period_ms`."""

    period_ms: int = 500


class NumberDisplay:
    """The model. It shows what falls from now on; a game without a number shows nothing."""

    def __init__(self, options: NumberDisplayOptions, now_ns: int, spins: Sequence[PlayedSpin]) -> None:
        self.faults = Switchboard("number-display")
        self._period_ns = options.period_ms * NS_PER_MS
        self._spins = spins
        self._shown = len(spins)
        self._tick_ns: int | None = now_ns

    def power_on(self, now_ns: int) -> None:
        """What fell meanwhile is not shown."""
        if self._tick_ns is None:
            self._tick_ns, self._shown = now_ns, len(self._spins)

    def power_off(self, now_ns: int) -> None:  # noqa: ARG002 - every model has the same face
        """Dark."""
        self._tick_ns = None

    def due_ns(self) -> int | None:
        """When it next looks, or None without power."""
        return self._tick_ns

    def advance(self, now_ns: int) -> bytes:
        """The numbers that fell up to `now_ns`."""
        if self._tick_ns is None or now_ns < self._tick_ns:
            return b""
        self._tick_ns = now_ns + self._period_ns
        fallen = [spin.number for spin in self._spins[self._shown :] if spin.number is not None]
        self._shown = len(self._spins)
        return b"".join(f"{number:>2}\r\n".encode("ascii") for number in fallen)

    def command(self, data: bytes, now_ns: int) -> bytes:  # noqa: ARG002 - every model has the same face
        """It does not listen."""
        return b""
