"""`python -m dollyd.simulators.demo`: a roulette table at work, with proof; with --all every game.

Simulated devices, the real daemon, a broker and a subscriber play for half a minute. The exit code is 0 only
if everything was really seen that `checks.EXPECTATIONS` or `pit_checks.EXPECTATIONS` lists.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from enum import StrEnum
from typing import Annotated

import typer

from dollyd.simulators.demo.broker import NoBrokerError, choose

EXIT_MISSING = 1


class BrokerName(StrEnum):
    """Brokers that can be asked for."""

    MOSQUITTO = "mosquitto"
    EMBEDDED = "embedded"


def demo(
    broker: Annotated[BrokerName | None, typer.Option(help="Mosquitto where it is installed.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed plays the same numbers.")] = 1,
    every: Annotated[bool, typer.Option("--all", help="A table of every game instead.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep journal, keys and logs.")] = False,
) -> None:
    """See a roulette table at work: results, a void, a pulled cable, a dead broker, and the proof."""
    if importlib.util.find_spec("joserfc") is None:
        print("the demo checks signatures with joserfc: pip install joserfc", file=sys.stderr)
        raise typer.Exit(EXIT_MISSING)
    from dollyd.simulators.demo import performance  # noqa: PLC0415  needs joserfc

    try:
        chosen = choose(broker)
    except NoBrokerError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(EXIT_MISSING) from error
    show = performance.every_game if every else performance.one_table
    raise typer.Exit(asyncio.run(performance.perform(show, chosen, seed=seed, keep=keep)))


if __name__ == "__main__":
    typer.run(demo)
