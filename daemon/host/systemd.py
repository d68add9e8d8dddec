"""What systemd is told of the daemon, and how it finds that we hang: sd_notify(3), sd_watchdog_enabled(3).

Our own lines, for the protocol is one datagram: `sdnotify` has had no release since 2017, and the bindings of
libsystemd must be compiled on the table.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.tasks import Pulse
from dollyd.wire.stamp import NS_PER_S

LATE_S = 60
"""A duty that has not come around for so long hangs: slow disks and brokers have shorter limits."""
_SIGNS_PER_LIMIT = 3
_NS_PER_US = 1_000

_LOG = Logger(__name__)


class Manager:
    """The service manager that started us. Without one, everything is said to nobody."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):  # a socket without a file: Linux writes its name behind a NUL
            self._address = "\0" + self._address[1:]
        self._status = ""
        self._deaf = False

    def ready(self) -> None:
        """We are at work, for the first time or after `reloading`."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """Another configuration is being read; to be followed by `ready`, whatever came of it."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // _NS_PER_US}")

    def stopping(self) -> None:
        """The end has begun."""
        self._tell("STOPPING=1")

    def alive(self) -> None:
        """Everything that must go on goes on."""
        self._tell("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for `systemctl status`; told when it changes."""
        if text != self._status:
            self._status = text
            self._tell(f"STATUS={text}")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
                line.setblocking(False)
                line.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if not self._deaf:
                _LOG.error("service_manager_deaf", detail=error.strerror or str(error))
            self._deaf = True
        else:
            self._deaf = False


def watchdog_us(environ: Mapping[str, str] = os.environ, pid: int | None = None) -> int:
    """How often, in microseconds, the manager wants a sign of life of this process at least; 0: never."""
    wanted = environ.get("WATCHDOG_USEC", "")
    meant = environ.get("WATCHDOG_PID", "")
    if not wanted.isdecimal() or (meant and meant != str(pid or os.getpid())):
        return 0
    return int(wanted)


class Heart(Protocol):
    """A part with a thread of its own, which shows that it goes on by answering. See `Writer`."""

    @property
    def answered(self) -> int:
        """The newest number that it has answered."""
        ...

    def ask(self) -> int:
        """Ask once more; gives the number to be answered."""
        ...


class Watchdog:
    """Tells the manager three times within its limit that we are alive, but only while it is so.

    That is: the event loop runs this, `heart` has answered since the last time, `missing` names no task, and
    each of the `pulses`, by duty, has beaten within twice the limit, or within `LATE_S` if that is longer.
    No shortest period: the limit is the manager's to choose. Devices and brokers are not asked, for their
    death is no reason to end.
    """

    def __init__(
        self,
        limit_us: int,
        manager: Manager,
        clock: Clock,
        heart: Heart,
        missing: Callable[[], list[str]],
        pulses: Mapping[str, Pulse],
    ) -> None:
        self._period_ns = limit_us * _NS_PER_US // _SIGNS_PER_LIMIT
        self._manager = manager
        self._clock = clock
        self._heart = heart
        self._missing = missing
        self._pulses = pulses
        self._rounds_max = max(2 * _SIGNS_PER_LIMIT, -(-LATE_S * NS_PER_S // self._period_ns))
        self._seen: dict[str, tuple[int, int]] = {}  # by duty: its beats, and our rounds since the last one
        self._stuck = ""

    async def run(self) -> None:
        """Until cancelled; to be begun when we are ready, which is when the manager begins to count."""
        while True:
            asked = self._heart.ask()
            await self._clock.sleep_until(self._clock.stamp().mono_ns + self._period_ns)
            stuck = ", ".join(self._missing() + self._late()) or (
                "writer" if self._heart.answered < asked else ""
            )
            if not stuck:
                self._manager.alive()
            elif stuck != self._stuck:
                _LOG.error("watchdog_not_fed", stuck=stuck)
            self._stuck = stuck

    def _late(self) -> list[str]:
        """SupervisedTasks that have not come around for too long.

        Counted in rounds of our own, not in time: after a sleep of the machine all are late alike.
        """
        for name, pulse in self._pulses.items():
            beats, rounds = self._seen.get(name, (-1, 0))
            goes_on = pulse.rests or pulse.beats != beats
            self._seen[name] = (pulse.beats, 0 if goes_on else rounds + 1)
        return [name for name, (_, rounds) in self._seen.items() if rounds >= self._rounds_max]
