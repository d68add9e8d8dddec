"""Logs: one line an event on standard error, keys and values, for journald. Evidence is never only in logs.

Where the lines go may be full, slow or gone. That must not hold up or end anything: a line is put into a
bounded queue, and a thread writes it. What cannot be written is dropped and counted.
"""

from __future__ import annotations

import atexit
import logging
import os
import select
import threading
from collections import deque

import structlog
from structlog.typing import Processor

from dollyd.daemon.host.terminal import shown

LINES_MAX = 1000
"""Lines that wait for a reader that stalls; what is logged beyond them is dropped."""
FLUSH_S = 0.5
"""How long the end of the process waits for the last lines."""

_STANDARD_ERROR = 2
_STALLED_S = 1.0


class LogWriter:
    """Takes lines from any thread, writes them to a file descriptor in a thread of its own.

    `write` never waits and never raises. When lines go again, one of them says how many were dropped.
    """

    def __init__(self, descriptor: int, lines_max: int = LINES_MAX) -> None:
        self.dropped = 0
        """Lines that were not written, since the start."""
        self._descriptor = descriptor
        self._lines_max = lines_max
        self._lines: deque[str] = deque()
        self._changed = threading.Condition()
        self._writing = False
        self._told = 0
        """Dropped lines of which a line has told."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Take a line, or count that it was dropped."""
        with self._changed:
            if len(self._lines) >= self._lines_max:
                self.dropped += 1
                return
            self._lines.append(line)
            self._changed.notify_all()

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until all lines are written or dropped; whether they are within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._writing, timeout_s)

    def close(self) -> None:
        """Write what waits, and end the thread: for a descriptor that goes on taking lines."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines or self._closing)
                if not self._lines:
                    return
                line = self._lines.popleft()
                self._writing = True
            self._put(line)

    def _put(self, line: str) -> None:
        try:
            self._write(line)
            if lost := self.dropped - self._told:
                self._write(f"level=warning event=log_lines_dropped lines={lost} total={self._told + lost}")
                self._told += lost
        except OSError:  # a full disk, a reader or a terminal that is gone
            with self._changed:
                self.dropped += 1

    def _write(self, line: str) -> None:
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # somebody made it non-blocking
                select.select([], [self._descriptor], [], _STALLED_S)


_writers: list[LogWriter] = []


def configure_logging(*, verbose: bool = False) -> None:
    """Set up structlog once, at the start of the process."""
    if not _writers:
        _writers.append(LogWriter(_STANDARD_ERROR))
        atexit.register(flush_log)
    logging.basicConfig(level=logging.WARNING, handlers=[_OfLibraries(_writers[0])], force=True)
    structlog.configure(
        processors=processors(with_time=os.isatty(_STANDARD_ERROR)),
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.INFO),
        logger_factory=lambda *_: _Logger(_writers[0]),
        cache_logger_on_first_use=True,
    )


def processors(*, with_time: bool) -> list[Processor]:
    """What makes an event one printable line; `with_time` where nobody else notes the time of lines."""
    return [
        structlog.contextvars.merge_contextvars,
        *([structlog.processors.TimeStamper("%H:%M:%S", utc=False, key="time")] if with_time else []),
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        structlog.processors.LogfmtRenderer(
            key_order=["time", "level", "event"], drop_missing=True, bool_as_flag=False
        ),
        lambda _logger, _method, line: shown(line),
    ]


def lines_dropped() -> int:
    """Lines of the log that could not be written since the start."""
    return sum(writer.dropped for writer in _writers)


def flush_log() -> None:
    """Wait a little for the last lines, before the process is ended."""
    for writer in _writers:
        writer.flush()


class _OfLibraries(logging.Handler):
    """What asyncio and other libraries log, one line an event as ours."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        self._writer.write(
            shown(f"level={record.levelname.lower()} event=library text={self.format(record)!r}")
        )


class _Logger:
    """What structlog hands finished lines to."""

    def __init__(self, writer: LogWriter) -> None:
        self.msg = self.debug = self.info = self.warning = self.error = self.critical = writer.write
