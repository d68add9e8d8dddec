"""What devices, people and the clock can tell a round. Facts only: the rules decide what they mean.

A device speaks of *its* games (`GameRef`); the core binds one device game to one round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, get_args

from dollyd.wire.record import Finding, Odds, Setting, Stakes


class Flag(StrEnum):
    """What a device reported of a draw that is a matter for the rules. Kept once seen in a game."""

    LAUNCH_FAILED = "launch-failed"
    """The ball did not reach the rim, and the device gave up or it stayed so after the launch."""
    BALL_WITH_ROTOR = "ball-with-rotor"
    """The ball runs in the direction of the rotor."""
    BALL_NOT_DETECTED = "ball-not-detected"
    """The ball was not sensed for longer than the device's maker lets pass."""
    DEVICE_FAULT = "device-fault"
    """Sensor, motor or encoder: the device says itself that it cannot judge this draw."""
    BALL_OUT = "ball-out"
    """The ball left the wheel."""
    SECOND_BALL = "second-ball"
    """A foreign object, or a second ball."""
    BETWEEN_SECTORS = "between-sectors"
    """Money wheel: the pointer rests on a pin."""
    TOUCHED = "touched"
    """Outside influence: touched or braked."""
    RUNAWAY = "runaway"
    COCKED = "cocked"
    STACKED = "stacked"
    OUTSIDE_AREA = "outside-area"
    NOT_TOGETHER = "not-together"
    """The dice were not released at the same time."""
    WRONG_COUNT = "wrong-count"
    """Not the number of dice that the game has."""
    FOREIGN_OBJECT = "foreign-object"
    NOT_SHAKEN = "not-shaken"


class Defect(StrEnum):
    """Why the evidence of a draw is not complete and consistent. One is enough: no number."""

    JOINED_MID_GAME = "joined-mid-game"
    DATA_GAP = "data-gap"
    """Silence longer than the device's liveness limit inside the draw."""
    STALE_FRAMES = "stale-frames"
    """A draw was heard faster than it can be made: frames that were buffered before the port was opened."""
    DEVICE_LOST = "device-lost"
    ILLEGAL_TRANSITION = "illegal-transition"
    """A step that the device does not make: lines between were lost."""
    COUNTER_NOT_ADVANCED = "counter-not-advanced"
    """A new spin under the number of the one before."""
    NUMBER_CHANGED = "number-changed"
    WITNESSES_DISAGREE = "witnesses-disagree"
    """Two readings of the same draw differ, for example the bare number and the status line."""
    NOT_ON_WHEEL = "not-on-wheel"
    UNCONFIRMED = "unconfirmed"
    """A number was seen, but fewer times than the evidence rule asks."""
    BALL_BRIEFLY_NOT_DETECTED = "ball-briefly-not-detected"
    ROTOR_OVER_SPEED = "rotor-over-speed"
    ROTOR_STOPPED = "rotor-stopped"
    ROTOR_REVERSED = "rotor-reversed"
    SENSORS_DISAGREE = "sensors-disagree"
    """The device says itself that its sensors do not agree, or that its marks do not fit."""
    UNREAD = "unread"
    """A die or a sector could not be read: covered, dark, frozen picture, too little confidence."""
    COUNTS_DIFFER = "counts-differ"
    """The device's total of turns is not what the host counted."""
    WRONG_DEVICE = "wrong-device"
    CAPTURE_ENDED = "capture-ended"
    """Only in a replay: the file ends inside the game."""


class Ending(StrEnum):
    """How a device ended a game of which it gave no number."""

    SHUT_DOWN = "shut-down"
    """It went to its closed state; seen live."""
    SUPERSEDED = "superseded"
    """Its next game began."""
    LOST = "lost"
    """Nothing more can be heard of this game."""


class TurnsBasis(StrEnum):
    """How turns are known (design section 5)."""

    CERTIFIED = "certified"
    COUNTED = "counted"
    REPORTED = "reported"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class GameRef:
    """One attempt of one device. Unique for as long as the journal lives: sessions are never reused."""

    device: str
    session: str
    game: str
    attempt: int = 1

    def __str__(self) -> str:
        return f"{self.device}/{self.session}/{self.game}" + (f"#{self.attempt}" if self.attempt > 1 else "")


