"""Captures through the same engine that runs in play.

Two kinds of file are understood. A capture of ours begins with a snapshot and holds every input; feeding it
again gives the same records. A plain capture (`{"t": seconds, "dir": "rx", "line": text}`) holds what a wheel
said; time between its lines passes on a virtual clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
from msgspec import Meta

from dollyd.daemon.core.events import Defect, GameStarted, TableOpened, VoidDeclared
from dollyd.daemon.core.round import Phase, phase
from dollyd.daemon.core.state import Setup
from dollyd.daemon.settings.load import TableSettings
from dollyd.daemon.table.engine import CAPTURE_VERSION, Engine, Head, Input, NewRecord, Op, Output, house
from dollyd.drivers.spec import DeviceProtocol
from dollyd.wire.decoding import from_json
from dollyd.wire.record import Kind, ResultBody, ThrowRejectedBody, UnresolvedBody, VoidBody
from dollyd.wire.stamp import NS_PER_S, Stamp

_T_MAX_S = 1e9
"""More seconds than any capture has; less than what a stamp can hold."""


class CaptureError(Exception):
    """A line of a capture is not what its format asks; the message names it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One game attempt and what became of it. `t` in seconds of the capture, `reason` a rule id.

    `pocket` is the reading: of boule number and cup, of dice the faces, with blanks between.
    """

    game: str
    verdict: str
    pocket: str | None
    t: float
    reason: str | None


class PlainLine(msgspec.Struct, frozen=True):
    """A line of a plain capture."""

    t: Annotated[float, Meta(ge=-_T_MAX_S, le=_T_MAX_S)]
    dir: str
    line: str


class CaptureLine(msgspec.Struct, frozen=True):
    """A line of a capture of ours."""

    t_ns: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    utc_ns: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    dir: str
    dev: str
    line: str


def engine_of(settings: TableSettings) -> Engine:
    """The engine of a table as configured, with nothing heard yet."""
    protocols = {name: device.driver.protocol(device.setup) for name, device in settings.devices.items()}
    return Engine(settings.setup, protocols)


def rederive(setup: Setup, protocols: dict[str, DeviceProtocol], capture: bytes) -> list[NewRecord]:
    """All records that a capture of ours gives, in order. Raises `CaptureError`.

    The decision that the capture belongs to is the last record that has a capture; the same input may bring
    further records after it, such as an incident.
    """
    head, *lines = capture.splitlines() or [b""]
    engine = Engine(setup, protocols)
    try:
        if from_json(head, Head).capture != CAPTURE_VERSION:
            raise CaptureError("line 1: not a capture of a version known here")
        engine.restore(head)
        records: list[NewRecord] = []
        for line in lines:
            entry = from_json(line, CaptureLine)
            if entry.dir != Op.SENT:
                at = Stamp(entry.t_ns, entry.utc_ns)
                records += engine.feed(Input(Op(entry.dir), at, entry.dev, entry.line)).records
    except (msgspec.MsgspecError, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise CaptureError(f"the capture cannot be read: {error}") from error
    return records


def replay_plain(engine: Engine, device: str, lines: Iterable[bytes]) -> Iterator[Attempt]:
    """Play a plain capture into a table with one device, and tell of each game attempt.

    Nobody sits at a replayed table: an unresolved round is closed at once, so that play goes on.
    Raises `CaptureError`.
    """
    watch = _Watch(engine, device)
    at = Stamp(0, 0)
    watch.feed(house(TableOpened("replay"), at))
    watch.feed(Input(Op.OPEN, at, device))
    for number, raw in enumerate(lines, start=1):
        try:
            line = from_json(raw, PlainLine)
        except msgspec.DecodeError as error:
            raise CaptureError(f"line {number}: {error}") from error
        now = max(round(line.t * NS_PER_S), at.mono_ns)
        while (due := engine.deadline_ns()) is not None and due < now:
            at = Stamp(max(due, at.mono_ns), max(due, at.mono_ns))
            watch.feed(Input(Op.TICK, at))
        at = Stamp(now, now)
        if line.dir == "rx":
            watch.feed(_heard(line.line, at, device))
        yield from watch.take()
    yield from watch.finish(at)


def _heard(text: str, at: Stamp, device: str) -> Input:
    """A line of a plain capture. What no port can have said came damaged into the file."""
    raw = text.encode("latin-1", errors="replace").decode("latin-1")
    return Input(Op.FRAME if raw == text else Op.BAD_FRAME, at, device, raw)


class _Watch:
    """Collects verdicts, one a game attempt, in the words of `Attempt`."""

    def __init__(self, engine: Engine, device: str) -> None:
        self._engine = engine
        self._device = device
        self._ready: list[Attempt] = []

    def take(self) -> list[Attempt]:
        """What was decided since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def feed(self, item: Input) -> None:
        output = self._engine.feed(item)
        self._look(output, item.at)
        if phase(self._engine.table) is Phase.BLOCKED:
            self._engine.feed(house(VoidDeclared("replay", "dealer", "closed by the replay"), item.at))

    def _look(self, output: Output, at: Stamp) -> None:
        t = at.mono_ns / NS_PER_S
        for event in output.events:
            if isinstance(event, GameStarted) and event.joined:
                self._ready.append(
                    Attempt(event.game.game, "unresolved", None, t, str(Defect.JOINED_MID_GAME))
                )
        for record in output.records:
            match record.kind:
                case Kind.RESULT:
                    result = msgspec.json.decode(record.body, type=ResultBody)
                    game = _game(result.evidence.game_ref)
                    self._ready.append(Attempt(game, "result", _read(result), t, None))
                case Kind.THROW_REJECTED:
                    throw = msgspec.json.decode(record.body, type=ThrowRejectedBody)
                    game = _game(throw.evidence.game_ref)
                    self._ready.append(Attempt(game, "throw-rejected", None, t, throw.rule))
                case Kind.VOID:
                    void = msgspec.json.decode(record.body, type=VoidBody)
                    self._ready.append(Attempt(_game(void.evidence.game_ref), "void", None, t, void.rule))
                case Kind.UNRESOLVED:
                    doubt = msgspec.json.decode(record.body, type=UnresolvedBody)
                    self._ready.append(
                        Attempt(_game(doubt.evidence.game_ref), "unresolved", None, t, doubt.rule)
                    )

    def finish(self, at: Stamp) -> list[Attempt]:
        """The capture ends: what is under way cannot be known."""
        before = self._engine.table.round
        self.feed(Input(Op.LOST, at, self._device, str(Defect.CAPTURE_ENDED)))
        ended = self.take()
        return [replace(a, reason=str(Defect.CAPTURE_ENDED)) for a in ended] if before else ended


def _read(result: ResultBody) -> str:
    return next((" ".join(witness.value) for witness in result.evidence.witnesses if witness.value), "")


def _game(game_ref: str) -> str:
    """The device's own name of a game, e.g. `012` of `wheel/1795978376230/012#2`."""
    return game_ref.rsplit("/", 1)[-1].split("#", 1)[0]
