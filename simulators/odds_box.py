"""An odds box that speaks TLP/1 (talker `OD`, part 3 of the device notes), 115200 baud.

    box: $ODHEL,seq,1,ODDS,vendor,model,serial,fw,bootid      at boot and on $HCQRY
    box: $ODSTA,seq,state,game,flags                          every period; state 1 ready, 5 answer shown
    host: $HCDRW,seq,game,nonce                               (or $ODDRW)
    box: $ODRES,seq,game,table,counter,nonce,mac              every period, unchanged ...
    host: $HCACK,seq,game                                     ... until this
    box: $ODFLT,seq,game,flags,text

mac = first 16 upper-case hex digits of HMAC-SHA256(key, `OD1,serial,game,table,counter,nonce`), ASCII, with
the serial number of HEL and the counter in nine digits.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from dollyd.simulators.faults import Switchboard
from dollyd.simulators.line import LineCutter
from dollyd.simulators.tlp import Sentence, SequenceNumbers, frame, parse
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

FLAG_HEALTH, FLAG_NO_DRAW, FLAG_DUPLICATE = 0x01, 0x08, 0x10
_STATE_READY, _STATE_ANSWER = 1, 5
_REMEMBERED_DRAWS = 1000
_LATE_NS = 20 * NS_PER_S
_BAD_CRC_ANSWERS = 3
_REMEMBERED_ANSWERS = 8
"""Answers repeated side by side where the host acknowledges none."""


@dataclass(frozen=True, slots=True)
class OddsBoxOptions:
    """One box. `first_counter` is the number of its first draw."""

    period_ms: int = 500
    vendor: str = "ACME"
    model: str = "ODDS2"
    serial: str = "OB000042"
    firmware: str = "1.0.3"
    first_counter: int = 1


@dataclass(frozen=True, slots=True)
class Drawn:
    """One draw as it really was: the truth for checkers."""

    game: str
    nonce: str
    table: int
    counter: int


@dataclass(slots=True)
class _Answer:
    """A RES on its way: the frame as sent, and what an ACK must name."""

    game: str
    seq: int
    bytes: bytes
    from_ns: int
    bad_crc: int = 0


def proof(key: bytes, serial: str, drawn: Drawn) -> str:
    """The truncated MAC of a draw (see the head of this page)."""
    text = f"OD1,{serial},{drawn.game},{drawn.table},{drawn.counter:09},{drawn.nonce}"
    return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()[:16].upper()


def draw_table(rng: Random) -> int:
    """Table 2 once in 30: a 32-bit word, rejected at or above the last whole multiple of 30."""
    while (word := rng.getrandbits(32)) >= 2**32 // 30 * 30:
        pass
    return 2 if word % 30 == 0 else 1


class OddsBox:
    """A sans-IO model; one draw a game, and the same answer however often it is asked for.

    Another nonce for the last game gets the first answer again and `ODFLT` 10. Draws, counter and answers
    survive a power cut. `script` are the tables of the first draws.
    """

    def __init__(
        self, options: OddsBoxOptions, key: bytes, rng: Random, now_ns: int, script: Iterable[int] = ()
    ) -> None:
        self.options = options
        self.faults = Switchboard("odds-box")
        self.drawn: list[Drawn] = []
        self._key = key
        self._rng = rng
        self._script: deque[int] = deque()
        for table in script:
            self.will_draw(table)
        self._counter = options.first_counter
        self._sequence = SequenceNumbers()
        self._cutter = LineCutter()
        self._draws: OrderedDict[tuple[str, str], _Answer | None] = OrderedDict()
        self._answers: list[_Answer] = []
        self._flags = FLAG_NO_DRAW
        self._period_ns = options.period_ms * NS_PER_MS
        self._tick_ns: int | None = None
        self._boot_id = ""
        self._stuck = False
        self._hello_due = False
        self.power_on(now_ns)

    def will_draw(self, table: int) -> None:
        """Script the table of a draw to come; ValueError where there is none such."""
        if table not in {1, 2}:
            raise ValueError(f"no odds table {table}; there are 1 and 2")
        self._script.append(table)

    def power_on(self, now_ns: int) -> None:
        """A new boot id, then HEL with the next tick, which is at once. Nothing happens where it is on."""
        if self._tick_ns is None:
            self._boot_id = f"{self._rng.getrandbits(32):08X}"
            self._sequence = SequenceNumbers()
            self._tick_ns = now_ns
            self._hello_due = True
            self._flags &= ~FLAG_HEALTH

    def power_off(self, now_ns: int) -> None:  # noqa: ARG002 - every model has the same face
        """Silent and deaf."""
        self._tick_ns = None

    def due_ns(self) -> int | None:
        """When it next has something to say, or None without power."""
        return self._tick_ns

    def advance(self, now_ns: int) -> bytes:
        """Live up to `now_ns`; the bytes sent on the way."""
        sent = bytearray()
        while self._tick_ns is not None and self._tick_ns <= now_ns:
            due_ns, self._tick_ns = self._tick_ns, self._tick_ns + self._period_ns
            sent += self._tick(due_ns)
        return bytes(sent)

    def command(self, data: bytes, now_ns: int) -> bytes:
        """Host bytes, possibly partial; the answers. A damaged frame is met with silence."""
        if self._tick_ns is None:
            return b""
        sentences = [parse(line) for line in self._cutter.feed(data)]
        return b"".join(self._respond(sentence, now_ns) for sentence in sentences if sentence is not None)

    def _tick(self, now_ns: int) -> bytes:
        sent = b""
        if self._hello_due:
            self._hello_due = False
            sent += self._hello()
        if self.faults.take("odds-unasked"):
            self._answer(
                self._draw(f"{self._rng.randrange(10_000):04}", f"{self._rng.getrandbits(64):016X}"), now_ns
            )
        current = [answer for answer in self._answers if answer.from_ns <= now_ns]
        state = _STATE_ANSWER if current else _STATE_READY
        game = current[-1].game if current else ""
        sent += self._say("STA", str(state), game, f"{self._flags:02X}")
        return sent + b"".join(self._show(answer) for answer in current)

    def _respond(self, sentence: Sentence, now_ns: int) -> bytes:
        match sentence:
            case Sentence(command="QRY"):
                return self._hello() + b"".join(
                    answer.bytes for answer in self._answers[-1:] if answer.from_ns <= now_ns
                )
            case Sentence(command="ACK", seq=seq, fields=(game, *_)):
                self._answers = [one for one in self._answers if (one.seq, one.game) != (seq, game)]
                return b""
            case Sentence(talker="HC" | "OD", command="DRW", fields=(game, nonce, *_)):
                return self._asked(game, nonce, now_ns)
            case _:
                return b""

    def _asked(self, game: str, nonce: str, now_ns: int) -> bytes:
        last = next(reversed(self._draws), ("", ""))
        if (game, nonce) in self._draws:
            return self._again(self._draws[game, nonce], now_ns)
        if game == last[0]:
            return self._fault(game, FLAG_DUPLICATE, "DUPLICATE") + self._again(self._draws[last], now_ns)
        if self.faults.take("odds-health"):
            self._flags |= FLAG_HEALTH
        if self._flags & FLAG_HEALTH:
            return self._fault(game, FLAG_HEALTH, "HEALTH")
        if self.faults.take("odds-reboot"):
            self.power_off(now_ns)
            self.power_on(now_ns)
            return b""
        drawn = self._draw(game, nonce)
        if self.faults.take("odds-no-answer"):
            self._remember(drawn, None)
            return b""
        answer = self._answer(drawn, now_ns)
        return self._show(answer) if answer.from_ns <= now_ns else b""

    def _again(self, answer: _Answer | None, now_ns: int) -> bytes:
        """An answer that was given before; repeated until acknowledged, like a new one."""
        if answer is None:
            return b""
        if answer not in self._answers:
            self._answers.append(answer)
        return self._show(answer) if answer.from_ns <= now_ns else b""

    def _remember(self, drawn: Drawn, answer: _Answer | None) -> None:
        self._draws[drawn.game, drawn.nonce] = answer
        if len(self._draws) > _REMEMBERED_DRAWS:
            self._draws.popitem(last=False)

    def _draw(self, game: str, nonce: str) -> Drawn:
        self._stuck = self._stuck or self.faults.take("odds-stuck") is not None
        table = self._script.popleft() if self._script else draw_table(self._rng)
        drawn = Drawn(game, nonce, 2 if self._stuck else table, self._counter)
        step = {"odds-counter-gap": 2, "odds-counter-repeat": 0}.get(
            self.faults.take("odds-counter-gap", "odds-counter-repeat") or "", 1
        )
        self._counter += step
        self._flags &= ~FLAG_NO_DRAW
        self.drawn.append(drawn)
        return drawn

    def _answer(self, drawn: Drawn, now_ns: int) -> _Answer:
        """Make the RES of a draw, spoilt where a fault says so, and repeat it from now on."""
        said = drawn
        match self.faults.take("odds-wrong-nonce", "odds-wrong-game", "odds-bad-table"):
            case "odds-wrong-nonce":
                said = Drawn(drawn.game, f"{self._rng.getrandbits(64):016X}", drawn.table, drawn.counter)
            case "odds-wrong-game":
                said = Drawn(
                    f"{self._rng.randrange(10_000, 20_000)}", drawn.nonce, drawn.table, drawn.counter
                )
            case "odds-bad-table":
                said = Drawn(drawn.game, drawn.nonce, 3, drawn.counter)
            case _:
                pass
        answer = self._result(said, now_ns + (_LATE_NS if self.faults.take("odds-late-answer") else 0))
        answer.bad_crc = _BAD_CRC_ANSWERS if self.faults.take("odds-bad-crc") else 0
        if self.faults.take("odds-two-answers"):
            other = Drawn(drawn.game, drawn.nonce, 3 - drawn.table, drawn.counter)
            self._answers.append(self._result(other, now_ns + self._period_ns))
        self._remember(drawn, answer)
        self._answers = [*self._answers[-_REMEMBERED_ANSWERS:], answer]
        return answer

    def _result(self, said: Drawn, from_ns: int) -> _Answer:
        mac = proof(self._key, self.options.serial, said)
        if self.faults.take("odds-bad-mac"):
            mac = f"{int(mac, 16) ^ 1:016X}"
        seq = self._sequence.take()
        sent = frame("OD", "RES", seq, said.game, str(said.table), f"{said.counter:09}", said.nonce, mac)
        return _Answer(said.game, seq, sent, from_ns)

    def _show(self, answer: _Answer) -> bytes:
        if answer.bad_crc == 0:
            return answer.bytes
        answer.bad_crc -= 1
        body, _, check = answer.bytes.strip().rpartition(b"*")
        return b"%b*%04X\r\n" % (body, int(check, 16) ^ 1)

    def _hello(self) -> bytes:
        options = self.options
        return self._say(
            "HEL", "1", "ODDS", options.vendor, options.model, options.serial, options.firmware, self._boot_id
        )

    def _fault(self, game: str, flags: int, text: str) -> bytes:
        return self._say("FLT", game, f"{flags:02X}", text)

    def _say(self, command: str, *fields: str) -> bytes:
        return frame("OD", command, self._sequence.take(), *fields)
