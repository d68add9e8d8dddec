"""Driver `cammegh-ss2`: the Cammegh SlingShot 2 roulette wheel (device document, part 1).

This file is the connection: which game a line belongs to, silence, polling. What makes a number a reading
stands in `cammegh_ss2_game`, the lines in `cammegh_ss2_lines`, who the wheel is in `cammegh_ss2_identity`.

Assumptions: status lines come every period (mode bit 128) or on poll; the counter names the game and wraps
256 -> 1; it is reused by the next game where one ended without a number; in states 1-4 and 6 the line shows
the number of the game before.

Survives: every line fault of part 4; silence; joining in mid-game; counter jumps; relaunches; host close and
power cuts; command replies, foreign text and another console on the line. Nothing is sent but `*X` where
polling is configured, and `*V`, `*T Z`, `*T G`, `*O` once a connection, one at a time, while the wheel is
closed (6); again only what had no answer, or one that speaks against the wheel.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from dollyd.daemon.core.events import (
    Defect,
    DeviceChanged,
    DeviceEvent,
    DeviceReady,
    DeviceTrouble,
    DrawFacts,
    Ending,
    GameRef,
    GameStarted,
    Reading,
    ReadingContradicted,
    TurnsBasis,
)
from dollyd.drivers.framing import AnyFrame, BadFrame
from dollyd.drivers.protocols.cammegh_ss2.attempt import (
    SPINNING,
    WITNESSES,
    WITNESSES_IN_DOUBT,
    Attempt,
    Terms,
    ending,
)
from dollyd.drivers.protocols.cammegh_ss2.game import Story
from dollyd.drivers.protocols.cammegh_ss2.identity import Identity
from dollyd.drivers.protocols.cammegh_ss2.lines import (
    BareNumber,
    BonusNumber,
    Reply,
    State,
    StatusLine,
    Warn,
    begun_again,
    is_damage,
    parse,
    parse_tail,
    said_of_itself,
)
from dollyd.drivers.protocols.cammegh_ss2.read import LastRead, LeftAt
from dollyd.drivers.spec import NOTHING, DeviceSetup, Option, Order, Said, Status
from dollyd.wire.stamp import NS_PER_MS, Stamp

POLL_MS_MIN = 100
"""Closest that two polls may come (section 3)."""
ROTOR_RPM_X10_MAX = 300
"""Faster after no more bets is a runaway; games play at 14 to 20 rpm (section 11)."""
OPTIONS = {
    "polled": Option("whether the wheel must be asked for its status: its mode lacks bit 128", False),
    "poll_ms": Option("milliseconds between two polls", None, POLL_MS_MIN),
    "rotor_rpm_x10_max": Option(
        "tenths of rpm; a rotor that is faster after no more bets has run away: the round is unresolved",
        ROTOR_RPM_X10_MAX,
        100,
        999,
    ),
    "three_lines": Option(
        "whether a number rests on three lines, not two: for ports 2 and 3, and for a long cable", False
    ),
}

_STALE_PERIODS = 3
_REPLY_WAIT_PERIODS = 4
_NOT_OURS = "was not that of this table's wheel"


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
    damage: int = 0
    """Bad lines since the last game had its number, or ended; they are told to the next one."""
    speaks_bare: bool = False
    """A bare number was taken: it comes in every game then (section 5)."""
    polled_at_ns: int = 0
    status: Status = Status.INIT
    who: Identity = field(default_factory=Identity)
    read: LastRead | None = None
    """The last reading, while the wheel still shows it."""
    left: LeftAt | None = None
    """Where the wheel was before this connection, until a line of it was compared."""


class Ss2Protocol:
    """The wheel's language without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        self._setup = setup
        self._period_ns = setup.period_ms * NS_PER_MS
        self._silence_ns = setup.silence_ms * NS_PER_MS
        self._polled = bool(setup.options.get("polled", False))
        self._poll_ns = max(POLL_MS_MIN, int(setup.options.get("poll_ms", setup.period_ms))) * NS_PER_MS
        rpm_x10_max = int(setup.options.get("rotor_rpm_x10_max", ROTOR_RPM_X10_MAX))
        line_ns = min(self._poll_ns, self._period_ns) if self._polled else self._period_ns
        witnesses = WITNESSES_IN_DOUBT if setup.options.get("three_lines", False) else WITNESSES
        self._terms = Terms(
            setup.name, frozenset(setup.pockets), self._period_ns, line_ns, rpm_x10_max, witnesses
        )
        self._expected = {"pockets": str(len(setup.pockets))} | dict(setup.expect)
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
        return self._state.who.known

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
        if state.attempt and state.attempt.on_path(*SPINNING):
            due.append(state.status_at_ns + self._silence_ns + 1)
        if state.attempt and (bonus_due_ns := self._terms.bonus_due_ns(state.attempt)) is not None:
            due.append(bonus_due_ns)
        if state.who.asking:
            due.append(state.who.asked_at_ns + _REPLY_WAIT_PERIODS * self._period_ns)
        if self._polled:
            due.append(state.polled_at_ns + self._poll_ns)
        return min(due, default=None)

    def opened(self, at: Stamp) -> Said:
        """A new session: the first game heard was joined, unless the wheel is closed."""
        session = str(at.utc_ns // NS_PER_MS)
        self._state = Ss2State(
            session=session,
            heard_at_ns=at.mono_ns,
            status_at_ns=at.mono_ns,
            who=self._state.who.anew(),
            left=self._state.left,
        )
        return self.tick(at)

    def remember(self, game: str, utc_ns: int) -> None:
        """Another run of the daemon has seen it in this game."""
        counter = game.rpartition("/")[2].partition("#")[0]
        if counter.isdigit():
            self._change(left=LeftAt(int(counter), utc_ns, by_utc=True))

    def lost(self, cause: str, _at: Stamp) -> Said:
        """The port is gone; the game in progress with it."""
        if story := self._story():
            story.end(Ending.LOST, Defect.DEVICE_LOST)
            self._close(story)
        last, left = self._state.last, self._state.left
        left = LeftAt(last.counter, self._state.status_at_ns) if last and left is None else left
        self._state = Ss2State(status=Status.LOST, who=self._state.who.anew(), left=left)
        self._trouble(Status.LOST, cause)
        return self._said()

    def order(self, _order: Order, _at: Stamp) -> Said:
        """A wheel takes no orders."""
        return NOTHING

    def tick(self, at: Stamp) -> Said:
        """Notice silence; ask what is due."""
        state, now = self._state, at.mono_ns
        if not state.session:
            return NOTHING
        silent_ns = now - state.heard_at_ns
        if state.status in (Status.READY, Status.FAULT) and silent_ns > _STALE_PERIODS * self._period_ns:
            self._become(Status.STALE, "silent for more than 3 periods")
        if now - state.status_at_ns > self._silence_ns:
            self._gap(*SPINNING)
        if self._polled and now - state.polled_at_ns >= self._poll_ns:
            self._send.append(b"*X\r\n")
            self._change(polled_at_ns=now)
        if story := self._story():
            story.tick(at)
            self._keep(story)
        asked = state.who
        if asked.asking and now - asked.asked_at_ns >= _REPLY_WAIT_PERIODS * self._period_ns:
            self.counters["unanswered"] += 1
            self._change(who=asked.given_up())
            if asked.doubted:
                self._become(Status.WRONG_DEVICE, f"{asked.doubted[0]} {_NOT_OURS}")
            self._ask_if_idle(at)
        return self._said()

    def received(self, frame: AnyFrame, at: Stamp) -> Said:
        """One line."""
        bad = isinstance(frame, BadFrame)
        line = parse_tail(frame.raw) if bad else parse(frame.raw)
        if line is None:
            self.counters["bad" if bad else "not-a-line"] += 1
            if bad or is_damage(frame.raw):
                self._damaged()
            return self._said()
        self.counters[type(line).__name__] += 1
        told = said_of_itself(line)
        for key, value in told.items():
            self._remember(key, value)
        match line:
            case StatusLine():
                if begun_again(frame.raw):
                    self.counters["begun-again"] += 1
                    self._damaged()
                self._heard(at)
                self._on_status(line, at)
            case BareNumber():
                self._on_bare(line, at)
            case BonusNumber():
                self._on_bonus(line)
            case Reply():
                self._heard(at)
                self._change(who=self._state.who.replied(line.key, bool(told)))
                self._ask_if_idle(at)
        return self._said()

    # --- the connection ------------------------------------------------------------------------------

    def _heard(self, at: Stamp) -> None:
        self._change(heard_at_ns=at.mono_ns)
        if self._state.status not in (Status.INIT, Status.STALE):
            return
        if wrong := self._state.who.wrong:
            self._become(Status.WRONG_DEVICE, f"{wrong[0]} {_NOT_OURS}")
        else:
            self._become_ready()

    def _health(self, line: StatusLine) -> None:
        """Flag 4 is the wheel's own word that it is out of order."""
        if line.flags & Warn.FAULT and self._state.status is Status.READY:
            self._become(Status.FAULT, "the wheel reports a fault (flag 4)")
        elif not line.flags & Warn.FAULT and self._state.status is Status.FAULT:
            self._become_ready()

    def _become_ready(self) -> None:
        self._change(status=Status.READY)
        self._events.append(DeviceReady(self._setup.name, self._state.who.known))

    def _become(self, status: Status, cause: str) -> None:
        self._change(status=status)
        self._trouble(status, cause)

    def _trouble(self, status: Status, cause: str) -> None:
        self._events.append(DeviceTrouble(self._setup.name, status, cause))

    # --- games ---------------------------------------------------------------------------------------

    def _on_status(self, line: StatusLine, at: Stamp) -> None:
        before = self._state.last
        if before and line.counter < before.counter:
            self._change(epoch=self._state.epoch + 1)
        if before and before.state is State.CLOSED and line.state in (State.CLOSED, State.BEFORE_GAME):
            self._change(finished=-1)
        # A stall while bets are open hides nothing; the path begins with the last line of state 2.
        if at.mono_ns - self._state.status_at_ns > self._silence_ns and line.state is not State.PLACE_BETS:
            self._gap(State.PLACE_BETS, *SPINNING)
        self._compare_last(line)
        self._compare_left(line, at)
        self._tell_game(line, at)
        self._change(last=line, status_at_ns=at.mono_ns)
        self._health(line)
        self._ask_if_idle(at)

    def _compare_last(self, line: StatusLine) -> None:
        """The game before is over, but the wheel still says what came in it."""
        if (read := self._state.read) is None:
            return
        if read.contradicted_by(line):
            self._events.append(ReadingContradicted(read.game, (line.pocket,)))
            self._change(read=None)
        else:
            self._change(read=read.after(line))

    def _compare_left(self, line: StatusLine, at: Stamp) -> None:
        """The first lines of a connection: is it the wheel that was here before? One may be damaged."""
        left = self._state.left
        if left is None:
            return
        if left.leads_to(line, at, self._period_ns):
            self._change(left=None)
        elif left.refuted != line.counter:
            self._change(left=replace(left, refuted=line.counter))
        else:
            cause = f"counter {line.counter:03} cannot follow {left.counter:03} so soon"
            self._events.append(DeviceChanged(self._setup.name, cause))
            self._change(left=None)

    def _tell_game(self, line: StatusLine, at: Stamp) -> None:
        """Let the game that a line belongs to hear it: the one in progress, a new one, or none."""
        if story := self._story():
            match ending(story.attempt, line):
                case None:
                    story.status(line, at)
                    self._keep(story)
                case Ending.SHUT_DOWN:
                    story.shut_down(line, at)
                    self._close(story)
                case _:
                    story.superseded(line)
                    self._close(story)
        if self._state.attempt is None:
            self._begin(line, at)
        if self._state.attempt and line.state is State.NUMBER and self._state.finished != line.counter:
            self._change(finished=line.counter)

    def _begin(self, line: StatusLine, at: Stamp) -> None:
        state = self._state
        doubt: Defect | None = None
        match line.state:
            case State.CLOSED:
                return
            case State.BEFORE_GAME if not line.flags & Warn.FAULT:
                return
            case State.PLACE_BETS if line.counter == state.finished:
                return  # the number of the new game is still to come
            case State.PLACE_BETS if state.last is None:
                doubt = Defect.JOINED_MID_GAME
            case State.BEFORE_GAME | State.PLACE_BETS:
                pass
            case _ if line.counter == state.finished:
                doubt = Defect.COUNTER_NOT_ADVANCED
            case _:
                doubt = Defect.JOINED_MID_GAME
        if state.who.suspect:
            doubt = Defect.WRONG_DEVICE
        game = self._next_ref(line.counter)
        facts = DrawFacts(defects=(doubt,) if doubt else (), turns_basis=TurnsBasis.CERTIFIED)
        joined = doubt is not None
        attempt = Attempt(
            game,
            line.counter,
            line.state,
            facts,
            line.pocket,
            joined,
            damage=state.damage,
            bare_due=state.speaks_bare,
        )
        self._change(last_game=game, damage=0, who=state.who.played())
        self._events.append(GameStarted(game, joined))
        story = Story(attempt, self._terms)
        story.flags(line, at)
        self._keep(story)

    def _next_ref(self, counter: int) -> GameRef:
        state = self._state
        session = state.session if state.epoch == 0 else f"{state.session}.{state.epoch}"
        name = f"{counter:03}"
        last = state.last_game
        again = last is not None and (last.session, last.game) == (session, name)
        return GameRef(self._setup.name, session, name, last.attempt + 1 if last and again else 1)

    def _on_bare(self, line: BareNumber, at: Stamp) -> None:
        story = self._story()
        if story and story.bare(line.pocket, at):
            self._keep(story)
            self._change(speaks_bare=True)
            return
        self.counters["bare-misplaced"] += 1
        self._damaged()

    def _on_bonus(self, line: BonusNumber) -> None:
        if story := self._story():
            story.bonus(line)
            self._keep(story)

    def _damaged(self) -> None:
        story = self._story()
        if story and not story.attempt.done:
            story.damaged()
            self._keep(story)
        else:
            self._change(damage=self._state.damage + 1)

    def _gap(self, *states: State) -> None:
        """The wheel was silent for too long: a gap, if its game is in one of these states."""
        story = self._story()
        if story and story.attempt.on_path(*states):
            story.spoil(Defect.DATA_GAP)
            self._keep(story)

    # --- identity ------------------------------------------------------------------------------------

    def _ask_if_idle(self, at: Stamp) -> None:
        """Put the next question. One line in state 6 ends no game, and in a game nothing is asked."""
        state = self._state
        idle = state.attempt is None and state.last is not None and state.last.state is State.CLOSED
        if idle and state.who.to_ask and not state.who.asking:
            self._send.append(state.who.question())
            self._change(who=state.who.asked(at.mono_ns))

    def _remember(self, key: str, value: str) -> None:
        """Keep a part of the identity, and check it against the wheel that is bound to this table."""
        before, wanted = self._state.who, self._expected.get(key, value)
        after = before.told(key, value, wanted)
        self._change(who=after)
        if value != wanted and (story := self._story()):
            story.spoil(Defect.WRONG_DEVICE)
            self._keep(story)
        changed = after.known != before.known
        if key in after.wrong and changed:
            self._become(Status.WRONG_DEVICE, f"{key} is {value!r}, this table needs {wanted!r}")
        elif (before.wrong and not after.wrong) or (changed and self._state.status is Status.READY):
            self._become_ready()

    # --- the state -----------------------------------------------------------------------------------

    def _story(self) -> Story | None:
        """The game in progress, to be told more."""
        return Story(self._state.attempt, self._terms) if self._state.attempt else None

    def _keep(self, story: Story) -> None:
        if story.attempt is not self._state.attempt:
            self._change(attempt=story.attempt)
        self._hear_of(story)

    def _close(self, story: Story) -> None:
        self._change(attempt=None)
        self._hear_of(story)

    def _hear_of(self, story: Story) -> None:
        self._events += story.events
        for event in story.events:
            if isinstance(event, Reading):
                read = LastRead(event.game, story.attempt.counter, event.value[0])
                self._change(read=read)

    def _change(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)

    def _said(self) -> Said:
        if not self._events and not self._send:
            return NOTHING
        said = Said(tuple(self._events), tuple(self._send))
        self._events.clear()
        self._send.clear()
        return said
