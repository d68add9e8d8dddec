"""Delays a start after short runs: 2 s, doubling to 60 s, without a limit on attempts.

systemd itself can do so from version 254 on; that of Debian 12 is 252, and waits `RestartSec` each time. We
wait for the rest, before anything is opened. Runs are counted in the service's runtime directory, which is
kept over a restart and goes at a stop. Who asks for a restart does not wait: a run that ends well counts as
none, and a pause ends when it is asked to.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from dollyd.daemon.host.logger import Logger

RESTART_S = 2
"""`RestartSec` of the unit: part of every pause."""
PAUSE_MAX_S = 60
SHORT_S = 300
"""A run that was shorter has come to nothing. A hang takes the watchdog up to two minutes."""
_DOUBLINGS_MAX = 10

_LOG = Logger(__name__)


class RestartPause:
    """Counts the runs before this one. Without a runtime directory nothing is counted, and no start waits."""

    def __init__(
        self, environ: Mapping[str, str] = os.environ, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        directory = environ.get("RUNTIME_DIRECTORY", "")
        self._file = Path(directory) / "restarts" if directory else None
        self._monotonic_s = monotonic_s

    def pause_s(self) -> float:
        """Count this run, and give how long to wait before it."""
        if self._file is None:
            return 0
        now_s = self._monotonic_s()
        short, began_s = self._read(self._file)
        short = min(short + 1, _DOUBLINGS_MAX) if now_s - began_s < SHORT_S else 0
        pause_s = min(PAUSE_MAX_S, RESTART_S << max(0, short - 1)) - RESTART_S
        try:
            self._file.write_text(f"{short} {now_s + pause_s}", "ascii")
        except OSError as error:
            _LOG.error("restarts_not_counted", file=str(self._file), detail=error.strerror)
        return pause_s

    def forget(self) -> None:
        """The run has ended well: it counts as none."""
        if self._file is not None:
            with suppress(OSError):  # then the next start waits, at worst
                self._file.unlink()

    def _read(self, file: Path) -> tuple[int, float]:
        """Short runs in a row before the last one, and when that began."""
        try:
            short, began_s = file.read_text("ascii").split()
            return int(short), float(began_s)
        except (OSError, ValueError):
            return 0, -SHORT_S


def asked_to_stop(within_s: float) -> bool:
    """Wait; whether SIGTERM or SIGINT came and cut it short, to whichever thread it was given."""
    heard, hears = socket.socketpair()
    hears.setblocking(False)
    handlers = {stop: signal.signal(stop, lambda *_: None) for stop in (signal.SIGTERM, signal.SIGINT)}
    before = signal.set_wakeup_fd(hears.fileno())
    try:
        _LOG.warning("start_waits", pause_s=within_s, why="the last runs were short")
        return bool(select.select([heard], [], [], within_s)[0])
    finally:
        signal.set_wakeup_fd(before)
        for stop, handler in handlers.items():
            signal.signal(stop, handler)
        heard.close()
        hears.close()
