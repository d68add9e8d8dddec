"""Who logs: structlog where the program has set it up, else Python's `logging`.

A program that uses `dollyd.client` decides what becomes of its lines. structlog, as long as nobody has set it
up, would print them to standard output, among what the program itself has to say.
"""

from __future__ import annotations

import logging
from typing import Any

import structlog

_AS_TEXT = structlog.processors.LogfmtRenderer(key_order=["event"], drop_missing=True, bool_as_flag=False)


class Logger:
    """Takes events with their keys and values; which way they go is decided at each event."""

    def __init__(self, name: str, **bound: Any) -> None:
        self._name = name
        self._bound = bound

    def bind(self, **more: Any) -> Logger:
        """The same with more keys and values in each event."""
        return Logger(self._name, **{**self._bound, **more})

    def debug(self, event: str, **values: Any) -> None:
        """What helps to find a fault."""
        self._log("debug", event, values)

    def info(self, event: str, **values: Any) -> None:
        """What happens."""
        self._log("info", event, values)

    def warning(self, event: str, **values: Any) -> None:
        """What may need somebody."""
        self._log("warning", event, values)

    def error(self, event: str, **values: Any) -> None:
        """What needs somebody."""
        self._log("error", event, values)

    def critical(self, event: str, **values: Any) -> None:
        """What ends the process."""
        self._log("critical", event, values)

    def _log(self, level: str, event: str, values: dict[str, Any]) -> None:
        told = {**self._bound, **values}
        if structlog.is_configured():
            getattr(structlog.get_logger(self._name), level)(event, **told)
            return
        log, number = logging.getLogger(self._name), logging.getLevelNamesMapping()[level.upper()]
        if log.isEnabledFor(number):
            trouble = told.pop("exc_info", None)
            log.log(number, "%s", _AS_TEXT(None, level, {"event": event, **told}), exc_info=trouble)
