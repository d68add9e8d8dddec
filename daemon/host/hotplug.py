"""Tells at once when something is plugged in: the kernel's and udev's events, from a netlink socket.

    add@/devices/...  ACTION=add SUBSYSTEM=tty ...        the kernel: the node is there
    libudev ...       ACTION=add SUBSYSTEM=tty ...        udev: its links and its group are there too

Both say it in the same words, and either makes the sessions try again now. Where no such socket is to be had,
as in most containers, they try once a second all the same. An event decides nothing: it only ends a wait.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Protocol

from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.tasks import Pulse

_KOBJECT_UEVENT = 15
_KERNEL, _UDEV = 1, 2
_EVENT_BYTES = 8192
_ARRIVALS = (b"ACTION=add\0", b"ACTION=bind\0", b"ACTION=change\0")
_PORTS = (b"SUBSYSTEM=tty\0", b"SUBSYSTEM=usb\0")
CALM_S = 0.05
"""A plug brings a dozen events at once: one call is made for all that come within this time."""

_LOG = Logger(__name__)


class Events(Protocol):
    """Where events come from: a non-blocking datagram socket, or what a test has for one."""

    def fileno(self) -> int:
        """To wait at."""
        ...

    def recv(self, most: int, /) -> bytes:
        """One event. Raises OSError; ENOBUFS says that some were lost."""
        ...

    def close(self) -> None:
        """The end."""
        ...


def netlink() -> Events:
    """The system's events. Raises OSError where they are not to be had."""
    line = socket.socket(
        socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, _KOBJECT_UEVENT
    )
    try:
        line.bind((0, _KERNEL | _UDEV))
    except OSError:
        line.close()
        raise
    return line


def tells_of_a_plug(event: bytes) -> bool:
    """Whether a device of a kind that we use has come, or has become another one."""
    return any(word in event for word in _ARRIVALS) and any(word in event for word in _PORTS)


class Hotplug:
    """Calls `plugged` when something was plugged in."""

    def __init__(self, plugged: Callable[[], None], source: Callable[[], Events] = netlink) -> None:
        self._plugged = plugged
        self._source = source
        self._news = asyncio.Event()
        self.pulse = Pulse()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            events = self._source()
        except OSError as error:
            _LOG.info("hotplug_not_told", detail=error.strerror or str(error))
            self.pulse.rest()
            await asyncio.get_running_loop().create_future()  # the sessions try by themselves
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(events.fileno(), self._readable, events)
        try:
            while True:
                await self.pulse.news(self._news)
                if self._news.is_set():
                    self._news.clear()
                    self._plugged()
                    await asyncio.sleep(CALM_S)
        finally:
            loop.remove_reader(events.fileno())
            events.close()

    def _readable(self, events: Events) -> None:
        try:
            event = events.recv(_EVENT_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                asyncio.get_running_loop().remove_reader(events.fileno())
                _LOG.warning("hotplug_not_told", detail=error.strerror or str(error))
            self._news.set()  # some were lost: it may have been the one
            return
        if tells_of_a_plug(event):
            self._news.set()
