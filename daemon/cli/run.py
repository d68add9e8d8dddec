"""`dollyd run`: the daemon itself."""

from __future__ import annotations

import asyncio
import faulthandler
from typing import Annotated

import typer

from dollyd.daemon.app import App
from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.host.forced_exit import ForcedExit
from dollyd.daemon.host.log import configure_logging
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.restart_pause import RestartPause, asked_to_stop
from dollyd.daemon.settings.load import load
from dollyd.wire.errors import DollydError

EXIT_FAILED = 1
"""A promise could not be kept; systemd starts the daemon again."""


def run(
    config: ConfigFile,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more.")] = False,
) -> None:
    """Run the daemon until SIGTERM or SIGINT."""
    configure_logging(verbose=verbose)
    faulthandler.enable()  # where everything hangs the watchdog sends SIGABRT: say where it hung
    forced_exit = ForcedExit(lambda: 0 if app.finished else EXIT_FAILED)
    settings, restart_pause = load(config), RestartPause()
    if (pause_s := restart_pause.pause_s()) and asked_to_stop(pause_s):
        restart_pause.forget()
        return
    app = App(settings, on_end=forced_exit.arm)
    try:
        asyncio.run(app.run())
        restart_pause.forget()
    except BaseExceptionGroup as group:
        expected, bugs = group.split(DollydError)
        for error in expected.exceptions if expected else ():
            Logger(__name__).critical("stopped_by_failure", error=str(error))
        if bugs:
            raise bugs from None  # with its traceback: it is ours to mend
        raise typer.Exit(EXIT_FAILED) from None
