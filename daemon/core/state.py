"""The state of a table and of its round: frozen values, nothing but data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dollyd.daemon.core.budget import Accounts
from dollyd.daemon.core.events import DrawFacts, Ending, GameRef, OddsDrawn, Original
from dollyd.daemon.core.games.spec import Game, Memory
from dollyd.daemon.core.rulebook import GameProfile
from dollyd.wire.record import Named, Stakes
from dollyd.wire.stamp import Stamp

MISSED_NAMED_MAX = 20
"""How many missed device games a `gap` record names; the rest is counted."""


SUPPORTING_ROLES = frozenset({"ball"})
"""Roles whose devices see a part of the draw: turns, directions."""


TOO_FAST = "too-fast"
HOST_STALLED = "host-stalled"
"""Rules by which a round is spoilt, whatever its devices say."""


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
    told_at_end: bool = False
    """It speaks of a draw only once it is over, so that no round begins by what it says."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is fixed while a table is open: the game, the rules and the devices. Not part of the state."""

    table: str
    game: Game
    variant_name: str
    variant: Any
    """The game's own variant."""
    layout: Any
    """The game's own layout, None where it has none."""
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
    """How long after no more bets, or without them after its start, the draw may go on."""
    witness_timeout_ms: int
    """How long after the first reading the other witnesses may take."""
    unresolved_void_ms: int
    """Unresolved rounds are void as unrecoverable after this long; 0 = never by themselves."""
    gaming_date: Callable[[int], str]
    """UTC nanoseconds to the gaming date, which a boundary hour may push past midnight."""

    @property
    def witnesses(self) -> tuple[str, ...]:
        """Names of the devices that bring the outcome."""
        return tuple(device.name for device in self.devices if device.role in self.game.roles)

    @property
    def supporters(self) -> tuple[str, ...]:
        """Names of the devices that prove something of the draw without reading the outcome."""
        return tuple(device.name for device in self.devices if device.role in SUPPORTING_ROLES)

    @property
    def opens_by_announcement(self) -> bool:
        """Whether no more bets begins a round: no device that reads the outcome tells of its beginning."""
        return all(device.told_at_end for device in self.devices if device.role in self.game.roles)

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
    observed: bool = False
    """A supporting device has seen its part to the end."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A void declared by a person."""

    by: str
    role: str
    reason: str
    judged_by: str = ""
    judged_role: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one person has proposed and a second one has not approved yet."""

    by: str
    role: str
    command: str
    digest: str
    round: int
    value: tuple[str, ...]
    reason: str
    at: Stamp
    original: Original | None = None
    """Of a correction, None for the result of the round in progress."""


@dataclass(frozen=True, slots=True)
class Throw:
    """The throw that is awaited or made in a round of dice."""

    number: int = 1
    awaited: Stamp | None = None
    """Since when, where the throw before it was rejected."""
    permitted: Mark | None = None
    rejected: Declared | None = None


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
    first_reading: Stamp | None = None
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
    entered: Mark | None = None
    """A person has entered what came: from then on people decide."""
    early_draw: bool = False
    """The draw started before no more bets where the profile forbids it."""
    throw: Throw = field(default_factory=Throw)
    unresolved: Mark | None = None
    """Set once the round is known to be unresolved; `by` is the rule. The table is blocked."""
    spoilt: str = ""
    """The rule by which nothing that is heard of this round counts, empty where there is none."""
    device_changed: bool = False
    """Another device came behind a name of this table."""
    followed: bool = False
    """It was read, and another spin may have come since: the next one is not compared with it."""

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
    bound: tuple[tuple[str, str], ...] = ()
    """By what the table knows it, over connections and restarts; empty where it never said who it is."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Device games that were played while no round was open."""

    games: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Repeated:
    """How often one kind of incident of one device or person came in a round, or between rounds."""

    device: str
    what: str
    round: int
    since_ns: int
    """Monotonic time."""
    count: int = 0
    by: str = ""
    """Who caused it, where no device did."""


@dataclass(frozen=True, slots=True)
class Table:
    """The whole state of one table."""

    open: bool = False
    opened_at: Stamp | None = None
    number: int = 0
    """Number of the last round; never reused within a chain."""
    round: Round | None = None
    rested: Stamp | None = None
    """When the last round that has ended came to rest, None where that is not known."""
    last_games: tuple[GameRef, ...] = ()
    """Device games of the last final round: what they still say changes nothing."""
    memory: Memory = ()
    """What the game carries from result to result; a void round does not touch it (rulebook 2.9, T15)."""
    wheel_direction: str = ""
    """Direction of the wheel in the last spin, empty where it was not seen or another may have come since."""
    odds_counter: int = -1
    """Counter of the odds box at its last draw that is known, -1 where none is."""
    paces: tuple[int, ...] = ()
    """Monotonic times of the rounds opened within the last hour, where the profile limits the pace."""
    inspection: str = ""
    """Why something must be inspected before the next round, empty where nothing must."""
    halted: str = ""
    """Why the host lets no new round begin, empty where it does."""
    proposal: Proposal | None = None
    """The last one, until it is approved; it counts for as long as the profile says."""
    manual: bool = False
    """The last round that counted was decided by people."""
    missed: Missed = field(default_factory=Missed)
    running: tuple[GameRef, ...] = ()
    """Device games that began while the table was closed and have not ended."""
    devices: tuple[DeviceView, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    """Incidents of devices and persons within the last minute."""
    accounts: Accounts = ()
    """Who has caused records within the last seconds: devices, persons by order, and the table (empty)."""
    too_fast: tuple[str, ...] = ()
    """Devices beyond their budget: they are not heard until they are opened anew."""

    @property
    def blocked(self) -> str:
        """The rule or the trouble of the host that blocks the table, or the rule that asks for an inspection.

        Empty where play may go on.
        """
        unresolved = self.round.unresolved.by if self.round and self.round.unresolved else ""
        return unresolved or self.halted or self.inspection

    @property
    def mode(self) -> str:
        """`manual` where people decide the round in progress, or decided the one before it; else `auto`."""
        entered = self.round is not None and self.round.entered is not None
        return "manual" if self.manual or entered else "auto"

    @property
    def may_open(self) -> bool:
        """Whether nothing stands against a new round."""
        return self.round is None and not self.inspection and not self.halted
