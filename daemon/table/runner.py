"""One gaming table in the event loop: its devices, the engine, the timer, and what displays are told.

session --frames--> engine --records--> writer        nothing here waits: not for disks, not for brokers
             '--bytes--> session
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

from dollyd.daemon.core.decision import setting
from dollyd.daemon.core.events import HostIncident, HostStalled, TableClosed, TableOpened
from dollyd.daemon.core.round import phase
from dollyd.daemon.core.rulebook import GameProfile
from dollyd.daemon.core.state import TOO_FAST, Proposal, Setup
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.journal.store import Tail
from dollyd.daemon.journal.tail import BY_CONFIGURATION
from dollyd.daemon.journal.writer import Draft
from dollyd.daemon.settings.load import DeviceSettings, TableSettings
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op, house
from dollyd.daemon.table.resume import (
    carried_over,
    closed_by_people,
    opens_by_itself,
    remind,
    restarted,
    restored,
)
from dollyd.daemon.table.session import DeviceSession, Transport
from dollyd.daemon.table.state_topics import DeviceState, Outcome, Since, TableState, outcome_of, pending_of
from dollyd.drivers.framing import AnyFrame, BadFrame
from dollyd.drivers.spec import Status
from dollyd.drivers.transports.serial import SerialSettings, SerialTransport
from dollyd.drivers.transports.usb import UsbTransport
from dollyd.wire.errors import InvariantError, ensure
from dollyd.wire.record import Kind, Setting, Stakes
from dollyd.wire.stamp import NS_PER_S, iso_utc

OUTCOMES_SHOWN = 20
_PATIENCE_MS = 10_000
_PATIENCE_PERIODS = 20
_LIVE = frozenset({Status.READY, Status.FAULT, Status.WRONG_DEVICE})
"""States in which a device was heard within its last three periods."""


class RecordSink(Protocol):
    """Where records go; never waits. Raises `JournalError` when nothing more can be taken."""

    def submit(self, draft: Draft, /) -> None:
        """Take a record."""
        ...


def transport_of(device: DeviceSettings) -> Transport:
    """The way to a device as its driver and the configuration ask."""
    if device.usb is not None:
        return UsbTransport(device.usb)
    defaults, section = device.driver.serial, device.section
    if defaults is None:
        raise InvariantError("settings refuse a serial port for a driver that has none")
    return SerialTransport(
        SerialSettings(
            port=section.port,
            baud=section.baud or defaults.baud,
            bytesize=defaults.bytesize,
            parity=defaults.parity,
            stopbits=defaults.stopbits,
            dtr=defaults.dtr if section.dtr is None else section.dtr,
            rts=defaults.rts if section.rts is None else section.rts,
        )
    )


def patience_ms(device: DeviceSettings) -> int:
    """How long a device may say nothing valid before it is connected anew, 0 = for ever.

    Longer than it takes to be stale. A display speaks once a game only.
    """
    if device.driver.roles[device.section.role].told_at_end:
        return 0
    return max(_PATIENCE_MS, _PATIENCE_PERIODS * device.setup.period_ms)


class _DeviceSink:
    """What a device session says, as inputs of the engine."""

    def __init__(self, runner: TableRunner, device: str) -> None:
        self._runner = runner
        self._device = device

    def opened(self) -> None:
        """A connection begins."""
        self._runner.feed(Op.OPEN, self._device)

    def received(self, frames: list[AnyFrame]) -> bool:
        """Frames came; tells whether the device is being understood."""
        for frame in frames:
            op = Op.BAD_FRAME if isinstance(frame, BadFrame) else Op.FRAME
            self._runner.feed(op, self._device, frame.raw.decode("latin-1"))
            if self._device in self._runner.engine.table.too_fast:
                return False
        return self._runner.engine.status(self._device) in _LIVE

    def lost(self, cause: str) -> None:
        """The connection ended."""
        self._runner.feed(Op.LOST, self._device, cause)


class TableRunner:
    """Runs one table. `on_change` is called when what displays show may have changed.

    `on_failure` is told what goes wrong at a timer, where there is no task that could end by it.
    """

    def __init__(
        self,
        settings: TableSettings,
        records: RecordSink,
        clock: Clock,
        random: Random,
        on_change: Callable[[TableRunner], None],
        on_failure: Callable[[Exception], None],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`look` is called before anything is believed to happen now: see `StallWatch`."""
        self.name = settings.setup.table
        self.settings = settings
        self.chain = ""
        """The running chain, known from the start on."""
        self.sessions: dict[str, DeviceSession] = {}
        protocols = {name: device.driver.protocol(device.setup) for name, device in settings.devices.items()}
        self.engine = Engine(settings.setup, protocols)
        self._records = records
        self._clock = clock
        self._random = random
        self._on_change = on_change
        self._on_failure = on_failure
        self._look = look
        self._held = False
        self._outcomes: deque[Outcome] = deque(maxlen=OUTCOMES_SHOWN)
        self._since = Since()
        self._results = self._manual_results = 0
        self._reload_waits = self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0

    # --- life ----------------------------------------------------------------------------------------

    def start(self, tail: Tail | None, chain: str = "", before: Tail | None = None) -> None:
        """Take up where the journal ends. A table that people have closed stays closed.

        `before`: how the chain ended that this one takes the place of, since its key is lost.
        """
        at = self._clock.stamp()
        self.chain = chain
        if tail is not None:
            remind(self.engine.protocols, tail)
            self.engine = Engine(
                self.settings.setup, self.engine.protocols, restored(self.settings.setup, tail, at)
            )
            for payload in tail.results:
                self._show(payload["round"], payload["body"]["outcome"])
            self._take(house(restarted(tail, at, self._clock.boot), at))
        if opens_by_itself(tail) and not closed_by_people(before):
            self._take(house(TableOpened(BY_CONFIGURATION), at))
        self.sessions = {name: self._session(name) for name in self.settings.devices}

    def _session(self, name: str) -> DeviceSession:
        device = self.settings.devices[name]
        return DeviceSession(
            name,
            transport_of(device),
            device.driver.framing(),
            _DeviceSink(self, name),
            clock=self._clock,
            random=self._random,
            look=self._look,
            held=self._held,
            patience_ms=patience_ms(device),
            table=self.name,
        )

    def reconfigure(self, settings: TableSettings) -> tuple[list[str], list[str]]:
        """Go over to other rules and devices, between two rounds.

        Devices that stay as they are keep their sessions. Gives those whose sessions have been left and are
        to be ended, and those whose sessions are to be run. Where what is played changes, or its stakes, the
        table's session is closed and another one opened.
        """
        before, at = self.settings, self._clock.stamp()
        ensure(self.engine.table.round is None, "rules and devices change between two rounds")
        ended = [name for name in self.sessions if before.devices[name] != settings.devices.get(name)]
        begun = [name for name in settings.devices if before.devices.get(name) != settings.devices[name]]
        reopened = self.engine.table.open and _terms(before.setup) != _terms(settings.setup)
        if reopened:
            self._take(house(TableClosed(BY_CONFIGURATION), at))
        for name in ended:
            self.sessions.pop(name).leave()
        protocols = {
            name: device.driver.protocol(device.setup) if name in begun else self.engine.protocols[name]
            for name, device in settings.devices.items()
        }
        kept = settings.devices.keys() - set(begun)
        self.settings = settings
        self.engine = Engine(settings.setup, protocols, carried_over(self.engine, settings.setup, kept))
        self.sessions |= {name: self._session(name) for name in begun}
        if reopened:
            self._take(house(TableOpened(BY_CONFIGURATION), at))
        else:
            text = "another configuration is in force" + (f"; devices: {', '.join(begun)}" if begun else "")
            self._take(house(HostIncident("reconfigured", text), at))
        return ended, begun

    def set_reload_waits(self, *, waits: bool) -> None:
        """Whether another configuration waits for the end of the round; displays are told."""
        if waits != self._reload_waits:
            self._reload_waits = waits
            self._on_change(self)

    def stalled(self, length_ms: int) -> None:
        """The host stood still: whatever waits to be read is old, and no round rests on it."""
        self._take(house(HostStalled(length_ms), self._clock.stamp()))
        for session in self.sessions.values():
            session.stalled()

    def hold(self, *, held: bool) -> None:
        """Read no device until the disk has caught up, or read them again."""
        self._held = held
        for session in self.sessions.values():
            session.hold(held=held)

    def leave(self) -> None:
        """End the timer and let go of all devices; their sessions are to be ended."""
        self.stop()
        for session in self.sessions.values():
            session.leave()

    def stop(self) -> None:
        """Take nothing any more, and end the timer; the sessions are ended by their tasks."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- inputs --------------------------------------------------------------------------------------

    def feed(self, op: Op, device: str = "", text: str = "") -> None:
        """One input, stamped now."""
        self._take(Input(op, self._clock.stamp(), device, text))

    def tell(self, item: Input) -> tuple[NewRecord, ...]:
        """An input of the house: a clock step, a command.

        Gives the records that follow, and refusals that are no record (`told` is False).
        """
        return self._take(item)

    def _take(self, item: Input) -> tuple[NewRecord, ...]:
        if self._stopped:
            return ()
        before, statuses = self.engine.table, self._statuses()
        output = self.engine.feed(item)
        for record in output.records:
            self._keep(record)
        for device, data in output.send:
            if device in self.sessions:
                self.sessions[device].send(data)
        for round_number in output.odds_wanted:
            self._draw_odds(round_number)
        if output.overflow:
            for session in self.sessions.values():
                session.drop("capture-overflow")
        if output.too_fast in self.sessions:
            self.sessions[output.too_fast].drop(TOO_FAST)
        self._arm()
        if self.engine.table is not before or self._statuses() != statuses:
            self._on_change(self)
        return output.records + output.untold

    def _keep(self, record: NewRecord) -> None:
        capture = record.capture or None
        self._records.submit(Draft(self.name, record.kind, record.round, record.body, record.at, capture))

    def _draw_odds(self, round_number: int) -> None:
        device = next((d.name for d in self.settings.setup.devices if d.role == "odds"), "")
        self.feed(Op.DRAW, device, f"{round_number} {secrets.token_hex(8).upper()}")

    def _arm(self) -> None:
        """Have the engine ticked at its deadline; an earlier alarm than needed only arms again."""
        due_ns = self.engine.deadline_ns()
        if due_ns is None or (self._timer is not None and self._timer_ns <= due_ns):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        delay_s = max(0, due_ns - self._clock.stamp().mono_ns) / NS_PER_S
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self._look()
            due_ns = self.engine.deadline_ns()
            if due_ns is not None and self._clock.stamp().mono_ns >= due_ns:
                self.feed(Op.TICK)
            else:
                self._arm()
        except Exception as error:  # noqa: BLE001  callback of the loop: it ends the daemon as a task would
            self._on_failure(error)

    # --- what displays are told ----------------------------------------------------------------------

    @property
    def rules(self) -> GameProfile:
        """The profile that is played by."""
        return self.engine.setup.rules

    @property
    def proposal(self) -> Proposal | None:
        """What waits for a second person, None where nothing does."""
        return self.engine.table.proposal

    def written(self, kind: str, round_number: int, outcome: Mapping[str, Any], mode: str = "auto") -> None:
        """A result is durable: now it may be shown."""
        if kind == Kind.RESULT:
            self._results += 1
            self._manual_results += mode == "manual"
            self._show(round_number, outcome)
            self._on_change(self)

    def _show(self, round_number: int, outcome: Mapping[str, Any]) -> None:
        self._outcomes.append(outcome_of(round_number, outcome))

    def state(self) -> bytes:
        """The payload of `<table>/state`: nothing that helps to predict a draw."""
        table, setup = self.engine.table, self.settings.setup
        state = TableState(
            table=self.name,
            game=setup.game.name,
            variant=setup.variant_name,
            phase=phase(table),
            round=table.number,
            mode=table.mode,
            chain=self.chain,
            proposal=pending_of(table.proposal),
            results=self._results,
            manual_results=self._manual_results,
            blocked=table.blocked,
            reload_waits=self._reload_waits,
            devices=self._statuses(),
            last=list(self._outcomes),
        )
        return self._since.told("state", state, iso_utc(self._clock.stamp().utc_ns))

    def device(self, name: str) -> bytes:
        """The payload of `<table>/device/<name>`."""
        protocol, device = self.engine.protocols[name], self.settings.devices[name]
        session = self.sessions.get(name)
        state = DeviceState(
            device=name,
            driver=device.driver.name,
            role=device.section.role,
            status=self.engine.status(name),
            cause=session.cause if session else "",
            identity=dict(protocol.identity),
            frames=dict(protocol.counters),
            link=dict(session.counters) if session else {},
        )
        return self._since.told(f"device/{name}", state, iso_utc(self._clock.stamp().utc_ns))

    def _statuses(self) -> dict[str, Status]:
        return {name: self.engine.status(name) for name in self.engine.protocols}


def _terms(setup: Setup) -> tuple[Setting, Stakes]:
    """What players are told: under other terms another session begins."""
    return setting(setup), setup.stakes
