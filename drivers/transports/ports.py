"""Names of serial ports, what their errors mean, and who holds them."""

from __future__ import annotations

import errno
import os
import termios
from pathlib import Path

DRIVER_ERROR = "driver-error"
"""Cause of whatever a library raises that no transport knows by name."""
SETTINGS_CHANGED = "settings-changed"
"""Cause of an open port that another program has set otherwise."""
_CAUSES = {
    errno.ENOENT: "not-found",
    errno.ENOTDIR: "not-found",
    errno.ELOOP: "not-found",
    errno.EACCES: "no-permission",
    errno.EPERM: "no-permission",
    errno.EBUSY: "busy",
    errno.EAGAIN: "busy",  # the lock (flock) is taken
    errno.ENOTTY: "not-a-port",
    errno.EIO: "gone",
    errno.ENODEV: "gone",
    errno.ENXIO: "gone",
}


def device_node(port: str) -> str:
    """The kernel's node behind a stable name such as /dev/serial/by-id/...

    A replugged adapter may get another node, so this is asked at every open.
    """
    return os.path.realpath(port)


def cause_of(error: Exception) -> str:
    """A short word for what went wrong with a port.

    `io-error` where the kernel's number says no more, `driver-error` for what is no trouble of the system.
    """
    for step in (error, error.__cause__, error.__context__):
        number = step.errno if isinstance(step, OSError) else None
        if isinstance(step, termios.error):  # no OSError: (number, text)
            number = step.args[0]
        if number is not None:
            return _CAUSES.get(number, "io-error")
    return "io-error" if isinstance(error, OSError | termios.error) else DRIVER_ERROR


def holders(port: str, proc: Path = Path("/proc")) -> list[str]:
    """Processes that have the port open, e.g. `brltty (pid 812)`; without privileges only our own user's.

    Walks all of /proc, which takes milliseconds: ask when the answer is shown to somebody, not per retry.
    """
    node = device_node(port)
    processes = (entry for entry in proc.iterdir() if entry.name.isdigit()) if proc.is_dir() else ()
    return sorted(
        f"{_command(process)} (pid {process.name})" for process in processes if _has_open(process, node)
    )


def _has_open(process: Path, node: str) -> bool:
    try:
        return any(_target(fd) == node for fd in (process / "fd").iterdir())
    except OSError:  # another user's, or it has ended: it stays unnamed
        return False


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except OSError:  # closed while we looked
        return ""


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text("utf-8", errors="replace").strip()
    except OSError:
        return "?"
