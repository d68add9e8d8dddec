"""Drivers `truerng`, `onerng`, `chaoskey`: a hardware generator gives bytes, the host draws the odds table.

For roulette variant B without an odds box. The framing (`random_blocks`) tests every byte of the stream and
hands over 32 bytes of each block; this protocol draws from them (device notes, part 2 section 5):

    order --> rest of the block that was under way: not used --> next block, whole: the draw

Only bytes that came after no more bets decide. Of a block the first 32-bit word, big-endian, below
floor(2^32 / 30) * 30 counts; the table is 2 if and only if word mod 30 = 0. A round is drawn once: asked
again with the same nonce the answer is the same; with another nonce, or after a failure, it has failed. The
proof is the first 16 hex digits of SHA-256 of `HG1,<nonce>,<block>`, the block as it stands in the capture:
whoever has record and capture finds the block and draws again.

A failed health test, an alarm of the frequency monitor, silence and a lost port fail the draw; nothing ever
becomes "table 1". After a failed test or an alarm the device is out of order until it was unplugged and a
whole block of the new stream passed the tests.

None of these devices says who it is in the stream, so `expect` can ask nothing of them: bind them by port,
/dev/serial/by-id/... or usb:...:serial=... A OneRNG would tell version and id (`cmdv`, `cmdI`), but as text
among the random bytes with nothing to tell where it ends, so it is not asked.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from dollyd.daemon.core.events import DeviceEvent, DeviceReady, DeviceTrouble, OddsDrawn, OddsFailed
from dollyd.drivers.framing import AnyFrame, BadFrame
from dollyd.drivers.protocols.odds_monitor import OddsMonitor
from dollyd.drivers.spec import NOTHING, DeviceSetup, Order, Said, SerialDefaults, Status, UsbDefaults
from dollyd.wire.stamp import NS_PER_MS, Stamp

DRAWN_ONCE_IN = 30
WORDS = 2**32
TRUERNG_PORT = SerialDefaults(baud=115_200, baud_fixed=True)
"""Opened at 110, 300 and 110 baud, a TrueRNG takes the speed of the next opening for its mode. So it is only
ever opened at one speed, which means none of its modes: never search for another, by hand or by program."""
CHAOSKEY_PORT = UsbDefaults(endpoint_in=0x85, endpoint_out=None, read_bytes=4096, timeout_ms=250, pause_ms=90)
"""The whitened stream; 86 is the raw one, 87 the firmware. Nothing is ever sent. 64 packets
every 90 ms, 45,000 bytes a second: it could give far more than a draw in a minute needs."""
ONERNG_START = (b"cmd0\n", b"cmdO\n")
"""Source 0 (avalanche diode, whitened), then run: a OneRNG is silent until told."""

_WORD_BYTES = 4
_STALE_PERIODS = 3
_BLOCK = re.compile(r"[0-9a-f]{64}")
_HEALTH = re.compile(r"health:[a-z]{1,20}")
_UNPLUGGED = frozenset({"eof", "gone", "io-error"})
"""Causes of a loss that pulling the plug has; others come of the host, and end no fault."""


def table_of(word: int, words: int = WORDS) -> int | None:
    """The odds table that one of `words` equally likely numbers draws; None = draw again.

    Below the limit every remainder is equally frequent, so table 2 has the probability 1/30 exactly.
    """
    if word >= words // DRAWN_ONCE_IN * DRAWN_ONCE_IN:
        return None
    return 2 if word % DRAWN_ONCE_IN == 0 else 1


def table_of_block(block: str) -> int | None:
    """The odds table that a block of hex digits draws; None where every word of it was rejected."""
    data = bytes.fromhex(block)
    words = (int.from_bytes(data[at : at + _WORD_BYTES]) for at in range(0, len(data), _WORD_BYTES))
    tables = (table_of(word) for word in words)
    return next((table for table in tables if table is not None), None)


def proof_of(nonce: str, block: str) -> str:
    """What ties a draw to the block in the capture: 16 upper-case hex digits."""
    return hashlib.sha256(f"HG1,{nonce},{block}".encode("ascii")).hexdigest()[:16].upper()


@dataclass(frozen=True, slots=True)
class Asked:
    """The draw that the round waits for. `fresh`: the next block began after the order."""

    round: int
    nonce: str
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorState:
    """Everything that the driver remembers; a frozen value."""

    connected: bool = False
    heard_at_ns: int = 0
    status: Status = Status.INIT
    identity: tuple[tuple[str, str], ...] = ()
    fault: str = ""
    asked: Asked | None = None
    last_round: int = 0
    """The newest round that was ordered."""
    drawn: OddsDrawn | None = None
    """The newest draw."""
    counter: int = 0
    """Draws made since the daemon came up, the ones that an alarm made void too."""
    monitor: OddsMonitor = field(default_factory=OddsMonitor)


class GeneratorProtocol:
    """A generator's language without I/O. `start`: what makes it run."""

    def __init__(self, setup: DeviceSetup, model: str, start: tuple[bytes, ...] = ()) -> None:
        self._setup = setup
        self._identity = (("model", model), ("drawn-by", "host"))
        self._start = start
        self._limit_ns = _STALE_PERIODS * setup.period_ms * NS_PER_MS
        self._state = GeneratorState()
        self._events: list[DeviceEvent] = []
        self.counters: Counter[str] = Counter()

    @property
    def status(self) -> Status:
        """Device state as published."""
        return self._state.status

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What is known of the device once its stream is: its model, by configuration."""
        return self._state.identity

    def snapshot(self) -> Any:
        """The whole state as a frozen value."""
        return self._state

    def restore(self, snapshot: Any) -> None:
        """Take a state back, possibly through JSON."""
        self._state = msgspec.convert(snapshot, GeneratorState) if isinstance(snapshot, dict) else snapshot

    def deadline_ns(self) -> int | None:
        """When silence becomes news."""
        state = self._state
        waits = state.connected and state.status in {Status.INIT, Status.READY, Status.FAULT}
        return state.heard_at_ns + self._limit_ns + 1 if waits else None

    def opened(self, at: Stamp) -> Said:
        """Have it run; it is ready when a block of its stream has passed the tests."""
        self._state = replace(
            self._state, connected=True, heard_at_ns=at.mono_ns, status=Status.INIT, identity=()
        )
        return Said((), self._start)

    def remember(self, _game: str, _utc_ns: int) -> None:
        """It has no games of its own."""

    def lost(self, cause: str, _at: Stamp) -> Said:
        """The port is gone, and the draw of this round with it."""
        self._fail("device-lost")
        unplugged = cause in _UNPLUGGED
        self._state = replace(
            self._state,
            connected=False,
            status=Status.LOST,
            fault="" if unplugged else self._state.fault,
            monitor=self._state.monitor.reconnected() if unplugged else self._state.monitor,
        )
        self._events.append(DeviceTrouble(self._setup.name, Status.LOST, cause))
        return self._said()

    def tick(self, at: Stamp) -> Said:
        """Notice silence; it may have been stopped, so have it run again."""
        due_ns = self.deadline_ns()
        if due_ns is None or at.mono_ns < due_ns:
            return NOTHING
        self._state = replace(self._state, status=Status.STALE)
        cause = "no whole block of random bytes for 3 periods"
        self._events.append(DeviceTrouble(self._setup.name, Status.STALE, cause))
        self._fail("silent")
        return replace(self._said(), send=self._start)

    def order(self, order: Order, _at: Stamp) -> Said:
        """Draw the odds table of a round."""
        state = self._state
        if order.round <= state.last_round:
            self._asked_again(order)
            return self._said()
        self._fail("superseded")
        self._state = replace(self._state, last_round=order.round)
        if state.status is Status.READY:
            self._state = replace(self._state, asked=Asked(order.round, order.nonce))
        else:
            self._refuse(order.round, f"generator is {state.fault or state.status}")
        return self._said()

    def received(self, frame: AnyFrame, at: Stamp) -> Said:
        """A block of random bytes, or the word that a test failed."""
        text = "" if isinstance(frame, BadFrame) else frame.raw.decode("latin-1")
        if not self._state.connected:
            self.counters["not-connected"] += 1
        elif _BLOCK.fullmatch(text):
            self._heard("blocks", at)
            self._on_block(text)
        elif _HEALTH.fullmatch(text):
            self._heard(text, at)
            self._break(text)
        else:
            self.counters["bad"] += 1
        return self._said()

    # --- the stream ----------------------------------------------------------------------------------

    def _heard(self, what: str, at: Stamp) -> None:
        self.counters[what] += 1
        self._state = replace(self._state, heard_at_ns=at.mono_ns)

    def _on_block(self, block: str) -> None:
        if self._state.status in {Status.INIT, Status.STALE}:
            self._become_ready()
        asked = self._state.asked
        if asked is None:
            return
        if asked.fresh:
            self._draw(asked, block)
        else:
            self._state = replace(self._state, asked=replace(asked, fresh=True))

    def _become_ready(self) -> None:
        known, name = dict(self._identity), self._setup.name
        wrong = [key for key, value in self._setup.expect.items() if known.get(key) != value]
        status = Status.FAULT if self._state.fault else Status.READY
        if wrong:
            status = Status.WRONG_DEVICE
            cause = f"it cannot show its {wrong[0]}; bind it by its port instead"
            self._events.append(DeviceTrouble(name, status, cause))
        elif status is Status.FAULT:
            self._events.append(DeviceTrouble(name, status, self._state.fault))
        else:
            self._events.append(DeviceReady(name, self._identity))
        self._state = replace(self._state, status=status, identity=self._identity)

    def _break(self, cause: str) -> None:
        """The generator is out of order until it was unplugged."""
        if self._state.status not in {Status.FAULT, Status.WRONG_DEVICE}:
            fault = self._state.fault or cause
            self._state = replace(self._state, fault=fault, status=Status.FAULT)
            self._events.append(DeviceTrouble(self._setup.name, Status.FAULT, fault))
        self._fail(cause)

    # --- draws ---------------------------------------------------------------------------------------

    def _draw(self, asked: Asked, block: str) -> None:
        table = table_of_block(block)
        if table is None:  # once in 2^224 blocks: the next one decides
            return
        counter, monitor = self._state.counter + 1, self._state.monitor.after(table)
        self._state = replace(self._state, counter=counter, monitor=monitor)
        if monitor.alarm:
            self._break(monitor.alarm)
            return
        proof = proof_of(asked.nonce, block)
        drawn = OddsDrawn(self._setup.name, asked.round, table, counter, asked.nonce, proof)
        self._state = replace(self._state, asked=None, drawn=drawn)
        self._events.append(drawn)

    def _asked_again(self, order: Order) -> None:
        """The same order repeated gets the same answer; there is no second draw."""
        asked, drawn = self._state.asked, self._state.drawn
        if asked and (asked.round, asked.nonce) == (order.round, order.nonce):
            return
        if drawn and (drawn.round, drawn.nonce) == (order.round, order.nonce):
            self._events.append(drawn)
            return
        if asked and asked.round == order.round:
            self._state = replace(self._state, asked=None)
        self._refuse(order.round, "asked-twice")

    def _fail(self, cause: str) -> None:
        """The draw of the round that waits has failed, if one waits."""
        if asked := self._state.asked:
            self._state = replace(self._state, asked=None)
            self._refuse(asked.round, cause)

    def _refuse(self, round_number: int, cause: str) -> None:
        self._events.append(OddsFailed(self._setup.name, round_number, cause))

    def _said(self) -> Said:
        if not self._events:
            return NOTHING
        said = Said(tuple(self._events))
        self._events.clear()
        return said


def truerng(setup: DeviceSetup) -> GeneratorProtocol:
    """TrueRNG v1 to v3, pro and pro V2: a stream, and nothing else."""
    return GeneratorProtocol(setup, "TrueRNG")


def onerng(setup: DeviceSetup) -> GeneratorProtocol:
    """OneRNG: a stream after it was told to run."""
    return GeneratorProtocol(setup, "OneRNG", ONERNG_START)


def chaoskey(setup: DeviceSetup) -> GeneratorProtocol:
    """ChaosKey: a stream over USB."""
    return GeneratorProtocol(setup, "ChaosKey")