@dataclass(frozen=True, slots=True)
class DrawFacts:
    """All that a device has shown of one draw so far."""

    flags: tuple[Flag, ...] = ()
    defects: tuple[Defect, ...] = ()
    relaunches: int = 0
    turns_basis: TurnsBasis = TurnsBasis.NONE
    ball_turns_x100: int | None = None
    """Turns in hundredths: 4 full turns are 400."""
    wheel_turns_x100: int | None = None
    turns_lower_bound: bool = False
    """An event that would have been counted was lost: there were at least so many turns."""
    ball_direction: str = ""
    wheel_direction: str = ""
    """`clockwise`, `counter-clockwise`, or empty where not known."""
    details: tuple[tuple[str, str], ...] = ()
    """What else the device showed, by its own names, e.g. readings, bonus numbers."""


@dataclass(frozen=True, slots=True)
class DeviceReady:
    """A device speaks, and is the one that is bound to this table."""

    device: str
    identity: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceChanged:
    """What a device shows cannot be the device that was here before; `cause` is for people."""

    device: str
    cause: str


@dataclass(frozen=True, slots=True)
class DeviceTrouble:
    """A device is `lost`, `stale`, `fault` or `wrong-device`; `cause` is for people."""

    device: str
    status: str
    cause: str


@dataclass(frozen=True, slots=True)
class GameStarted:
    """A device game began where bets may be placed. `joined`: it was under way when we came.

    `told_at_end`: the device speaks of a draw only once it is over, so this begins no round.
    """

    game: GameRef
    joined: bool = False
    told_at_end: bool = False


@dataclass(frozen=True, slots=True)
class DrawStarted:
    """The ball is in the rim, the wheel is released, the dice are thrown."""

    game: GameRef


@dataclass(frozen=True, slots=True)
class BetsClosed:
    """No more bets: by the device (`game` set) or by a person."""

    by: str
    game: GameRef | None = None
    round: int = 0
    """The round that a person meant, 0 = whichever is in progress."""
    role: str = "dealer"


@dataclass(frozen=True, slots=True)
class DrawUpdate:
    """A flag, a defect or a relaunch was seen in a game under way."""

    game: GameRef
    facts: DrawFacts


@dataclass(frozen=True, slots=True)
class Reading:
    """The draw is at rest and the driver's evidence rule is met: the candidate."""

    game: GameRef
    value: tuple[str, ...]
    facts: DrawFacts


@dataclass(frozen=True, slots=True)
class Observed:
    """A device that supports others, such as a ball detector, has seen its part of the draw to the end."""

    game: GameRef
    facts: DrawFacts


@dataclass(frozen=True, slots=True)
class GameEnded:
    """A device game ended without a reading."""

    game: GameRef
    ending: Ending
    facts: DrawFacts


@dataclass(frozen=True, slots=True)
class ReadingContradicted:
    """After its reading a device showed another number for the same game."""

    game: GameRef
    value: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OddsDrawn:
    """The odds box answered with a table; the driver has checked authenticity, nonce and counter."""

    device: str
    round: int
    table: int
    counter: int
    nonce: str
    proof: str


@dataclass(frozen=True, slots=True)
class OddsFailed:
    """The odds box gave no usable answer for this round; `cause` is a driver's code."""

    device: str
    round: int
    cause: str


@dataclass(frozen=True, slots=True)
class TableOpened:
    """The table is opened for play. `checks`: what was checked before, by name, and how it was found."""

    by: str
    role: str = "dealer"
    checks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableClosed:
    """The table is closed."""

    by: str
    role: str = "dealer"


@dataclass(frozen=True, slots=True)
class VoidDeclared:
    """An entitled person declares the round in progress void, by a judgement of their own or another's."""

    by: str
    role: str
    reason: str
    round: int = 0
    """The round that was meant, 0 = whichever is in progress."""
    judged_by: str = ""
    judged_role: str = ""


@dataclass(frozen=True, slots=True)
class Permitted:
    """The dealer permits the throw (dice)."""

    by: str
    round: int = 0
    """The round that was meant, 0 = whichever is in progress."""
    role: str = "dealer"


@dataclass(frozen=True, slots=True)
class ThrowRejected:
    """An entitled person does not accept the throw (dice); the round goes on."""

    by: str
    role: str
    reason: str
    round: int = 0
    """The round that was meant, 0 = whichever is in progress."""


@dataclass(frozen=True, slots=True)
class Seated:
    """The seats that take part in the round, clockwise (Tuplanoppa)."""

    by: str
    seats: tuple[str, ...]
    role: str = "dealer"


