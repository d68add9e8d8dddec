"""`dollyd replay`: what the rules say of a capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dollyd.client.proof.evidence import is_evidence
from dollyd.client.proof.sources import SourceError
from dollyd.daemon.evidence.rederive import Derived, rederive_evidence, rederive_journal
from dollyd.daemon.host.terminal import say, say_json
from dollyd.daemon.settings.load import load, shipped_table
from dollyd.daemon.table.capture import Attempt, CaptureError, engine_of, replay_plain
from dollyd.wire.errors import ConfigError
from dollyd.wire.jws import EnvelopeError

EXIT_UNPROVEN = 4
"""Derived as far as it goes without the keys shared with devices."""


def replay(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help='Lines {"t","dir","line"}, a journal or an evidence file.'),
    ],
    driver: Annotated[str, typer.Option("--driver", help="The driver that reads the lines.")] = "cammegh-ss2",
    game: Annotated[str, typer.Option("--game", help="The game at the table.")] = "roulette",
    variant: Annotated[str, typer.Option("--variant", help="The variant of the game.")] = "C",
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="F", help="The configuration of the tables: of a journal."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a game attempt.")] = False,
) -> None:
    """Run driver and round over a capture in virtual time; print the verdict of each game attempt.

    Of a journal (with --config) or an evidence file, derive every decision from its raw frames again. Exit 0:
    all are the same. 1: one differs. 4: the same, but what a key shared with a device proves was not checked,
    for that is in no evidence file: give --config.
    """
    try:
        evidence = is_evidence(file)
    except OSError as error:
        raise ConfigError(str(file), "", error.strerror or str(error), "give a readable file") from error
    if evidence or config is not None:
        tables = load(config).tables if config else None
        derived = rederive_evidence(file, tables) if evidence else rederive_journal(file, tables or {})
        _tell(file, derived, as_json=as_json)
        return
    engine = engine_of(shipped_table(game, variant, driver))
    try:
        lines = file.open("rb")
    except OSError as error:
        raise ConfigError(str(file), "", error.strerror or str(error), "give a readable capture") from error
    try:
        with lines:
            for attempt in replay_plain(engine, driver, lines):
                if as_json:
                    say_json(asdict(attempt))
                else:
                    say(_as_text(attempt))
    except CaptureError as error:
        say(f"{file}: {error}", to_stderr=True)
        raise typer.Exit(1) from error


def _tell(file: Path, decisions: Iterable[Derived], *, as_json: bool) -> None:
    counts: Counter[bool] = Counter()
    unproven: Counter[str] = Counter()
    try:
        for derived in decisions:
            unproven.update(f"{derived.table}.{device}" for device in derived.unproven)
            counts[not derived.why] += 1
            if as_json:
                say_json(asdict(derived))
            elif derived.why:
                say(f"table {derived.table}, seq {derived.seq}, round {derived.round}: {derived.why}")
    except (SourceError, EnvelopeError) as error:
        say(f"{file}: {error}", to_stderr=True)
        raise typer.Exit(1) from error
    if not as_json:
        say(f"{file}: {counts[True]} decisions derived byte for byte, {counts[False]} not")
        if unproven:
            devices = ", ".join(unproven)
            say(f"not checked: the proofs of {devices}: the key is in no evidence file; give --config")
    if counts[False]:
        raise typer.Exit(1)
    if unproven:
        raise typer.Exit(EXIT_UNPROVEN)


def _as_text(attempt: Attempt) -> str:
    what = attempt.pocket if attempt.pocket is not None else attempt.reason
    return f"{attempt.t:10.3f} s  game {attempt.game}  {attempt.verdict:<10}  {what}"
