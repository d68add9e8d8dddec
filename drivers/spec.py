"""What a driver is: a framing, a protocol without I/O, and what it can prove. Frozen tables, no magic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from dollyd.daemon.core.events import Spoken, TurnsBasis
from dollyd.drivers.framing import AnyFrame, FrameDecoder
from dollyd.wire.stamp import Stamp


class Status(StrEnum):
    """Device states as published (design section 5)."""

    INIT = "init"
    READY = "ready"
    """A valid frame was heard."""
    STALE = "stale"
    """Silent for more than 3 periods."""
    LOST = "lost"
    FAULT = "fault"
    """It says so itself."""
    WRONG_DEVICE = "wrong-device"


class Proof(StrEnum):
    """What a device can prove of a draw."""

    NUMBER = "number"
    BALL_TURNS = "ball-turns"
    WHEEL_TURNS = "wheel-turns"
    DIRECTION = "direction"
    ODDS_TABLE = "odds-table"


@dataclass(frozen=True, slots=True)
class DrawOdds:
    """Order to an odds box: draw the odds table of this round. `nonce` is 16 hex digits."""

    round: int
    nonce: str


Order: TypeAlias = DrawOdds


@dataclass(frozen=True, slots=True)
class Said:
    """What a protocol answers to one input: events for the core, bytes for the device."""

    events: tuple[Spoken, ...] = ()
    send: tuple[bytes, ...] = ()


NOTHING = Said()


class DeviceProtocol(Protocol):
    """A device's language, sans-IO: deterministic, time arrives as stamps.

    One instance lives as long as its device is configured; `opened` and `lost` frame each connection.
    """

    counters: Counter[str]
    """Statistics for the health topic: frames by kind, rejects by rule. Not part of the state."""

    @property
    def status(self) -> Status:
        """Device state as published."""
        ...

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What the device said of itself."""
        ...

    def opened(self, at: Stamp) -> Said:
        """The port is open: a new session begins, nothing heard before counts."""
        ...

    def remember(self, game: str, utc_ns: int, /) -> None:
        """Before anything else: the game in which the journal names the device last, and when that was."""
        ...

    def received(self, frame: AnyFrame, at: Stamp) -> Said:
        """One frame came."""
        ...

    def lost(self, cause: str, at: Stamp, /) -> Said:
        """The port is gone."""
        ...

    def tick(self, at: Stamp) -> Said:
        """The deadline has come (harmless when it has not)."""
        ...

    def order(self, order: Order, at: Stamp, /) -> Said:
        """The round wants something of the device."""
        ...

    def deadline_ns(self) -> int | None:
        """Monotonic time at which `tick` is due, or None."""
        ...

    def snapshot(self) -> Any:
        """The whole state as a frozen value that JSON can hold."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Take a state back that `snapshot` gave, possibly through JSON."""
        ...


@dataclass(frozen=True, slots=True)
class SerialDefaults:
    """How a port is opened unless the configuration says otherwise.

    `dtr` and `rts`: the level set at open, None = leave it to the kernel. A daemon's restart must not
    restart a device, so hang-up on close is always off.
    """

    baud: int
    baud_fixed: bool = False
    """The configuration may not choose another speed: for this device a speed is a command."""
    bytesize: int = 8
    parity: str = "N"
    stopbits: int = 1
    dtr: bool | None = None
    rts: bool | None = None


@dataclass(frozen=True, slots=True)
class UsbDefaults:
    """Where a USB device is read and written unless the configuration says otherwise.

    `endpoint_out`: None where nothing is ever sent. `read_bytes`: asked for at once, None = one packet; more
    for an endless stream. `timeout_ms`: within which a device must have given so much, 1..250. `pause_ms`:
    between two reads of an endless stream.
    """

    endpoint_in: int
    endpoint_out: int | None
    interface: int = 0
    read_bytes: int | None = None
    timeout_ms: int = 100
    pause_ms: int = 0


@dataclass(frozen=True, slots=True)
class Badges:
    """What badges on a dealer console are worth."""

    roles: Mapping[str, str] = field(default_factory=dict)
    """Role by badge. Where it is empty, whoever is at the console is the dealer."""
    required: bool = False
    """A key without a badge that is known counts for nothing."""
    session_ms: int = 300_000
    """Without a key for so long, the badge must be shown again."""


@dataclass(frozen=True, slots=True)
class DeviceSetup:
    """What a protocol is told of its place: checked settings, no I/O."""

    name: str
    role: str
    pockets: tuple[str, ...] = ()
    """The outcome texts that the game allows; empty where the device gives none."""
    readings: tuple[tuple[str, ...], ...] = ()
    """Every reading that the game has, for devices that give more than one text."""
    period_ms: int = 500
    """The device's status period; all limits of silence are multiples of it."""
    silence_ms: int = 2000
    """Longer silence inside a draw is a gap in the evidence."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Driver options, checked by `DriverSpec.options`."""
    secret: bytes = b""
    """Key shared with the device (odds box), empty where none is needed."""
    expect: Mapping[str, str] = field(default_factory=dict)
    """Identity that the device must show, e.g. {"serial": "SN000123"}."""
    game: str = ""
    """Name of the game at its table."""
    badges: Badges = field(default_factory=Badges)
    """Of a dealer console: whose badge is worth what."""
    unproven: bool = False
    """The shared key is not at hand, proofs are taken unchecked: so says a replay of evidence, play never."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a driver is in one role at a table."""

    games: frozenset[str]
    proves: frozenset[Proof]
    """Empty where it proves nothing of a draw, as a console."""
    turns: frozenset[TurnsBasis] = frozenset()
    """How it can know the turns that it proves."""
    needs_secret: bool = False
    told_at_end: bool = False
    """It speaks of a draw only once it is over: a round begins by the announcement."""


@dataclass(frozen=True, slots=True)
class Option:
    """What a technician may tell a driver: a number, or yes or no."""

    meaning: str
    """With the unit."""
    default: int | bool | None
    """None: the device's status period, in milliseconds."""
    least: int = 0
    most: int | None = None
    """The values that a number may have, both ends included; None: the status period."""

    @property
    def kind(self) -> type:
        """`int` or `bool`."""
        return int if self.default is None else type(self.default)


@dataclass(frozen=True, slots=True)
class DriverSpec:
    """One line of the table `DRIVERS`. Every field is filled; a driver has a serial port, or USB, or both."""

    name: str
    summary: str
    roles: Mapping[str, Place]
    """Roles at a table that this driver can fill: `wheel`, `ball`, `odds`, `dice`, `console`."""
    framing: Callable[[], FrameDecoder]
    protocol: Callable[[DeviceSetup], DeviceProtocol]
    options: Mapping[str, Option]
    """The driver's options by name; anything else in the configuration is refused."""
    serial: SerialDefaults | None
    """None where it has no serial port."""
    period_ms: int
    """Default status period."""
    expects: tuple[str, ...] = ()
    """What a device says of itself by which `expect` can bind it to its table."""
    usb: UsbDefaults | None = None
    """None where it is not reached by USB transfers."""
