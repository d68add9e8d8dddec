"""Another configuration while tables play: all of it or nothing, and never inside a round.

What the whole node uses changes at once. A table changes between two of its rounds, however long that takes:
until then it plays by the old rules, with the old devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from dollyd.daemon.core.decision import setting
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.journal.writer import Writer
from dollyd.daemon.settings.load import Settings, TableSettings
from dollyd.daemon.table.runner import TableRunner
from dollyd.daemon.table.version_change import check_version_change
from dollyd.wire.errors import ConfigError

_LOG = Logger(__name__)

Change: TypeAlias = TableSettings | None
"""What a table is to become; None: it goes."""


def check_fixed(old: Settings, new: Settings) -> None:
    """Refuse what only a restart can change. Raises `ConfigError`."""
    for key, before, after in (
        ("site", old.site, new.site),
        ("node", old.node, new.node),
        ("journal.path", old.journal.path, new.journal.path),
    ):
        if before != after:
            problem = f"{before!r} cannot become {after!r} while the daemon runs"
            raise ConfigError(new.file, key, problem, "change it back, or restart dollyd")


def check_versions(new: Settings, tables: Mapping[str, TableRunner], journal: Journal) -> None:
    """Refuse a change of what is played while stakes may be imprisoned. Raises `ConfigError`."""
    for name, table in new.tables.items():
        if name not in tables or plays_another(tables[name].settings, table):
            check_version_change(new.file, table, journal.tail(name), journal)


def plays_another(old: TableSettings, new: TableSettings) -> bool:
    """Whether what is played changes, and not only how the table is fitted out."""
    return setting(old.setup) != setting(new.setup)


class TableChanges:
    """Changes of tables that wait for their moment.

    `carry_out` must change the table before it waits for anything: the moment passes.
    """

    def __init__(
        self,
        file: str,
        tables: Mapping[str, TableRunner],
        journal: Journal,
        writer: Writer,
        carry_out: Callable[[str, Change], Awaitable[None]],
    ) -> None:
        self._file = file
        self._tables = tables
        self._journal = journal
        self._writer = writer
        self._carry_out = carry_out
        self._wanted: dict[str, Change] = {}
        self._told: set[str] = set()
        self._look = asyncio.Event()

    @property
    def waiting(self) -> list[str]:
        """Tables whose change has not come yet."""
        return sorted(self._wanted)

    def want(self, tables: Mapping[str, TableSettings]) -> None:
        """Have the node play these tables, and forget what was wanted before."""
        self._wanted = dict.fromkeys(self._tables.keys() - tables.keys())
        for name, new in tables.items():
            if name not in self._tables or new != self._tables[name].settings:
                self._wanted[name] = new
        self._told.clear()
        self._tell_tables()
        self._look.set()

    def look(self) -> None:
        """Something has happened at a table, or a record has become durable."""
        if self._wanted:
            self._look.set()

    async def run(self) -> None:
        """Carry changes out as their moments come, until cancelled."""
        while True:
            await self._look.wait()
            self._look.clear()
            for name, new in list(self._wanted.items()):
                why = self._why_not(name, new)
                if not why:
                    del self._wanted[name]
                    self._tell_tables()
                    await self._carry_out(name, new)
                    _LOG.info("table_reloaded", table=name, change=_change(new))
                    break  # others may have changed meanwhile, or be wanted otherwise
                if name not in self._told:
                    self._told.add(name)
                    _LOG.info("reload_waits", table=name, why=why)
            else:
                continue
            self._look.set()

    def _why_not(self, name: str, new: Change) -> str:
        """What stands against the change now, empty for nothing."""
        table = self._tables.get(name)
        if table is not None and table.engine.table.round is not None:
            return f"round {table.engine.table.round.number} has not ended"
        if self._writer.has_chain(name) and self._writer.holds(name):
            return "its last records are not durable yet"
        if table is not None and new is not None and plays_another(table.settings, new):
            try:  # the last round may have brought what was not there when the configuration was checked
                check_version_change(self._file, new, self._journal.tail(name), self._journal)
            except ConfigError as error:
                return str(error)
        return ""

    def _tell_tables(self) -> None:
        for name, table in self._tables.items():
            table.set_reload_waits(waits=name in self._wanted)


def _change(new: Change) -> str:
    return "removed" if new is None else "in-force"