@dataclass(frozen=True, slots=True)
class ShooterDeclined:
    """The player whose turn it is passes the dice on (Tuplanoppa)."""

    by: str
    role: str = "dealer"


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a rule wants inspected was found good, e.g. the ball that had left the wheel."""

    by: str
    role: str = "dealer"


@dataclass(frozen=True, slots=True)
class NoneImprisoned:
    """A person has made sure that no stake is imprisoned, so that the version may change (rulebook 2.9)."""

    by: str
    role: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The dealer confirms the candidate."""

    by: str
    round: int = 0
    """The round that was meant, 0 = whichever is in progress."""
    role: str = "dealer"


@dataclass(frozen=True, slots=True)
class ResultProposed:
    """A person says what came, where the devices could not or were wrong. A second one must approve it.

    `command`: the signed command itself; `digest`: SHA-256 of its exact bytes, by which it is approved.
    """

    by: str
    role: str
    command: str
    digest: str
    round: int
    value: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Original:
    """What the journal holds of a round that is to be corrected, the last correction of it included."""

    seq: int
    """The record that is corrected."""
    finding: Finding
    setting: Setting
    gaming_date: str
    stakes: Stakes | None = None
    odds: Odds | None = None
    outcome_before: dict[str, str | int | bool | list[str]] | None = None
    """The result before it in the chain, from which the game's memory follows; None where there is none."""
    newest: bool = False
    """No later round has a result: what the game remembers from here on is corrected too."""
    upto: int = 0
    """The last round with a final record when the journal was read: beyond it these facts say nothing."""


@dataclass(frozen=True, slots=True)
class CorrectionProposed:
    """A person says that a published round was wrong; an empty value says that it is void."""

    by: str
    role: str
    command: str
    digest: str
    round: int
    value: tuple[str, ...]
    reason: str
    original: Original


@dataclass(frozen=True, slots=True)
class Approved:
    """A second person approves the proposal with this digest.

    `original`: of a correction, the round as the journal has it now, whatever it had at the proposal.
    """

    by: str
    role: str
    command: str
    proposal: str
    original: Original | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; sent at the deadline that the core asked for."""


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """UTC moved against the monotonic clock by `step_ns`, more than slewing explains."""

    step_ns: int
    synchronised: bool | None = None
    """Whether the kernel vouches for UTC from here on; None: that did not change."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """The daemon came up; `down_since_utc` is the time of the last record before."""

    down_since_utc: str
    utc_ns: int = -1
    """How long ago that was by either clock; -1: not known, as by the monotonic one of another boot."""
    mono_ns: int = -1


@dataclass(frozen=True, slots=True)
class PlayHalted:
    """The host lets no new round begin, and why, separated by commas; no `reason` lets play go on."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeviceTooFast:
    """A device causes more records than its budget allows."""

    device: str


@dataclass(frozen=True, slots=True)
class HostStalled:
    """The host stood still for `length_ms`: when what is read behind it happened, nobody knows."""

    length_ms: int


@dataclass(frozen=True, slots=True)
class HostIncident:
    """Something of the host that is worth knowing and decides no round; `text` is for people."""

    what: str
    text: str


DeviceEvent: TypeAlias = (
    DeviceReady
    | DeviceChanged
    | DeviceTrouble
    | GameStarted
    | DrawStarted
    | BetsClosed
    | DrawUpdate
    | Reading
    | Observed
    | GameEnded
    | ReadingContradicted
    | OddsDrawn
    | OddsFailed
)
HouseEvent: TypeAlias = (
    TableOpened
    | TableClosed
    | VoidDeclared
    | Confirmed
    | BetsClosed
    | Permitted
    | ThrowRejected
    | Seated
    | ShooterDeclined
    | Inspected
    | NoneImprisoned
    | ResultProposed
    | CorrectionProposed
    | Approved
)
ClockEvent: TypeAlias = Tick | ClockStepped | Restarted
HostEvent: TypeAlias = PlayHalted | HostIncident | HostStalled | DeviceTooFast
Spoken: TypeAlias = DeviceEvent | HouseEvent
"""What a driver may tell: a dealer console is a device that speaks for people."""
Event: TypeAlias = DeviceEvent | HouseEvent | ClockEvent | HostEvent

HOUSE_EVENTS: tuple[type[HouseEvent], ...] = get_args(HouseEvent)
