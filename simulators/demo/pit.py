"""The stage of `dollyd demo --all`: one daemon with a table of every game, each at work on its own evening.

The daemon is told what the shipped examples say, but for what belongs to a laptop: ports, faster devices, and
unresolved rounds that are void after a while.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.secret_files import write_secret
from dollyd.simulators.demo.broker import Broker
from dollyd.simulators.demo.stage import Stage, StageError, write_profile
from dollyd.simulators.demo.tables import ODDS_KEY, TABLES
from dollyd.simulators.evening import Evening
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.scenario import Scenario

UNRESOLVED_VOID_AFTER_S = 2
_USUAL = "status_period_ms = 200\nsilence_ms = 1000"
_TOLD = {
    "cammegh-ss2": "status_period_ms = 75\nsilence_ms = 1000",
    "winning-number-line": "options = { repeat_ms = 500 }",
}
"""By driver. A busy laptop is no fault of a device; but lines that come twice too fast are not believed."""
_DEVICE = re.compile(
    r"(?m)^(?P<head>\[tables\.(?P<table>.+)\.devices\.(?P<name>.+)\]\n"
    r'driver = "(?P<driver>.+)"\nrole = ".+"\n)port = ".+"$'
)
_PROFILE = re.compile(r'(?m)^profile = "(.*)"$')

Happened = dict[str, Any]
Truth = dict[str, list[Happened]]
"""What really happened at each table: `Evening`'s stream."""


class Pit(Stage):
    """Broker, daemon, and the simulated devices of all tables."""

    def __init__(self, directory: Path, broker: Broker, seed: int) -> None:
        super().__init__(directory, broker, seed)
        self.games: Truth = {name: [] for name in TABLES}
        self._evenings: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Set broker and daemon up; there are no devices yet."""
        await self.set_up(lay_out(self.directory))

    def play(self, tell: Callable[[str, Happened], None]) -> None:
        """Every table begins its evening; `tell` hears of all that happens there."""
        for table, shown in TABLES.items():

            def note(happened: Happened, table: str = table) -> None:
                self.games[table].append(happened)
                tell(table, happened)

            seeded = msgspec.structs.replace(shown.evening, seed=self.seed)
            evening = evening_at(table, seeded, self.directory, note)
            self._evenings.append(asyncio.create_task(evening.run()))

    @property
    def over(self) -> bool:
        """Whether every evening has come to its end."""
        return all(evening.done() for evening in self._evenings)

    def check(self) -> None:
        """Raise `StageError` where a process or an evening has ended that should not."""
        super().check()
        for evening in self._evenings:
            if evening.done() and (error := evening.exception()):
                raise StageError(f"a simulated table failed: {error}") from error

    async def close(self) -> None:
        """Leave no port and no process behind."""
        for evening in self._evenings:
            evening.cancel()
        await asyncio.gather(*self._evenings, return_exceptions=True)
        await super().close()


def lay_out(directory: Path) -> str:
    """Write the files that the tables need; gives their sections of the configuration (TOML)."""
    write_secret(directory / "odds.key", ODDS_KEY.encode("ascii"))
    examples = files("dollyd").joinpath("config", "examples")
    texts = [examples.joinpath(f"{table.example}.toml").read_text("utf-8") for table in TABLES.values()]
    sections = "".join(text[text.index("\n[tables.") :] for text in texts)
    for profile in set(_PROFILE.findall(sections)):
        write_profile(directory, profile, UNRESOLVED_VOID_AFTER_S)

    def simulated(section: re.Match[str]) -> str:
        port = directory / "{table}-{name}".format(**section.groupdict())
        return f'{section["head"]}port = "{port}"\n{_TOLD.get(section["driver"], _USUAL)}'

    return _DEVICE.sub(simulated, _PROFILE.sub(r'profile = "\1.toml"', sections))


def evening_at(table: str, evening: Scenario, directory: Path, tell: Callable[[Happened], None]) -> Evening:
    """An evening whose devices are at the ports that `lay_out` has told."""
    return Evening(evening, SystemClock(), lambda name: PtyLink(directory / f"{table}-{name}"), tell)
