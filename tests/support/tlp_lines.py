"""TLP/1 devices by the sentence, and a protocol that hears them in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import msgspec
from tests.support.tables import rule_text

from dollyd.daemon.core.events import Defect, DrawUpdate, GameEnded, GameRef, Observed, Reading, Spoken
from dollyd.daemon.core.games import GAMES
from dollyd.drivers import DRIVERS
from dollyd.drivers.framing import LineDecoder
from dollyd.drivers.protocols.tlp.sentence import SEQUENCES, Sentence, build, parse
from dollyd.drivers.spec import DeviceProtocol, DeviceSetup, Said
from dollyd.wire.stamp import NS_PER_MS, Stamp

PERIOD_MS = 500
SILENCE_MS = 2_000
OPENED_MS = 1_000_000
SESSION = str(OPENED_MS)
KINDS = {"WH": "WHEEL", "BD": "BALL", "MW": "MONEY", "DC": "DICE", "CN": "CONSOLE"}
ROLES = {"WH": "wheel", "BD": "ball", "MW": "wheel", "DC": "dice", "CN": "console"}

E = TypeVar("E")


@cache
def readings(game: str) -> tuple[tuple[str, ...], ...]:
    """Every reading of a game with the shipped or synthetic layout."""
    layouts = {
        "roulette": "roulette-european",
        "boule": "boule-synthetic",
        "money-wheel": "money-wheel-synthetic",
    }
    name, layout = layouts.get(game), GAMES[game].layout
    return GAMES[game].values(layout(rule_text("layouts", name)) if layout and name else None)


def setup_of(talker: str, game: str, **changes: Any) -> DeviceSetup:
    """The place of a device at a table of this game; its name is its role."""
    role = ROLES[talker]
    return DeviceSetup(role, role, readings=readings(game), game=game, silence_ms=SILENCE_MS, **changes)


class Speaker:
    """A device that numbers what it says."""

    def __init__(self, talker: str, kind: str = "", seq: int = 0) -> None:
        self.talker = talker
        self.kind = kind or KINDS[talker]
        self.seq = seq
        self.boot = "B1"

    def say(self, message: str, *fields: str) -> bytes:
        """A new sentence."""
        line = build(Sentence(self.talker, message, self.seq, fields))
        self.seq = (self.seq + 1) % SEQUENCES
        return line

    def hello(self, serial: str = "SN1") -> bytes:
        return self.say("HEL", "1", self.kind, "ACME", "M1", serial, "1.0", self.boot)

    def reboot(self, boot: str = "B2") -> bytes:
        self.seq, self.boot = 0, boot
        return self.hello()


@dataclass
class Host:
    """The driver with a device at its side; time passes only when told, ticks come at the deadlines."""

    setup: DeviceSetup
    driver: str = "tlp"
    now_ms: float = OPENED_MS
    events: list[Spoken] = field(default_factory=list)
    sent: list[Sentence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.protocol: DeviceProtocol = DRIVERS[self.driver].protocol(self.setup)
        self.decoder = LineDecoder()

    @property
    def at(self) -> Stamp:
        return Stamp(round(self.now_ms * NS_PER_MS), round(self.now_ms * NS_PER_MS))

    def open(self) -> Host:
        self.decoder.reset()
        return self._take(self.protocol.opened(self.at))

    def lose(self) -> Host:
        return self._take(self.protocol.lost("unplugged", self.at))

    def hear(self, *lines: bytes, ms: float = 0) -> Host:
        """Lines, each after so many milliseconds."""
        for line in lines:
            self.quiet(ms)
            self.bytes(line)
        return self

    def bytes(self, data: bytes) -> Host:
        for frame in self.decoder.feed(data):
            self._take(self.protocol.received(frame, self.at))
        return self

    def quiet(self, ms: float) -> Host:
        until_ns = round((self.now_ms + ms) * NS_PER_MS)
        while (due_ns := self.protocol.deadline_ns()) is not None and due_ns < until_ns:
            self.now_ms = max(self.now_ms, due_ns / NS_PER_MS)
            self._take(self.protocol.tick(self.at))
            after_ns = self.protocol.deadline_ns()
            assert after_ns is None or after_ns > self.at.mono_ns, "a deadline in the past: it would spin"
        self.now_ms = until_ns / NS_PER_MS
        return self

    def through_json(self) -> Host:
        """The same with a new protocol that took the state over through JSON."""
        state = self.protocol.snapshot()
        self.protocol = DRIVERS[self.driver].protocol(self.setup)
        self.protocol.restore(msgspec.json.decode(msgspec.json.encode(state)))
        assert self.protocol.snapshot() == state
        return self

    def _take(self, said: Said) -> Host:
        self.events += said.events
        for data in said.send:
            heard = parse(data.rstrip(b"\r\n"))
            assert heard is not None, "the driver sent what is no sentence"
            self.sent.append(heard)
        return self

    # --- what it understood --------------------------------------------------------------------------

    def of(self, *kinds: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kinds)]

    def said(self, message: str) -> list[Sentence]:
        return [one for one in self.sent if one.message == message]

    @property
    def acks(self) -> list[tuple[int, str]]:
        return [(one.seq, one.field(0)) for one in self.said("ACK")]

    @property
    def values(self) -> list[tuple[str, ...]]:
        return [event.value for event in self.of(Reading)]

    @property
    def defects(self) -> tuple[Defect, ...]:
        """The defects that were told last."""
        kinds = DrawUpdate | GameEnded | Reading | Observed
        told = [event for event in self.events if isinstance(event, kinds)]
        return told[-1].facts.defects if told else ()


def ref(device: str, game: str, attempt: int = 1, session: str = SESSION) -> GameRef:
    return GameRef(device, session, game, attempt)
