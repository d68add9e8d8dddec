"""A real pseudo-terminal that the real driver opens, under a name that stays.

    model <-- link.write / on_data --> master | kernel | slave <-- path (symbolic link) <-- driver

The slave is never held open here: bytes sent while no host has the port open are lost, as on a real UART,
and the host's exclusive access ends with the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import select
import tty
from collections.abc import Callable
from pathlib import Path

from dollyd.simulators.faults import Switchboard

_LOOK_S = 0.02
"""How often a port that no host has open is looked at."""
_READ_BYTES = 4096
_STOLEN_BYTES = 8


class PtyLink:
    """One port at `path`. `on_data` gets the host's bytes; `dropped_bytes` counts what nobody read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults = PortFaults(self)
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.host_came: Callable[[], None] = lambda: None
        """Called when the host has opened the port."""
        self.dropped_bytes = 0
        self.node = path
        """The node that the name stands for, once plugged."""
        self._master: int | None = None
        self._look: asyncio.TimerHandle | None = None

    @property
    def plugged(self) -> bool:
        """Whether the port is there."""
        return self._master is not None

    def plug(self) -> None:
        """The port appears, possibly under another number than before. Needs a running event loop.

        Raises OSError where the system has no pseudo-terminal left or `path` cannot be made.
        """
        if self._master is not None:
            return
        master, slave = os.openpty()
        try:
            tty.setraw(slave)
            os.set_blocking(master, False)
            self.node = Path(os.ttyname(slave))
            self.show_name()
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        self._master = master
        self.faults.begin()
        self._watch()

    def show_name(self) -> None:
        """The name stands for the port's node."""
        spare = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        spare.unlink(missing_ok=True)
        spare.symlink_to(self.node)
        spare.replace(self.path)

    def unplug(self) -> None:
        """The cable is pulled: the host's open port hangs up, the name is gone."""
        if self._master is None:
            return
        if self._look is not None:
            self._look.cancel()
            self._look = None
        asyncio.get_running_loop().remove_reader(self._master)
        self.faults.end()
        self.path.unlink(missing_ok=True)
        os.close(self._master)
        self._master = None

    def host_is_there(self) -> bool:
        """Whether somebody has the port open."""
        if self._master is None:
            return False
        poll = select.poll()
        poll.register(self._master, 0)  # a hang-up is always told
        return not any(event & select.POLLHUP for _, event in poll.poll(0))

    def write(self, data: bytes) -> None:
        """Send to the host; what does not fit, or finds no host, is dropped and counted."""
        sent = 0
        if self._master is not None and self.host_is_there():
            try:
                sent = os.write(self._master, data)
            except BlockingIOError:
                sent = 0
        self.dropped_bytes += len(data) - sent
        self.faults.steal()

    def _watch(self) -> None:
        """Read while a host is there. A pty without one is always readable (EIO), so look now and then."""
        self._look = None
        if self._master is None:
            return
        loop = asyncio.get_running_loop()
        if self.host_is_there():
            self.host_came()
            self.listen()
        else:
            self._look = loop.call_later(_LOOK_S, self._watch)

    def listen(self) -> None:
        """Take what the host writes, unless the port is jammed."""
        if self._master is not None and not self.faults.on("port-jammed"):
            asyncio.get_running_loop().add_reader(self._master, self._read)

    def deafen(self) -> None:
        """Take nothing more."""
        if self._master is not None:
            asyncio.get_running_loop().remove_reader(self._master)

    def renumber(self) -> None:
        """Out and in again, while the old number is still taken: the port gets another one."""
        keeper = os.open(self.node, os.O_RDWR | os.O_NOCTTY)
        try:
            self.unplug()
            self.plug()
        finally:
            os.close(keeper)

    def _read(self) -> None:
        if self._master is None:
            return
        try:
            data = os.read(self._master, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            asyncio.get_running_loop().remove_reader(self._master)
            self._watch()
            return
        self.on_data(data)


class PortFaults(Switchboard):
    """The `port-` faults: what goes wrong with a port on the side of the host."""

    def __init__(self, link: PtyLink) -> None:
        super().__init__("port")
        self._link = link
        self._holder: int | None = None
        """The other program's open port."""

    def set(self, name: str) -> None:
        """Switch a fault on, at once where the port is there."""
        super().set(name)
        if self._link.plugged:
            self._strike(name)

    def clear(self, name: str) -> None:
        """Switch it off again."""
        was_on = self.on(name)
        super().clear(name)
        if was_on and self._link.plugged:
            self._mend(name)

    def begin(self) -> None:
        """The port has appeared: what is on strikes it."""
        for name in self.names:
            self._strike(name)

    def end(self) -> None:
        """The port goes, and with it whoever holds it."""
        if self._holder is not None:
            os.close(self._holder)
            self._holder = None

    def steal(self) -> None:
        """The other program reads some of what was sent."""
        if self._holder is not None and self.on("port-thief"):
            with contextlib.suppress(BlockingIOError):
                os.read(self._holder, _STOLEN_BYTES)

    def _strike(self, name: str) -> None:
        match name:
            case "port-jammed":
                self._link.deafen()
            case "port-missing":
                self._link.path.unlink(missing_ok=True)
            case "port-denied":
                self._link.node.chmod(0)
            case "port-busy" | "port-thief":
                self._hold(locked=name == "port-busy")
            case "port-renumbered":
                self.take(name)
                self._link.renumber()

    def _mend(self, name: str) -> None:
        match name:
            case "port-jammed":
                self._link.listen()
            case "port-missing":
                self._link.show_name()
            case "port-denied":
                self._link.node.chmod(0o620)
            case "port-busy" | "port-thief":
                self.end()

    def _hold(self, *, locked: bool) -> None:
        self.end()
        self._holder = os.open(self._link.node, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        if locked:
            fcntl.flock(self._holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
