"""`dollyd wait-for-pause`: until no round is in play, which is when an upgrade restarts the daemon."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.doctor.case import BE_ROOT, Case, open_case
from dollyd.daemon.doctor.checks import check_start
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.machine import Host
from dollyd.daemon.host.terminal import say
from dollyd.daemon.journal.file import LOCK
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.journal.tail import Tail
from dollyd.wire.errors import ConfigError, JournalError
from dollyd.wire.files import Sight, look_for

EXIT_IN_PLAY = 1
SAID_BEFORE = (
    "a game that a wheel begins while dollyd restarts (some 2 s, at every upgrade) will be a `gap`: "
    "no bet on it counts. Tell the dealers of {tables}: no new game until the tables are ready again"
)
_LOOK_S = 0.05
"""Short beside the pause between two games of a wheel that plays by itself."""
_AT_REST_S = 60
"""Tables without a record for so long are not played at."""


def wait_for_pause(
    config: ConfigFile,
    timeout_s: Annotated[int, typer.Option("--timeout-s", min=0, help="Give up after this time.")] = 300,
) -> None:
    """Wait until no table has a round in play; exit 1 where one still has at the end of the time.

    Changes nothing: it reads the journal that the running daemon has open, whatever the configuration says
    now. Where tables play, it waits for the moment in which the last round ends, so that the whole pause is
    left; and it says first, for the dealers, that a game begun during the restart is a `gap`: no bet on it
    counts. A round that is recorded as unresolved is not in play, for a restart leaves it as it is. Exit 78
    and one line for a configuration with which a start would be refused.
    """
    case = open_case(config, Host(), SystemClock())
    settings = check_start(case)
    path = running_journal(case) or Path(settings.journal.path)
    seen = look_for(path)
    if seen is Sight.MISSING and not case.unit.runs:
        return  # nothing was ever played
    remedy = f"is it the journal of this configuration? If you are not dollyd's user, {BE_ROOT}"
    if seen is not Sight.THERE:
        problem = f"{path} is hidden from you, or is not the one in use"
        raise ConfigError(settings.file, "journal.path", problem, remedy)
    try:
        with closing(Journal.open(path, read_only=True)) as journal:
            if tables := tables_not_at_rest(journal):
                say(SAID_BEFORE.format(tables=", ".join(tables)))
            playing = _wait(journal, time.monotonic() + timeout_s)
    except JournalError as error:
        raise ConfigError(settings.file, "journal.path", str(error), remedy) from error
    if playing:
        say(f"after {timeout_s} s a round is still in play: {', '.join(playing)}")
        raise typer.Exit(EXIT_IN_PLAY)


def running_journal(case: Case) -> Path | None:
    """The journal of the service that runs, by the lock that it holds; None where none is to be seen."""
    open_files = f"/proc/{case.unit.told('MainPID')}/fd"
    for name in case.host.names(open_files) if case.unit.runs else ():
        try:
            held = str(case.host.path(f"{open_files}/{name}").readlink())
        except OSError:  # closed meanwhile
            continue
        if held.endswith(LOCK):
            return Path(held.removesuffix(LOCK))
    return None


def _wait(journal: Journal, deadline_s: float) -> list[str]:
    """Wait for the beginning of a pause, which is its best moment; the tables that play at the deadline."""
    was_in_play = False
    while True:
        playing, over = tables_in_play(journal), time.monotonic() >= deadline_s
        if over or (not playing and (was_in_play or not tables_not_at_rest(journal))):
            return playing
        was_in_play = was_in_play or bool(playing)
        time.sleep(_LOOK_S)


def tables_not_at_rest(journal: Journal) -> list[str]:
    """The tables that are played at: those with a record of the last minute, or with a round in play."""
    # By the wall clock, for the last record may be of another boot. Where that was set, the worst is a long
    # wait, or a pause that is taken at its end instead of its beginning.
    tails = {table: journal.tail(table) for table in _tables(journal)}
    since_s = time.time() - _AT_REST_S
    return [
        name
        for name, tail in tails.items()
        if tail and (_in_play(tail) or datetime.fromisoformat(tail.last_utc).timestamp() >= since_s)
    ]


def tables_in_play(journal: Journal) -> list[str]:
    """The tables whose last round has neither a final record nor one that says it is unresolved."""
    tails = {table: journal.tail(table) for table in _tables(journal)}
    return [name for name, tail in tails.items() if tail and _in_play(tail)]


def _in_play(tail: Tail) -> bool:
    return tail.open_round is not None and not tail.unresolved


def _tables(journal: Journal) -> list[str]:
    """All that were ever played, for those that the configuration has lost are played until the restart."""
    return sorted({table for table, _ in journal.chains()})
