"""A long run that somebody ends takes along what it has started."""

from __future__ import annotations

import signal
from types import FrameType


def end_by_signals() -> None:
    """Have SIGTERM and SIGHUP end this program as Ctrl-C does: what was begun is left in order."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.strsignal(number))
