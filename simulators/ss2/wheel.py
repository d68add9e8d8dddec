"""The SlingShot 2 as its serial port shows it: bytes in, bytes out, at given times."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from random import Random

from dollyd.simulators.faults import Switchboard
from dollyd.simulators.line import LineCutter
from dollyd.simulators.ss2.console import Console
from dollyd.simulators.ss2.game import Play
from dollyd.simulators.ss2.options import MODE_PUSH, PlayedGame, Ss2Options
from dollyd.wire.stamp import NS_PER_MS


class Ss2Wheel:
    """A sans-IO model; the same options, seed, commands and times give the same bytes.

    `due_ns` says when it wants to act next, `advance` gives what it has sent up to now, `command` takes the
    host's bytes and gives the replies. `script` are the numbers of the first games, as the wheel writes them.
    """

    def __init__(self, options: Ss2Options, rng: Random, now_ns: int, script: Iterable[str] = ()) -> None:
        self._play = Play(options, rng, script)
        self._console = Console(self._play)
        self._cutter = LineCutter()
        self._period_ns = options.period_ms * NS_PER_MS
        self._order = itertools.count()
        self._late: list[tuple[int, int, bytes]] = []
        self._tick_ns: int | None = None
        self._back_ns: int | None = None
        self._booted_ns = now_ns
        self.power_on(now_ns)

    @property
    def played(self) -> list[PlayedGame]:
        """The truth, game by game: what a checker compares with."""
        return self._play.played

    @property
    def state(self) -> int:
        """State 1-7 as shown now."""
        return self._play.state

    @property
    def faults(self) -> Switchboard:
        """Faults to strike in the games to come, by their names in `simulators.faults`."""
        return self._play.faults

    def power_on(self, now_ns: int) -> None:
        """Silent and deaf for the boot time, then idle. Nothing happens where it is on."""
        if self._tick_ns is not None:
            return
        self._back_ns = None
        self._play.power_up()
        self._console.power_up()
        self._booted_ns = now_ns + self._play.draw(self._play.options.lengths.boot) * self._period_ns
        self._tick_ns = self._booted_ns

    def power_off(self, now_ns: int) -> None:
        """Dark at once; the game underway is lost, and what was about to be sent."""
        self._tick_ns = self._back_ns = None
        self._late.clear()
        self._play.power_down(now_ns)

    def press_start(self) -> None:
        """The dealer's key."""
        self._play.press_start()

    def will_fall_into(self, pocket: str) -> None:
        """Script the number of a game to come; ValueError where the wheel has no such pocket."""
        self._play.will_fall_into(pocket)

    def due_ns(self) -> int | None:
        """When it next has something to do, or None without power."""
        times = [time for time in (self._tick_ns, self._back_ns) if time is not None]
        if self._late:
            times.append(self._late[0][0])
        return min(times, default=None)

    def advance(self, now_ns: int) -> bytes:
        """Live up to `now_ns`; the bytes sent on the way."""
        sent = bytearray()
        while (due_ns := self.due_ns()) is not None and due_ns <= now_ns:
            sent += self._act(due_ns)
        return bytes(sent)

    def command(self, data: bytes, now_ns: int) -> bytes:
        """Host bytes, possibly partial; the replies to the commands that they complete."""
        if self._tick_ns is None or now_ns < self._booted_ns or self._play.dead:
            return b""
        return b"".join(self._console.answer(line) for line in self._cutter.feed(data))

    def _act(self, due_ns: int) -> bytes:
        if self._late and self._late[0][0] == due_ns:
            return heapq.heappop(self._late)[2]
        if self._back_ns == due_ns:
            self.power_on(due_ns)
            return b""
        return self._tick(due_ns)

    def _tick(self, due_ns: int) -> bytes:
        play = self._play
        play.tick(due_ns)
        if play.power_lost:
            self.power_off(due_ns)
            self._back_ns = due_ns + play.draw(play.options.lengths.repair) * self._period_ns
            return b""
        self._tick_ns = due_ns + self._period_ns
        for fraction, line in play.late_lines:
            heapq.heappush(self._late, (due_ns + int(fraction * self._period_ns), next(self._order), line))
        play.late_lines.clear()
        return play.status() if play.mode & MODE_PUSH and self._console.output_on and not play.dead else b""
