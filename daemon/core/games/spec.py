"""What a game is to the core: its rule texts, its outcome space, the attributes of an outcome, its memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from msgspec import Struct

Value: TypeAlias = tuple[str, ...]
"""A reading: one pocket, number and cup, one sector, or one face a die."""

Outcome: TypeAlias = dict[str, str | int | bool | list[str]]
"""Everything a settlement needs to know of what came, as it stands in the record."""

Memory: TypeAlias = tuple[tuple[str, str], ...]
"""What a game carries from round to round, e.g. the point of craps. A void round does not touch it."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A reading with everything that its attributes depend on."""

    value: Value
    variant: Any
    """The game's own variant."""
    layout: Any
    """The game's own layout, None where it has none."""
    memory: Memory
    """As it was at the start of the round."""
    quarters: bool = False
    """Roulette: the cloth shows quarters."""


@dataclass(frozen=True, slots=True)
class Game:
    """One line of the table `GAMES`. Every field is filled."""

    name: str
    roles: frozenset[str]
    """Roles that bring the outcome; every device in one of them is a witness."""
    variant: type[Any]
    """Struct of a variant in the game's rulebooks."""
    layout: Callable[[bytes], Any] | None
    """Parses and checks a layout file (`RuleTextError`); None where the game has no layout."""
    shipped_layout: Callable[[Any], str]
    """Name of the layout that goes with a variant, empty where it is an input of commissioning."""
    check: Callable[[Any, Any], None]
    """Whether variant and layout fit together. Raises `RuleTextError`."""
    values: Callable[[Any], tuple[Value, ...]]
    """Every reading that there can be, by layout."""
    outcome: Callable[[Drawn], Outcome]
    """All attributes of a reading."""
    shape: type[Struct]
    """Every member that an outcome may have, with values and meaning: schemas and wire-format.md have it."""
    after: Callable[[Outcome], Memory]
    """The memory that an outcome leaves. The outcome alone tells it, so that a journal does."""
    began: Callable[[Outcome | None, Memory], Memory | None]
    """The memory with which a round was drawn, by its outcome (None: it is void) and what the result before
    it left; None where that does not tell."""
    needs_odds_table: Callable[[Any], bool]
    """Whether a result needs an odds table drawn for its round."""
    zero_rules: Callable[[Any], tuple[str, ...]]
    """What zero may do to simple chances in a variant; the table names one. Empty where there is no zero."""
    seated: Callable[[Memory, tuple[str, ...]], Memory]
    """The memory once the seats that take part are told, clockwise."""
    declined: Callable[[Memory], Memory]
    """The memory once the player whose turn it is has passed the dice on."""
    throws: bool
    """Dice: a draw can be rejected and made again within the round."""


def fits(_variant: Any, _layout: Any) -> None:
    """`check` of games where any variant goes with any layout."""


def nothing_remembered(_outcome: Outcome) -> Memory:
    """`after` of games without memory."""
    return ()


def as_left(_outcome: Outcome | None, left: Memory) -> Memory | None:
    """`began` of games in which nothing is told between two results."""
    return left


def no_odds_table(_variant: Any) -> bool:
    """`needs_odds_table` of games without a randomizer."""
    return False


def no_zero_rules(_variant: Any) -> tuple[str, ...]:
    """`zero_rules` of games without a zero."""
    return ()


def no_seats(memory: Memory, _seats: tuple[str, ...]) -> Memory:
    """`seated` of games where it does not matter who sits where."""
    return memory


def no_shooter(memory: Memory) -> Memory:
    """`declined` of games in which the dealer draws."""
    return memory


def no_shipped_layout(_variant: Any) -> str:
    """`shipped_layout` of games without layout, or with one that is measured at the device."""
    return ""
