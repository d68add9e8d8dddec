"""What every simulated TLP/1 device does alike: boot, heartbeat, repetition until acknowledged.

A model adds its heartbeat fields (`status`) and its `life`, a generator that yields how long it waits. All
lengths are nominal seconds of a device with a status period of 500 ms; a device with a shorter period does
everything as much faster.

Kept over a loss of power, as the protocol asks (3.3, 3.6): the last `RES` and the game counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from dollyd.simulators.faults import Switchboard
from dollyd.simulators.line import LineCutter
from dollyd.simulators.tlp import Sentence, SequenceNumbers, frame, parse
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

GAMES = 10_000
_NOMINAL_PERIOD_MS = 500
_LOOK_S = 0.25
"""How often a device that waits for its start key looks at it."""
_DARK_S = 10.0
_LOST_EVENTS = 2
_LOST_HEARTBEATS = 5
_LOST_ACKS = 3
_BAD_CRCS = 3
_PENDING = 8
"""Most sentences that wait for an acknowledgement side by side; older ones are given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlpOptions:
    """What every device can be told. `first_game` is the number of its first game."""

    period_ms: int = 500
    vendor: str = "ACME"
    model: str = "SIM"
    serial: str = "SN000001"
    firmware: str = "1.0.0"
    first_game: int = 1
    attended: bool = True
    """Staff start each game after a while; else it waits for the start key."""


class GivenUp(Exception):  # noqa: N818 - not an error: the device closes this game and begins another
    """The device gives the game up: state 6 for a while, then the next game."""


@dataclass(slots=True)
class _Pending:
    """A sentence on its way: what an acknowledgement must name, and when it is sent again."""

    message: str
    seq: int
    key: str
    data: bytes
    due_ns: int
    bad_crcs: int = 0


