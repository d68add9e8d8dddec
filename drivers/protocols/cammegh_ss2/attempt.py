"""One SlingShot 2 game as a value, the steps that it may take, and which line ends it.

Sections are those of the device document, part 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from dollyd.daemon.core.events import Defect, DrawFacts, Ending, GameRef
from dollyd.drivers.protocols.cammegh_ss2.lines import State, StatusLine

_BONUS_PERIODS = 3
"""Bonus numbers 4 and 5 come after the first state-5 line (section 6): a game that showed others waits for
the second line, but no longer than this."""
WITNESSES = 2
WITNESSES_IN_DOUBT = 3

SPINNING = frozenset({State.BALL_IN_RIM, State.NO_MORE_BETS, State.BALL_NOT_IN_TRACK})
CLOSED_BETS = frozenset({State.NO_MORE_BETS, State.BALL_NOT_IN_TRACK})
STEPS = frozenset(
    {
        (State.BEFORE_GAME, State.PLACE_BETS),
        (State.PLACE_BETS, State.BEFORE_GAME),  # `*R` before the launch
        (State.PLACE_BETS, State.BALL_IN_RIM),
        (State.BALL_IN_RIM, State.NO_MORE_BETS),
        (State.NO_MORE_BETS, State.BALL_NOT_IN_TRACK),
        (State.BALL_NOT_IN_TRACK, State.NO_MORE_BETS),
        (State.NO_MORE_BETS, State.NUMBER),
        (State.BALL_NOT_IN_TRACK, State.NUMBER),
    }
)
"""Steps inside one game. Others end it, or mean that lines were lost."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a wheel is held to."""

    device: str
    pockets: frozenset[str]
    period_ns: int
    line_ns: int
    """Time between two status lines: the period, or that of our polls."""
    rpm_x10_max: int
    """Faster after no more bets is a runaway."""
    witnesses: int = WITNESSES
    """Lines that must show a number, the bare one among them."""

    def confirmed(self, attempt: Attempt) -> bool:
        """Whether the evidence rule is met."""
        needed = max(self.witnesses, WITNESSES_IN_DOUBT) if attempt.doubtful else self.witnesses
        whole = bool(attempt.number) and not attempt.facts.defects
        return whole and attempt.fives + bool(attempt.bare) >= needed

    def bonus_due_ns(self, attempt: Attempt) -> int | None:
        """When the reading of a confirmed number is due although no second state-5 line came."""
        waits = attempt.bonus and attempt.fives < WITNESSES and not attempt.done and self.confirmed(attempt)
        return attempt.five_at_ns + _BONUS_PERIODS * self.period_ns if waits else None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One game of the wheel, as far as it was seen."""

    game: GameRef
    counter: int
    state: State
    facts: DrawFacts
    old_number: str = ""
    """What the first line showed: the number of the game before."""
    joined: bool = False
    """Under way when first heard: nothing is told of it."""
    doubts: tuple[Defect, ...] = ()
    """Seen, and decisive only if a number follows: a fault that ends the game is a void, not a doubt."""
    damage: int = 0
    """Bad lines in the game, and between the number of the game before and its beginning."""
    launch_failing: bool = False
    ball_ran_with_rotor: bool = False
    """Flag 2 while bets are open: it matters only if no good launch follows."""
    closing: StatusLine | None = None
    """The line before was the first in state 6."""
    ball_unseen_since_ns: int = -1
    rim_at_ns: int = 0
    spinning_lines: int = 0
    """Status lines since the ball was in the rim, before the number."""
    rotor: bool | None = None
    """Direction of the rotor after no more bets, True = counter-clockwise."""
    bare_due: bool = False
    """The wheel has shown bare numbers on this connection, so this game lacks something without one."""
    bare: str = ""
    bare_at_ns: int = 0
    strayed: bool = False
    """A bare number came that no status line followed in time."""
    number: str = ""
    fives: int = 0
    """State-5 lines with this number, each a witness of its own."""
    five_at_ns: int = 0
    bonus: tuple[tuple[str, str], ...] = ()
    done: bool = False
    """A reading was reported; further lines can only contradict it."""
    contradicted: bool = False

    def on_path(self, *states: State) -> bool:
        """Whether a silence would be a gap: in one of these states, without a number and a gap so far."""
        return not self.done and self.state in states and Defect.DATA_GAP not in self.facts.defects

    @property
    def spoilt(self) -> bool:
        """Something was shown that a game cannot go on with when it is begun again."""
        launched_badly = self.ball_ran_with_rotor or self.facts.relaunches > 0
        return launched_badly or bool(self.facts.flags or self.facts.defects)

    @property
    def doubtful(self) -> bool:
        """Whether the number may be an old one, so that one more line must show it."""
        # The old number is what a line of state 4 shows that was damaged to read as state 5.
        incomplete = self.damage > 0 or (self.bare_due and not self.bare)
        return self.strayed or (incomplete and self.number == self.old_number)


def ending(attempt: Attempt, line: StatusLine) -> Ending | None:
    """How a line ends a game, None where it goes on."""
    was, now = attempt.state, line.state
    if attempt.closing and now is State.BEFORE_GAME:
        return Ending.SHUT_DOWN
    if line.counter != attempt.counter:
        return Ending.SUPERSEDED
    if now is State.CLOSED:
        return Ending.SHUT_DOWN if attempt.closing else None
    # After a number a new start is the way of things; before it, only `*R` or lost lines bring it. `*R` while
    # bets are open leaves a game as it was, unless it is spoilt.
    if was is State.PLACE_BETS and now is State.BEFORE_GAME:
        return Ending.SUPERSEDED if attempt.spoilt else None
    restarted = (now is State.BEFORE_GAME and was is not State.BEFORE_GAME) or (
        now is State.PLACE_BETS and was not in (State.PLACE_BETS, State.BEFORE_GAME)
    )
    return Ending.SUPERSEDED if restarted else None
