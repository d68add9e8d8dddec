"""One table without I/O: the protocols of its devices, the round, and the raw capture of both.

Everything that can change the table is an `Input`, and every input is a line of the capture. A capture begins
with a snapshot of the state, so feeding its lines to a new engine gives the same records, byte for byte: that
is what `dollyd replay` does, and what the daemon does in play.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from dollyd.daemon.core.budget import TABLE_SHARE, overdrawn, spend
from dollyd.daemon.core.events import (
    HOUSE_EVENTS,
    ClockStepped,
    Defect,
    DeviceTooFast,
    DrawUpdate,
    Event,
    HostIncident,
    HostStalled,
    PlayHalted,
    Restarted,
    Spoken,
    Tick,
)
from dollyd.daemon.core.round import AskOdds, Effect, Emit, Untold, deadline_ns, step
from dollyd.daemon.core.state import Betting, Draw, Setup, Table
from dollyd.drivers.framing import BadFrame, Frame
from dollyd.drivers.spec import DeviceProtocol, DrawOdds, Said, Status
from dollyd.wire.decoding import from_json
from dollyd.wire.record import (
    Capture,
    Kind,
    ResultBody,
    ThrowRejectedBody,
    UnresolvedBody,
    VoidBody,
    encode,
)
from dollyd.wire.stamp import Stamp

CAPTURE_VERSION = 1
ROUND_LINES_MAX = 20_000
"""Lines kept of one draw, which its time limits bound as well. More is a broken device."""
WAITING_LINES_MAX = 2_000
"""Lines kept of a round that waits for its draw, however long. The longest real wait, 592 s, has 1,200."""
_ROLLING_LINES = 64
"""Between rounds the capture begins anew after so many lines."""


class Op(StrEnum):
    """What an input is; stands in the capture as `dir`."""

    OPEN = "open"
    FRAME = "rx"
    BAD_FRAME = "bad"
    LOST = "lost"
    TICK = "tick"
    DRAW = "draw"
    """The nonce with which the odds table of the round is to be drawn."""
    HOUSE = "house"
    """Something that people or the host say: one of `HOUSE_EVENTS` as JSON."""
    SENT = "tx"
    """Not an input: what went to the device, for the reader."""


_HEARD = frozenset({Op.FRAME, Op.BAD_FRAME})
_HOST_EVENTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (*HOUSE_EVENTS, ClockStepped, Restarted, PlayHalted, HostIncident, HostStalled)
}


@dataclass(frozen=True, slots=True)
class Input:
    """One line of a capture. `text` is the frame (latin-1), the cause of a loss, the order or the event."""

    op: Op
    at: Stamp
    device: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record that the core produced: body bytes, and the capture behind it where there is one."""

    kind: Kind
    round: int
    body: bytes
    at: Stamp
    capture: bytes = b""
    told: bool = True
    """False: a refusal that is only counted, for the answer to who asked; no record."""


@dataclass(frozen=True, slots=True)
class Output:
    """What follows from one input."""

    records: tuple[NewRecord, ...] = ()
    untold: tuple[NewRecord, ...] = ()
    """Refusals that are only counted."""
    send: tuple[tuple[str, bytes], ...] = ()
    """Bytes for devices, by name."""
    odds_wanted: tuple[int, ...] = ()
    """Rounds whose odds table must be drawn: answer with a `DRAW` input that brings a nonce."""
    events: tuple[Spoken, ...] = ()
    overflow: bool = False
    """The draw had more lines than may be kept; its devices were declared lost, the round is unresolved."""
    too_fast: str = ""
    """A device that is beyond its budget of records: it is not heard until it is opened anew."""


class Head(msgspec.Struct, frozen=True):
    """First line of a capture: the state before its first input. Devices in the order of their protocols."""

    capture: int
    table: Table
    devices: dict[str, Any]


def house(event: Event, at: Stamp) -> Input:
    """The input that carries an event of people or of the host."""
    text = msgspec.json.encode({"event": type(event).__name__, **asdict(event)}).decode()
    return Input(Op.HOUSE, at, text=text)


