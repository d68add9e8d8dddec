"""Driver `tlp`, talker CN: a dealer console (tlp-1.md 11). A device that speaks for people.

    $CNEVT,seq,KEY,round        $CNEVT,seq,BADGE,id        $CNSTA,seq,badge,flags

Each key is repeated until it is acknowledged and counts once: what was heard is remembered by boot, number
and content. Who presses is whoever's badge lies on the reader; where that is not certain, because sentences
were lost or the key was first heard in a repetition, it is the console itself. In which role they press is
told by the badge, where badges have roles; a badge that lies there unused for too long must be shown again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dollyd.daemon.core.events import (
    BetsClosed,
    Confirmed,
    HouseEvent,
    Permitted,
    TableClosed,
    TableOpened,
    ThrowRejected,
    VoidDeclared,
)
from dollyd.drivers.protocols.tlp.device import TlpDevice, mask_of, whole_of
from dollyd.drivers.protocols.tlp.sentence import Sentence
from dollyd.drivers.spec import DeviceSetup
from dollyd.wire.stamp import NS_PER_MS, Stamp

REMEMBERED_MAX = 32
"""Sentences of which a repetition is known; a console keeps far fewer waiting."""

_FAULT = 0x04
_DEALER, _REASON = "dealer", "console"
_NO_BADGE, _UNKNOWN_BADGE, _EXPIRED_BADGE = "no-badge", "unknown-badge", "expired-badge"
"""Roles that are entitled to nothing: the refusal tells why."""


@dataclass(frozen=True, slots=True)
class Pressed:
    """A sentence that was heard and has had its effect."""

    seq: int
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """What is remembered of a console; a frozen value."""

    badge: str = ""
    used_ns: int = 0
    """When the badge was shown, or a key pressed under it."""
    boot: str = ""
    """The boot that `heard` belongs to."""
    heard: tuple[Pressed, ...] = ()
    doubted: bool = False
    """It may have restarted unseen: until it says hello, no key can be told from a repetition."""


class ConsoleProtocol(TlpDevice[ConsoleState]):
    """The language of a dealer console without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        super().__init__(setup, "CN", "CONSOLE", ConsoleState())

    def _on_opened(self, _at: Stamp) -> None:
        self._change(badge="", doubted=False)

    def _on_rebooted(self) -> None:
        self._change(badge="")

    def _on_sentence(self, sentence: Sentence, at: Stamp) -> None:
        match sentence.message:
            case "HEL":
                self._change(doubted=False)
                if not self._is_old(sentence):
                    self._numbered(sentence.seq)
            case "STA":
                self._on_heartbeat(sentence, at)
            case "FLT":
                self._health(mask_of(sentence.field(1)))
            case "EVT":
                self._on_key(sentence, at)

    def _on_heartbeat(self, sentence: Sentence, at: Stamp) -> None:
        if self._is_old(sentence):
            self._change(doubted=True)
            return
        self._follow(sentence.seq)
        if self._trusted and sentence.field(0) not in {"", self._own.badge}:
            self._change(badge=sentence.field(0), used_ns=at.mono_ns)
        self._health(mask_of(sentence.field(1) or "00"))

    def _health(self, bits: int | None) -> None:
        if not self._trusted:
            return
        if bits is None or bits & _FAULT:
            self._break("the console reports a fault")
        else:
            self._mend()

    def _on_key(self, sentence: Sentence, at: Stamp) -> None:
        if not self._trusted or self._own.doubted:
            self.counters["key-refused"] += 1
            return
        key, value = sentence.field(0), sentence.field(1)
        self._acknowledge(sentence, value)
        news = self._distance(sentence.seq) > 0
        if news:
            self._follow(sentence.seq)
        boot = dict(self.identity)["boot"]
        if boot != self._own.boot:
            self._change(boot=boot, heard=())
        pressed = Pressed(sentence.seq, sentence.fields)
        if pressed in self._own.heard:
            self.counters["repeated"] += 1
            return
        self._change(heard=(*self._own.heard, pressed)[-REMEMBERED_MAX:])
        if key == "BADGE":
            # Heard late it may be an older badge than the one known; the heartbeat tells.
            if news:
                self._change(badge=value, used_ns=at.mono_ns)
        elif value and whole_of(value) is None:
            self.counters["unknown-round"] += 1
        elif event := self._event(key, whole_of(value) or 0, self._own.badge if news else "", at):
            self._events.append(event)
        else:
            self.counters["unknown-key"] += 1

    def _follow(self, seq: int) -> None:
        """A new sentence. Where others were lost before it, one may have been another badge."""
        if self._distance(seq) > 1:
            self._change(badge="")
        self._numbered(seq)

    def _role(self, badge: str, at: Stamp) -> str:
        """What whoever presses is entitled to."""
        badges = self._setup.badges
        if not badge:
            return _NO_BADGE if badges.required else _DEALER
        if not badges.roles:
            return _DEALER
        if at.mono_ns - self._own.used_ns > badges.session_ms * NS_PER_MS:
            return _EXPIRED_BADGE
        self._change(used_ns=at.mono_ns)
        return badges.roles.get(badge, _UNKNOWN_BADGE)

    def _event(self, key: str, round_number: int, badge: str, at: Stamp) -> HouseEvent | None:
        """What a key means, None where there is no such key. Round 0 is whichever is in progress."""
        by, role = f"console:{badge or self._setup.name}", self._role(badge, at)
        match key:
            case "OPEN":
                return TableOpened(by, role)
            case "CLOSE":
                return TableClosed(by, role)
            case "NMB":
                return BetsClosed(by, round=round_number, role=role)
            case "VOID":
                return VoidDeclared(by, role, _REASON, round_number)
            case "CONFIRM":
                return Confirmed(by, round_number, role)
            case "PERMIT":
                return Permitted(by, round_number, role)
            case "REJECT":
                return ThrowRejected(by, role, _REASON, round_number)
        return None

    def _change(self, **changes: Any) -> None:
        self._own = replace(self._own, **changes)
