"""One process at a time at a file: a lock that the kernel drops with the process, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_HELD: dict[tuple[int, Path], int] = {}
"""By process and lock file: a process that asks again has it already, its child has not."""


def lock(path: Path) -> bool:
    """Hold the file until the process ends; tells whether no other process has it. Raises `OSError`.

    The lock is a file of its own beside it, `.<name>.lock`, which stays. Windows has no such locks: there the
    operator sees to it.
    """
    if sys.platform == "win32":
        return True
    beside = path.absolute().with_name(f".{path.name}.lock")
    key = (os.getpid(), beside)
    if key in _HELD:
        return True
    descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    _HELD[key] = descriptor
    return True
