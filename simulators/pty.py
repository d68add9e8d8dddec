"""A real pseudo-terminal that the real driver opens, under a name that stays.

    model <-- link.write / on_data --> master | kernel | slave <-- path (symbolic link) <-- driver

The slave is never held open here: bytes sent while no host has the port open are lost, as on a real UART,
and the host's exclusive access ends with the host.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import tty
from collections.abc import Callable
from pathlib import Path

_LOOK_S = 0.02
"""How often a port that no host has open is looked at."""
_READ_BYTES = 4096


class PtyLink:
    """One port at `path`. `on_data` gets the host's bytes; `dropped_bytes` counts what nobody read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.dropped_bytes = 0
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
            spare = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            spare.unlink(missing_ok=True)
            spare.symlink_to(os.ttyname(slave))
            spare.replace(self.path)
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        self._master = master
        self._watch()

    def unplug(self) -> None:
        """The cable is pulled: the host's open port hangs up, the name is gone."""
        if self._master is None:
            return
        if self._look is not None:
            self._look.cancel()
            self._look = None
        asyncio.get_running_loop().remove_reader(self._master)
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

    def _watch(self) -> None:
        """Read while a host is there. A pty without one is always readable (EIO), so look now and then."""
        self._look = None
        if self._master is None:
            return
        loop = asyncio.get_running_loop()
        if self.host_is_there():
            loop.add_reader(self._master, self._read)
        else:
            self._look = loop.call_later(_LOOK_S, self._watch)

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
