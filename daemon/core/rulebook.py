"""Rule texts: rulebooks, layouts and profiles, parsed from the exact bytes of their files.

The SHA-256 of those bytes is in every record, so that an auditor knows which text decided. What a variant or
a layout holds is the game's business (`games/`).
"""

from __future__ import annotations

import hashlib
import tomllib
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from dollyd.daemon.core.budget import RECORDS_AT_ONCE, RECORDS_PER_S, Limits
from dollyd.wire.decoding import from_toml
from dollyd.wire.record import Named

T = TypeVar("T")


UNSOUND_JOURNAL = "journal-unsound"
"""A reason of the host to halt play that a profile may tolerate (`unsound_journal`)."""


class RuleTextError(Exception):
    """A rulebook, layout or profile is not what its kind asks; the message names the key."""


PrisonLoss: TypeAlias = Literal["three_in_a_row", "third_level"]
"""What loses among zeros (rulebook 2.9, PRISON-A): the third in a row, as the text reads literally, or any
zero that comes while two wins are needed. They differ after zero, zero, own chance, zero, zero."""


class RuleText(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of everything parsed from a rule file; an unknown key is an error."""


class Rulebook(RuleText, frozen=True):
    """All versions of one game in one regulation."""

    id: str
    game: str
    source: str
    variants: dict[str, dict[str, Any]]
    """Parsed by the game: see `variant`."""
    quarter_odds: int = 0
    """Roulette: n to 1 for quarters, which are offered only where the cloth shows them; 0 = never."""
    rounding: Literal["down", "half-up"] = "down"
    """How settlement rounds money to the minor unit."""
    prison_loss: PrisonLoss = "three_in_a_row"
    """Roulette: what loses an imprisoned stake among zeros."""


class GameProfile(RuleText, frozen=True):
    """What a jurisdiction asks of a round of one game (rulebook section 11)."""

    source: str
    ball_min_turns: int = 0
    """Whole turns that the ball must make; 0 = left to the dealer."""
    wheel_min_turns: int = 0
    ball_direction_opposite_required: bool = False
    wheel_direction_alternates: bool = False
    """The wheel turns the other way each round."""
    turns_basis: frozenset[Literal["counted", "reported", "certified"]] = frozenset(
        {"counted", "reported", "certified"}
    )
    """Which kinds of proof of turns are enough."""
    dice_shakes_min: int = 0
    """How often the cup or shaker must be shaken; 0 = not asked."""
    dice_cocked: Literal["void", "read_opposite"] = "void"
    """A die that leans: the throw is rejected, or the dealer reads it (the side opposite the obstacle)."""
    dice_stacked: Literal["void", "read"] = "void"
    dice_permission_required: bool = False
    """A throw counts only after the dealer's permission."""
    nmb_before_draw: Literal["required", "allowed", "reversed"] = "allowed"
    """Whether no more bets must come before the draw; `reversed`: dice are shaken before bets are taken."""
    bets_close: Literal["announced", "draw-start"] = "announced"
    """What closes the bets: the announcement, or, where none is made, the start of the draw (rulebook G5)."""
    void_declarers: frozenset[Literal["dealer", "inspector", "pit-boss"]] = frozenset({"dealer"})
    void_judges: frozenset[Literal["dealer", "inspector", "pit-boss"]] = frozenset(
        {"dealer", "inspector", "pit-boss"}
    )
    """Who may judge that a round does not count, where another declares it."""
    manual_by: frozenset[Literal["dealer", "inspector", "pit-boss"]] = frozenset(
        {"dealer", "inspector", "pit-boss"}
    )
    """Who may propose or approve a result by hand or a correction; one of the two is a supervisor."""
    two_person_window_s: Annotated[int, Meta(gt=0, le=3600)] = 300
    """How long a proposal waits for the second person; verifiers take no more than an hour."""
    operator_session_s: int = 300
    """How long a badge on the console counts without a key (rulebook 12.1: C.6.5 d)."""
    orders_clock: Literal["any", "synchronised"] = "any"
    """Whether signed orders are taken while nobody vouches for the node's clock, by which they expire."""
    badge_required: bool = False
    """A key on the console counts only with a badge that is known."""
    void_until: Literal["confirmed", "settled"] = "confirmed"
    void_stake_policy: Literal["player_choice", "returned", "carried", "unstated"] = "unstated"
    unsound_journal: Literal["block", "tell"] = "block"
    """Whether new rounds wait for people where old records of the journal are damaged or missing."""
    hold_ms: int = 0
    """Time between landing and automatic confirmation; 0 unless the profile asks for it."""
    unresolved_void_after_s: int = 0
    """An unresolved round is void as unrecoverable after this long; 0 = only people close it."""
    round_pace_max_per_hour: int = 0
    """More rounds an hour are an incident; 0 = no limit."""
    game_min_ms: Annotated[int, Meta(ge=0)] = 0
    """A game that is at rest sooner after its round was opened, or after the throw before it was rejected, is
    no game; 0 = not asked. Where the announcement opens the round, so long after the game before."""
    records_at_once: Annotated[int, Meta(gt=0)] = RECORDS_AT_ONCE
    """Records that a device, or a person with one kind of order, may cause at once; a table twice as many."""
    records_per_s: Annotated[int, Meta(gt=0)] = RECORDS_PER_S
    """Records a second that they may cause for ever. More of both is for simulated devices that hurry."""
    sectors: int = 0
    """Money wheel: sectors that the layout must have; 0 = any."""
    pockets: int = 0
    """Roulette: pockets that the layout must have; 0 = any."""

    @property
    def records(self) -> Limits:
        """The budget of a device."""
        return Limits(self.records_at_once, self.records_per_s)


class Profile(RuleText, frozen=True):
    """A jurisdiction."""

    id: str
    games: dict[str, GameProfile]


def parse(data: bytes, kind: type[T]) -> T:
    """A rule file as its Struct. Raises `RuleTextError`."""
    try:
        return convert(from_toml(data), kind)
    except tomllib.TOMLDecodeError as error:
        raise RuleTextError(str(error)) from error


def convert(tree: dict[str, Any], kind: type[T]) -> T:
    """A part of a rule file as its Struct. Raises `RuleTextError`."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise RuleTextError(str(error)) from error


def digest(data: bytes) -> str:
    """SHA-256 of a file's exact bytes, lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def parse_rulebook(data: bytes) -> tuple[Rulebook, Named]:
    """Parse a rulebook and name it by id and digest. Raises `RuleTextError`."""
    rulebook = parse(data, Rulebook)
    return rulebook, Named(id=rulebook.id, digest=digest(data))


def parse_profile(data: bytes) -> tuple[Profile, Named]:
    """Parse a profile and name it by id and digest. Raises `RuleTextError`."""
    profile = parse(data, Profile)
    return profile, Named(id=profile.id, digest=digest(data))