def line_of(item: Input) -> bytes:
    """An input as a line of the capture."""
    return (
        msgspec.json.encode(
            {
                "t_ns": item.at.mono_ns,
                "utc_ns": item.at.utc_ns,
                "dir": str(item.op),
                "dev": item.device,
                "line": item.text,
            }
        )
        + b"\n"
    )


class Engine:
    """A table's devices and round. Feed it inputs in order; it never waits and never reads a clock."""

    def __init__(
        self, setup: Setup, protocols: Mapping[str, DeviceProtocol], table: Table | None = None
    ) -> None:
        self.setup = setup
        self.protocols = dict(protocols)
        self.table = table or Table()
        self._head = b""
        self._lines: list[bytes] = []
        self._capture_ended = False
        self._restored = False
        """It derives one capture again: where that ends is known already."""
        self._cut()

    def deadline_ns(self) -> int | None:
        """Monotonic time at which a `TICK` is due, or None."""
        due = [
            at for at in (protocol.deadline_ns() for protocol in self.protocols.values()) if at is not None
        ]
        if (own := deadline_ns(self.setup, self.table)) is not None:
            due.append(own)
        return min(due, default=None)

    def feed(self, item: Input) -> Output:
        """Take one input; give all that follows."""
        if self._capture_ended:
            self._cut()
        self._lines.append(line_of(item))
        said = self._protocols_say(item)
        events: list[Spoken] = [event for _, part in said for event in part.events]
        effects = self._step_all([*events, *self._own_events(item)], item.at)
        effects, too_fast = self._put_down(item, effects)
        overflow = self._lines_wanted() is None and len(self._lines) >= ROUND_LINES_MAX
        if overflow:
            effects += self._step_all(self._devices_lost(), item.at)
        send = tuple((device, data) for device, part in said for data in part.send)
        for device, data in send:
            sent = Input(Op.SENT, item.at, device, data.decode("latin-1").rstrip("\r\n"))
            self._lines.append(line_of(sent))
        records, wanted = self._write(effects, item.at)
        untold = tuple(
            NewRecord(Kind.INCIDENT, 0, encode(effect.body), item.at, told=False)
            for effect in effects
            if isinstance(effect, Untold)
        )
        output = Output(tuple(records), untold, send, tuple(wanted), tuple(events), overflow, too_fast)
        # The next capture begins with the next input: a decision is not kept waiting for it.
        self._capture_ended = any(record.capture for record in records) or self._rolls()
        return output

    def status(self, device: str) -> Status:
        """How a device stands, as published."""
        return Status.FAULT if device in self.table.too_fast else self.protocols[device].status

    def restore(self, head: bytes) -> None:
        """Take the state from the first line of a capture.

        Raises msgspec.MsgspecError, or KeyError for a device that this table has not.
        """
        snapshot = from_json(head, Head)
        self.table = snapshot.table
        for name, state in snapshot.devices.items():
            self.protocols[name].restore(state)
        # The head stays as it was written: a later version may write the same state in other words.
        self._head, self._lines, self._capture_ended = head + b"\n", [], False
        self._restored = True

    # --- the parts of a step -------------------------------------------------------------------------

    def _protocols_say(self, item: Input) -> list[tuple[str, Said]]:
        if item.op is Op.TICK:
            return [(name, protocol.tick(item.at)) for name, protocol in self.protocols.items()]
        protocol = self.protocols.get(item.device)
        if protocol is None:
            return []
        if item.op is Op.OPEN:
            others = (name for name in self.table.too_fast if name != item.device)
            self.table = replace(self.table, too_fast=tuple(others))
        elif item.op in _HEARD and item.device in self.table.too_fast:
            return []
        match item.op:
            case Op.OPEN:
                said = protocol.opened(item.at)
            case Op.LOST:
                said = protocol.lost(item.text, item.at)
            case Op.FRAME:
                said = protocol.received(Frame(item.text.encode("latin-1")), item.at)
            case Op.BAD_FRAME:
                said = protocol.received(BadFrame(item.text.encode("latin-1"), "bad"), item.at)
            case Op.DRAW:
                round_number, nonce = item.text.split()
                said = protocol.order(DrawOdds(int(round_number), nonce), item.at)
            case _:
                return []
        return [(item.device, said)]

    def _own_events(self, item: Input) -> Iterable[Event]:
        if item.op is Op.TICK:
            return (Tick(),)
        if item.op is Op.HOUSE:
            fields = from_json(item.text, dict[str, Any])
            kind = _HOST_EVENTS[fields.pop("event")]
            return (msgspec.convert(fields, kind),)
        return ()

    def _devices_lost(self) -> Iterable[Event]:
        """The round is given up: what its devices say from here on cannot be kept."""
        for witness in self.table.round.witnesses if self.table.round else ():
            facts = replace(witness.facts, defects=(*witness.facts.defects, Defect.DEVICE_LOST))
            yield DrawUpdate(witness.game, facts)

    def _put_down(self, item: Input, effects: list[Effect]) -> tuple[list[Effect], str]:
        """The records that an input causes, to the accounts of its device and of the table.

        Gives the device where it is beyond its budget by that, or the table is.
        """
        device, budget, at = item.device, self.setup.rules.records, item.at
        records = sum(isinstance(effect, Emit) for effect in effects)
        if not records or (device not in self.protocols and item.op is not Op.TICK):
            return effects, ""
        accounts, whole = self.table.accounts, budget.times(TABLE_SHARE)
        accounts = spend(accounts, "", records, whole, at)
        accounts = spend(accounts, device, records, budget, at) if device else accounts
        self.table = replace(self.table, accounts=accounts)
        beyond = overdrawn(accounts, device, budget, at) or overdrawn(accounts, "", whole, at)
        if not device or not beyond or device in self.table.too_fast:
            return effects, ""
        return effects + self._step_all((DeviceTooFast(device),), at), device

    def _step_all(self, events: Iterable[Event], at: Stamp) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            self.table, new = step(self.setup, self.table, event, at)
            effects.extend(new)
        return effects

    def _write(self, effects: Iterable[Effect], at: Stamp) -> tuple[list[NewRecord], list[int]]:
        records: list[NewRecord] = []
        wanted: list[int] = []
        for effect in effects:
            match effect:
                case AskOdds():
                    wanted.append(effect.round)
                case Emit():
                    records.append(self._record(effect, at))
        return records, wanted

    def _record(self, effect: Emit, at: Stamp) -> NewRecord:
        body, capture = effect.body, b""
        if effect.captured and isinstance(body, ResultBody | VoidBody | ThrowRejectedBody | UnresolvedBody):
            capture = self._head + b"".join(self._lines)
            seal = Capture(digest=hashlib.sha256(capture).hexdigest(), lines=len(self._lines))
            body = msgspec.structs.replace(
                body, evidence=msgspec.structs.replace(body.evidence, capture=seal)
            )
        return NewRecord(effect.kind, effect.round, encode(body), at, capture)

    # --- the capture ---------------------------------------------------------------------------------

    def _lines_wanted(self) -> int | None:
        """After how many lines the capture may begin anew, None in a draw, of which every line is kept.

        Where no draw has begun, the head tells all that matters of what was said before.
        """
        current = self.table.round
        if current is None or current.unresolved:
            return _ROLLING_LINES
        waiting = current.draw is Draw.NOT_STARTED and current.betting is Betting.OPEN
        return WAITING_LINES_MAX if waiting else None

    def _rolls(self) -> bool:
        wanted = self._lines_wanted()
        return wanted is not None and len(self._lines) >= wanted and not self._restored

    def _cut(self) -> None:
        """Begin a new capture with the state as it is now."""
        self._capture_ended = False
        devices = {name: protocol.snapshot() for name, protocol in self.protocols.items()}
        self._head = msgspec.json.encode(Head(CAPTURE_VERSION, self.table, devices)) + b"\n"
        self._lines = []
