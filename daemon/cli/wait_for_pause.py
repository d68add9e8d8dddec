"""`dollyd wait-for-pause`: until no round is in play, which is when an upgrade restarts the daemon."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
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
_AT_REST_S = 60
"""Tables without a record for so long are not played at."""


def wait_for_pause(
    config: ConfigFile,
    timeout_s: Annotated[int, typer.Option("--timeout-s", min=0, help="Give up after this time.")] = 300,
) -> None:
    """Wait until no table has a round in play; exit 1 where one still has at the end of the time.

    Changes nothing: it reads the journal of the running daemon. Where tables play, it waits for the moment in
    which the last round ends, so that the whole pause is left. A round that is recorded as unresolved is not
    in play, for a restart leaves it as it is.
    """
    settings = load(config)
    path = Path(settings.journal.path)
    if not path.exists():
        return  # nothing was ever played
    try:
        with closing(Journal.open(path, read_only=True)) as journal:
            playing = _wait(journal, settings.tables, time.monotonic() + timeout_s)
    except JournalError as error:
        remedy = "is it the journal of this configuration, and may this user read it?"
        raise ConfigError(settings.file, "journal.path", str(error), remedy) from error
    if playing:
        print(f"after {timeout_s} s a round is still in play: {', '.join(playing)}")
        raise typer.Exit(EXIT_IN_PLAY)


def _wait(journal: Journal, tables: Iterable[str], deadline_s: float) -> list[str]:
    """Wait for the beginning of a pause, which is its best moment; the tables that play at the deadline."""
    was_in_play = False
    while True:
        playing, over = tables_in_play(journal, tables), time.monotonic() >= deadline_s
        if over or (not playing and (was_in_play or _are_at_rest(journal, tables))):
            return playing
        was_in_play = was_in_play or bool(playing)
        time.sleep(_LOOK_S)


def _are_at_rest(journal: Journal, tables: Iterable[str]) -> bool:
    tails = filter(None, map(journal.tail, tables))
    return all(time.time() - datetime.fromisoformat(tail.last_utc).timestamp() > _AT_REST_S for tail in tails)


def tables_in_play(journal: Journal, tables: Iterable[str]) -> list[str]:
    """The tables whose last round has neither a final record nor one that says it is unresolved."""
    tails = {table: journal.tail(table) for table in tables}
    return [
        name for name, tail in tails.items() if tail and tail.open_round is not None and not tail.unresolved
    ]
