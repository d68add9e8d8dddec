"""The host that a device is tested with, sans-IO: a good host, but slow to acknowledge and at times rude.

    device:  RES . . RES . . RES .       . RES   .    . RES  .  RES .
    host:                         wrong-ack       QRY            ACK       each result or key

    QRY in mid-game, QRY with a wrong checksum, rubbish, port closed and opened again     once a test
    DRW, the same DRW again, after the ACK a DRW with another nonce                       first draw of a box

Of the protocol it says `QRY`, `ACK` and `DRW` only (4.4).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from dollyd.simulators.conformance.record import Line, Record, Said
from dollyd.simulators.conformance.steps import STEPS, Step
from dollyd.simulators.tlp import SEQ_MODULUS, Sentence, frame
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

WRONG_ACK_NS = 1_300 * NS_PER_MS
QUERY_NS = 1_350 * NS_PER_MS
ACK_NS = 2_400 * NS_PER_MS
"""After a sentence that waits for its acknowledgement was first heard."""
QUIET_NS = 800 * NS_PER_MS
"""How long a probe is left to have its effect."""
_AFTER_NS = 50 * NS_PER_MS
_AGAIN_NS = 250 * NS_PER_MS
_FIRST_DRAW_NS = NS_PER_S
_OTHER_NONCE_NS = 3_200 * NS_PER_MS
_NEXT_DRAW_NS = 4_500 * NS_PER_MS
_NO_ANSWER_NS = 3 * NS_PER_S
_GAMES = 10_000
_RUBBISH = b"\x00\xff\xfe$$*,,*" + b"U" * 300 + b"\r\n$HCQRY,1\r\n$HCQRY*\r\n"
_MOVING = "3"
_WITHOUT_GAMES = {"OD", "CN"}


@dataclass(slots=True)
class Waiting:
    """A sentence that is repeated until it is acknowledged."""

    line: Line
    name: str
    """What an acknowledgement names: the game, or the round."""
    counts: bool
    """It is of a game that was played in this test."""
    queried: bool = False


class Host:
    """Give it bytes and the time; `take` what it says. `wants_reopen`: close the port and open it again.

    It is `done` after `games` results (keys of a console, draws of an odds box), all probes and, where a
    person is there, all steps.
    """

    def __init__(self, record: Record, rng: Random, *, games: int, interactive: bool) -> None:
        self.record = record
        self.wants_reopen = False
        self.step: Step | None = None
        """What a person is to do now."""
        self._rng = rng
        self._games = games
        self._seq = 0
        self._out = bytearray()
        self._agenda: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = itertools.count()
        self._waiting: dict[tuple[int, int, str], Waiting] = {}
        self._unacknowledged = self._acknowledged = 0
        self._state = ""
        self._moved = False
        self._quiet_until_ns = 0
        self._probes: list[tuple[Callable[[], bool], Callable[[int], None]]] = [
            (self._in_mid_game, self._query),
            (self._at_once, self._wrong_checksum),
            (self._at_once, self._rubbish),
            (self._between_games, self._reopen),
        ]
        self._steps = [step for step in STEPS if record.talker in step.talkers] if interactive else []
        self._game = rng.randrange(_GAMES)
        self._nonce = ""
        self._draws = 0
        self._double_asked = False

    @property
    def done(self) -> bool:
        """Nothing is left to be tried."""
        tried = not self._probes and not self._steps and self.step is None
        return self.record.full or (
            tried and not self._agenda and self._enough and self.record.end_ns >= self._quiet_until_ns
        )

    def opened(self, now_ns: int) -> None:
        """The port is open, for the first time or again."""
        first = not self.record.opened_ns
        self.wants_reopen = False
        self.record.opened(now_ns)
        self._query(now_ns)
        self._quiet_until_ns = now_ns + QUIET_NS
        if first and self.record.talker == "OD":
            self._at(now_ns + _FIRST_DRAW_NS, self._draw)

    def received(self, data: bytes, now_ns: int) -> None:
        """Bytes of the device."""
        for line in self.record.heard(data, now_ns):
            if line.message == "STA" and self.record.talker != "CN":
                self._state = line.field(0)
                self._moved |= self._state == _MOVING
            if line.message == "RES" or (self.record.talker, line.message) == ("CN", "EVT"):
                self._on_announced(line, now_ns)
        self.tick(now_ns)

    def due_ns(self) -> int | None:
        """When `tick` has something to do."""
        times = [self._agenda[0][0]] if self._agenda else []
        if self._quiet_until_ns > self.record.end_ns:
            times.append(self._quiet_until_ns)
        return min(times, default=None)

    def tick(self, now_ns: int) -> None:
        """Do what is due."""
        self.record.end_ns = now_ns
        while self._agenda and self._agenda[0][0] <= now_ns:
            heapq.heappop(self._agenda)[2](now_ns)
        if self.step is not None and self.step.over(self.record):
            self.step = None
            self._quiet_until_ns = now_ns + QUIET_NS
            if self.record.talker == "OD":
                self._draw(now_ns)  # the counter was kept too (10.2)
        if self._quiet_until_ns <= now_ns and self.step is None:
            self._next_probe(now_ns)

    def take(self) -> bytes:
        """What is to be sent now."""
        said = bytes(self._out)
        self._out.clear()
        return said

    # --- what waits for an acknowledgement -----------------------------------------------------------

    def _on_announced(self, line: Line, now_ns: int) -> None:
        name = line.field(1 if self.record.talker == "CN" else 0)
        key = (line.boot, line.seq, name)
        kept = self.step is not None and self.step.keeps_result and line.boot == self.step.boot
        if key not in self._waiting and not kept:
            waiting = self._waiting[key] = Waiting(line, name, self._is_ours(name))
            self._unacknowledged += 1
            self._at(now_ns + WRONG_ACK_NS, partial(self._wrong_ack, waiting))
            self._at(now_ns + ACK_NS, partial(self._ack, waiting))
            if self.record.talker == "OD" and waiting.counts:
                self._on_answer(line, now_ns)
        elif key in self._waiting:
            waiting = self._waiting[key]
            if not waiting.queried and now_ns - waiting.line.at_ns >= QUERY_NS:
                waiting.queried = True
                self._at(now_ns + _AFTER_NS, self._ask_for_result)

    def _wrong_ack(self, waiting: Waiting, now_ns: int) -> None:
        """For another game or round: no acknowledgement at all (4.2)."""
        name = waiting.name
        other = f"{(int(name) + 5000) % _GAMES:04}" if name.isdigit() else "9999"
        self._say(now_ns, "wrong-ack", "ACK", str(waiting.line.seq), other)

    def _ack(self, waiting: Waiting, now_ns: int) -> None:
        self._say(now_ns, "ACK", "ACK", str(waiting.line.seq), waiting.name)
        self._unacknowledged -= 1
        self._acknowledged += waiting.counts
        self._quiet_until_ns = max(self._quiet_until_ns, now_ns + QUIET_NS)

    def _ask_for_result(self, now_ns: int) -> None:
        if now_ns >= self._quiet_until_ns:
            self._query(now_ns)

    def _is_ours(self, name: str) -> bool:
        """Not the result of a game from before this test."""
        match self.record.talker:
            case "OD":
                return name == f"{self._game:04}" and self._draws > 0
            case "CN":
                return True
        return self._moved

    @property
    def _enough(self) -> bool:
        return self._acknowledged >= self._games

    # --- an odds box ---------------------------------------------------------------------------------

    def _draw(self, now_ns: int) -> None:
        self._draws += 1
        self._game = (self._game + 1) % _GAMES
        self._nonce = f"{self._rng.getrandbits(64):016X}"
        self._ask_to_draw(self._nonce, now_ns)
        if self._draws < self._games:
            self._at(now_ns + _NO_ANSWER_NS, partial(self._draw_unanswered, self._draws))

    def _draw_unanswered(self, draw: int, now_ns: int) -> None:
        game = f"{self._game:04}"
        if draw == self._draws and all(waiting.name != game for waiting in self._waiting.values()):
            self._draw(now_ns)

    def _ask_to_draw(self, nonce: str, now_ns: int) -> None:
        self._say(now_ns, "DRW", "DRW", f"{self._game:04}", nonce)

    def _on_answer(self, line: Line, now_ns: int) -> None:
        """One draw is asked for twice, and with another nonce after that; then comes the next one."""
        if not self._double_asked:
            self._double_asked = True
            self._at(now_ns + _AGAIN_NS, partial(self._ask_to_draw, self._nonce))
            other = f"{self._rng.getrandbits(64):016X}"
            self._at(now_ns + _OTHER_NONCE_NS, partial(self._ask_to_draw, other))
            self._at(now_ns + _OTHER_NONCE_NS + QUIET_NS, partial(self._ack_again, line))
        if self._draws < self._games:
            self._at(now_ns + _NEXT_DRAW_NS, self._draw)

    def _ack_again(self, line: Line, now_ns: int) -> None:
        self._say(now_ns, "ACK", "ACK", str(line.seq), line.field(0))

    # --- probes and steps ----------------------------------------------------------------------------

    def _next_probe(self, now_ns: int) -> None:
        """One at a time, while nothing waits for its acknowledgement."""
        if self._unacknowledged:
            return
        if self._probes and self._probes[0][0]():
            self._probes.pop(0)[1](now_ns)
            self._quiet_until_ns = now_ns + QUIET_NS
        elif not self._probes and self._steps and self._enough:
            self.step = self._steps.pop(0).begun(self.record)
            self.record.steps.append((self.step.name, now_ns))
            if self.record.talker == "OD" and self.step.keeps_result:
                self._draw(now_ns)

    def _at_once(self) -> bool:
        return True

    def _in_mid_game(self) -> bool:
        return self._state == _MOVING or self.record.talker in _WITHOUT_GAMES

    def _between_games(self) -> bool:
        between = self._state in {"1", "2", "5", "6"} and self._acknowledged > 0
        return between or self.record.talker in _WITHOUT_GAMES

    def _query(self, now_ns: int) -> None:
        self._say(now_ns, "QRY", "QRY")

    def _wrong_checksum(self, now_ns: int) -> None:
        sent = frame("HC", "QRY", self._take_seq())
        body, _, check = sent.strip().rpartition(b"*")
        self._out += b"%b*%04X\r\n" % (body, int(check, 16) ^ 1)
        self.record.said.append(Said(now_ns, "wrong-crc"))

    def _rubbish(self, now_ns: int) -> None:
        self._out += _RUBBISH
        self.record.said.append(Said(now_ns, "rubbish"))

    def _reopen(self, _now_ns: int) -> None:
        self.wants_reopen = True

    def _say(self, now_ns: int, what: str, message: str, *fields: str) -> None:
        """An `ACK` names the number of the device's sentence, everything else has one of ours."""
        seq = int(fields[0]) if message == "ACK" else self._take_seq()
        fields = fields[1:] if message == "ACK" else fields
        self._out += frame("HC", message, seq, *fields)
        self.record.said.append(Said(now_ns, what, Sentence("HC", message, seq, fields)))

    def _take_seq(self) -> int:
        seq, self._seq = self._seq, (self._seq + 1) % SEQ_MODULUS
        return seq

    def _at(self, at_ns: int, act: Callable[[int], None]) -> None:
        heapq.heappush(self._agenda, (at_ns, next(self._order), act))
