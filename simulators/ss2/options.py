"""How a simulated SlingShot 2 is set up, and what it remembers of the games it really played."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

FIRMWARE = "V2.50 Cammegh / Syoptic - SlingShot 2 Roulette Wheel (c) 03/12/18"

MODE_REVERSE = 1
MODE_WAIT_FOR_START = 2
MODE_SPEED_CHANGE = 4
MODE_NO_BARE_NUMBER = 16
MODE_PUSH = 128
MODE_DELAY_5_TO_1 = 1024
MODE_DELAY_5_TO_2 = 2048
MODE_BONUS = 32_768
"""Bits of `*o` (part 1, mode bits)."""

EXTRA_NO_RETRY = 8
EXTRA_STATE_7 = 32
"""Bits of `*T g`, firmware 2.52."""

Span: TypeAlias = tuple[int, int]
"""Least and most, both included; drawn anew each time."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long things last, in status periods. The defaults lie around the medians of real captures."""

    boot: Span = (8, 12)
    """Silent and deaf after power-on."""
    idle: Span = (6, 12)
    """In state 6 before the staff open the table."""
    before_game: Span = (14, 22)
    start_key: Span = (4, 13)
    """In state 2 before the dealer presses the key."""
    brake: tuple[int, ...] = (128, 41, 8, 0, 0)
    """Rotor speeds while it brakes in state 2; the direction flips at the end."""
    spin_up: tuple[int, ...] = (0, 85)
    settled: Span = (2, 3)
    """Rotor at speed before the ball is fired."""
    failed_launch: Span = (36, 46)
    """Flag 8 before the rotor turns for another try."""
    rim: Span = (6, 10)
    no_more_bets: Span = (48, 58)
    state_7: Span = (3, 6)
    result: Span = (8, 14)
    closing: Span = (6, 26)
    """Braking after *P 0, until state 6."""
    repair: Span = (20, 40)
    """In state 6 after a stop or in the dark after a power cut, before the staff come."""


SHORT = Lengths(
    boot=(2, 3),
    idle=(2, 3),
    before_game=(2, 3),
    start_key=(1, 3),
    brake=(60, 0),
    spin_up=(85,),
    settled=(1, 1),
    failed_launch=(8, 10),
    rim=(3, 4),
    no_more_bets=(8, 10),
    state_7=(2, 2),
    result=(4, 6),
    closing=(6, 8),
    repair=(4, 6),
)
"""A game of about 25 periods."""

PARAMETERS: dict[str, str] = {
    "d": "15",
    "c": "8465",
    "p": "50",
    "q": "800",
    "k": "1900",
    "i": "10",
    "j": "6705 3386 26 1",
    "r": "23000 23000",
    "s": "16.0 18.0",
    "t": "1475",
    "n": "2920",
    "m": "2.0",
}
"""Values of `*T` as captured; h, z and g come from the options."""


@dataclass(frozen=True, slots=True)
class Ss2Options:
    """One wheel. `attended`: staff open the table and press the start key; else the host must."""

    period_ms: int = 500
    firmware: str = FIRMWARE
    mode: int = 1159
    pockets: int = 37
    port: int = 1
    """1, 2 or 3; ports 2 and 3 have no bare number, no `*I`, `*C`, `*W`, `*M`, `*s`."""
    first_counter: int = 1
    """Counter after the first power-on; every later one starts at 1."""
    games_per_hour: int = 161
    extra_modes: int = 0
    bonus_days: int = 999
    """Days left of the bonus licence; 30 or fewer are shown in each bonus line."""
    attended: bool = True
    lengths: Lengths = field(default_factory=Lengths)


COMPACT = Ss2Options(period_ms=50, games_per_hour=100_000, lengths=SHORT)
"""For tests that play many games; change fields with `dataclasses.replace`."""


def pocket_texts(pockets: int) -> tuple[str, ...]:
    """A wheel's numbers as it writes them; `38` and `39` are the triple and quadruple zero."""
    zeros = (" 0", "00", "38", "39")[: pockets - 36]
    return (*zeros, *(f"{number:2}" for number in range(1, 37)))


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """What really happened in one game, whatever the wire said of it."""

    counter: int
    pocket: str | None
    """Where the ball fell, as the wheel writes it; None where the game was aborted."""
    outcome: str
    """`completed` or `aborted`."""
    start_ns: int
    end_ns: int
    """Monotonic time of the first line after the ball fell, or of the first line of state 6."""
    flags: int
    """OR of all flags shown."""
    relaunched: bool
    session: int
    """Power-ons so far."""
