"""The state of a table and of its round: frozen values, nothing but data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from dollyd.daemon.core.events import DrawFacts, Ending, GameRef, OddsDrawn
from dollyd.daemon.core.games.spec import Game
from dollyd.daemon.core.record import Named, Stakes
from dollyd.daemon.core.rulebook import GameProfile, Layout, Variant
from dollyd.daemon.core.stamp import Stamp

MISSED_NAMED_MAX = 20
"""How many missed device games a `gap` record names; the rest is counted."""


class Betting(StrEnum):
    """The betting side of a round."""

    OPEN = "open"
    CLOSED = "closed"


class Draw(StrEnum):
    """The physical side of a round."""

    NOT_STARTED = "not-started"
    MOVING = "moving"
    AT_REST = "at-rest"


@dataclass(frozen=True, slots=True)
class Bound:
    """A device at the table, as configured."""

    name: str
    driver: str
    role: str


@dataclass(frozen=True, slots=True)
class Setup:
    """What is fixed while a table is open: the game, the rules and the devices. Not part of the state."""

    table: str
    game: Game
    variant_name: str
    variant: Variant
    layout: Layout
    rulebook: Named
    profile: Named
    rules: GameProfile
    zero_rule: str
    quarters: bool
    stakes: Stakes
    devices: tuple[Bound, ...]
    confirm: str
    """`auto` after `hold_ms`, or `dealer`."""
    hold_ms: int
    odds_timeout_ms: int
    """How long the odds box may take from no more bets; later is no answer."""
    draw_timeout_ms: int
    """How long after no more bets the draw may go on before the round is unresolved."""
    unresolved_void_ms: int
    """Unresolved rounds are void as unrecoverable after this long; 0 = never by themselves."""
    gaming_date: Callable[[int], str]
    """UTC nanoseconds to the gaming date, which a boundary hour may push past midnight."""

    @property
    def witnesses(self) -> tuple[str, ...]:
        """Names of the devices that bring the outcome."""
        return tuple(device.name for device in self.devices if device.role in self.game.roles)

    @property
    def needs_odds(self) -> bool:
        """Whether a result needs the odds table of this very round."""
        return self.game.needs_odds_table(self.variant)


@dataclass(frozen=True, slots=True)
class Mark:
    """Somebody did something at some time."""

    by: str
    at: Stamp


@dataclass(frozen=True, slots=True)
class WitnessState:
    """One device's story of this round."""

    game: GameRef
    facts: DrawFacts = field(default_factory=DrawFacts)
    value: tuple[str, ...] = ()
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """A void declared by a person."""

    by: str
    role: str
    reason: str


@dataclass(frozen=True, slots=True)
class Round:
    """One round in progress, with its facts and their times."""

    number: int
    betting: Betting = Betting.OPEN
    draw: Draw = Draw.NOT_STARTED
    witnesses: tuple[WitnessState, ...] = ()
    opened: Stamp | None = None
    """None in a round that a restart interrupted: it is told by the journal only."""
    bets_closed: Mark | None = None
    draw_started: Stamp | None = None
    at_rest: Stamp | None = None
    confirmed: Mark | None = None
    odds: OddsDrawn | None = None
    odds_at: Stamp | None = None
    odds_failed: str = ""
    odds_early: bool = False
    """The odds table was drawn before no more bets."""
    interrupted: bool = False
    """The daemon restarted in mid-round."""
    declared: Declared | None = None
    unresolved: Mark | None = None
    """Set once the round is known to be unresolved; `by` is the rule. The table is blocked."""

    def witness(self, game: GameRef) -> WitnessState | None:
        """The witness that speaks of this device game."""
        return next((w for w in self.witnesses if w.game == game), None)


@dataclass(frozen=True, slots=True)
class DeviceView:
    """What the core knows of a device."""

    name: str
    status: str = "init"
    cause: str = ""
    identity: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Missed:
    """Device games that were played while no round was open."""

    games: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """The whole state of one table."""

    open: bool = False
    opened_at: Stamp | None = None
    number: int = 0
    """Number of the last round; never reused within a chain."""
    round: Round | None = None
    last_games: tuple[GameRef, ...] = ()
    """Device games of the last final round: what they still say changes nothing."""
    zeros: int = 0
    """Zeros in a row, void rounds not counted (rulebook 2.9, case T15)."""
    missed: Missed = field(default_factory=Missed)
    devices: tuple[DeviceView, ...] = ()

    @property
    def blocked(self) -> str:
        """The rule that blocks the table, empty where play may go on."""
        return self.round.unresolved.by if self.round and self.round.unresolved else ""
