"""`dollyd replay`: what the rules say of a capture."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dollyd.daemon.errors import ConfigError
from dollyd.daemon.replay import Attempt, CaptureError, engine_of, replay_plain
from dollyd.daemon.settings import shipped_table


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help='JSON Lines {"t","dir","line"}.')],
    driver: Annotated[str, typer.Option("--driver", help="The driver that reads the lines.")] = "cammegh-ss2",
    game: Annotated[str, typer.Option("--game", help="The game at the table.")] = "roulette",
    variant: Annotated[str, typer.Option("--variant", help="The variant of the game.")] = "C",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a game attempt.")] = False,
) -> None:
    """Run driver and round over a capture in virtual time; print the verdict of each game attempt."""
    engine = engine_of(shipped_table(game, variant, driver))
    try:
        lines = file.open("rb")
    except OSError as error:
        raise ConfigError(str(file), "", error.strerror or str(error), "give a readable capture") from error
    try:
        with lines:
            for attempt in replay_plain(engine, driver, lines):
                print(json.dumps(asdict(attempt)) if as_json else _as_text(attempt))
    except CaptureError as error:
        print(f"{file}: {error}", file=sys.stderr)
        raise typer.Exit(1) from error


def _as_text(attempt: Attempt) -> str:
    what = attempt.pocket if attempt.pocket is not None else attempt.reason
    return f"{attempt.t:10.3f} s  game {attempt.game}  {attempt.verdict:<10}  {what}"
