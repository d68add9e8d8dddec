"""Tables for tests: setups from the shipped rule texts, a made-up wheel, and a table in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from dollyd.daemon.core.events import (
    BetsClosed,
    DrawFacts,
    DrawStarted,
    Event,
    GameRef,
    GameStarted,
    OddsDrawn,
    Reading,
    TableOpened,
    Tick,
    TurnsBasis,
)
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.record import Kind, Stakes
from dollyd.daemon.core.round import AskOdds, Effect, Emit, Phase, deadline_ns, phase, step
from dollyd.daemon.core.rulebook import (
    Layout,
    Profile,
    Rulebook,
    parse_layout,
    parse_profile,
    parse_rulebook,
)
from dollyd.daemon.core.stamp import NS_PER_MS, Stamp
from dollyd.daemon.core.state import Bound, Round, Setup, Table
from dollyd.daemon.gaming_day import gaming_day

START = Stamp(5_000_000_000, 1_796_000_000_000_000_000)
WHEEL, SECOND_WHEEL, ODDS_BOX = "wheel", "wheel-2", "odds"
PROVEN = DrawFacts(
    turns_basis=TurnsBasis.CERTIFIED, ball_direction="clockwise", wheel_direction="counter-clockwise"
)
"""What an automatic wheel shows of a draw in which all was well."""
RULEBOOK = "fi-ray-2013-roulette"


@cache
def rule_text(folder: str, name: str) -> bytes:
    """The exact bytes of a shipped rule file."""
    return files("dollyd").joinpath("config", folder, f"{name}.toml").read_bytes()


def layout(name: str) -> Layout:
    return parse_layout(rule_text("layouts", name))


def rulebook() -> Rulebook:
    return parse_rulebook(rule_text("rulebooks", RULEBOOK))[0]


def profile(name: str) -> Profile:
    return parse_profile(rule_text("profiles", name))[0]


def make_setup(
    variant: str = "A",
    *,
    profile_name: str = "fi-ray-2013",
    wheels: int = 1,
    rules: dict[str, Any] | None = None,
    **changes: Any,
) -> Setup:
    """A roulette table as the shipped texts have it; `rules` change the profile, `changes` the setup."""
    book, book_name = parse_rulebook(rule_text("rulebooks", RULEBOOK))
    jurisdiction, jurisdiction_name = parse_profile(rule_text("profiles", profile_name))
    game_rules = jurisdiction.games["roulette"]
    if rules:
        names = game_rules.__struct_fields__
        game_rules = type(game_rules)(**{name: getattr(game_rules, name) for name in names} | rules)
    chosen = book.variants[variant]
    devices = [Bound(name, "cammegh-ss2", "wheel") for name in (WHEEL, SECOND_WHEEL)[:wheels]]
    if variant == "B":
        devices.append(Bound(ODDS_BOX, "tlp", "odds"))
    setup = Setup(
        table="roulette-1",
        game=GAMES["roulette"],
        variant_name=variant,
        variant=chosen,
        layout=layout(chosen.layout),
        rulebook=book_name,
        profile=jurisdiction_name,
        rules=game_rules,
        zero_rule=chosen.zero_rules[0],
        quarters=False,
        stakes=Stakes(minimum=100, maximum=100_000, currency="EUR"),
        devices=tuple(devices),
        confirm="auto",
        hold_ms=game_rules.hold_ms,
        odds_timeout_ms=5_000,
        draw_timeout_ms=120_000,
        unresolved_void_ms=game_rules.unresolved_void_after_s * 1_000,
        gaming_date=gaming_day("Europe/Helsinki", "06:00"),
    )
    return replace(setup, **changes)


def game(number: int = 1, device: str = WHEEL) -> GameRef:
    return GameRef(device, "s1", f"{number:03}")


def odds_drawn(round_number: int = 1, table: int = 1) -> OddsDrawn:
    nonce = f"{round_number:016X}"
    return OddsDrawn(ODDS_BOX, round_number, table, round_number, nonce, "00AA00AA00AA00AA")


def later(at: Stamp, ms: int) -> Stamp:
    return Stamp(at.mono_ns + ms * NS_PER_MS, at.utc_ns + ms * NS_PER_MS)


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

    # --- a round of one wheel, step by step ------------------------------------------------------------

    def open(self) -> Play:
        self.tell(TableOpened("configuration"))
        return self

    def bets_open(self, number: int = 1) -> Play:
        if not self.table.open:
            self.open()
        self.tell(GameStarted(game(number)))
        return self

    def spinning(self, number: int = 1) -> Play:
        self.bets_open(number).tell(DrawStarted(game(number)))
        return self

    def no_more_bets(self, number: int = 1) -> Play:
        self.spinning(number).tell(BetsClosed(WHEEL, game(number)))
        return self

    def at_rest(self, pocket: str = "17", number: int = 1, facts: DrawFacts = PROVEN) -> Play:
        """The reading; where nothing more is awaited it ends the round."""
        self.no_more_bets(number).tell(Reading(game(number), (pocket,), facts))
        return self

    def whole_round(self, pocket: str = "17", number: int = 1, odds_table: int = 1) -> Play:
        self.no_more_bets(number)
        if self.setup.needs_odds:
            self.tell(odds_drawn(self.table.number, odds_table))
        self.tell(Reading(game(number), (pocket,), PROVEN))
        return self

    def blocked(self, number: int = 1) -> Play:
        """An unresolved round: the draw ended before bets were closed."""
        self.bets_open(number).tell(Reading(game(number), ("17",), PROVEN))
        return self


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
