"""`dollyd wait-for-pause`: until no round is in play, which is when an upgrade restarts the daemon."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.errors import ConfigError, JournalError
from dollyd.daemon.journal import Journal
from dollyd.daemon.settings import load

EXIT_IN_PLAY = 1
_LOOK_S = 0.05
"""Short beside the pause between two games of a wheel that plays by itself."""


def wait_for_pause(
    config: ConfigFile,
    timeout_s: Annotated[int, typer.Option("--timeout-s", min=0, help="Give up after this time.")] = 300,
) -> None:
    """Wait until no table has a round in play; exit 1 where one still has at the end of the time.

    Changes nothing: it reads the journal of the running daemon. A round that is recorded as unresolved is not
    in play, for a restart leaves it as it is.
    """
    settings = load(config)
    path = Path(settings.journal.path)
    if not path.exists():
        return  # nothing was ever played
    deadline = time.monotonic() + timeout_s
    try:
        with closing(Journal.open(path, read_only=True)) as journal:
            while playing := tables_in_play(journal, settings.tables):
                if time.monotonic() >= deadline:
                    print(f"after {timeout_s} s a round is still in play: {', '.join(playing)}")
                    raise typer.Exit(EXIT_IN_PLAY)
                time.sleep(_LOOK_S)
    except JournalError as error:
        remedy = "is it the journal of this configuration, and may this user read it?"
        raise ConfigError(settings.file, "journal.path", str(error), remedy) from error


def tables_in_play(journal: Journal, tables: Iterable[str]) -> list[str]:
    """The tables whose last round has neither a final record nor one that says it is unresolved."""
    tails = {table: journal.tail(table) for table in tables}
    return [
        name for name, tail in tails.items() if tail and tail.open_round is not None and not tail.unresolved
    ]
