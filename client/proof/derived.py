"""The members of an outcome that follow from what a person reads: derived again, never believed.

Settlement pays a simple chance by `colour` and not by the pocket. Two persons sign the pocket; everything
else is written by the node. What depends on the wheel itself, as the order of its pockets or the symbol of a
sector, follows from a layout that no record names, and is not derived here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.roulette import Variant as RouletteVariant
from dollyd.daemon.core.games.roulette import parse_layout
from dollyd.daemon.core.games.spec import Drawn, Memory, Outcome
from dollyd.daemon.core.rulebook import (
    Profile,
    parse_profile,
)

READING: Final[Mapping[str, tuple[str, ...]]] = {
    "roulette": ("pocket",),
    "boule": ("number", "cup"),
    "money-wheel": ("sector",),
    "tuplanoppa": ("die_1", "die_2"),
    "sic-bo": ("die_1", "die_2", "die_3"),
    "craps": ("die_1", "die_2"),
}
"""By game the members of an outcome from which all others follow: what a person reads and enters."""

_OF_THE_WHEEL = frozenset({"wheel_index"})
"""Follows from the order of the pockets, which a table may have of its own."""
_WITH_ALL_POCKETS: Final = "roulette-american"


def reading_of(game: str, outcome: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What a person would read of an outcome; None where it is none of this game."""
    members = READING.get(game, ())
    if not members or not all(name in outcome for name in members):
        return None
    return tuple(str(outcome[name]) for name in members)


def contradiction(game: str, outcome: Mapping[str, Any], memory: Memory | None) -> str:
    """What an outcome says that does not follow from its reading; empty where all that can be derived fits.

    `memory`: what the game remembered when the round began; None where that
    is not known, and the outcome is taken at its word for it.
    """
    value = reading_of(game, outcome)
    if value is None:
        return f"the outcome is none of {game}"
    try:
        derived = _derived(game, value, outcome, memory)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return f"{' '.join(value)} cannot come in {game}"
    for name, right in derived.items():
        said = outcome.get(name, right)
        if said != right or type(said) is not type(right):
            return f"{name} is {said!r}; from {' '.join(value)} follows {right!r}"
    if memory is not None and (strange := outcome.keys() & _REMEMBERED - derived.keys()):
        return f"{min(strange)} does not follow from the rounds before"
    return ""


_REMEMBERED = frozenset({"point", "shooter", "seats"})


def _derived(game: str, value: tuple[str, ...], outcome: Mapping[str, Any], known: Memory | None) -> Outcome:
    memory = _claimed(game, outcome) if known is None else known
    if game == "money-wheel":
        return {"sector": int(value[0])}
    if game != "roulette":
        if game != "boule" and not set(value) <= set("123456"):
            raise ValueError("no face of a die")
        return GAMES[game].outcome(Drawn(value, None, None, memory))
    counts = RouletteVariant(
        layout="", zero_rules=("lose",), odds={}, counts_zeros="zeros_in_a_row" in outcome
    )
    drawn = Drawn(value, counts, _pockets(), memory, quarters="quarter" in outcome)
    derived = GAMES[game].outcome(drawn)
    return {name: right for name, right in derived.items() if name not in _OF_THE_WHEEL}


def _claimed(game: str, outcome: Mapping[str, Any]) -> Memory:
    """The memory with which an outcome says that its round began."""
    if game == "craps" and "point" in outcome:
        return (("point", str(outcome["point"])),)
    if game == "tuplanoppa" and outcome.get("seats"):
        return (("seats", " ".join(outcome["seats"])), ("shooter", str(outcome.get("shooter", ""))))
    if game == "roulette" and "zeros_in_a_row" in outcome:
        return (("zeros", str(max(0, int(outcome["zeros_in_a_row"]) - 1))),)
    return ()


# --- rule texts at hand --------------------------------------------------------------------------


@cache
def _pockets() -> Any:
    """A wheel with every pocket that there is; the colours are those of every shipped wheel."""
    return parse_layout(
        files("dollyd").joinpath("config", "layouts", f"{_WITH_ALL_POCKETS}.toml").read_bytes()
    )


def void_policy(profile: str, game: str) -> str:
    """What a profile says of the stakes of void rounds of a game; empty where its text is not at hand.

    `profile`: SHA-256 of its file, hex, as a record names it.
    """
    known = _profiles().get(profile)
    rules = known.games.get(game) if known is not None else None
    return rules.void_stake_policy if rules is not None else ""


POLICIES: Final = frozenset({"player_choice", "returned", "carried", "unstated"})
"""All that a void may say of the stakes."""


@cache
def _profiles() -> dict[str, Profile]:
    found = {}
    for entry in files("dollyd").joinpath("config", "profiles").iterdir():
        if entry.name.endswith(".toml"):
            profile, named = parse_profile(entry.read_bytes())
            found[named.digest] = profile
    return found
