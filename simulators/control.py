"""A simulated device at work: its port, its faults, and the orders that come on standard input.

plug            unplug          the cable
power-on        power-off       the device
fault NAME      clear NAME      see `python -m dollyd.simulators faults`
start           number TEXT     the wheel's start key; the number of a game to come (wheel only)
table N                         the odds table of a draw to come (odds box only)
quit
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Protocol

from dollyd.daemon.clock import Clock
from dollyd.simulators.faults import FAULTS, Switchboard
from dollyd.simulators.line import Line, LineCutter
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.runner import Device, Model

_STDIN = 0


class PortError(Exception):
    """The port cannot be made; the text says why."""


class PoweredModel(Model, Protocol):
    """What every simulated device has besides its bytes."""

    @property
    def faults(self) -> Switchboard:
        """Its own faults."""
        ...

    def power_on(self, now_ns: int) -> None:
        """Boot."""
        ...

    def power_off(self, now_ns: int) -> None:
        """Dark at once."""
        ...


class Bench:
    """One device with its line and port. `orders` adds the orders of this kind of device."""

    def __init__(
        self,
        model: PoweredModel,
        line: Line,
        link: PtyLink,
        clock: Clock,
        orders: dict[str, Callable[[str], None]],
    ) -> None:
        self._model = model
        self._line = line
        self._link = link
        self._clock = clock
        self.device = Device(model, link, clock, line)
        self.done = asyncio.Event()
        self._cutter = LineCutter()
        self._orders: dict[str, Callable[[str], None]] = {
            "plug": lambda _: link.plug(),
            "unplug": lambda _: link.unplug(),
            "power-on": lambda _: model.power_on(self._now_ns()),
            "power-off": lambda _: model.power_off(self._now_ns()),
            "fault": lambda name: self._switchboard(name).set(name),
            "clear": lambda name: self._switchboard(name).clear(name),
            "quit": lambda _: self.done.set(),
            **orders,
        }

    def obey(self, order: str) -> None:
        """One order. Raises ValueError, with what is wrong, for one that does not exist."""
        word, _, rest = order.partition(" ")
        if word not in self._orders:
            raise ValueError(f"unknown order {word!r}; there are: {', '.join(self._orders)}")
        self._orders[word](rest)
        self.device.wake()

    async def run(self) -> None:
        """Plugged in until an order, a signal or `done` ends it; leaves nothing behind.

        Raises `PortError`.
        """
        try:
            with _signals(self.done.set), self._standard_input():
                self._plug_in()  # who sees the port may end us: not before the signals are caught
                life = asyncio.create_task(self.device.run())
                end = asyncio.create_task(self.done.wait())
                try:
                    await asyncio.wait((life, end), return_when=asyncio.FIRST_COMPLETED)
                    if life.done():
                        life.result()  # a bug in a model: let it be seen
                finally:
                    for task in (life, end):
                        task.cancel()
                    await asyncio.gather(life, end, return_exceptions=True)
        finally:
            self._link.unplug()

    def _plug_in(self) -> None:
        try:
            self._link.plug()
        except OSError as error:
            raise PortError(str(error)) from error

    def _now_ns(self) -> int:
        return self._clock.stamp().mono_ns

    def _switchboard(self, name: str) -> Switchboard:
        of_line = name in FAULTS and FAULTS[name].device == "line"
        return self._line.faults if of_line else self._model.faults

    @contextlib.contextmanager
    def _standard_input(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(_STDIN, self._read_orders)
        except (OSError, ValueError):  # closed, a file or /dev/null: nobody gives orders
            yield
            return
        try:
            yield
        finally:
            loop.remove_reader(_STDIN)

    def _read_orders(self) -> None:
        data = os.read(_STDIN, 4096)
        if not data:
            asyncio.get_running_loop().remove_reader(_STDIN)
        for line in self._cutter.feed(data):
            try:
                self.obey(line.decode("utf-8", "replace").strip())
            except ValueError as error:
                print(error, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
