"""Driver `cammegh-ss2`: the Cammegh SlingShot 2 roulette wheel (device document, part 1).

Evidence rule. A number is a reading only if the path place bets - ball in rim - no more bets - number of this
game was seen live without a gap, and the number was confirmed by a second equal status line or by the bare
number, all agreeing. On a line that showed damage during the game one more witness is asked, for the
interface has no checksum: one flipped bit can make a valid other number.

Assumptions: status lines come every period (mode bit 128) or on poll; the counter names the game and wraps
256 -> 1; it is reused by the next game where one ended without a number; in states 1-4 and 6 the line shows
the number of the game before. Flags are live: what a game has shown is kept.

Survives: every line fault of part 4; silence; joining in mid-game; counter jumps; relaunches; host close and
power cuts; command replies and another console on the line. Nothing is sent but `*X` where polling is
configured, and `*V`, `*T Z`, `*T G`, `*O` once a connection, one at a time, while the wheel is closed (6).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from dollyd.daemon.core.events import (
    BetsClosed,
    Defect,
    DeviceEvent,
    DeviceReady,
    DeviceTrouble,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Flag,
    GameEnded,
    GameRef,
    GameStarted,
    Reading,
    ReadingContradicted,
    TurnsBasis,
)
from dollyd.daemon.core.stamp import NS_PER_MS, Stamp
from dollyd.drivers.framing import AnyFrame, BadFrame
from dollyd.drivers.protocols.cammegh_ss2_lines import (
    BareNumber,
    BonusNumber,
    FaultCode,
    Reply,
    State,
    StatusLine,
    Warn,
    parse,
)
from dollyd.drivers.spec import NOTHING, DeviceSetup, Order, Said, Status

OPTIONS: dict[str, type] = {"polled": bool, "poll_ms": int, "rotor_rpm_x10_max": int}
POLL_MS_MIN = 100
"""Closest that two polls may come (section 3)."""
ROTOR_RPM_X10_MAX = 300
"""Faster after no more bets is a runaway; games play at 14 to 20 rpm (section 11)."""

_STALE_PERIODS = 3
_LAUNCH_GRACE_PERIODS = 6
"""Flag 8 may stand for the first 3 s of state 3 (section 4)."""
_BALL_GRACE_PERIODS = 10
"""Flag 1 is to be ignored for 5 s (section 4)."""
_BARE_PERIODS = 3
"""The bare number comes at most 0.5 s before its status line; an older one is not of this game."""
_REPLY_WAIT_PERIODS = 4
_QUESTIONS = ("V", "T Z", "T G", "O")
_ANSWERS = {"V": "V", "T Z": "T z", "T G": "T g", "O": "O"}
_WITNESSES = 2
_WITNESSES_AFTER_DAMAGE = 3

_SPINNING = frozenset({State.BALL_IN_RIM, State.NO_MORE_BETS, State.BALL_NOT_IN_TRACK})
_PATH = _SPINNING | {State.PLACE_BETS}
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


@dataclass(frozen=True, slots=True)
class Attempt:
    """One game of the wheel, as far as it was seen."""

    game: GameRef
    counter: int
    state: State
    state_since_ns: int
    facts: DrawFacts
    joined: bool = False
    doubts: tuple[Defect, ...] = ()
    """Seen, and decisive only if a number follows: a fault that ends the game is a void, not a doubt."""
    damage: int = 0
    """Bad lines since the game began."""
    launch_failing: bool = False
    ball_unseen_since_ns: int = -1
    rotor: bool | None = None
    """Direction of the rotor after no more bets, True = counter-clockwise."""
    bare: str = ""
    bare_at_ns: int = 0
    number: str = ""
    fives: int = 0
    bonus: tuple[tuple[str, str], ...] = ()
    done: bool = False
    """A reading, or the end, was reported; further lines add nothing."""
    contradicted: bool = False


@dataclass(frozen=True, slots=True)
class Ss2State:
    """Everything that the driver remembers; a frozen value."""

    session: str = ""
    epoch: int = 0
    """Rounds of the counter within this session: 256 -> 1 must not name a game twice."""
    last: StatusLine | None = None
    status_at_ns: int = 0
    heard_at_ns: int = 0
    attempt: Attempt | None = None
    finished: int = -1
    """Counter of the last game that showed a number; the next game must have another."""
    last_game: GameRef | None = None
    question: int = 0
    asked_at_ns: int = -1
    polled_at_ns: int = 0
    status: Status = Status.INIT
    identity: tuple[tuple[str, str], ...] = ()
    wrong: tuple[str, ...] = ()
    """Keys of the identity that are not those of the bound wheel; a reconnect does not forget them."""


class Ss2Protocol:
    """The wheel's language without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        self._setup = setup
        self._period_ns = setup.period_ms * NS_PER_MS
        self._silence_ns = setup.silence_ms * NS_PER_MS
        self._polled = bool(setup.options.get("polled", False))
        self._poll_ns = max(POLL_MS_MIN, int(setup.options.get("poll_ms", setup.period_ms))) * NS_PER_MS
        self._rpm_max = int(setup.options.get("rotor_rpm_x10_max", ROTOR_RPM_X10_MAX))
        self._pockets = frozenset(setup.pockets)
        self._state = Ss2State()
        self._events: list[DeviceEvent] = []
        self._send: list[bytes] = []
        self.counters: Counter[str] = Counter()

    # --- DeviceProtocol ------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """Device state as published."""
        return self._state.status

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What the wheel said of itself."""
        return self._state.identity

    def snapshot(self) -> Any:
        """The whole state as a frozen value."""
        return self._state

    def restore(self, snapshot: Any) -> None:
        """Take a state back, possibly through JSON."""
        self._state = msgspec.convert(snapshot, Ss2State) if isinstance(snapshot, dict) else snapshot

    def deadline_ns(self) -> int | None:
        """When silence becomes news, or the next poll or question is due."""
        state = self._state
        if not state.session:
            return None
        due: list[int] = []
        if state.status in (Status.READY, Status.FAULT):
            due.append(state.heard_at_ns + _STALE_PERIODS * self._period_ns + 1)
        if self._in_path(_SPINNING):
            due.append(state.status_at_ns + self._silence_ns + 1)
        if state.asked_at_ns >= 0:
            due.append(state.asked_at_ns + _REPLY_WAIT_PERIODS * self._period_ns)
        if self._polled:
            due.append(state.polled_at_ns + self._poll_ns)
        return min(due, default=None)

    def opened(self, at: Stamp) -> Said:
        """A new session: the first game heard was joined, unless the wheel is closed."""
        session = str(at.utc_ns // NS_PER_MS)
        self._state = Ss2State(
            session=session, heard_at_ns=at.mono_ns, status_at_ns=at.mono_ns, wrong=self._state.wrong
        )
        return self.tick(at)

    def lost(self, cause: str, _at: Stamp) -> Said:
        """The port is gone; the game in progress with it."""
        if attempt := self._state.attempt:
            self._end(attempt, Ending.LOST, Defect.DEVICE_LOST)
        self._state = Ss2State(status=Status.LOST, wrong=self._state.wrong)
        self._events.append(DeviceTrouble(self._setup.name, Status.LOST, cause))
        return self._said()

    def order(self, _order: Order, _at: Stamp) -> Said:
        """A wheel takes no orders."""
        return NOTHING

    def tick(self, at: Stamp) -> Said:
        """Notice silence; ask what is due."""
        state = self._state
        if not state.session:
            return NOTHING
        now = at.mono_ns
        if (
            state.status in (Status.READY, Status.FAULT)
            and now - state.heard_at_ns > _STALE_PERIODS * self._period_ns
        ):
            self._state = replace(self._state, status=Status.STALE)
            self._events.append(
                DeviceTrouble(self._setup.name, Status.STALE, "silent for more than 3 periods")
            )
        if self._in_path(_SPINNING) and state.attempt and now - state.status_at_ns > self._silence_ns:
            self._spoil(state.attempt, Defect.DATA_GAP)
        if self._polled and now - state.polled_at_ns >= self._poll_ns:
            self._send.append(b"*X\r\n")
            self._state = replace(self._state, polled_at_ns=now)
        if state.asked_at_ns >= 0 and now - state.asked_at_ns >= _REPLY_WAIT_PERIODS * self._period_ns:
            self.counters["unanswered"] += 1
            self._next_question(at)
        return self._said()

    def received(self, frame: AnyFrame, at: Stamp) -> Said:
        """One line."""
        line = None if isinstance(frame, BadFrame) else parse(frame.raw)
        if line is None:
            self.counters["bad" if isinstance(frame, BadFrame) else "not-a-line"] += 1
            self._damaged()
            return self._said()
        self.counters[type(line).__name__] += 1
        match line:
            case StatusLine():
                self._heard(at)
                self._on_status(line, at)
            case BareNumber():
                self._on_bare(line, at)
            case BonusNumber():
                self._on_bonus(line)
            case FaultCode():
                self._remember("fault_code", str(line.code))
            case Reply():
                self._heard(at)
                self._on_reply(line, at)
        return self._said()

    # --- what lines mean -----------------------------------------------------------------------------

    def _heard(self, at: Stamp) -> None:
        self._state = replace(self._state, heard_at_ns=at.mono_ns)
        if self._state.status in (Status.INIT, Status.STALE):
            self._state = replace(
                self._state, status=Status.WRONG_DEVICE if self._state.wrong else Status.READY
            )
            if not self._state.wrong:
                self._events.append(DeviceReady(self._setup.name, self._state.identity))

    def _on_status(self, line: StatusLine, at: Stamp) -> None:
        before, attempt = self._state.last, self._state.attempt
        if before and line.counter < before.counter:
            self._state = replace(self._state, epoch=self._state.epoch + 1)
        if before and line.state is State.CLOSED:
            self._state = replace(self._state, finished=-1)
        silent = at.mono_ns - self._state.status_at_ns > self._silence_ns
        # A stall while bets are open hides nothing; the path begins with the last line of state 2.
        if attempt and silent and line.state is not State.PLACE_BETS and self._in_path(_PATH):
            attempt = self._spoil(attempt, Defect.DATA_GAP)
        if attempt and line.counter == attempt.counter:
            self._same_game(attempt, line, at)
        else:
            if attempt:
                self._end(attempt, Ending.SUPERSEDED, Defect.ILLEGAL_TRANSITION)
            self._maybe_begin(line, at, first=before is None)
        self._state = replace(self._state, last=line, status_at_ns=at.mono_ns)
        self._health(line)
        self._ask_if_idle(line, at)

    def _health(self, line: StatusLine) -> None:
        """Flag 4 is the wheel's own word that it is out of order."""
        if line.flags & Warn.FAULT and self._state.status is Status.READY:
            self._state = replace(self._state, status=Status.FAULT)
            self._events.append(
                DeviceTrouble(self._setup.name, Status.FAULT, "the wheel reports a fault (flag 4)")
            )
        elif not line.flags & Warn.FAULT and self._state.status is Status.FAULT:
            self._state = replace(self._state, status=Status.READY)
            self._events.append(DeviceReady(self._setup.name, self._state.identity))

    def _same_game(self, attempt: Attempt, line: StatusLine, at: Stamp) -> None:
        was, now = attempt.state, line.state
        if now is State.CLOSED:
            if attempt.launch_failing or (was is State.PLACE_BETS and attempt.facts.relaunches):
                attempt = self._flag(attempt, Flag.LAUNCH_FAILED)
            attempt = self._flags(attempt, line, at)
            self._end(attempt, Ending.SHUT_DOWN, Defect.UNCONFIRMED if was is State.NUMBER else None)
        elif now is State.BEFORE_GAME and was is not State.BEFORE_GAME:
            # After a number this is the way of things; before it, only `*R` or lost lines bring it.
            was_number = was is State.NUMBER
            self._end(
                attempt, Ending.SUPERSEDED, Defect.UNCONFIRMED if was_number else Defect.ILLEGAL_TRANSITION
            )
        elif now is State.PLACE_BETS and was not in (State.PLACE_BETS, State.BEFORE_GAME):
            was_number = was is State.NUMBER
            self._end(
                attempt, Ending.SUPERSEDED, Defect.UNCONFIRMED if was_number else Defect.ILLEGAL_TRANSITION
            )
            self._maybe_begin(line, at, first=False)
        else:
            self._advance(attempt, line, at)

    def _maybe_begin(self, line: StatusLine, at: Stamp, *, first: bool) -> None:
        match line.state:
            case State.CLOSED:
                return
            case State.BEFORE_GAME if not line.flags & Warn.FAULT:
                return
            case State.PLACE_BETS if line.counter == self._state.finished:
                return  # the number of the new game is still to come
            case State.BEFORE_GAME | State.PLACE_BETS:
                joined = Defect.JOINED_MID_GAME if first and line.state is State.PLACE_BETS else None
            case _:
                seen = self._state.last is not None
                unadvanced = seen and line.counter == self._state.finished
                joined = Defect.COUNTER_NOT_ADVANCED if unadvanced else Defect.JOINED_MID_GAME
        if self._state.wrong:
            joined = Defect.WRONG_DEVICE
        game = self._next_ref(line.counter)
        facts = DrawFacts(defects=(joined,) if joined else (), turns_basis=TurnsBasis.CERTIFIED)
        attempt = Attempt(game, line.counter, line.state, at.mono_ns, facts, joined=joined is not None)
        self._state = replace(self._state, attempt=attempt, last_game=game)
        self._events.append(GameStarted(game, joined=attempt.joined))
        if line.state is State.NUMBER:
            self._state = replace(self._state, finished=line.counter)
        self._flags(attempt, line, at)

    def _next_ref(self, counter: int) -> GameRef:
        state = self._state
        session = state.session if state.epoch == 0 else f"{state.session}.{state.epoch}"
        name = f"{counter:03}"
        last = state.last_game
        again = last is not None and (last.session, last.game) == (session, name)
        return GameRef(self._setup.name, session, name, last.attempt + 1 if last and again else 1)

    def _advance(self, attempt: Attempt, line: StatusLine, at: Stamp) -> None:
        was, now = attempt.state, line.state
        if was is not now:
            attempt = replace(attempt, state=now, state_since_ns=at.mono_ns)
            self._keep(attempt)
            if (was, now) not in _STEPS:
                self._spoil(attempt, Defect.ILLEGAL_TRANSITION)
            elif now is State.BALL_IN_RIM:
                self._tell(attempt, DrawStarted(attempt.game))
            elif was is State.BALL_IN_RIM:
                self._tell(attempt, BetsClosed(self._setup.name, attempt.game))
        attempt = self._flags(self._current(attempt), line, at)
        attempt = self._rotor(attempt, line)
        if now is State.NUMBER:
            self._state = replace(self._state, finished=line.counter)
            self._on_number(attempt, line)
        elif attempt.bare and at.mono_ns - attempt.bare_at_ns > _BARE_PERIODS * self._period_ns:
            self.counters["bare-without-status"] += 1
            self._keep(replace(attempt, bare="", damage=attempt.damage + 1))

    def _flags(self, attempt: Attempt, line: StatusLine, at: Stamp) -> Attempt:
        """Keep what a game has shown; apply the maker's times of grace."""
        flags, spinning = line.flags, line.state in _SPINNING
        if flags & Warn.FAULT:
            attempt = self._flag(attempt, Flag.DEVICE_FAULT)
        if flags & Warn.BALL_WITH_ROTOR and spinning:
            attempt = self._flag(attempt, Flag.BALL_WITH_ROTOR)
        if flags & Warn.BALL_NOT_DETECTED:
            since = attempt.ball_unseen_since_ns if attempt.ball_unseen_since_ns >= 0 else at.mono_ns
            attempt = self._doubt(
                replace(attempt, ball_unseen_since_ns=since), Defect.BALL_BRIEFLY_NOT_DETECTED
            )
            if at.mono_ns - since >= _BALL_GRACE_PERIODS * self._period_ns:
                attempt = self._flag(attempt, Flag.BALL_NOT_DETECTED)
        elif attempt.ball_unseen_since_ns >= 0:
            attempt = self._keep(replace(attempt, ball_unseen_since_ns=-1))
        failing = bool(flags & Warn.LAUNCH_FAILED)
        if failing and line.state is State.PLACE_BETS and not attempt.launch_failing:
            facts = replace(attempt.facts, relaunches=attempt.facts.relaunches + 1)
            attempt = self._keep(replace(attempt, facts=facts))
            self._tell(attempt, DrawUpdate(attempt.game, facts))
        if failing and spinning:
            in_grace = (
                line.state is State.BALL_IN_RIM
                and at.mono_ns - attempt.state_since_ns <= _LAUNCH_GRACE_PERIODS * self._period_ns
            )
            attempt = attempt if in_grace else self._flag(attempt, Flag.LAUNCH_FAILED)
        return self._keep(replace(attempt, launch_failing=failing))

    def _rotor(self, attempt: Attempt, line: StatusLine) -> Attempt:
        if line.state not in _CLOSED_BETS:
            return attempt
        if line.rpm_x10 > self._rpm_max:
            attempt = self._doubt(attempt, Defect.ROTOR_OVER_SPEED)
        if line.rpm_x10 == 0:
            attempt = self._doubt(attempt, Defect.ROTOR_STOPPED)
        if attempt.rotor is not None and attempt.rotor != line.counter_clockwise:
            attempt = self._doubt(attempt, Defect.ROTOR_REVERSED)
        return self._keep(replace(attempt, rotor=line.counter_clockwise))

    def _on_number(self, attempt: Attempt, line: StatusLine) -> None:
        pocket = line.pocket
        if attempt.done:
            if pocket != attempt.number and not attempt.contradicted and not attempt.facts.defects:
                self._keep(replace(attempt, contradicted=True))
                self._tell(attempt, ReadingContradicted(attempt.game, (pocket,)))
            return
        for doubt in attempt.doubts:
            attempt = self._spoil(attempt, doubt)
        if not pocket:
            return  # blank: nothing shown yet; the end of the game tells whether anything was
        if pocket not in self._pockets:
            self._spoil(attempt, Defect.NOT_ON_WHEEL)
            return
        if attempt.number and attempt.number != pocket:
            self._spoil(attempt, Defect.NUMBER_CHANGED)
            return
        attempt = self._keep(replace(attempt, number=pocket, fives=attempt.fives + 1))
        self._confirm(attempt)

    def _on_bare(self, line: BareNumber, at: Stamp) -> None:
        attempt = self._state.attempt
        if (
            attempt is None
            or attempt.state not in (State.NUMBER, *_CLOSED_BETS)
            or line.pocket not in self._pockets
        ):
            self.counters["bare-misplaced"] += 1
            self._damaged()
            return
        if attempt.done:
            if attempt.number and line.pocket != attempt.number and not attempt.contradicted:
                self._keep(replace(attempt, contradicted=True))
                self._tell(attempt, ReadingContradicted(attempt.game, (line.pocket,)))
            return
        if attempt.bare and attempt.bare != line.pocket:
            self._spoil(attempt, Defect.WITNESSES_DISAGREE)
            return
        attempt = self._keep(replace(attempt, bare=line.pocket, bare_at_ns=at.mono_ns))
        if attempt.number:
            self._confirm(attempt)

    def _confirm(self, attempt: Attempt) -> None:
        if attempt.bare and attempt.bare != attempt.number:
            self._spoil(attempt, Defect.WITNESSES_DISAGREE)
            return
        needed = _WITNESSES_AFTER_DAMAGE if attempt.damage else _WITNESSES
        if attempt.facts.defects or attempt.fives + bool(attempt.bare) < needed:
            return
        directions = ("clockwise", "counter-clockwise")
        facts = replace(
            attempt.facts,
            wheel_direction=directions[bool(attempt.rotor)],
            ball_direction=directions[
                not attempt.rotor
            ],  # section 3: state 4 has the ball opposite to the rotor
            details=(
                ("bare_number", attempt.bare or "none"),
                ("status_lines", str(attempt.fives)),
                *attempt.bonus,
            ),
        )
        self._keep(replace(attempt, done=True, facts=facts))
        self._events.append(Reading(attempt.game, (attempt.number,), facts))

    def _on_bonus(self, line: BonusNumber) -> None:
        if line.licence_days is not None:
            self._remember("bonus_licence_days", str(line.licence_days))
        attempt = self._state.attempt
        if attempt and line.value is not None:
            kept = dict(attempt.bonus) | {f"bonus_{line.index}": str(line.value)}
            self._keep(replace(attempt, bonus=tuple(kept.items())))

    def _damaged(self) -> None:
        if attempt := self._state.attempt:
            self._keep(replace(attempt, damage=attempt.damage + 1))

    # --- identity ------------------------------------------------------------------------------------

    def _ask_if_idle(self, line: StatusLine, at: Stamp) -> None:
        if (
            line.state is not State.CLOSED
            or self._state.question >= len(_QUESTIONS)
            or self._state.asked_at_ns >= 0
        ):
            return
        self._send.append(b"*" + _QUESTIONS[self._state.question].encode() + b"\r\n")
        self._state = replace(self._state, asked_at_ns=at.mono_ns)

    def _next_question(self, at: Stamp) -> None:
        self._state = replace(self._state, question=self._state.question + 1, asked_at_ns=-1)
        if self._state.last:
            self._ask_if_idle(self._state.last, at)

    def _on_reply(self, line: Reply, at: Stamp) -> None:
        match line.key:
            case "V":
                self._remember("firmware", line.text.split()[0])
                self._remember("banner", line.text)
            case "T z":
                self._remember("pockets", line.text, wanted=str(len(self._pockets)))
            case "T g":
                self._remember("game_modes", line.text)
            case "O" if len(fields := line.text.split()) == 4:
                self._remember("mode", fields[3])
                self._remember("status_output", "on" if fields[1] == "1" else "off")
        state = self._state
        if state.asked_at_ns >= 0 and _ANSWERS[_QUESTIONS[state.question]] == line.key:
            self._next_question(at)

    def _remember(self, key: str, value: str, wanted: str | None = None) -> None:
        """Keep a part of the identity, and check it against the wheel that is bound to this table."""
        known = dict(self._state.identity)
        wanted = self._setup.expect.get(key, wanted)
        wrong = set(self._state.wrong) - {key} | ({key} if wanted not in (None, value) else set())
        was_wrong = bool(self._state.wrong)
        changed = known.get(key) != value
        identity = tuple(sorted((known | {key: value}).items()))
        self._state = replace(self._state, identity=identity, wrong=tuple(sorted(wrong)))
        if key in wrong and changed:
            self._state = replace(self._state, status=Status.WRONG_DEVICE)
            cause = f"{key} is {value!r}, this table needs {wanted!r}"
            self._events.append(DeviceTrouble(self._setup.name, Status.WRONG_DEVICE, cause))
            if attempt := self._state.attempt:
                self._spoil(attempt, Defect.WRONG_DEVICE)
        elif was_wrong and not wrong:
            self._state = replace(self._state, status=Status.READY)
            self._events.append(DeviceReady(self._setup.name, identity))
        elif changed and self._state.status is Status.READY:
            self._events.append(DeviceReady(self._setup.name, identity))

    # --- the attempt ---------------------------------------------------------------------------------

    def _in_path(self, states: frozenset[State]) -> bool:
        """Whether a game without a gap so far is in one of these states."""
        attempt = self._state.attempt
        return (
            attempt is not None
            and not attempt.done
            and attempt.state in states
            and Defect.DATA_GAP not in attempt.facts.defects
        )

    def _current(self, attempt: Attempt) -> Attempt:
        return self._state.attempt or attempt

    def _keep(self, attempt: Attempt) -> Attempt:
        self._state = replace(self._state, attempt=attempt)
        return attempt

    def _tell(self, attempt: Attempt, event: DeviceEvent) -> None:
        if not attempt.joined:
            self._events.append(event)

    def _flag(self, attempt: Attempt, flag: Flag) -> Attempt:
        if flag in attempt.facts.flags:
            return attempt
        facts = replace(attempt.facts, flags=(*attempt.facts.flags, flag))
        attempt = self._keep(replace(attempt, facts=facts))
        if not attempt.done:
            self._tell(attempt, DrawUpdate(attempt.game, facts))
        return attempt

    def _doubt(self, attempt: Attempt, doubt: Defect) -> Attempt:
        return (
            attempt
            if doubt in attempt.doubts
            else self._keep(replace(attempt, doubts=(*attempt.doubts, doubt)))
        )

    def _spoil(self, attempt: Attempt, defect: Defect) -> Attempt:
        if defect in attempt.facts.defects:
            return attempt
        facts = replace(attempt.facts, defects=(*attempt.facts.defects, defect))
        attempt = self._keep(replace(attempt, facts=facts))
        if not attempt.done:
            self._tell(attempt, DrawUpdate(attempt.game, facts))
        return attempt

    def _end(self, attempt: Attempt, ending: Ending, defect: Defect | None) -> None:
        """The game is over for us; without a reading this is news, and `defect` says why it is doubtful."""
        if not attempt.done:
            facts = attempt.facts
            if defect and defect not in facts.defects:
                facts = replace(facts, defects=(*facts.defects, defect))
            self._tell(attempt, GameEnded(attempt.game, ending, facts))
        self._state = replace(self._state, attempt=None)

    def _said(self) -> Said:
        if not self._events and not self._send:
            return NOTHING
        said = Said(tuple(self._events), tuple(self._send))
        self._events.clear()
        self._send.clear()
        return said
