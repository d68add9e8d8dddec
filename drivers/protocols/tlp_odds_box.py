"""Driver `tlp`, talker OD: the odds box that draws the odds table of roulette variant B (devices part 3).

The host asks once a round, after no more bets, with a fresh nonce (`HCDRW,seq,game,nonce`) and repeats the
same request until it is answered; the box draws exactly once a game and repeats its `ODRES` until `HCACK`.

    $ODRES,seq,game,table,counter,nonce,mac
    mac = first 16 hex digits of HMAC-SHA256(key, "OD1,<serial>,<game>,<table>,<counter>,<nonce>")

An answer counts only if game and nonce are those asked, the MAC is right, the counter is one more than
before and the table is 1 or 2. Everything else fails the round's draw; nothing ever becomes "table 1".
Survives: silence, late and doubled answers, damaged lines, a box that restarts or is another box.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from dollyd.daemon.core.events import DeviceEvent, DeviceReady, DeviceTrouble, OddsDrawn, OddsFailed
from dollyd.daemon.core.stamp import NS_PER_MS, Stamp
from dollyd.drivers.framing import AnyFrame, BadFrame
from dollyd.drivers.protocols.tlp_sentence import SEQUENCES, Sentence, build, parse
from dollyd.drivers.spec import NOTHING, DeviceSetup, Order, Said, Status

TWOS_IN_A_ROW_MAX = 5
"""So many table-2 draws running have p = (1/30)^5 = 4e-8: the generator is stuck."""
ONES_IN_A_ROW_MAX = 600
"""So many draws without table 2 have p = (29/30)^600 = 1.5e-9."""

_STALE_PERIODS = 3
_GAMES = 10_000
_FAULTS = {0x01: "health-test-failed", 0x02: "self-test-failed", 0x04: "tampered"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The draw that the round waits for."""

    round: int
    game: str
    nonce: str
    seq: int
    sent_at_ns: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What the box answered last, as it stood on the wire."""

    round: int
    game: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OddsBoxState:
    """Everything that the driver remembers; a frozen value."""

    connected: bool = False
    heard_at_ns: int = 0
    status: Status = Status.INIT
    identity: tuple[tuple[str, str], ...] = ()
    seq: int = 0
    asked: Asked | None = None
    answer: Answer | None = None
    counter: int = -1
    """Draw counter of the last authentic answer, -1 = none heard yet."""
    unanswered: int = 0
    """Draws asked since then without an authentic answer: the box may or may not have drawn."""
    run: int = 0
    """Draws of the same table in a row: positive for table 2, negative for table 1."""
    fault: str = ""


def mac(key: bytes, serial: str, game: str, table: str, counter: str, nonce: str) -> str:
    """The proof in an `ODRES`: 16 upper-case hex digits over the fields exactly as they stand on the wire."""
    text = f"OD1,{serial},{game},{table},{counter},{nonce}".encode("ascii")
    return hmac.new(key, text, hashlib.sha256).hexdigest()[:16].upper()


class OddsBoxProtocol:
    """The odds box's language without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        self._setup = setup
        self._period_ns = setup.period_ms * NS_PER_MS
        self._state = OddsBoxState()
        self._events: list[DeviceEvent] = []
        self._send: list[bytes] = []
        self.counters: Counter[str] = Counter()

    @property
    def status(self) -> Status:
        """Device state as published."""
        return self._state.status

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What the box said of itself in `HEL`."""
        return self._state.identity

    def snapshot(self) -> Any:
        """The whole state as a frozen value."""
        return self._state

    def restore(self, snapshot: Any) -> None:
        """Take a state back, possibly through JSON."""
        self._state = msgspec.convert(snapshot, OddsBoxState) if isinstance(snapshot, dict) else snapshot

    def deadline_ns(self) -> int | None:
        """When silence becomes news or the request is due again."""
        state = self._state
        due: list[int] = []
        if state.status in (Status.READY, Status.FAULT):
            due.append(state.heard_at_ns + _STALE_PERIODS * self._period_ns + 1)
        if state.connected and state.asked:
            due.append(state.asked.sent_at_ns + self._period_ns)
        return min(due, default=None)

    def opened(self, at: Stamp) -> Said:
        """Ask who is there."""
        before = self._state
        self._state = replace(
            before, connected=True, heard_at_ns=at.mono_ns, status=Status.INIT, identity=(), fault="", run=0
        )
        self._say("QRY", ())
        return self._said()

    def lost(self, cause: str, _at: Stamp) -> Said:
        """The port is gone: the draw of this round cannot be trusted to come."""
        self._fail("device-lost")
        self._state = replace(self._state, connected=False, status=Status.LOST)
        self._events.append(DeviceTrouble(self._setup.name, Status.LOST, cause))
        return self._said()

    def order(self, order: Order, at: Stamp) -> Said:
        """Draw the odds table of a round."""
        self._fail("superseded")
        if self._state.status is not Status.READY:
            cause = self._state.fault or str(self._state.status)
            self._refuse(order.round, f"box is {cause}")
            return self._said()
        asked = Asked(order.round, f"{order.round % _GAMES:04}", order.nonce, self._next_seq(), at.mono_ns)
        self._state = replace(self._state, asked=asked)
        self._request(asked)
        return self._said()

    def tick(self, at: Stamp) -> Said:
        """Notice silence; repeat the request."""
        state = self._state
        silent = at.mono_ns - state.heard_at_ns > _STALE_PERIODS * self._period_ns
        if state.status in (Status.READY, Status.FAULT) and silent:
            self._state = replace(self._state, status=Status.STALE)
            self._events.append(
                DeviceTrouble(self._setup.name, Status.STALE, "silent for more than 3 periods")
            )
        if state.connected and state.asked and at.mono_ns - state.asked.sent_at_ns >= self._period_ns:
            again = replace(state.asked, sent_at_ns=at.mono_ns)
            self._state = replace(self._state, asked=again)
            self._request(again)
        return self._said()

    def received(self, frame: AnyFrame, at: Stamp) -> Said:
        """One line."""
        sentence = None if isinstance(frame, BadFrame) else parse(frame.raw)
        if sentence is None or sentence.talker != "OD":
            self.counters["bad" if sentence is None else "other-talker"] += 1
            return self._said()
        self.counters[sentence.message] += 1
        self._state = replace(self._state, heard_at_ns=at.mono_ns)
        if self._state.status is Status.STALE and sentence.message != "HEL":
            self._become_ready()
        match sentence.message:
            case "HEL":
                self._on_hello(sentence)
            case "RES":
                self._on_answer(sentence)
            case "FLT":
                self._on_fault(sentence)
            case "STA" if not self._state.identity:
                self._say("QRY", ())  # it lives, but our question or its hello was lost
        return self._said()

    # --- what sentences mean -------------------------------------------------------------------------

    def _on_hello(self, sentence: Sentence) -> None:
        names = ("protocol", "kind", "vendor", "model", "serial", "firmware", "boot")
        identity = tuple((name, sentence.field(index)) for index, name in enumerate(names))
        known, new = dict(self._state.identity), dict(identity)
        rebooted = bool(known) and known["boot"] != new["boot"]
        self._state = replace(self._state, identity=identity)
        wanted = {"protocol": "1"} | dict(self._setup.expect)
        wrong = [key for key, value in wanted.items() if new.get(key) != value]
        if wrong or not new["serial"]:
            key = wrong[0] if wrong else "serial"
            cause = f"{key} is {new.get(key)!r}, this table needs {wanted.get(key, 'one')!r}"
            self._state = replace(self._state, status=Status.WRONG_DEVICE, counter=-1)
            self._events.append(DeviceTrouble(self._setup.name, Status.WRONG_DEVICE, cause))
            self._fail("wrong-device")
            return
        if rebooted:
            self.counters["reboots"] += 1
            self._state = replace(self._state, fault="", run=0)
        if self._state.status is not Status.READY or rebooted:
            self._become_ready()

    def _become_ready(self) -> None:
        if not self._state.identity:
            return
        status = Status.FAULT if self._state.fault else Status.READY
        self._state = replace(self._state, status=status)
        if status is Status.READY:
            self._events.append(DeviceReady(self._setup.name, self._state.identity))

    def _on_answer(self, sentence: Sentence) -> None:
        game, fields = sentence.field(0), sentence.fields[:5]
        self._send.append(build(Sentence("HC", "ACK", sentence.seq, (game,))))
        last, asked = self._state.answer, self._state.asked
        if last and last.game == game and (asked is None or asked.game != game):
            if last.fields == fields:
                self.counters["repeated"] += 1
            else:
                self._refuse(last.round, "two-answers")
        elif asked is None or asked.game != game:
            self.counters["unasked"] += 1
        elif cause := self._objection(asked, fields):
            self._fail(cause)
        else:
            self._on_authentic(asked, fields)

    def _objection(self, asked: Asked, fields: tuple[str, ...]) -> str:
        """Why this is not the box's answer to our request, empty where it is."""
        if len(fields) < 5:
            return "short-answer"
        game, table, counter, nonce, proof = fields
        if self._state.status is not Status.READY:
            return f"box is {self._state.fault or self._state.status}"
        if nonce != asked.nonce:
            return "wrong-nonce"
        serial = dict(self._state.identity)["serial"]
        if not hmac.compare_digest(mac(self._setup.secret, serial, game, table, counter, nonce), proof):
            return "bad-mac"
        return "" if counter.isdigit() else "counter-gap"

    def _on_authentic(self, asked: Asked, fields: tuple[str, ...]) -> None:
        """The box has answered this very request: the draw is over, whether its answer counts or not."""
        _, table, count, nonce, proof = fields
        before, counter = self._state, int(count)
        self._state = replace(
            before,
            asked=None,
            answer=Answer(asked.round, asked.game, fields),
            counter=counter,
            unanswered=0,
        )
        if before.counter >= 0 and not before.counter < counter <= before.counter + 1 + before.unanswered:
            self._refuse(asked.round, "counter-gap")
            return
        if table not in ("1", "2"):
            self._refuse(asked.round, "table-not-1-or-2")
            return
        run = (max(before.run, 0) + 1) if table == "2" else (min(before.run, 0) - 1)
        self._state = replace(self._state, run=run)
        if run >= TWOS_IN_A_ROW_MAX or run <= -ONES_IN_A_ROW_MAX:
            self._break("stuck on one table")
            self._refuse(asked.round, "stuck")
            return
        self._events.append(OddsDrawn(self._setup.name, asked.round, int(table), counter, nonce, proof))

    def _on_fault(self, sentence: Sentence) -> None:
        mask = sentence.field(1)
        bits = int(mask, 16) if mask and all(c in "0123456789ABCDEF" for c in mask) else 0x02
        for bit, cause in _FAULTS.items():
            if bits & bit:
                self._break(cause)
                self._fail(cause)

    def _break(self, cause: str) -> None:
        """The box is out of order until it says hello with another boot id or is connected anew."""
        if self._state.fault != cause:
            self._state = replace(self._state, fault=cause, status=Status.FAULT)
            self._events.append(DeviceTrouble(self._setup.name, Status.FAULT, cause))

    def _fail(self, cause: str) -> None:
        """The draw of the round that waits has failed, if one waits."""
        if asked := self._state.asked:
            self._state = replace(self._state, asked=None, unanswered=self._state.unanswered + 1)
            self._refuse(asked.round, cause)

    def _refuse(self, round_number: int, cause: str) -> None:
        self._events.append(OddsFailed(self._setup.name, round_number, cause))

    # --- speaking ------------------------------------------------------------------------------------

    def _request(self, asked: Asked) -> None:
        self._send.append(build(Sentence("HC", "DRW", asked.seq, (asked.game, asked.nonce))))

    def _say(self, message: str, fields: tuple[str, ...]) -> None:
        self._send.append(build(Sentence("HC", message, self._next_seq(), fields)))

    def _next_seq(self) -> int:
        seq = self._state.seq
        self._state = replace(self._state, seq=(seq + 1) % SEQUENCES)
        return seq

    def _said(self) -> Said:
        if not self._events and not self._send:
            return NOTHING
        said = Said(tuple(self._events), tuple(self._send))
        self._events.clear()
        self._send.clear()
        return said
