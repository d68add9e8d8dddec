"""A SlingShot 2 by the line: its games as text, a protocol that hears them, a table for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.support.tables import make_setup

from dollyd.daemon.core.events import DrawFacts, GameEnded, GameStarted, Reading, Spoken
from dollyd.daemon.core.state import Bound, Setup
from dollyd.drivers.framing import BadFrame, Frame
from dollyd.drivers.protocols.cammegh_ss2.driver import Ss2Protocol
from dollyd.drivers.spec import DeviceSetup, Said
from dollyd.wire.stamp import NS_PER_MS, Stamp

WHEEL = "wheel"
EUROPEAN = tuple(str(number) for number in range(37))
AMERICAN = (*EUROPEAN, "00")
FOUR_ZEROS = (*AMERICAN, "000", "0000")
PERIOD_MS = 500
SILENCE_MS = 2000

_CODES = {"000": "38", "0000": "39"}
_TICKS_MAX = 10_000

E = TypeVar("E")


def pocket_text(pocket: str) -> str:
    """A pocket as it stands on the wire; empty = no number yet."""
    return _CODES.get(pocket, pocket).rjust(2)


def status(
    state: int, counter: int, pocket: str, flags: int = 0, rpm_x10: int = 170, direction: int = 0
) -> str:
    """A `*X` line."""
    return f"*X;{state};{counter:03};{pocket_text(pocket)};{flags:X};{rpm_x10:03};{direction}"


@dataclass(frozen=True)
class Game:
    """One game of the wheel: how many status lines each state lasts, and what it shows."""

    counter: int = 17
    pocket: str = "23"
    before: str = "8"
    """The number of the game before, shown until state 5."""
    twos: int = 3
    threes: int = 3
    fours: int = 5
    fives: int = 3
    bare: bool = True
    direction: int = 0

    def lines(self, states: str = "2345") -> list[str]:
        """The lines of some of its states, in order."""
        said: list[str] = []
        for state, count in zip("2345", (self.twos, self.threes, self.fours, self.fives), strict=True):
            if state not in states:
                continue
            if state == "5" and self.bare:
                said.append(pocket_text(self.pocket))
            said += [self.line(int(state))] * count
        return said

    def hurried(self) -> list[str]:
        """One line of each state before the number, as of a wheel that is rarely asked: no burst."""
        return [self.line(state) for state in (2, 3, 4)]

    def line(self, state: int, flags: int = 0, rpm_x10: int = 170) -> str:
        """One status line of it."""
        shown = self.pocket if state == 5 else self.before
        return status(state, self.counter, shown, flags, rpm_x10, self.direction)

    def next(self, pocket: str) -> Game:
        """The game after it."""
        counter = self.counter % 256 + 1
        return Game(counter, pocket, self.pocket, self.twos, self.threes, self.fours, self.fives, self.bare)


def device_setup(pockets: tuple[str, ...] = EUROPEAN, **changes: Any) -> DeviceSetup:
    return DeviceSetup(name=WHEEL, role="wheel", pockets=pockets, **changes)


@dataclass
class Ear:
    """A protocol that hears lines in virtual time; ticks come exactly at its deadlines."""

    setup: DeviceSetup = field(default_factory=device_setup)
    now_ms: float = 1_000_000
    events: list[Spoken] = field(default_factory=list)
    sent: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.protocol = Ss2Protocol(self.setup)

    @property
    def at(self) -> Stamp:
        return Stamp(round(self.now_ms * NS_PER_MS), round(self.now_ms * NS_PER_MS))

    def open(self) -> Ear:
        """A new connection, nothing heard yet."""
        self._take(self.protocol.opened(self.at))
        return self

    def open_idle(self) -> Ear:
        """A new connection to a wheel that is closed; the next game is seen from its beginning."""
        return self.open().hear(status(6, 16, "8"))

    def hear(self, *lines: str, every_ms: float = PERIOD_MS) -> Ear:
        """Status lines come a period apart, everything else together with the next of them."""
        for line in lines:
            if line.startswith("*X;"):
                self.quiet(every_ms)
            self._take(self.protocol.received(Frame(line.encode("latin-1")), self.at))
        return self

    def noise(self, raw: bytes = b"\xff\x00") -> Ear:
        """A line that the framing refused."""
        self._take(self.protocol.received(BadFrame(raw, "not-printable"), self.at))
        return self

    def quiet(self, ms: float) -> Ear:
        """Time passes."""
        until_ns = round((self.now_ms + ms) * NS_PER_MS)
        for _ in range(_TICKS_MAX):
            due_ns = self.protocol.deadline_ns()
            if due_ns is None or due_ns >= until_ns:
                break
            self.now_ms = max(self.now_ms, due_ns / NS_PER_MS)
            self._take(self.protocol.tick(self.at))
            after_ns = self.protocol.deadline_ns()
            assert after_ns is None or after_ns > self.at.mono_ns, (
                "a deadline in the past: the loop would spin"
            )
        else:
            raise AssertionError("deadlines without end")
        self.now_ms = until_ns / NS_PER_MS
        return self

    def lose(self, cause: str = "unplugged") -> Ear:
        self._take(self.protocol.lost(cause, self.at))
        return self

    def _take(self, said: Said) -> None:
        self.events += said.events
        self.sent += [(self.now_ms, data.decode("ascii").rstrip("\r\n")) for data in said.send]

    # --- what it understood --------------------------------------------------------------------------

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def numbers(self) -> list[str]:
        """Every number that was read."""
        return [reading.value[0] for reading in self.of(Reading)]

    @property
    def facts(self) -> DrawFacts:
        """The facts of the last game that ended, with or without a number."""
        return [event.facts for event in self.events if isinstance(event, Reading | GameEnded)][-1]

    @property
    def joined(self) -> list[str]:
        """Counters of the games that were under way when first heard."""
        return [event.game.game for event in self.of(GameStarted) if event.joined]


def table_setup(drivers: Iterable[tuple[str, str, str]] = ((WHEEL, "cammegh-ss2", "wheel"),)) -> Setup:
    """A European roulette, variant C of the shipped rules; devices as (name, driver, role)."""
    devices = tuple(Bound(*device) for device in drivers)
    return make_setup("C", table="r1", devices=devices, gaming_date=lambda _utc_ns: "2026-11-29")
