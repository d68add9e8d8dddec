"""A simulated device at work: its port, its faults, and the orders that come on standard input.

plug            unplug          the cable
power-on        power-off       the device
fault NAME      clear NAME      see `python -m dollyd.simulators faults`
quit                            (on standard input only)

and what the kind of device adds, see `simulators.kinds`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Protocol

from dollyd.daemon.host.clock import Clock
from dollyd.simulators.faults import FAULTS, Switchboard
from dollyd.simulators.line import Line, LineCutter
from dollyd.simulators.runner import Device, Link, Model

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


class PluggableLink(Link, Protocol):
    """A link whose cable can be pulled."""

    host_came: Callable[[], None]

    @property
    def faults(self) -> Switchboard:
        """Those of the port."""
        ...

    def plug(self) -> None:
        """The port appears; OSError where it cannot."""
        ...

    def unplug(self) -> None:
        """The port is gone."""
        ...


class Bench:
    """One device with its line and port. `orders` adds the orders of this kind of device."""

    def __init__(
        self,
        model: PoweredModel,
        line: Line,
        link: PluggableLink,
        clock: Clock,
        orders: Mapping[str, Callable[[str], None]],
    ) -> None:
        self._model = model
        self._line = line
        self._link = link
        self._clock = clock
        self.device = Device(model, link, clock, line)
        link.host_came = self._host_came
        self.done = asyncio.Event()
        self._cutter = LineCutter()
        self._orders: dict[str, Callable[[str], None]] = {
            "plug": lambda _: link.plug(),
            "unplug": lambda _: link.unplug(),
            "power-on": lambda _: model.power_on(self._now_ns()),
            "power-off": lambda _: model.power_off(self._now_ns()),
            "fault": lambda name: self._switchboard(name).set(name),
            "clear": lambda name: self._switchboard(name).clear(name),
            **orders,
        }

    def obey(self, order: str) -> None:
        """One order. Raises ValueError, with what is wrong, for one that does not exist."""
        word, _, rest = order.partition(" ")
        if word not in self._orders:
            raise ValueError(f"unknown order {word!r}; there are: {', '.join(self._orders)}")
        self._orders[word](rest)
        self.device.wake()

    async def live(self) -> None:
        """Plugged in until cancelled; leaves no port behind. Raises `PortError`."""
        try:
            self._plug_in()
            await self.device.run()
        finally:
            self._link.unplug()

    async def run(self) -> None:
        """Live until an order, a signal or `done` ends it. Raises `PortError`."""
        self._orders["quit"] = lambda _: self.done.set()
        # Who sees the port may end us: signals are caught before it is there.
        with ended_by_signals(self.done), self._standard_input():
            await until_done(self.live(), self.done)

    def _plug_in(self) -> None:
        try:
            self._link.plug()
        except OSError as error:
            raise PortError(str(error)) from error

    def _now_ns(self) -> int:
        return self._clock.stamp().mono_ns

    def _switchboard(self, name: str) -> Switchboard:
        device = FAULTS[name].device if name in FAULTS else ""
        return {"line": self._line.faults, "port": self._link.faults}.get(device, self._model.faults)

    def _host_came(self) -> None:
        if self._link.faults.on("port-reset-on-open"):
            self._model.power_off(self._now_ns())
            self._model.power_on(self._now_ns())
            self.device.wake()

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


async def until_done(life: Coroutine[None, None, None], done: asyncio.Event) -> None:
    """Live until `done`, or until life ends by itself; what goes wrong in it is raised."""
    tasks = (asyncio.create_task(life), asyncio.create_task(done.wait()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def ended_by_signals(done: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set `done`."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, done.set)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
