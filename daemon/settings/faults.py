"""What is wrong with a configuration: all of it, not the first thing; and the near name of an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from dollyd.wire.errors import ConfigError, InvariantError

T = TypeVar("T")

NAMES_MAX = 40
"""Names that a remedy lists; of more it says none."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Collects the mistakes of one file, one a key: what follows from a mistake is not told as another."""

    file: str
    found: list[ConfigError] = field(default_factory=list)

    def add(self, key: str, problem: str, remedy: str) -> None:
        """One more."""
        self.keep(ConfigError(self.file, key, problem, remedy))

    def keep(self, error: ConfigError) -> None:
        """The same, with all that came with it."""
        known = {one.key for one in self.found} - {""}
        self.found.extend(one for one in error.all if one.key not in known)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what is raised within, and go on behind it."""
        try:
            yield
        except ConfigError as error:
            self.keep(error)

    def at(self, *keys: str) -> bool:
        """Whether something at one of these keys, or below it, is wrong."""
        return any(f"{one.key}.".startswith(f"{key}.") for one in self.found for key in keys)

    def refuse(self) -> None:
        """Raise the first `ConfigError`, with all others, where there is one."""
        if self.found:
            first, *others = self.found
            raise ConfigError(first.file, first.key, first.problem, first.remedy, tuple(others))

    def given(self, value: T | None) -> T:
        """What there is where nothing is wrong. Raises `ConfigError` as `refuse`."""
        self.refuse()
        if value is None:
            raise InvariantError("what has no mistakes can be used")
        return value


def nearest(name: str, known: Collection[str]) -> str:
    """The name that was probably meant; empty where none is near."""
    by_small = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), by_small, n=1, cutoff=0.6)
    return by_small[near[0]] if near else ""


def choice(name: str, known: Collection[str]) -> str:
    """A remedy: choose among the names that there are, the nearest one first."""
    near = nearest(name, known)
    listed = f"choose one of {', '.join(known)}" if 0 < len(known) <= NAMES_MAX else ""
    meant = f"did you mean {near!r}?" if near else ""
    return ", or ".join(filter(None, (meant, listed))) or "leave it out"


def unknown_key(name: str, known: Collection[str]) -> str:
    """The remedy for a key that there is not: its nearest neighbour, or all that could stand there."""
    if near := nearest(name, known):
        return f"did you mean {near}? Correct its name, or remove it"
    return f"remove it or correct its name: known are {', '.join(known) or 'none'}"
