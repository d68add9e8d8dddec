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
from dataclasses import dataclass, field, replace

from dollyd.daemon.core.events import OddsDrawn, OddsFailed
from dollyd.drivers.protocols.odds_monitor import OddsMonitor
from dollyd.drivers.protocols.tlp.device import TlpDevice, mask_of
from dollyd.drivers.protocols.tlp.sentence import Sentence, build
from dollyd.drivers.spec import DeviceSetup, Order, Said, Status
from dollyd.wire.stamp import Stamp

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
    """What is remembered of the draws; a frozen value."""

    asked: Asked | None = None
    answer: Answer | None = None
    counter: int = -1
    """Draw counter of the last authentic answer, -1 = none heard yet."""
    unanswered: int = 0
    """Draws asked since then without an authentic answer: the box may or may not have drawn."""
    monitor: OddsMonitor = field(default_factory=OddsMonitor)


def mac(key: bytes, serial: str, game: str, table: str, counter: str, nonce: str) -> str:
    """The proof in an `ODRES`: 16 upper-case hex digits over the fields exactly as they stand on the wire."""
    text = f"OD1,{serial},{game},{table},{counter},{nonce}".encode("ascii")
    return hmac.new(key, text, hashlib.sha256).hexdigest()[:16].upper()


class OddsBoxProtocol(TlpDevice[OddsBoxState]):
    """The odds box's language without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        super().__init__(setup, "OD", "ODDS", OddsBoxState())

    def order(self, order: Order, at: Stamp) -> Said:
        """Draw the odds table of a round."""
        self._fail("superseded")
        if self.status is not Status.READY:
            cause = self._link.fault or str(self.status)
            self._refuse(order.round, f"box is {cause}")
            return self._said()
        asked = Asked(order.round, f"{order.round % _GAMES:04}", order.nonce, self._next_seq(), at.mono_ns)
        self._own = replace(self._own, asked=asked)
        self._request(asked)
        return self._said()

    # --- what the connection tells ------------------------------------------------------------------

    def _due(self) -> list[int]:
        """The request is repeated every period until it is answered."""
        return [self._own.asked.sent_at_ns + self._period_ns] if self._own.asked else []

    def _on_time(self, at: Stamp) -> None:
        asked = self._own.asked
        if asked and at.mono_ns - asked.sent_at_ns >= self._period_ns:
            again = replace(asked, sent_at_ns=at.mono_ns)
            self._own = replace(self._own, asked=again)
            self._request(again)

    def _on_opened(self, _at: Stamp) -> None:
        self._own = replace(self._own, monitor=self._own.monitor.reconnected())

    def _on_lost(self) -> None:
        """The draw of this round cannot be trusted to come."""
        self._fail("device-lost")

    def _on_rebooted(self) -> None:
        self._own = replace(self._own, monitor=self._own.monitor.reconnected())

    def _on_wrong_device(self) -> None:
        self._own = replace(self._own, counter=-1)
        self._fail("wrong-device")

    def _on_sentence(self, sentence: Sentence, _at: Stamp) -> None:
        match sentence.message:
            case "RES":
                self._on_answer(sentence)
            case "STA":
                self._on_flags(mask_of(sentence.field(2) or "00"))
            case "FLT":
                self._on_flags(mask_of(sentence.field(1)))

    # --- draws ---------------------------------------------------------------------------------------

    def _on_answer(self, sentence: Sentence) -> None:
        game, fields = sentence.field(0), sentence.fields[:5]
        self._acknowledge(sentence, game)
        last, asked = self._own.answer, self._own.asked
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
        if self.status is not Status.READY:
            return f"box is {self._link.fault or self.status}"
        if nonce != asked.nonce:
            return "wrong-nonce"
        right = mac(self._setup.secret, dict(self.identity)["serial"], game, table, counter, nonce)
        if not self._setup.unproven and not hmac.compare_digest(right, proof):
            return "bad-mac"
        return "" if counter.isdigit() else "counter-gap"

    def _on_authentic(self, asked: Asked, fields: tuple[str, ...]) -> None:
        """The box has answered this very request: the draw is over, whether its answer counts or not."""
        _, table, count, nonce, proof = fields
        before, counter = self._own, int(count)
        self._own = replace(
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
        monitor = before.monitor.after(int(table))
        self._own = replace(self._own, monitor=monitor)
        if monitor.alarm:
            self._break(monitor.alarm)
            self._refuse(asked.round, monitor.alarm)
            return
        self._events.append(OddsDrawn(self._setup.name, asked.round, int(table), counter, nonce, proof))

    def _on_flags(self, mask: int | None) -> None:
        """A fault stands until the box says hello with another boot id or is connected anew.

        `FLT` and `STA` tell the same flags: what one of them does not carry, the other makes good.
        """
        bits = 0x02 if mask is None else mask
        for bit, cause in _FAULTS.items():
            if bits & bit:
                self._break(cause)
                self._fail(cause)

    def _fail(self, cause: str) -> None:
        """The draw of the round that waits has failed, if one waits."""
        if asked := self._own.asked:
            self._own = replace(self._own, asked=None, unanswered=self._own.unanswered + 1)
            self._refuse(asked.round, cause)

    def _refuse(self, round_number: int, cause: str) -> None:
        self._events.append(OddsFailed(self._setup.name, round_number, cause))

    # --- speaking ------------------------------------------------------------------------------------

    def _request(self, asked: Asked) -> None:
        self._send.append(build(Sentence("HC", "DRW", asked.seq, (asked.game, asked.nonce))))
