"""What all TLP/1 devices share: who it is, whether it lives, how it numbers (tlp-1.md 2.4, 3, 4).

    open: QRY --> HEL: is it the device of this table? --> ready --> STA ... STA --> silence: stale

A device is ready once it has said who it is. Nothing that it says before is acknowledged, so what must not be
lost comes again. What a sentence means for a game is told by `tlp_games` and by the files of the talkers.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import msgspec

from dollyd.daemon.core.events import DeviceReady, DeviceTrouble, Spoken
from dollyd.drivers.framing import AnyFrame, BadFrame
from dollyd.drivers.protocols.tlp.sentence import SEQUENCES, Sentence, build, parse
from dollyd.drivers.spec import NOTHING, DeviceSetup, Order, Said, Status
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S, Stamp

STALE_PERIODS = 3
NUMBER_KEPT_NS = 60 * NS_PER_S
"""After a longer silence any number may follow; half of all numbers take a device ten times as long."""

_HELLO = ("protocol", "kind", "vendor", "model", "serial", "firmware", "boot")
_MASK = re.compile(r"[0-9A-F]{1,4}")
_WHOLE = re.compile(r"[0-9]{1,6}")

Own = TypeVar("Own")


def mask_of(text: str) -> int | None:
    """A field of flags, None where it is none."""
    return int(text, 16) if _MASK.fullmatch(text) else None


def whole_of(text: str) -> int | None:
    """A whole number, None where it is not known."""
    return int(text) if _WHOLE.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Link:
    """What is remembered of the connection; a frozen value."""

    connected: bool = False
    session: str = ""
    """UTC milliseconds of the opening: names the games of this connection."""
    heard_at_ns: int = 0
    status: Status = Status.INIT
    identity: tuple[tuple[str, str], ...] = ()
    seq: int = 0
    """Our next sequence number."""
    number: int = -1
    """Sequence number of the device's newest sentence, -1 = none heard in this boot."""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state of a device."""

    link: Link
    own: Any


