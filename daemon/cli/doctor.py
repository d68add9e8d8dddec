"""`dollyd doctor`: what is wrong with this machine, and what to do about it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.doctor.case import Case, Finding, Severity, open_case
from dollyd.daemon.doctor.checks import findings
from dollyd.daemon.doctor.examination import examine
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.machine import Host
from dollyd.daemon.host.terminal import say, say_json

EXIT_FAULT = 1


def doctor(
    config: ConfigFile,
    json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Look for what is known to go wrong around a table; a line of remedy each, exit 1 for a fault.

    Changes nothing and may be run beside the daemon. Free ports are listened to for some seconds; of those
    that the daemon holds, what it publishes is taken. Without root it sees less, and finds what it sees.
    """
    case = asyncio.run(_examined(config))
    found = findings(case)
    if json:
        say_json({"findings": found, "heard": case.heard})
    else:
        for one in found:
            say(*in_two_lines(one))
        faults = sum(one.severity is Severity.FAULT for one in found)
        if case.settings is None:
            say("the configuration cannot be used: ports, journal, keys and brokers were not looked at")
        say(f"{faults} faults, {len(found) - faults} warnings")
    if any(one.severity is Severity.FAULT for one in found):
        raise typer.Exit(EXIT_FAULT)


def in_two_lines(finding: Finding) -> tuple[str, str]:
    """What is wrong, and below it what to do."""
    return f"{finding.severity:8} {finding.id}: {finding.what}", f"{'':8} -> {finding.remedy}"


async def _examined(config: ConfigFile) -> Case:
    return await examine(open_case(config, Host(), SystemClock()))
