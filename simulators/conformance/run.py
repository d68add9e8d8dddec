"""Plays the test over a real port, and the command line's part of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Annotated, Protocol

import typer

from dollyd.daemon.host.clock import Clock, SystemClock
from dollyd.drivers.transports.serial import SerialSettings, SerialTransport
from dollyd.drivers.transports.usb import UsbTransport
from dollyd.drivers.transports.usb_port import parse_usb
from dollyd.simulators.conformance.forms import TALKERS
from dollyd.simulators.conformance.host import Host
from dollyd.simulators.conformance.record import Record
from dollyd.simulators.conformance.report import as_json, as_table, exit_code, judge
from dollyd.simulators.runner import woken_or_due
from dollyd.wire.errors import TransportError
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

BAUD = 115_200
_RETRY_NS = 200 * NS_PER_MS


class Port(Protocol):
    """A transport of `dollyd.drivers.transports`."""

    async def open(self, on_data: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Raises `TransportError`."""
        ...

    def write(self, data: bytes) -> bool:
        """Send soon."""
        ...

    def close(self) -> None:
        """Close at once."""
        ...


class Run:
    """One test over a port. `lost`: why the port went, empty while it is there."""

    def __init__(self, host: Host, port: Port, clock: Clock, tell: Callable[[str], None]) -> None:
        self.lost = ""
        self._host = host
        self._port = port
        self._clock = clock
        self._tell = tell
        self._awake = asyncio.Event()
        self._asked = ""

    async def play(self, timeout_s: float) -> None:
        """Until everything was tried, or the time is up.

        Raises `TransportError` where the port cannot be opened, or is lost while nobody was asked to switch
        the device off.
        """
        deadline_ns = self._now_ns() + round(timeout_s * NS_PER_S)
        try:
            await self._open()
            while not self._host.done and self._now_ns() < deadline_ns:
                self._awake.clear()
                await self._keep_port(deadline_ns)
                self._host.tick(self._now_ns())
                self._send()
                self._ask()
                due_ns = self._host.due_ns()
                await woken_or_due(self._awake, self._clock, min(due_ns or deadline_ns, deadline_ns))
        finally:
            self._port.close()

    async def _open(self) -> None:
        await self._port.open(self._heard, self._on_lost)
        self.lost = ""
        self._host.opened(self._now_ns())
        self._send()

    async def _keep_port(self, deadline_ns: int) -> None:
        """Open again where the host wants it, or where a device that was switched off took its port along."""
        if self._host.wants_reopen:
            self._port.close()
            await self._open()
        while self.lost and self._now_ns() < deadline_ns:
            if self._host.step is None:
                raise TransportError(self.lost)
            await self._clock.sleep_until(self._now_ns() + _RETRY_NS)
            try:
                await self._open()
            except TransportError as error:
                self.lost = str(error)

    def _heard(self, data: bytes) -> None:
        self._host.received(data, self._now_ns())
        self._send()
        self._awake.set()

    def _on_lost(self, cause: str) -> None:
        self.lost = cause
        self._awake.set()

    def _send(self) -> None:
        if said := self._host.take():
            self._port.write(said)

    def _ask(self) -> None:
        step = self._host.step
        if step is not None and step.name != self._asked:
            self._asked = step.name
            self._tell(f"Please {step.ask}.")

    def _now_ns(self) -> int:
        return self._clock.stamp().mono_ns


def conformance(
    port: Annotated[str, typer.Option(help="Serial port, or usb:VID:PID[:serial=...][:path=...].")],
    kind: Annotated[str, typer.Option(help=f"Talker of the device: {', '.join(TALKERS)}.")],
    key_file: Annotated[
        Path | None, typer.Option(help="OD: file with the key shared with the box, taken as it is.")
    ] = None,
    games: Annotated[int, typer.Option(min=1, help="Results (keys of a console) to be seen.")] = 3,
    timeout_s: Annotated[int, typer.Option(min=1, help="End after so many seconds in any case.")] = 600,
    interactive: Annotated[bool, typer.Option(help="Ask for what only a person can do.")] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Test a maker's device against docs/protocols/tlp-1.md: plays the host, prints a verdict a clause.

    A console needs somebody who presses its keys; wheels and cameras need somebody who plays. Ends with 0 if
    every clause was kept, 1 if one was broken, 2 if not all were seen in time.
    """
    if kind not in TALKERS:
        raise typer.BadParameter(f"no talker {kind!r}; there are {', '.join(TALKERS)}", param_hint="--kind")
    record = Record(kind, _key(kind, key_file))
    host = Host(record, SystemRandom(), games=games, interactive=interactive)
    run = Run(host, _transport(port), SystemClock(), lambda text: print(text, file=sys.stderr, flush=True))
    try:
        asyncio.run(run.play(timeout_s))
    except TransportError as error:
        if not record.lines:
            raise typer.BadParameter(f"{port}: {error}", param_hint="--port") from error
        print(f"{port} was lost: {error}", file=sys.stderr)
    judged = judge(record)
    code = exit_code(judged, interactive=interactive)
    print(as_json(record, judged, code) if as_json_ else as_table(record, judged))
    raise typer.Exit(code)


def _key(kind: str, key_file: Path | None) -> bytes:
    if kind == "OD" and key_file is None:
        raise typer.BadParameter("OD needs the key of the box for its proofs", param_hint="--key-file")
    try:
        return b"" if key_file is None else key_file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{key_file}: {error.strerror}", param_hint="--key-file") from error


def _transport(port: str) -> Port:
    if not port.startswith("usb:"):
        return SerialTransport(SerialSettings(port, BAUD))
    try:
        settings = parse_usb(port)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--port") from error
    return UsbTransport(settings)