class TlpDevice(Generic[Own]):
    """A device's language without I/O; `Own` is the frozen state of its kind."""

    def __init__(self, setup: DeviceSetup, talker: str, kind: str, own: Own) -> None:
        self._setup = setup
        self._talker = talker
        self._kind = kind
        self._period_ns = setup.period_ms * NS_PER_MS
        self._link = Link()
        self._own = own
        self._events: list[Spoken] = []
        self._send: list[bytes] = []
        self.counters: Counter[str] = Counter()

    # --- DeviceProtocol ------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """Device state as published."""
        return self._link.status

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What the device said of itself in `HEL`."""
        return self._link.identity

    def snapshot(self) -> Any:
        """The whole state as a frozen value."""
        return Snapshot(self._link, self._own)

    def restore(self, snapshot: Any) -> None:
        """Take a state back, possibly through JSON."""
        if isinstance(snapshot, dict):
            snapshot = Snapshot(
                msgspec.convert(snapshot["link"], Link), msgspec.convert(snapshot["own"], type(self._own))
            )
        self._link, self._own = snapshot.link, snapshot.own

    def deadline_ns(self) -> int | None:
        """When silence becomes news, or what a kind waits for is due."""
        if not self._link.connected:
            return None
        due = self._due()
        if self._link.status in (Status.READY, Status.FAULT):
            due.append(self._link.heard_at_ns + STALE_PERIODS * self._period_ns + 1)
        return min(due, default=None)

    def opened(self, at: Stamp) -> Said:
        """A new session: ask who is there (4.1)."""
        self._link = Link(
            connected=True,
            session=str(at.utc_ns // NS_PER_MS),
            heard_at_ns=at.mono_ns,
            seq=self._link.seq,
        )
        self._on_opened(at)
        self._say("QRY")
        return self._said()

    def remember(self, _game: str, _utc_ns: int) -> None:
        """Its serial number says who it is."""

    def lost(self, cause: str, _at: Stamp) -> Said:
        """The port is gone."""
        self._on_lost()
        self._link = replace(self._link, connected=False, status=Status.LOST)
        self._trouble(Status.LOST, cause)
        return self._said()

    def order(self, _order: Order, _at: Stamp) -> Said:
        """Only an odds box takes orders."""
        return NOTHING

    def tick(self, at: Stamp) -> Said:
        """Notice silence."""
        if not self._link.connected:
            return NOTHING
        silent = at.mono_ns - self._link.heard_at_ns > STALE_PERIODS * self._period_ns
        if self._link.status in (Status.READY, Status.FAULT) and silent:
            self._link = replace(self._link, status=Status.STALE)
            self._trouble(Status.STALE, "silent for more than 3 periods")
        self._on_time(at)
        return self._said()

    def received(self, frame: AnyFrame, at: Stamp) -> Said:
        """One line. A sentence with a wrong CRC is no sentence (2.6): it is counted, and comes again."""
        sentence = None if isinstance(frame, BadFrame) else parse(frame.raw)
        if sentence is None:
            self.counters["bad"] += 1
            return self._said()
        if not self._link.connected:
            self.counters["not-connected"] += 1
            return self._said()
        if sentence.talker != self._talker:
            self.counters["other-talker"] += 1
            self._on_other_talker(sentence)
            return self._said()
        self.counters[sentence.message] += 1
        long_silent = at.mono_ns - self._link.heard_at_ns > NUMBER_KEPT_NS
        number = -1 if long_silent else self._link.number
        self._link = replace(self._link, heard_at_ns=at.mono_ns, number=number)
        if sentence.message == "HEL":
            self._on_hello(sentence)
        elif self._link.status is Status.STALE:
            self._become_ready()
        self._ask_who_it_is(sentence)
        self._on_sentence(sentence, at)
        return self._said()

    # --- what a kind adds ----------------------------------------------------------------------------

    def _due(self) -> list[int]:
        """Monotonic times at which `_on_time` has something to do."""
        return []

    def _on_opened(self, at: Stamp) -> None:
        """A new connection."""

    def _on_lost(self) -> None:
        """The connection is gone."""

    def _on_time(self, at: Stamp) -> None:
        """Time has passed."""

    def _on_rebooted(self) -> None:
        """The device has begun anew, or is another one."""

    def _on_wrong_device(self) -> None:
        """It is not the device of this table."""

    def _on_sentence(self, sentence: Sentence, at: Stamp) -> None:
        """A sentence of this talker, `HEL` included."""
        raise NotImplementedError

    # --- who it is and how it is ---------------------------------------------------------------------

    @property
    def _trusted(self) -> bool:
        """It has said who it is, and it is the device of this table."""
        return bool(self._link.identity) and self._link.status is not Status.WRONG_DEVICE

    def _on_other_talker(self, sentence: Sentence) -> None:
        """Nothing counts but its hello: there is a device of another kind on this line."""
        if sentence.message == "HEL":
            self._on_hello(sentence)
        self._ask_who_it_is(sentence)

    def _ask_who_it_is(self, sentence: Sentence) -> None:
        """It lives, but our question or its hello was lost."""
        if sentence.message == "STA" and not self._link.identity:
            self._say("QRY")

    def _on_hello(self, sentence: Sentence) -> None:
        identity = tuple((name, sentence.field(index)) for index, name in enumerate(_HELLO))
        known, new = dict(self._link.identity), dict(identity)
        rebooted = bool(known) and (known["serial"], known["boot"]) != (new["serial"], new["boot"])
        self._link = replace(self._link, identity=identity)
        if rebooted:
            self._link = replace(self._link, number=-1)
        new["talker"] = sentence.talker
        wanted = {"protocol": "1", "kind": self._kind, "talker": self._talker} | dict(self._setup.expect)
        wrong = [key for key, value in wanted.items() if new.get(key) != value]
        if wrong or not new["serial"]:
            key = wrong[0] if wrong else "serial"
            cause = f"{key} is {new.get(key)!r}, this table needs {wanted.get(key, 'one')!r}"
            self._link = replace(self._link, status=Status.WRONG_DEVICE)
            self._trouble(Status.WRONG_DEVICE, cause)
            self._on_wrong_device()
            return
        if rebooted:
            self.counters["reboots"] += 1
            self._link = replace(self._link, fault="")
            self._on_rebooted()
        if self._link.status is not Status.READY or rebooted:
            self._become_ready()

    def _become_ready(self) -> None:
        if not self._link.identity:
            return
        status = Status.FAULT if self._link.fault else Status.READY
        self._link = replace(self._link, status=status)
        if status is Status.READY:
            self._events.append(DeviceReady(self._setup.name, self._link.identity))

    def _break(self, cause: str) -> None:
        """The device says that it is out of order."""
        if self._link.fault != cause and self._link.status is not Status.WRONG_DEVICE:
            self._link = replace(self._link, fault=cause, status=Status.FAULT)
            self._trouble(Status.FAULT, cause)

    def _mend(self) -> None:
        """The fault is gone."""
        if self._link.fault:
            self._link = replace(self._link, fault="")
            self._become_ready()

    def _trouble(self, status: Status, cause: str) -> None:
        self._events.append(DeviceTrouble(self._setup.name, status, cause))

    # --- numbering -----------------------------------------------------------------------------------

    def _distance(self, seq: int) -> int:
        """Numbers from the newest sentence to this one: 1 = next, 0 = the same again, negative = old."""
        if self._link.number < 0:
            return 1
        ahead = (seq - self._link.number) % SEQUENCES
        return ahead if ahead < SEQUENCES // 2 else ahead - SEQUENCES

    def _is_old(self, sentence: Sentence) -> bool:
        """Whether a sentence that is never repeated comes behind a newer one: not heard, but asked about.

        It is an old one, or the device has restarted unseen; then its `HEL` tells of another boot.
        """
        if self._distance(sentence.seq) >= 0:
            return False
        self.counters["renumbered"] += 1
        if sentence.message != "HEL":
            self._say("QRY")
        return True

    def _numbered(self, seq: int) -> None:
        self._link = replace(self._link, number=seq)

    # --- speaking ------------------------------------------------------------------------------------

    def _acknowledge(self, sentence: Sentence, what: str) -> None:
        self._send.append(build(Sentence("HC", "ACK", sentence.seq, (what,))))

    def _say(self, message: str, *fields: str) -> None:
        self._send.append(build(Sentence("HC", message, self._next_seq(), fields)))

    def _next_seq(self) -> int:
        seq = self._link.seq
        self._link = replace(self._link, seq=(seq + 1) % SEQUENCES)
        return seq

    def _said(self) -> Said:
        if not self._events and not self._send:
            return NOTHING
        said = Said(tuple(self._events), tuple(self._send))
        self._events.clear()
        self._send.clear()
        return said
