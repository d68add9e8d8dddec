"""`dollyd export`: an evidence file, or a copy of the journal, while the daemon runs."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dollyd.client.tar import TarError
from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.core.stamp import NS_PER_S, iso_utc
from dollyd.daemon.cursors import EXPORTED
from dollyd.daemon.errors import ConfigError, JournalError
from dollyd.daemon.evidence.export import Exported, Wanted, export
from dollyd.daemon.evidence.texts import texts_of
from dollyd.daemon.journal import Journal
from dollyd.daemon.settings import Settings, load
from dollyd.daemon.terminal import say


def export_command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to make; .gz compresses it.")],
    config: ConfigFile,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="Not the configured journal."),
    ] = None,
    from_date: Annotated[
        str,
        typer.Option("--from", metavar="DATE", help="First moment, UTC: 2026-12-01 or 2026-12-01T18:00."),
    ] = "",
    to_date: Annotated[str, typer.Option("--to", metavar="DATE", help="End, not included.")] = "",
    table: Annotated[str, typer.Option("--table", metavar="T", help="Only this table.")] = "",
    backup: Annotated[
        bool, typer.Option("--backup", help="Make a copy of the whole journal instead, e.g. OUT.db.")
    ] = False,
) -> None:
    """Write records with all that proves them to one file, for `dollyd verify` and `dollyd replay`."""
    settings = load(config)
    path = journal or Path(settings.journal.path)
    wanted = Wanted(_moment("--from", from_date), _moment("--to", to_date), table)
    if backup and wanted != Wanted():
        raise ConfigError("--backup", "", "copies everything", "leave out --from, --to and --table")
    try:
        with closing(Journal.open(path, read_only=True)) as opened:
            if backup:
                opened.backup(out)
                say(f"{out}: a copy of {path}")
                return
            _tell(out, _export(out, opened, wanted, config, settings))
    except (JournalError, TarError) as error:
        say(error, to_stderr=True)
        raise typer.Exit(1) from error
    except OSError as error:
        say(f"{out}: cannot be written: {error.strerror}", to_stderr=True)
        raise typer.Exit(1) from error


def _export(out: Path, journal: Journal, wanted: Wanted, config: Path, settings: Settings) -> Exported:
    before = journal.cursor(EXPORTED)
    exported = export(out, journal, wanted, texts_of(config, settings), before)
    if exported.upto_id > before:
        journal.set_cursor(EXPORTED, exported.upto_id)
    return exported


def _tell(out: Path, exported: Exported) -> None:
    say(f"{out}: {exported.records} records")
    for part in exported.manifest.chains:
        say(f"  table {part.table}, chain {part.chain}: records {part.first_seq} to {part.last_seq}")
    for text in exported.manifest.missing:
        say(f"  not found: {text.folder}/{text.digest}.toml, by which was decided")


def _moment(option: str, text: str) -> str:
    """A date as records have their times. Raises `ConfigError`."""
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(option, "", str(error), "give UTC, e.g. 2026-12-01 or 2026-12-01T18:00") from error
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return iso_utc(int(moment.timestamp()) * NS_PER_S)
