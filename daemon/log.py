"""Logs of the daemon: one line an event on standard error, keys and values, for journald."""

from __future__ import annotations

import logging
import sys

import structlog

from dollyd.daemon.terminal import shown


def configure_logging(*, verbose: bool = False) -> None:
    """Set up structlog once, at the start of the process. Evidence is never only in logs."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["level", "event"], bool_as_flag=False),
            lambda _logger, _method, line: shown(line),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
