"""The rules of a table: which texts a configuration names, read, checked and fitted together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.spec import Game
from dollyd.daemon.core.rulebook import (
    GameProfile,
    Profile,
    Rulebook,
    RuleTextError,
    convert,
    parse_profile,
    parse_rulebook,
)
from dollyd.daemon.settings.faults import Faults, choice
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import cure, read_file
from dollyd.wire.record import Named

T = TypeVar("T")

_ABOUT = ("game", "variant", "rulebook", "profile", "layout", "zero_rule", "quarters")
"""Keys of a table that are about its rules."""


@dataclass(frozen=True, slots=True)
class TableRules:
    """What is played, by which texts."""

    game: Game
    variant: Any
    layout: Any
    rulebook: Named
    profile: Named
    rules: GameProfile
    zero_rule: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the section of a table says of its rules; `key` is where it stands."""

    config: Path
    key: str
    game: str
    variant: str
    rulebook: str
    profile: str
    layout: str
    zero_rule: str
    quarters: bool

    def refuse(self, what: str, problem: str, remedy: str) -> ConfigError:
        """The error that names this file and key."""
        return ConfigError(str(self.config), f"{self.key}.{what}", problem, remedy)

    def read(self, what: str, name: str, parse: Callable[[bytes], T]) -> T:
        """A rule text: a shipped one by name, or a path that ends in `.toml`, relative to the file."""
        folder = f"{what}s"
        try:
            if name.endswith(".toml"):
                data = read_file(self.config.parent / name)
            else:
                data = files("dollyd").joinpath("config", folder, f"{name}.toml").read_bytes()
            return parse(data)
        except RuleTextError as error:
            raise self.refuse(what, f"{name!r}: {error}", "correct the rule file") from error
        except OSError as error:
            remedy = f"{choice(name, _shipped(folder))}, or give a path that ends in .toml"
            problem = f"{name!r} cannot be read ({error.strerror})"
            raise self.refuse(what, problem, cure(error, remedy)) from error


def rules_of(wanted: Wanted, faults: Faults) -> TableRules | None:
    """Read and check all rules of a table; None where one of them is wrong, as `faults` says."""
    game = GAMES.get(wanted.game)
    if game is None:
        faults.keep(wanted.refuse("game", f"no game {wanted.game!r}", choice(wanted.game, GAMES)))
    rulebook = profile = rules = variant = layout = None
    with faults.kept():
        rulebook, book_name = wanted.read("rulebook", wanted.rulebook, parse_rulebook)
    with faults.kept():
        profile, profile_name = wanted.read("profile", wanted.profile, parse_profile)
    if game is not None and profile is not None:
        with faults.kept():
            rules = _rules(wanted, profile)
    if game is None or rulebook is None:
        return None
    if wanted.quarters and not rulebook.quarter_odds:
        problem = f"rulebook {rulebook.id} has no quarter bets"
        faults.keep(wanted.refuse("quarters", problem, "set quarters = false"))
    with faults.kept():
        variant = _variant(wanted, game, rulebook)
        zero_rule = _zero_rule(wanted, game.zero_rules(variant))
    if variant is not None:
        with faults.kept():
            layout = _layout(wanted, game, variant)
            if rules is not None:
                _check_size(wanted, game, rules, layout)
    if rules is None or faults.at(*(f"{wanted.key}.{what}" for what in _ABOUT)):
        return None
    return TableRules(game, variant, layout, book_name, profile_name, rules, zero_rule)


def _rules(wanted: Wanted, profile: Profile) -> GameProfile:
    rules = profile.games.get(wanted.game)
    if rules is None:
        problem = f"profile {profile.id} says nothing of {wanted.game}"
        raise wanted.refuse("profile", problem, "choose a profile that has this game")
    if rules.void_until != "confirmed":
        problem = f"profile {profile.id}: void_until = {rules.void_until!r} is not carried out yet"
        raise wanted.refuse("profile", problem, 'choose a profile with void_until = "confirmed"')
    return rules


def _variant(wanted: Wanted, game: Game, rulebook: Rulebook) -> Any:
    tree = rulebook.variants.get(wanted.variant)
    if rulebook.game != game.name or tree is None:
        problem = f"rulebook {rulebook.id} has no {game.name} variant {wanted.variant!r}"
        raise wanted.refuse("variant", problem, choice(wanted.variant, rulebook.variants))
    try:
        return convert(tree, game.variant)
    except RuleTextError as error:
        raise wanted.refuse(
            "rulebook", f"variant {wanted.variant}: {error}", "correct the rule file"
        ) from error


def _layout(wanted: Wanted, game: Game, variant: Any) -> Any:
    name = wanted.layout or game.shipped_layout(variant)
    if game.layout is None:
        if name:
            raise wanted.refuse("layout", f"{game.name} has no layout", "leave it out")
        return None
    if not name:
        remedy = "name the file that was measured at this device"
        raise wanted.refuse("layout", f"{game.name} needs the layout of its wheel", remedy)
    layout = wanted.read("layout", name, game.layout)
    try:
        game.check(variant, layout)
    except RuleTextError as error:
        raise wanted.refuse("layout", f"{name!r}: {error}", "correct the layout") from error
    return layout


def _check_size(wanted: Wanted, game: Game, rules: GameProfile, layout: Any) -> None:
    asked = {"roulette": rules.pockets, "money-wheel": rules.sectors}.get(game.name, 0)
    if asked and len(game.values(layout)) != asked:
        problem = f"{len(game.values(layout))} places on a wheel that the profile wants to have {asked}"
        raise wanted.refuse("layout", problem, "choose another layout or profile")


def _zero_rule(wanted: Wanted, possible: tuple[str, ...]) -> str:
    chosen = wanted.zero_rule or (possible[0] if len(possible) == 1 else "")
    if chosen in (possible or ("",)):
        return chosen
    has_not = f"variant {wanted.variant} has no zero rule {chosen!r}" if chosen else ""
    remedy = f"set one of {', '.join(possible)}" if possible else "leave it out"
    raise wanted.refuse("zero_rule", has_not or f"variant {wanted.variant} needs a zero rule", remedy)


def _shipped(folder: str) -> list[str]:
    entries = files("dollyd").joinpath("config", folder).iterdir()
    return sorted(entry.name.removesuffix(".toml") for entry in entries)
