"""The clocks of the host: monotonic for durations, UTC for people, and how good UTC is."""

from __future__ import annotations

import asyncio
import ctypes
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dollyd.wire.stamp import NS_PER_S, Stamp

_TIME_ERROR = 5
"""Return of ntp_adjtime(3) where the clock is not synchronised."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Whether UTC is synchronised, and the largest error vouched for in microseconds (-1: not known)."""

    synchronised: bool
    error_bound_us: int


class Clock(Protocol):
    """What the shell may know of time. Tests hand in a virtual one."""

    boot: str

    def stamp(self) -> Stamp:
        """Both clocks, read together."""
        ...

    def quality(self) -> Quality:
        """How good UTC is now."""
        ...

    async def sleep_until(self, mono_ns: int) -> None:
        """Wait until the monotonic clock shows `mono_ns`."""
        ...


class SystemClock:
    """The kernel's clocks. Where the monotonic one goes back (broken hypervisor), ours goes on from there."""

    def __init__(self) -> None:
        self.boot = _boot_id()
        self.went_back = 0
        """How often the kernel's monotonic clock went back."""
        self._last_mono_ns = 0
        self._lost_ns = 0

    def stamp(self) -> Stamp:
        """Both clocks, read together."""
        mono_ns = time.monotonic_ns() + self._lost_ns
        if mono_ns < self._last_mono_ns:
            # Held for a moment, not until the kernel's has caught up: that would stop the table.
            self.went_back += 1
            self._lost_ns += self._last_mono_ns - mono_ns
            mono_ns = self._last_mono_ns
        self._last_mono_ns = mono_ns
        return Stamp(mono_ns, time.time_ns())

    def quality(self) -> Quality:
        """What the kernel says of its synchronisation."""
        return _kernel_quality()

    async def sleep_until(self, mono_ns: int) -> None:
        """Wait until the monotonic clock shows `mono_ns`."""
        await asyncio.sleep(max(0, mono_ns - self.stamp().mono_ns) / NS_PER_S)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "unknown"


class _Timex(ctypes.Structure):
    """Head of `struct timex` (adjtimex(2)), the rest as padding."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def _kernel_quality() -> Quality:
    timex = _Timex()  # modes = 0: read only
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        return Quality(synchronised=False, error_bound_us=-1)
    if state < 0 or state == _TIME_ERROR:
        return Quality(synchronised=False, error_bound_us=-1)
    return Quality(synchronised=True, error_bound_us=int(timex.maxerror))
