"""What a game is to the core: an outcome space and the attributes of an outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dollyd.daemon.core.rulebook import Layout, Variant

Outcome = dict[str, str | int | bool]
"""Everything a settlement needs to know of what came, as it stands in the record."""


@dataclass(frozen=True, slots=True)
class Game:
    """One line of the table `GAMES`. Every field is filled."""

    name: str
    roles: frozenset[str]
    """Roles that bring the outcome; every device in one of them is a witness."""
    values: Callable[[Layout], tuple[str, ...]]
    """The texts that a reading may hold."""
    outcome: Callable[[Layout, tuple[str, ...], bool], Outcome]
    """Attributes of a reading; the flag says whether quarters are offered."""
    needs_odds_table: Callable[[Variant], bool]
    is_zero: Callable[[tuple[str, ...]], bool]
    """Whether the reading is the zero that imprisons stakes."""
