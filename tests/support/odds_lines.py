"""An odds box by the sentence, and a protocol that hears it in virtual time."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TypeVar

from dollyd.daemon.core.events import OddsDrawn, OddsFailed, Spoken
from dollyd.drivers.framing import Frame
from dollyd.drivers.protocols.tlp.odds_box import OddsBoxProtocol
from dollyd.drivers.protocols.tlp.sentence import Sentence, build, parse
from dollyd.drivers.spec import DeviceSetup, DrawOdds, Said
from dollyd.wire.stamp import NS_PER_MS, Stamp

KEY = b"0123456789abcdef"
SERIAL = "OD000017"
HELLO = ("1", "ODDS", "ACME", "O1", SERIAL, "1.0", "B007")
PERIOD_MS = 500

E = TypeVar("E")


def proof(game: str, table: str, counter: str, nonce: str, key: bytes = KEY, serial: str = SERIAL) -> str:
    """The MAC, worked out apart from the driver."""
    text = f"OD1,{serial},{game},{table},{counter},{nonce}"
    return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest().upper()[:16]


def sentence(message: str, seq: int, *fields: str, talker: str = "OD") -> bytes:
    return build(Sentence(talker, message, seq, fields)).rstrip(b"\r\n")


def answer(game: str, table: str, counter: int | str, nonce: str, mac: str = "", seq: int = 9) -> bytes:
    count = counter if isinstance(counter, str) else f"{counter:09}"
    return sentence("RES", seq, game, table, count, nonce, mac or proof(game, table, count, nonce))


@dataclass
class Host:
    """The driver with a box at its side; time passes only when told, ticks come at the deadlines."""

    setup: DeviceSetup = field(default_factory=lambda: DeviceSetup("odds", "odds", secret=KEY))
    now_ms: float = 1_000_000
    events: list[Spoken] = field(default_factory=list)
    sent: list[Sentence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.protocol = OddsBoxProtocol(self.setup)

    @property
    def at(self) -> Stamp:
        return Stamp(round(self.now_ms * NS_PER_MS), round(self.now_ms * NS_PER_MS))

    def open(self) -> Host:
        return self._take(self.protocol.opened(self.at))

    def open_ready(self, *hello: str) -> Host:
        return self.open().hear(sentence("HEL", 1, *(hello or HELLO)))

    def hear(self, *lines: bytes) -> Host:
        for line in lines:
            self._take(self.protocol.received(Frame(line), self.at))
        return self

    def ask(self, round_number: int = 412, nonce: str = "9C0D4E7A11B2F00D") -> Host:
        return self._take(self.protocol.order(DrawOdds(round_number, nonce), self.at))

    def draw(self, round_number: int, table: str, counter: int) -> Host:
        """A whole draw that goes well."""
        nonce = f"{round_number:016X}"
        return self.ask(round_number, nonce).hear(
            answer(f"{round_number % 10_000:04}", table, counter, nonce)
        )

    def quiet(self, ms: float) -> Host:
        until_ns = round((self.now_ms + ms) * NS_PER_MS)
        while (due_ns := self.protocol.deadline_ns()) is not None and due_ns < until_ns:
            self.now_ms = max(self.now_ms, due_ns / NS_PER_MS)
            self._take(self.protocol.tick(self.at))
            after_ns = self.protocol.deadline_ns()
            assert after_ns is None or after_ns > self.at.mono_ns, (
                "a deadline in the past: the loop would spin"
            )
        self.now_ms = until_ns / NS_PER_MS
        return self

    def lose(self) -> Host:
        return self._take(self.protocol.lost("unplugged", self.at))

    def _take(self, said: Said) -> Host:
        self.events += said.events
        for data in said.send:
            heard = parse(data.rstrip(b"\r\n"))
            assert heard is not None, "the driver sent what is no sentence"
            assert data.endswith(b"\r\n")
            self.sent.append(heard)
        return self

    # --- what it understood --------------------------------------------------------------------------

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def tables(self) -> list[int]:
        return [event.table for event in self.of(OddsDrawn)]

    @property
    def causes(self) -> list[str]:
        return [event.cause for event in self.of(OddsFailed)]

    def said(self, message: str) -> list[Sentence]:
        return [one for one in self.sent if one.message == message]
