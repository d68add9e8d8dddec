"""Tables for tests: setups from the shipped rule texts, a made-up wheel, and a table in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import structs

from dollyd.daemon.core.events import (
    BetsClosed,
    DrawFacts,
    DrawStarted,
    Event,
    GameRef,
    GameStarted,
    OddsDrawn,
    Permitted,
    Reading,
    TableOpened,
    Tick,
    TurnsBasis,
)
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.roulette import Layout, Variant
from dollyd.daemon.core.games.roulette import parse_layout as parse_roulette_layout
from dollyd.daemon.core.round import AskOdds, Effect, Emit, Phase, deadline_ns, phase, step
from dollyd.daemon.core.rulebook import Profile, Rulebook, convert, parse_profile, parse_rulebook
from dollyd.daemon.core.state import Bound, Round, Setup, Table
from dollyd.daemon.settings.gaming_day import gaming_day
from dollyd.wire.record import Kind, Stakes
from dollyd.wire.stamp import NS_PER_MS, Stamp

START = Stamp(5_000_000_000, 1_796_000_000_000_000_000)
WHEEL, SECOND_WHEEL, ODDS_BOX = "wheel", "wheel-2", "odds"
DICE, SECOND_DICE, BALL = "dice", "dice-2", "ball"
PROVEN = DrawFacts(
    turns_basis=TurnsBasis.CERTIFIED, ball_direction="clockwise", wheel_direction="counter-clockwise"
)
"""What an automatic wheel shows of a draw in which all was well."""
PLAIN = DrawFacts()
"""What a dice camera shows of a throw in which all was well."""
RULEBOOK = "fi-ray-2013-roulette"
TEXTS = {
    "roulette": (RULEBOOK, "A", "fi-ray-2013", ""),
    "boule": ("fi-ray-2013-boule", "standard", "fi-ray-2013", "boule-synthetic"),
    "money-wheel": ("fi-ray-2013-money-wheel", "standard", "fi-ray-2013", "money-wheel-synthetic"),
    "tuplanoppa": ("fi-ray-2013-tuplanoppa", "B", "fi-ray-2013", ""),
    "sic-bo": ("fi-ray-2013-sic-bo", "standard", "fi-ray-2013", ""),
    "craps": ("qc-r3-95.17-craps", "place", "qc-r3-95.17", ""),
}
"""Shipped rulebook, variant, profile and layout that a game is tested under, unless a test says otherwise."""


@cache
def rule_text(folder: str, name: str) -> bytes:
    """The exact bytes of a shipped rule file."""
    return files("dollyd").joinpath("config", folder, f"{name}.toml").read_bytes()


def layout(name: str) -> Layout:
    return parse_roulette_layout(rule_text("layouts", name))


def rulebook(name: str = RULEBOOK) -> Rulebook:
    return parse_rulebook(rule_text("rulebooks", name))[0]


def roulette(variant: str) -> Variant:
    return convert(rulebook().variants[variant], Variant)


def profile(name: str) -> Profile:
    return parse_profile(rule_text("profiles", name))[0]


HURRIED = {"game_min_ms": 0, "records_at_once": 1_000, "records_per_s": 1_000}
"""Events of tests come a millisecond apart; those of a budget say so."""


def game_setup(
    name: str,
    *,
    variant: str = "",
    profile_name: str = "",
    witnesses: int = 1,
    ball: bool = False,
    told_at_end: bool = False,
    rules: dict[str, Any] | None = None,
    **changes: Any,
) -> Setup:
    """A table as the shipped texts have it; `rules` change the profile, `changes` the setup."""
    played = GAMES[name]
    book_file, usual_variant, usual_profile, layout_name = TEXTS[name]
    book, book_name = parse_rulebook(rule_text("rulebooks", book_file))
    jurisdiction, jurisdiction_name = parse_profile(rule_text("profiles", profile_name or usual_profile))
    game_rules = structs.replace(jurisdiction.games[name], **(HURRIED | (rules or {})))
    chosen = convert(book.variants[variant or usual_variant], played.variant)
    shipped = played.shipped_layout(chosen) or layout_name
    (role,) = played.roles
    driver = "cammegh-ss2" if name == "roulette" else "tlp"
    devices = [Bound(device, driver, role, told_at_end) for device in (role, f"{role}-2")[:witnesses]]
    if ball:
        devices.append(Bound(BALL, "tlp", "ball"))
    if played.needs_odds_table(chosen):
        devices.append(Bound(ODDS_BOX, "tlp", "odds"))
    setup = Setup(
        table=f"{name}-1",
        game=played,
        variant_name=variant or usual_variant,
        variant=chosen,
        layout=played.layout(rule_text("layouts", shipped)) if played.layout else None,
        rulebook=book_name,
        profile=jurisdiction_name,
        rules=game_rules,
        zero_rule=next(iter(played.zero_rules(chosen)), ""),
        quarters=False,
        stakes=Stakes(minimum=100, maximum=100_000, currency="EUR"),
        devices=tuple(devices),
        confirm="auto",
        hold_ms=game_rules.hold_ms,
        odds_timeout_ms=5_000,
        draw_timeout_ms=120_000,
        witness_timeout_ms=1_000,
        unresolved_void_ms=game_rules.unresolved_void_after_s * 1_000,
        gaming_date=gaming_day("Europe/Helsinki", "06:00"),
    )
    return replace(setup, **changes)


def make_setup(
    variant: str = "A", *, profile_name: str = "fi-ray-2013", wheels: int = 1, **changes: Any
) -> Setup:
    """A roulette table."""
    return game_setup("roulette", variant=variant, profile_name=profile_name, witnesses=wheels, **changes)


def game(number: int = 1, device: str = WHEEL) -> GameRef:
    return GameRef(device, "s1", f"{number:03}")


def odds_drawn(round_number: int = 1, table: int = 1) -> OddsDrawn:
    nonce = f"{round_number:016X}"
    return OddsDrawn(ODDS_BOX, round_number, table, round_number, nonce, "00AA00AA00AA00AA")


def later(at: Stamp, ms: int) -> Stamp:
    return Stamp(at.mono_ns + ms * NS_PER_MS, at.utc_ns + ms * NS_PER_MS)


def but_for_counts(table: Table) -> Table:
    """A table without the counts of what people cause, which decide no round."""
    of_devices = tuple(one for one in table.repeated if one.device)
    return replace(table, accounts=(), repeated=of_devices)


class Play:
    """A table that tests tell events, one after the other; every event comes a millisecond after the last."""

    def __init__(self, setup: Setup, table: Table | None = None) -> None:
        self.setup = setup
        self.table = table or Table()
        self.now = START
        self.effects: list[Effect] = []

    def tell(self, *events: Event, after_ms: int = 1) -> tuple[Effect, ...]:
        """Tell events; gives the effects of all of them."""
        told: list[Effect] = []
        for event in events:
            self.now = later(self.now, after_ms)
            self.table, effects = step(self.setup, self.table, event, self.now)
            told += effects
        self.effects += told
        return tuple(told)

    def wait(self, ms: int) -> tuple[Effect, ...]:
        """Let time pass; ticks come where the core asked for them."""
        end, told = later(self.now, ms), list[Effect]()
        while (due := deadline_ns(self.setup, self.table)) is not None and due <= end.mono_ns:
            told += self.tell(Tick(), after_ms=-(-(due - self.now.mono_ns) // NS_PER_MS))
        self.now = end
        return tuple(told)

    @property
    def phase(self) -> Phase:
        return phase(self.table)

    @property
    def round(self) -> Round:
        assert self.table.round is not None
        return self.table.round

    @property
    def emitted(self) -> list[Emit]:
        return [effect for effect in self.effects if isinstance(effect, Emit)]

    @property
    def kinds(self) -> list[Kind]:
        return [emit.kind for emit in self.emitted]

    @property
    def odds_asked(self) -> list[int]:
        return [effect.round for effect in self.effects if isinstance(effect, AskOdds)]

    def bodies(self, kind: Kind) -> list[Any]:
        return [emit.body for emit in self.emitted if emit.kind is kind]

    def body(self, kind: Kind) -> Any:
        """The body of the only record of this kind."""
        (body,) = self.bodies(kind)
        return body

    def whats(self) -> list[str]:
        """What the incidents were."""
        return [body.what for body in self.bodies(Kind.INCIDENT)]

    # --- a round of one device, step by step -----------------------------------------------------------

    @property
    def device(self) -> str:
        return self.setup.witnesses[0]

    def open(self) -> Play:
        self.tell(TableOpened("configuration"))
        return self

    def bets_open(self, number: int = 1) -> Play:
        if not self.table.open:
            self.open()
        self.tell(GameStarted(game(number, self.device)))
        return self

    def spinning(self, number: int = 1) -> Play:
        self.bets_open(number).tell(DrawStarted(game(number, self.device)))
        return self

    def no_more_bets(self, number: int = 1) -> Play:
        self.spinning(number).tell(BetsClosed(self.device, game(number, self.device)))
        return self

    def at_rest(self, pocket: str = "17", number: int = 1, facts: DrawFacts = PROVEN) -> Play:
        """The reading; where nothing more is awaited it ends the round."""
        self.no_more_bets(number).tell(Reading(game(number, self.device), (pocket,), facts))
        return self

    def whole_round(self, pocket: str = "17", number: int = 1, odds_table: int = 1) -> Play:
        self.no_more_bets(number)
        if self.setup.needs_odds:
            self.tell(odds_drawn(self.table.number, odds_table))
        self.tell(Reading(game(number, self.device), (pocket,), PROVEN))
        return self

    def blocked(self, number: int = 1) -> Play:
        """An unresolved round: the draw ended before bets were closed."""
        self.bets_open(number).tell(Reading(game(number, self.device), ("17",), PROVEN))
        return self

    # --- dice: the dealer closes the bets and permits, the dice are thrown ------------------------------

    def dice_ready(self, number: int = 1) -> Play:
        """Bets are closed and the throw is permitted."""
        self.bets_open(number).tell(BetsClosed("d1"), Permitted("d1"))
        return self

    def thrown(self, faces: str, number: int = 1, facts: DrawFacts = PLAIN) -> Play:
        """The dice of game `number` roll and come to rest; `faces` as `6-6`."""
        one = game(number, self.device)
        self.tell(DrawStarted(one), Reading(one, tuple(faces.split("-")), facts))
        return self

    def dice_round(self, faces: str, number: int = 1) -> Play:
        return self.dice_ready(number).thrown(faces, number)


IN_PHASE: dict[Phase, Callable[[Play], Play]] = {
    Phase.TABLE_CLOSED: lambda play: play,
    Phase.WAITING: Play.open,
    Phase.BETS_OPEN: Play.bets_open,
    Phase.SPINNING: Play.spinning,
    Phase.NO_MORE_BETS: Play.no_more_bets,
    Phase.AT_REST: Play.at_rest,
    Phase.BLOCKED: Play.blocked,
}
"""How a table comes into each phase; it stays at rest only where a hold, the dealer or odds are awaited."""
