"""The story of one SlingShot 2 game: from the first line in state 2 to a reading or an end without one.

Evidence rule. A number is a reading only if the path place bets - ball in rim - no more bets - number of this
game was seen live without a gap, and the number was confirmed by a second equal status line or by the bare
number, all agreeing. The interface has no checksum: one flipped bit can make a valid other number, or a state
5 of a state 4, which still shows the number of the game before. So one more witness is asked where the number
is that of the game before and the line showed damage during the game, or where a bare number came long before
the status lines, and always with the option `three_lines`; and a status line on the heels of another is no
second witness, for it may be the same line twice. Nor does one line in state 6 end a game, one bit from state
4: two do, or one and then state 1.

Flags are live on the wire: what a game has shown is kept here. Sections are those of the device document,
part 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dollyd.daemon.core.events import (
    BetsClosed,
    Defect,
    DeviceEvent,
    DrawStarted,
    DrawUpdate,
    Ending,
    Flag,
    GameEnded,
    Reading,
    ReadingContradicted,
)
from dollyd.drivers.agreement import both_kept
from dollyd.drivers.protocols.cammegh_ss2.attempt import CLOSED_BETS, SPINNING, STEPS, Attempt, Terms
from dollyd.drivers.protocols.cammegh_ss2.lines import BonusNumber, State, StatusLine, Warn
from dollyd.wire.stamp import Stamp

_LAUNCH_GRACE_PERIODS = 6
"""Flag 8 may stand for 3 s after the ball was seen in the rim (section 4); state 3 may be shorter."""
_BALL_GRACE_PERIODS = 10
"""Flag 1 is to be ignored for 5 s (section 4)."""
_BARE_PERIODS = 3
"""The bare number comes at most 0.5 s before its status line; an older one is not of this game."""
_BURST = 20
"""Lines of a live wheel come a period apart; those of a buffer that filled before we came all at once, in
less than this part of the time. At 9600 baud a line alone takes a twentieth of a period of 0.5 s."""
_HEELS = 4
"""Status lines closer than this part of a period are one witness."""

_DIRECTIONS = ("clockwise", "counter-clockwise")


class Story:
    """Takes what was heard of one game; `attempt` is the game after it, `events` is the news."""

    def __init__(self, attempt: Attempt, terms: Terms) -> None:
        self.attempt = attempt
        self.events: list[DeviceEvent] = []
        self._terms = terms

    # --- what was heard ------------------------------------------------------------------------------

    def status(self, line: StatusLine, at: Stamp) -> None:
        """A status line of this game that does not end it."""
        if line.state is State.CLOSED:
            self._change(closing=line)
            return
        if self.attempt.closing:  # the game goes on: it was another state
            self._change(closing=None)
            self.damaged()
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
        if line.flags & Warn.BALL_WITH_ROTOR:
            if line.state in SPINNING:
                self._flag(Flag.BALL_WITH_ROTOR)
            elif line.state is State.PLACE_BETS:
                self._change(ball_ran_with_rotor=True)
        self._ball_not_detected(bool(line.flags & Warn.BALL_NOT_DETECTED), at)
        self._launch_failed(bool(line.flags & Warn.LAUNCH_FAILED), line.state, at)

    def bare(self, pocket: str, at: Stamp) -> bool:
        """A bare number; False where none can come now."""
        attempt = self.attempt
        if attempt.state not in (State.NUMBER, *CLOSED_BETS) or pocket not in self._terms.pockets:
            return False
        if attempt.done:
            self._compare(pocket)
        elif attempt.bare and attempt.bare != pocket:
            self._differ("number", f"bare {attempt.bare}", f"bare {pocket}")
            self.spoil(Defect.WITNESSES_DISAGREE)
        else:
            self._change(bare=pocket, bare_at_ns=at.mono_ns)
            self._confirm()
        return True

    def bonus(self, line: BonusNumber) -> None:
        """A bonus number; without a licence it has no value."""
        if line.value is not None:
            name, shown = f"bonus_{line.index}", str(line.value)
            before = dict(self.attempt.bonus).get(name, shown)
            if before != shown:
                self._differ(name, f"*Y {before}", f"*Y {shown}")
                self._doubt(Defect.WITNESSES_DISAGREE)
            kept = dict(self.attempt.bonus) | {name: shown}
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
        self._read()
        self._launch_given_up()
        for shown in (self.attempt.closing, line):
            if shown and shown.state is State.CLOSED:
                self.flags(shown, at)
        numbered = self.attempt.state is State.NUMBER
        self.end(Ending.SHUT_DOWN, Defect.UNCONFIRMED if numbered else None)

    def superseded(self, line: StatusLine) -> None:
        """The wheel began again: `*R` where it did so under its counter while bets were open."""
        attempt = self.attempt
        if attempt.state is State.PLACE_BETS and line.counter == attempt.counter:
            self._launch_given_up()
            self.end(Ending.SUPERSEDED, None)
        else:
            numbered = attempt.state is State.NUMBER
            self.end(Ending.SUPERSEDED, Defect.UNCONFIRMED if numbered else Defect.ILLEGAL_TRANSITION)

    def tick(self, at: Stamp) -> None:
        """Time passes: a number does not wait for its bonus numbers without end."""
        due_ns = self._terms.bonus_due_ns(self.attempt)
        if due_ns is not None and at.mono_ns >= due_ns:
            self._read()

    def end(self, how: Ending, defect: Defect | None) -> None:
        """Nothing more comes; without a reading this is news, and `defect` says why it is doubtful."""
        self._read()
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
        self._change(state=now)
        if now in SPINNING and was not in SPINNING:
            self._change(rim_at_ns=at.mono_ns, spinning_lines=0)
        if (was, now) not in STEPS:
            self.spoil(Defect.ILLEGAL_TRANSITION)
        elif now is State.BALL_IN_RIM:
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
            if at.mono_ns - attempt.rim_at_ns > grace_ns:
                self._flag(Flag.LAUNCH_FAILED)
        self._change(launch_failing=failing)

    def _launch_given_up(self) -> None:
        """The wheel was closed or began again: no good launch follows what was shown while bets were open."""
        attempt = self.attempt
        bets_open = attempt.state is State.PLACE_BETS
        if attempt.launch_failing or (bets_open and attempt.facts.relaunches):
            self._flag(Flag.LAUNCH_FAILED)
        if bets_open and attempt.ball_ran_with_rotor:
            self._flag(Flag.BALL_WITH_ROTOR)

    def _rotor(self, line: StatusLine) -> None:
        if line.state not in CLOSED_BETS:
            return
        if line.rpm_x10 > self._terms.rpm_x10_max:
            self._doubt(Defect.ROTOR_OVER_SPEED)
        if line.rpm_x10 == 0:
            self._doubt(Defect.ROTOR_STOPPED)
        before = self.attempt.rotor
        if before not in (None, line.counter_clockwise):
            was, now = _DIRECTIONS[bool(before)], _DIRECTIONS[line.counter_clockwise]
            self._differ("rotor", was, now)
            self._doubt(Defect.ROTOR_REVERSED)
        self._change(rotor=line.counter_clockwise)

    # --- the number ----------------------------------------------------------------------------------

    def _expire_bare(self, at: Stamp) -> None:
        """A bare number that no status line followed in time was a stray one."""
        attempt = self.attempt
        too_old = at.mono_ns - attempt.bare_at_ns > _BARE_PERIODS * self._terms.period_ns
        if attempt.bare and not attempt.number and too_old:
            self._change(bare="", strayed=True)

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
            self._differ("number", f"*X {attempt.number}", f"*X {pocket}")
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
        if attempt.number and attempt.bare and attempt.bare != attempt.number:
            self._differ("number", f"bare {attempt.bare}", f"*X {attempt.number}")
            self.spoil(Defect.WITNESSES_DISAGREE)
        elif self._terms.bonus_due_ns(attempt) is None:
            self._read()

    def _read(self) -> None:
        """Tell the number, if it is confirmed and was not told."""
        attempt = self.attempt
        if attempt.done or not self._terms.confirmed(attempt):
            return
        # Section 3: in state 4 the ball runs opposite to the rotor.
        facts = replace(
            attempt.facts,
            wheel_direction=_DIRECTIONS[bool(attempt.rotor)],
            ball_direction=_DIRECTIONS[not attempt.rotor],
            details=(
                *attempt.facts.details,
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

    def _differ(self, what: str, one: str, other: str) -> None:
        """Two readings of one thing that differ stand in the record."""
        self._change(facts=both_kept(self.attempt.facts, what, one, other))

    def _doubt(self, doubt: Defect) -> None:
        if doubt not in self.attempt.doubts:
            self._change(doubts=(*self.attempt.doubts, doubt))

    def _tell(self, event: DeviceEvent) -> None:
        # Of a game that was under way when it was first heard, only its end is told.
        if not self.attempt.joined or isinstance(event, GameEnded):
            self.events.append(event)
