"""`dollyd selftest`: a spin through the whole chain, and how long each part of it took."""

from __future__ import annotations

import asyncio

import typer

from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.terminal import say
from dollyd.daemon.selftest import selftest as stages

EXIT_FAILED = 1


def selftest(config: ConfigFile) -> None:
    """Play a shipped spin: driver, round, signature, journal, broker and back; exit 1 where a stage fails.

    Needs no device and may be run beside the daemon. Nothing of it is a record of the site.
    """
    if not asyncio.run(_played(config)):
        raise typer.Exit(EXIT_FAILED)


async def _played(config: ConfigFile) -> bool:
    """Print the stages as they end; whether all went well."""
    total_ms, good = 0.0, True
    async for stage in stages(config, SystemClock()):
        total_ms += stage.ms
        good = not stage.problem
        say(f"{_word(good)} {stage.name:20} {stage.ms:8.1f} ms  {stage.told}{stage.problem}")
    say(f"{_word(good)} {'all':20} {total_ms:8.1f} ms")
    return good


def _word(good: bool) -> str:
    return "good   " if good else "FAILED "