class TlpDevice:
    """A sans-IO model; the same options, seed, commands and times give the same bytes.

    `due_ns` says when it wants to act next, `advance` gives what it has sent up to now, `command` takes the
    host's bytes and gives the answers.
    """

    def __init__(
        self, talker: str, kind: str, options: TlpOptions, rng: Random, now_ns: int, *boards: str
    ) -> None:
        self.faults = Switchboard(*boards, "tlp")
        self.rng = rng
        self.state = 6
        self.flags = 0
        self.number = (options.first_game - 1) % GAMES
        self.now_ns = now_ns
        self.boots = 0
        """Power-ons so far."""
        self._talker = talker
        self._kind = kind
        self._identity = options
        self._serial = options.serial
        self._attended = options.attended
        self._period_ns = options.period_ms * NS_PER_MS
        self.second_ns = options.period_ms * NS_PER_S // _NOMINAL_PERIOD_MS
        """What a nominal second lasts."""
        self._sequence = SequenceNumbers()
        self._cutter = LineCutter()
        self._out = bytearray()
        self._pending: list[_Pending] = []
        self._tick_ns: int | None = None
        self._step_ns: int | None = None
        self._back_ns: int | None = None
        self._life: Iterator[float] = iter(())
        self._boot_id = ""
        self._start_asked = False
        self._dead = False
        self._events_to_lose = self._heartbeats_to_lose = self._acks_to_lose = 0

    # --- what a model adds ---------------------------------------------------------------------------

    def status(self) -> tuple[str, ...]:
        """Fields of `STA` after the sequence number."""
        raise NotImplementedError

    def life(self) -> Iterator[float]:
        """Everything it does between power on and off; each `yield` is a wait in nominal seconds."""
        raise NotImplementedError

    def abandon(self) -> None:
        """The power is gone, or the game is given up: note what becomes of the game under way."""

    # --- the face that runner and bench know ---------------------------------------------------------

    def power_on(self, now_ns: int) -> None:
        """A new boot id, `HEL`, then the heartbeat. Nothing happens where it is on."""
        if self._tick_ns is not None:
            return
        self.now_ns = now_ns
        self.boots += 1
        self._boot_id = f"{self.rng.getrandbits(32):08X}"
        self._sequence = SequenceNumbers()
        self._back_ns = None
        self._dead, self._start_asked = False, False
        self.state, self.flags = 6, 0
        self._life = self.life()
        self._tick_ns = self._step_ns = now_ns
        for pending in self._pending:
            pending.due_ns = now_ns + self._period_ns
        self._hello()

    def power_off(self, now_ns: int) -> None:
        """Dark at once; the game under way is lost, the last result is not."""
        if self._tick_ns is not None:
            self.now_ns = now_ns
            self.abandon()
        self._tick_ns = self._step_ns = self._back_ns = None
        self._pending = [one for one in self._pending if one.message == "RES"]

    def press_start(self) -> None:
        """The start key: takes effect in state 2, and is forgotten elsewhere."""
        self._start_asked = self.state == 2

    def due_ns(self) -> int | None:
        """When it next has something to do, or None without power."""
        times = [time for time in (self._tick_ns, self._step_ns, self._back_ns) if time is not None]
        if self._tick_ns is not None:
            times += [pending.due_ns for pending in self._pending]
        return min(times, default=None)

    def advance(self, now_ns: int) -> bytes:
        """Live up to `now_ns`; the bytes sent on the way."""
        while (due_ns := self.due_ns()) is not None and due_ns <= now_ns:
            self.now_ns = due_ns
            self._act(due_ns)
        return self._taken()

    def command(self, data: bytes, now_ns: int) -> bytes:
        """Host bytes, possibly partial; the answers. A damaged sentence is met with silence (2.6)."""
        lines = self._cutter.feed(data)
        if self._tick_ns is None or self._dead:
            return b""
        self.now_ns = now_ns
        for sentence in (parse(line) for line in lines):
            if sentence is not None and sentence.talker == "HC":
                self._obey(sentence)
        return self._taken()

    # --- speaking, for models ------------------------------------------------------------------------

    @property
    def game(self) -> str:
        """The number of the game as sentences write it."""
        return f"{self.number:04}"

    @property
    def mask(self) -> str:
        """The flags as sentences write them."""
        return f"{self.flags:02X}"

    def say(self, message: str, *fields: str) -> None:
        """A sentence that is not repeated."""
        sentence = frame(self._talker, message, self._sequence.take(), *fields)
        if message == "EVT":
            if self.faults.take("tlp-lost-events"):
                self._events_to_lose = _LOST_EVENTS
            if self._events_to_lose > 0:
                self._events_to_lose -= 1
                return
        self._send(sentence)

    def announce(self, message: str, key: str, *fields: str) -> None:
        """A sentence that is repeated until `HCACK,seq,key`. A new `RES` takes the place of the last one."""
        if message == "RES":
            self._pending = [one for one in self._pending if one.message != "RES"]
        seq = self._sequence.take()
        data = frame(self._talker, message, seq, *fields)
        bad = _BAD_CRCS if self.faults.take("tlp-bad-crc") else 0
        pending = _Pending(message, seq, key, data, self.now_ns, bad)
        self._pending = [*self._pending[1 - _PENDING :], pending]
        self._show(pending)

    def announce_result(self, *fields: str) -> None:
        """`RES,seq,game,fields` of the present game, with what a fault makes of it."""
        game = self.game
        if self.faults.take("tlp-wrong-game"):
            game = f"{(self.number + self.rng.randrange(2, GAMES)) % GAMES:04}"
        if self.faults.take("tlp-result-missing"):
            return
        self.announce("RES", game, game, *fields)
        if self.faults.take("tlp-result-again"):
            self.announce("RES", game, game, *fields)

    def raise_flag(self, flag: int, text: str) -> None:
        """A fault appears."""
        if not self.flags & flag:
            self.flags |= flag
            self.say("FLT", self.game, self.mask, text)

    def clear_flags(self) -> None:
        """All faults go."""
        if self.flags:
            self.flags = 0
            self.say("FLT", self.game, self.mask, "CLEAR")

    def count_up(self) -> None:
        """The next game's number, with what a fault makes of it."""
        fault = self.faults.take("tlp-counter-jump", "tlp-counter-repeat", "tlp-counter-reset")
        step = {"tlp-counter-jump": 6, "tlp-counter-repeat": 0}.get(fault or "", 1)
        self.number = 1 if fault == "tlp-counter-reset" else (self.number + step) % GAMES

    def ms(self, seconds: float) -> str:
        """A nominal length as milliseconds of this device."""
        return str(max(1, round(seconds * self.second_ns / NS_PER_MS)))

    def elapsed_s(self, since_ns: int) -> float:
        """Nominal seconds between a monotonic time and now."""
        return (self.now_ns - since_ns) / self.second_ns

    def wait_for_start(self, at_least_s: float, at_most_s: float) -> Iterator[float]:
        """Until the start key, or until the staff press it."""
        self._start_asked = False
        left_s = self.rng.uniform(at_least_s, at_most_s)
        while not self._start_asked and (left_s > 0 or not self._attended):
            yield _LOOK_S
            left_s -= _LOOK_S

    def play(self, agenda: list[tuple[float, Callable[[], None]]]) -> Iterator[float]:
        """Things that happen at given nominal seconds from now, each at its time."""
        passed_s = 0.0
        for at_s, action in sorted(agenda, key=lambda entry: entry[0]):
            yield at_s - passed_s
            passed_s = at_s
            action()

    # --- inside --------------------------------------------------------------------------------------

    def _act(self, due_ns: int) -> None:
        if self._step_ns == due_ns:
            self._step()
        elif self._tick_ns == due_ns:
            self._heartbeat()
        elif self._back_ns == due_ns:
            self.power_on(due_ns)
        else:
            self._show(next(one for one in self._pending if one.due_ns == due_ns))

    def _step(self) -> None:
        wait_s = next(self._life, None)
        if self._step_ns is not None:
            self._step_ns = None if wait_s is None else self._step_ns + round(wait_s * self.second_ns)

    def _heartbeat(self) -> None:
        if self._tick_ns is None:
            return
        self._tick_ns += self._period_ns
        match self.faults.take("tlp-silent", "tlp-power-cut", "tlp-other-device", "tlp-heartbeat-gap"):
            case "tlp-silent":
                self._dead = True
            case "tlp-power-cut":
                self.power_off(self.now_ns)
                self._back_ns = self.now_ns + round(_DARK_S * self.second_ns)
                return
            case "tlp-other-device":
                self._serial = f"{self._serial}X"
                self.power_off(self.now_ns)
                self.power_on(self.now_ns)
                return
            case "tlp-heartbeat-gap":
                self._heartbeats_to_lose = _LOST_HEARTBEATS
            case _:
                pass
        if self._heartbeats_to_lose > 0:
            self._heartbeats_to_lose -= 1
            self._sequence.take()
            return
        self.say("STA", *self.status())

    def _obey(self, sentence: Sentence) -> None:
        match sentence:
            case Sentence(command="QRY"):
                self._hello()
                for pending in self._pending:
                    if pending.message == "RES":
                        self._show(pending)
            case Sentence(command="ACK", seq=seq, fields=(key, *_)):
                self._acknowledged(seq, key)
            case _:
                pass

    def _acknowledged(self, seq: int, key: str) -> None:
        if self.faults.take("tlp-ack-lost"):
            self._acks_to_lose = _LOST_ACKS
        if self._acks_to_lose > 0:
            self._acks_to_lose -= 1
            return
        self._pending = [one for one in self._pending if (one.seq, one.key) != (seq, key)]

    def _hello(self) -> None:
        it = self._identity
        self.say("HEL", "1", self._kind, it.vendor, it.model, self._serial, it.firmware, self._boot_id)

    def _show(self, pending: _Pending) -> None:
        pending.due_ns = self.now_ns + self._period_ns
        data = pending.data
        if pending.bad_crcs > 0:
            pending.bad_crcs -= 1
            body, _, check = data.strip().rpartition(b"*")
            data = b"%b*%04X\r\n" % (body, int(check, 16) ^ 1)
        self._send(data)

    def _send(self, data: bytes) -> None:
        if not self._dead:
            self._out += data

    def _taken(self) -> bytes:
        sent = bytes(self._out)
        self._out.clear()
        return sent
