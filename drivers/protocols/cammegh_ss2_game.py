"""The story of one SlingShot 2 game: from the first line in state 2 to a reading or an end without one.

Evidence rule. A number is a reading only if the path place bets - ball in rim - no more bets - number of this
game was seen live without a gap, and the number was confirmed by a second equal status line or by the bare
number, all agreeing. The interface has no checksum: one flipped bit can make a valid other number, or a state
5 of a state 4, which still shows the number of the game before. So one more witness is asked where the line
showed damage during the game, and where the number is that of the game before; and a status line on the heels
of another is no second witness, for it may be the same line twice.

Flags are live on the wire: what a game has shown is kept here. Sections are those of the device document,
part 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dollyd.daemon.core.events import (
    BetsClosed,
    Defect,
    DeviceEvent,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Flag,
    GameEnded,
    GameRef,
    Reading,
    ReadingContradicted,
)
from dollyd.daemon.core.stamp import Stamp
from dollyd.drivers.protocols.cammegh_ss2_lines import BonusNumber, State, StatusLine, Warn

_LAUNCH_GRACE_PERIODS = 6
"""Flag 8 may stand for the first 3 s of state 3 (section 4)."""
_BALL_GRACE_PERIODS = 10
"""Flag 1 is to be ignored for 5 s (section 4)."""
_BARE_PERIODS = 3
"""The bare number comes at most 0.5 s before its status line; an older one is not of this game."""
_WITNESSES = 2
_WITNESSES_IN_DOUBT = 3
_BURST = 20
"""Lines of a live wheel come a period apart; those of a buffer that filled before we came all at once, in
less than this part of the time. At 9600 baud a line alone takes a twentieth of a period of 0.5 s."""
_HEELS = 4
"""Status lines closer than this part of a period are one witness."""

SPINNING = frozenset({State.BALL_IN_RIM, State.NO_MORE_BETS, State.BALL_NOT_IN_TRACK})
_CLOSED_BETS = frozenset({State.NO_MORE_BETS, State.BALL_NOT_IN_TRACK})
_STEPS = frozenset(
    {
        (State.BEFORE_GAME, State.PLACE_BETS),
        (State.PLACE_BETS, State.BALL_IN_RIM),
        (State.BALL_IN_RIM, State.NO_MORE_BETS),
        (State.NO_MORE_BETS, State.BALL_NOT_IN_TRACK),
        (State.BALL_NOT_IN_TRACK, State.NO_MORE_BETS),
        (State.NO_MORE_BETS, State.NUMBER),
        (State.BALL_NOT_IN_TRACK, State.NUMBER),
    }
)
"""Steps inside one game. Others end it, or mean that lines were lost."""
_DIRECTIONS = ("clockwise", "counter-clockwise")


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


@dataclass(frozen=True, slots=True)
class Attempt:
    """One game of the wheel, as far as it was seen."""

    game: GameRef
    counter: int
    state: State
    state_since_ns: int
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
    ball_unseen_since_ns: int = -1
    rim_at_ns: int = 0
    spinning_lines: int = 0
    """Status lines since the ball was in the rim, before the number."""
    rotor: bool | None = None
    """Direction of the rotor after no more bets, True = counter-clockwise."""
    bare: str = ""
    bare_at_ns: int = 0
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


def ending(attempt: Attempt, line: StatusLine) -> Ending | None:
    """How a line ends a game, None where it goes on."""
    was, now = attempt.state, line.state
    if line.counter != attempt.counter:
        return Ending.SUPERSEDED
    if now is State.CLOSED:
        return Ending.SHUT_DOWN
    # After a number a new start is the way of things; before it, only `*R` or lost lines bring it.
    restarted = (now is State.BEFORE_GAME and was is not State.BEFORE_GAME) or (
        now is State.PLACE_BETS and was not in (State.PLACE_BETS, State.BEFORE_GAME)
    )
    return Ending.SUPERSEDED if restarted else None


class Story:
    """Takes what was heard of one game; `attempt` is the game after it, `events` is the news."""

    def __init__(self, attempt: Attempt, terms: Terms) -> None:
        self.attempt = attempt
        self.events: list[DeviceEvent] = []
        self._terms = terms

    # --- what was heard ------------------------------------------------------------------------------

    def status(self, line: StatusLine, at: Stamp) -> None:
        """A status line of this game that does not end it."""
        self._go_to(line.state, at)
        if line.state in SPINNING:
            self._change(spinning_lines=self.attempt.spinning_lines + 1)
        self.flags(line, at)
        self._rotor(line)
        self._expire_bare(at)
        if line.state is State.NUMBER:
            self._number(line.pocket, at)

    def flags(self, line: StatusLine, at: Stamp) -> None:
        """Keep what the game has shown; apply the maker's times of grace (section 4)."""
        if line.flags & Warn.FAULT:
            self._flag(Flag.DEVICE_FAULT)
        if line.flags & Warn.BALL_WITH_ROTOR and line.state in SPINNING:
            self._flag(Flag.BALL_WITH_ROTOR)
        self._ball_not_detected(bool(line.flags & Warn.BALL_NOT_DETECTED), at)
        self._launch_failed(bool(line.flags & Warn.LAUNCH_FAILED), line.state, at)

    def bare(self, pocket: str, at: Stamp) -> bool:
        """A bare number; False where none can come now."""
        attempt = self.attempt
        if attempt.state not in (State.NUMBER, *_CLOSED_BETS) or pocket not in self._terms.pockets:
            return False
        if attempt.done:
            self._compare(pocket)
        elif attempt.bare and attempt.bare != pocket:
            self.spoil(Defect.WITNESSES_DISAGREE)
        else:
            self._change(bare=pocket, bare_at_ns=at.mono_ns)
            self._confirm()
        return True

    def bonus(self, line: BonusNumber) -> None:
        """A bonus number; without a licence it has no value."""
        if line.value is not None:
            kept = dict(self.attempt.bonus) | {f"bonus_{line.index}": str(line.value)}
            self._change(bonus=tuple(kept.items()))

    def damaged(self) -> None:
        """Something came that is no whole line."""
        self._change(damage=self.attempt.damage + 1)

    def spoil(self, defect: Defect) -> None:
        """The evidence is no longer complete and consistent: this game gives no number."""
        facts = self.attempt.facts
        if defect not in facts.defects:
            self._learn(defects=(*facts.defects, defect))

    def shut_down(self, line: StatusLine, at: Stamp) -> None:
        """The wheel went to its closed state in this game."""
        attempt = self.attempt
        if attempt.launch_failing or (attempt.state is State.PLACE_BETS and attempt.facts.relaunches):
            self._flag(Flag.LAUNCH_FAILED)
        self.flags(line, at)
        self.end(Ending.SHUT_DOWN, Defect.UNCONFIRMED if attempt.state is State.NUMBER else None)

    def superseded(self) -> None:
        """The wheel began again."""
        numbered = self.attempt.state is State.NUMBER
        self.end(Ending.SUPERSEDED, Defect.UNCONFIRMED if numbered else Defect.ILLEGAL_TRANSITION)

    def end(self, how: Ending, defect: Defect | None) -> None:
        """Nothing more comes; without a reading this is news, and `defect` says why it is doubtful."""
        if self.attempt.done:
            return
        facts = self.attempt.facts
        if defect and defect not in facts.defects:
            facts = replace(facts, defects=(*facts.defects, defect))
        self._tell(GameEnded(self.attempt.game, how, facts))

    # --- states and flags ----------------------------------------------------------------------------

    def _go_to(self, now: State, at: Stamp) -> None:
        was = self.attempt.state
        if was is now:
            return
        self._change(state=now, state_since_ns=at.mono_ns)
        if (was, now) not in _STEPS:
            self.spoil(Defect.ILLEGAL_TRANSITION)
        elif now is State.BALL_IN_RIM:
            self._change(rim_at_ns=at.mono_ns, spinning_lines=0)
            self._tell(DrawStarted(self.attempt.game))
        elif was is State.BALL_IN_RIM:
            self._tell(BetsClosed(self._terms.device, self.attempt.game))

    def _ball_not_detected(self, unseen: bool, at: Stamp) -> None:
        if not unseen:
            self._change(ball_unseen_since_ns=-1)
            return
        if self.attempt.ball_unseen_since_ns < 0:
            self._change(ball_unseen_since_ns=at.mono_ns)
        self._doubt(Defect.BALL_BRIEFLY_NOT_DETECTED)
        if at.mono_ns - self.attempt.ball_unseen_since_ns >= _BALL_GRACE_PERIODS * self._terms.period_ns:
            self._flag(Flag.BALL_NOT_DETECTED)

    def _launch_failed(self, failing: bool, state: State, at: Stamp) -> None:
        attempt = self.attempt
        if failing and state is State.PLACE_BETS and not attempt.launch_failing:
            self._learn(relaunches=attempt.facts.relaunches + 1)
        if failing and state in SPINNING:
            grace_ns = _LAUNCH_GRACE_PERIODS * self._terms.period_ns
            if state is not State.BALL_IN_RIM or at.mono_ns - attempt.state_since_ns > grace_ns:
                self._flag(Flag.LAUNCH_FAILED)
        self._change(launch_failing=failing)

    def _rotor(self, line: StatusLine) -> None:
        if line.state not in _CLOSED_BETS:
            return
        if line.rpm_x10 > self._terms.rpm_x10_max:
            self._doubt(Defect.ROTOR_OVER_SPEED)
        if line.rpm_x10 == 0:
            self._doubt(Defect.ROTOR_STOPPED)
        if self.attempt.rotor not in (None, line.counter_clockwise):
            self._doubt(Defect.ROTOR_REVERSED)
        self._change(rotor=line.counter_clockwise)

    # --- the number ----------------------------------------------------------------------------------

    def _expire_bare(self, at: Stamp) -> None:
        """A bare number that no status line followed in time was a stray one."""
        attempt = self.attempt
        too_old = at.mono_ns - attempt.bare_at_ns > _BARE_PERIODS * self._terms.period_ns
        if attempt.bare and not attempt.number and too_old:
            self._change(bare="")
            self.damaged()

    def _number(self, pocket: str, at: Stamp) -> None:
        attempt = self.attempt
        if attempt.done:
            self._compare(pocket)
            return
        for doubt in attempt.doubts:
            self.spoil(doubt)
        if not attempt.number and self._too_fast(at):
            self.spoil(Defect.STALE_FRAMES)
        if not pocket:
            return  # blank: nothing shown yet; the end of the game tells whether anything was
        if pocket not in self._terms.pockets:
            self.spoil(Defect.NOT_ON_WHEEL)
        elif attempt.number and attempt.number != pocket:
            self.spoil(Defect.NUMBER_CHANGED)
        elif not attempt.number or _HEELS * (at.mono_ns - attempt.five_at_ns) >= self._terms.period_ns:
            self._change(number=pocket, fives=attempt.fives + 1, five_at_ns=at.mono_ns)
            self._confirm()

    def _too_fast(self, at: Stamp) -> bool:
        """Whether the draw was heard in less time than it takes: it was not heard live."""
        attempt = self.attempt
        return _BURST * (at.mono_ns - attempt.rim_at_ns) < attempt.spinning_lines * self._terms.line_ns

    def _compare(self, pocket: str) -> None:
        attempt = self.attempt
        if pocket != attempt.number and not attempt.contradicted:
            self._change(contradicted=True)
            self._tell(ReadingContradicted(attempt.game, (pocket,)))

    def _confirm(self) -> None:
        attempt = self.attempt
        if not attempt.number:
            return
        if attempt.bare and attempt.bare != attempt.number:
            self.spoil(Defect.WITNESSES_DISAGREE)
            return
        doubtful = attempt.damage > 0 or attempt.number == attempt.old_number
        needed = _WITNESSES_IN_DOUBT if doubtful else _WITNESSES
        if attempt.facts.defects or attempt.fives + bool(attempt.bare) < needed:
            return
        # Section 3: in state 4 the ball runs opposite to the rotor.
        facts = replace(
            attempt.facts,
            wheel_direction=_DIRECTIONS[bool(attempt.rotor)],
            ball_direction=_DIRECTIONS[not attempt.rotor],
            details=(
                ("bare_number", attempt.bare or "none"),
                ("status_lines", str(attempt.fives)),
                *attempt.bonus,
            ),
        )
        self._change(done=True, facts=facts)
        self._tell(Reading(attempt.game, (attempt.number,), facts))

    # --- the attempt ---------------------------------------------------------------------------------

    def _change(self, **changes: Any) -> None:
        # Most lines change nothing, and a new value costs ten times the comparison.
        if any(getattr(self.attempt, name) != value for name, value in changes.items()):
            self.attempt = replace(self.attempt, **changes)

    def _learn(self, **changes: Any) -> None:
        """New facts are news until the reading, which carries them all."""
        self._change(facts=replace(self.attempt.facts, **changes))
        if not self.attempt.done:
            self._tell(DrawUpdate(self.attempt.game, self.attempt.facts))

    def _flag(self, flag: Flag) -> None:
        flags = self.attempt.facts.flags
        if flag not in flags:
            self._learn(flags=(*flags, flag))

    def _doubt(self, doubt: Defect) -> None:
        if doubt not in self.attempt.doubts:
            self._change(doubts=(*self.attempt.doubts, doubt))

    def _tell(self, event: DeviceEvent) -> None:
        if not self.attempt.joined:
            self.events.append(event)
