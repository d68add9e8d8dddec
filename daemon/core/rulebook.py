"""Rulebooks, layouts and profiles: the written rules as data, parsed from the exact bytes of their files.

The SHA-256 of those bytes is in every record, so that an auditor knows which text decided.
"""

from __future__ import annotations

import hashlib
import tomllib
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from dollyd.daemon.core.record import Named

T = TypeVar("T")


class RuleTextError(Exception):
    """A rulebook, layout or profile is not what its kind asks; the message names the key."""


class _Text(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the parsed files; an unknown key is an error."""


class Layout(_Text, frozen=True):
    """Where the pockets lie, clockwise, and which numbers are red."""

    id: str
    clockwise: tuple[str, ...]
    red: frozenset[int]


class Variant(_Text, frozen=True):
    """One version of a game: odds n to 1 by bet, and what zero does to simple chances."""

    layout: str
    zero_rules: tuple[Literal["lose", "half", "prison", "both"], ...]
    odds: dict[str, int]
    odds_table_2: dict[str, int] = {}
    odds_table_2_one_in: int = 0
    counts_zeros: bool = False
    """The record carries how many zeros came in a row (imprisoned stakes, rulebook 2.9)."""


class Rulebook(_Text, frozen=True):
    """All versions of one game in one regulation."""

    id: str
    game: str
    source: str
    variants: dict[str, Variant]
    quarter_odds: int = 0


class GameProfile(_Text, frozen=True):
    """What a jurisdiction asks of a round of one game (rulebook section 11)."""

    source: str
    ball_min_turns: int = 0
    """Whole turns that the ball must make; 0 = left to the dealer."""
    wheel_min_turns: int = 0
    ball_direction_opposite_required: bool = False
    turns_basis: frozenset[Literal["counted", "reported", "certified"]] = frozenset(
        {"counted", "reported", "certified"}
    )
    """Which kinds of proof of turns are enough."""
    nmb_before_draw: Literal["required", "allowed", "reversed"] = "allowed"
    void_declarers: frozenset[Literal["dealer", "inspector", "pit-boss"]] = frozenset({"dealer"})
    void_until: Literal["confirmed", "settled"] = "confirmed"
    void_stake_policy: Literal["player_choice", "returned", "carried", "unstated"] = "unstated"
    hold_ms: int = 0
    """Time between landing and automatic confirmation; 0 unless the profile asks for it."""
    unresolved_void_after_s: int = 0
    """An unresolved round is void as unrecoverable after this long; 0 = only people close it."""


class Profile(_Text, frozen=True):
    """A jurisdiction."""

    id: str
    games: dict[str, GameProfile]


def _parse(data: bytes, kind: type[T]) -> T:
    try:
        tree: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
        return msgspec.convert(tree, kind)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise RuleTextError(str(error)) from error


def digest(data: bytes) -> str:
    """SHA-256 of a file's exact bytes, lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def parse_layout(data: bytes) -> Layout:
    """Parse and check a wheel: each pocket once, every number 1-36, 18 red (rulebook section 10).

    Raises `RuleTextError`.
    """
    layout = _parse(data, Layout)
    pockets = list(layout.clockwise)
    doubled = sorted({pocket for pocket in pockets if pockets.count(pocket) > 1})
    if doubled:
        raise RuleTextError(f"clockwise: pocket {doubled[0]} occurs more than once")
    zeros = {"0"} if len(pockets) == 37 else {"0", "00"}
    if set(pockets) != zeros | {str(number) for number in range(1, 37)}:
        raise RuleTextError("clockwise: must hold 1 to 36 and 0, or 0 and 00, each once")
    if len(layout.red) != 18 or not layout.red <= set(range(1, 37)):
        raise RuleTextError("red: must name 18 of the numbers 1 to 36")
    return layout


def parse_rulebook(data: bytes) -> tuple[Rulebook, Named]:
    """Parse a rulebook and name it by id and digest. Raises `RuleTextError`."""
    rulebook = _parse(data, Rulebook)
    for name, variant in rulebook.variants.items():
        if bool(variant.odds_table_2) != (variant.odds_table_2_one_in > 0):
            raise RuleTextError(f"variants.{name}: odds_table_2 and odds_table_2_one_in go together")
        if not variant.zero_rules:
            raise RuleTextError(f"variants.{name}.zero_rules: at least one rule")
    return rulebook, Named(id=rulebook.id, digest=digest(data))


def parse_profile(data: bytes) -> tuple[Profile, Named]:
    """Parse a profile and name it by id and digest. Raises `RuleTextError`."""
    profile = _parse(data, Profile)
    return profile, Named(id=profile.id, digest=digest(data))
