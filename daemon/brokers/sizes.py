"""How large the largest messages of this node are, as far as its files tell."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from dollyd.daemon.journal.file import connect
from dollyd.daemon.settings.load import Settings

_LOOKED_AT = 100_000
"""Newest records whose length is looked at: a check must not read a journal of years."""


def published_sizes(settings: Settings) -> dict[str, int]:
    """Bytes by what it is: the trust file and the largest record; what cannot be read is left out."""
    sizes: dict[str, int] = {}
    if settings.signing.trust:
        with suppress(OSError):
            sizes["the trust file"] = Path(settings.signing.trust).stat().st_size
    with suppress(OSError, sqlite3.Error):
        query = "SELECT max(length(envelope)) FROM entry WHERE id > (SELECT max(id) - ? FROM entry)"
        with closing(connect(Path(settings.journal.path), "ro")) as journal:
            (largest,) = journal.execute(query, (_LOOKED_AT,)).fetchone()
        sizes["the largest record"] = largest or 0
    return sizes
