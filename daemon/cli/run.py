"""`dollyd run`: the daemon itself."""

from __future__ import annotations

import asyncio
from typing import Annotated

import structlog
import typer

from dollyd.daemon.app import App
from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.errors import DollydError
from dollyd.daemon.log import configure_logging
from dollyd.daemon.settings import load

EXIT_FAILED = 1
"""A promise could not be kept; systemd starts the daemon again."""


def run(
    config: ConfigFile,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more.")] = False,
) -> None:
    """Run the daemon until SIGTERM or SIGINT."""
    configure_logging(verbose=verbose)
    app = App(load(config))
    try:
        asyncio.run(app.run())
    except BaseExceptionGroup as group:
        expected, bugs = group.split(DollydError)
        for error in expected.exceptions if expected else ():
            structlog.get_logger().critical("stopped_by_failure", error=str(error))
        if bugs:
            raise bugs from None  # with its traceback: it is ours to mend
        raise typer.Exit(EXIT_FAILED) from None
