"""`dollyd discover`: what is plugged in, and the sections of a configuration for it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer

from dollyd.daemon.discovery.report import configuration, discover, lines
from dollyd.daemon.host.machine import Host
from dollyd.daemon.host.terminal import say, say_json


def discover_command(
    json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """List serial ports and known USB devices, who is behind them, and print configuration for them.

    Listens for some seconds at ports that nobody holds. Only a device that speaks a known language is asked
    who it is; generators are never opened.
    """
    found = asyncio.run(discover(Host()))
    if json:
        tree = {**msgspec.to_builtins(found), "configuration": "\n".join(configuration(found)).strip()}
        say_json(tree)
        return
    say(*lines(found))
    say(*configuration(found))
