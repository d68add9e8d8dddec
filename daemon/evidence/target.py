"""Where an export may be written: over nothing that matters."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from dollyd.client.proof.evidence import is_evidence
from dollyd.daemon.settings.load import Settings
from dollyd.wire.errors import ConfigError

_SQLITE_MAGIC = b"SQLite format 3\x00"
_BESIDE_JOURNAL = ("", "-wal", "-shm", ".lock")


def check_target(out: Path, settings: Settings, journal: Path, *, force: bool, backup: bool) -> None:
    """Refuse a file that exists, unless `force` replaces an older export of the same kind.

    What the configuration names, the journal and what is beside it are refused in any case.
    Raises `ConfigError`.
    """
    other = "name a file that is not there yet"
    for key, path in _own_files(settings, journal):
        if _is_same(out, path):
            raise ConfigError(str(out), "", f"is {key} of the configuration", other)
    try:
        mode = out.lstat().st_mode
    except OSError:  # not there, or not to be reached: then it cannot be written either
        return
    kind = "a copy of a journal" if backup else "an evidence file"
    if not force:
        raise ConfigError(str(out), "", "exists", f"{other}, or replace {kind} by --force")
    if not stat.S_ISREG(mode) or not (_is_journal(out) if backup else is_evidence(out)):
        raise ConfigError(str(out), "", f"is not {kind}, and nothing else is replaced", other)


def _own_files(settings: Settings, journal: Path) -> Iterator[tuple[str, Path]]:
    yield from settings.files.items()
    for key, path in (("journal.path", Path(settings.journal.path)), ("--journal", journal)):
        for suffix in _BESIDE_JOURNAL:
            yield key, path.with_name(path.name + suffix)
    if settings.metrics.file:
        yield "metrics.file", Path(settings.metrics.file)
    for table in settings.tables.values():
        for device in table.devices.values():
            yield f"{device.key}.port", Path(device.section.port)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names mean one file, by whatever links."""
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except OSError:  # one of them is not there
        return False


def _is_journal(path: Path) -> bool:
    """Whether it is a data base that no daemon holds."""
    with path.open("rb") as file:
        magic = file.read(len(_SQLITE_MAGIC))
    return magic == _SQLITE_MAGIC and not path.with_name(path.name + ".lock").exists()
