"""One simulated device at a pseudo-terminal, as the command line runs it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from dollyd.daemon.host.clock import SystemClock
from dollyd.simulators.control import Bench, PortError
from dollyd.simulators.kinds import KINDS
from dollyd.simulators.line import Line
from dollyd.simulators.pty import PtyLink

LinkPath = Annotated[Path, typer.Option("--link", help="Name of the port to make, e.g. /tmp/wheel.")]
PeriodMs = Annotated[
    int, typer.Option("--period-ms", min=5, help="Status period; less than 500 is a faster device.")
]
FaultNames = Annotated[
    list[str] | None, typer.Option("--fault", help="A fault from the start, see `faults`; may be repeated.")
]
Seed = Annotated[int, typer.Option(help="The same seed plays the same games.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what really happened, one JSON object a line.")]
Games = Annotated[int | None, typer.Option(min=1, help="End after so many games.")]
_RESULT = 5


def run_single(
    kind: str,
    options: Mapping[str, Any],
    link: Path,
    seed: int,
    faults: list[str] | None,
    *,
    as_json: bool = False,
    games: int | None = None,
) -> None:
    """Run one device until an order, a signal or the end of its games. Bad options are typer's to tell."""
    asyncio.run(_run(kind, options, link, seed, faults or [], as_json=as_json, games=games))


def print_json(value: Mapping[str, Any]) -> None:
    """One object, one line, at once."""
    print(json.dumps(value), flush=True)


async def _run(
    kind: str,
    options: Mapping[str, Any],
    path: Path,
    seed: int,
    faults: list[str],
    *,
    as_json: bool,
    games: int | None,
) -> None:
    clock = SystemClock()
    try:
        built = KINDS[kind].build(options, Random(seed), clock.stamp().mono_ns, {})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    # A line with dice of its own, so that its faults do not change the games of a seed.
    line = Line(Random(f"line {seed}"), binary=built.binary)
    bench = Bench(built.model, line, PtyLink(path), clock, built.orders)
    told = 0

    def observe() -> None:
        nonlocal told
        truth = built.truth()
        for happened in truth[told:]:
            told += 1
            if as_json:
                print_json(asdict(happened))
        if games is not None and told >= games and built.state() != _RESULT:
            bench.done.set()

    bench.device.observe = observe
    try:
        for name in faults:
            bench.obey(f"fault {name}")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--fault") from error
    try:
        await bench.run()
    except PortError as error:
        raise typer.BadParameter(f"cannot make the port: {error}", param_hint="--link") from error
