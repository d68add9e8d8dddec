"""`dollyd export`: an evidence file, or a copy of the journal, while the daemon runs."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from datetime import date as calendar_date
from pathlib import Path
from typing import Annotated

import typer

from dollyd.client.proof.tar import TarError
from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.evidence.export import Exported, Wanted, export
from dollyd.daemon.evidence.target import check_target
from dollyd.daemon.evidence.texts import texts_of
from dollyd.daemon.host.terminal import say
from dollyd.daemon.journal.cursors import EXPORTED
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.settings.load import Settings, load
from dollyd.wire.errors import ConfigError, JournalError
from dollyd.wire.stamp import NS_PER_S, iso_utc


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
    gaming_date: Annotated[
        str,
        typer.Option("--gaming-date", metavar="DATE", help="Or one gaming day of this place: 2026-12-01."),
    ] = "",
    backup: Annotated[
        bool, typer.Option("--backup", help="Make a copy of the whole journal instead, e.g. OUT.db.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an older export.")] = False,
) -> None:
    """Write records with all that proves them to one file, for `dollyd verify` and `dollyd replay`."""
    settings = load(config)
    path = journal or Path(settings.journal.path)
    wanted = Wanted(_moment("--from", from_date), _moment("--to", to_date), table)
    if gaming_date:
        wanted = _gaming_day(settings, gaming_date, wanted)
    if backup and wanted != Wanted():
        raise ConfigError("--backup", "", "copies everything", "leave out --from, --to and --table")
    check_target(out, settings, path, force=force, backup=backup)
    try:
        with closing(Journal.open(path, read_only=True)) as opened:
            if table not in ("", *(name for name, _ in opened.chains())):
                known = ", ".join(sorted({name for name, _ in opened.chains()})) or "none"
                raise ConfigError("--table", "", f"{path} has no table {table!r}", f"choose among {known}")
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


def _gaming_day(settings: Settings, date: str, wanted: Wanted) -> Wanted:
    """From the beginning of a gaming day to that of the next. Raises `ConfigError`."""
    remedy = "give one like 2026-12-01, without --from and --to"
    if wanted.from_utc or wanted.to_utc:
        raise ConfigError("--gaming-date", "", "given beside --from or --to", remedy)
    try:
        day = calendar_date.fromisoformat(date)
        begins, ends = settings.gaming_date.span_ns(day)
    except (ValueError, OverflowError) as error:
        raise ConfigError("--gaming-date", "", str(error), remedy) from error
    return Wanted(iso_utc(begins), iso_utc(ends), wanted.table)


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
