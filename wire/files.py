"""Files that an operator names, looked for and read; and what a durable file needs beyond its own fsync."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO

FILE_MAX_BYTES = 1 << 20
"""No file that a configuration names is longer: passwords, keys, rules, certificates."""


class Sight(Enum):
    """What can be seen of a path."""

    THERE = auto()
    MISSING = auto()
    HIDDEN = auto()
    """Behind a folder that this user may not look into."""


def look_for(path: Path) -> Sight:
    """Whether something is at a path, links followed. Never raises."""
    try:
        path.stat()
    except PermissionError:
        return Sight.HIDDEN
    except (OSError, ValueError):  # ValueError: nothing can be called so
        return Sight.MISSING
    return Sight.THERE


def open_file(path: Path) -> BinaryIO:
    """Open a file to be read. Raises `OSError`, also for what is no file and for a name that none can have.

    A pipe would keep us waiting, a device never end, and a serial port take its opening for a sign.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EINVAL, "Not a file", str(path))
        return path.open("rb")
    except ValueError as error:  # a NUL, or letters that this system cannot write
        raise OSError(errno.EINVAL, "No file can be called so", ascii(str(path))) from error


def read_file(path: Path) -> bytes:
    """What is in a file. Raises `OSError` as `open_file`, and for one that is too long."""
    with open_file(path) as file:
        data = file.read(FILE_MAX_BYTES + 1)
    if len(data) > FILE_MAX_BYTES:
        raise OSError(errno.EFBIG, f"Longer than {FILE_MAX_BYTES} bytes", str(path))
    return data


def cure(error: OSError, remedy: str) -> str:
    """What is to be done about a file that cannot be read; where a right is missing, that comes first."""
    if isinstance(error, PermissionError):
        return "let dollyd's user read it and pass the folders above it; if you are another, run this as root"
    return remedy


def sync_file(path: Path) -> None:
    """Make a file's content durable. Raises `OSError`."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_directory(path: Path) -> None:
    """Make new and changed names in a directory durable. Raises `OSError`."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def replace_file(path: Path, data: bytes, *, like: Path | None = None) -> None:
    """Replace a file as a whole, or make it: durable when this returns, its name too. Raises `OSError`.

    Nobody sees a part of it, and after a crash there is the old one or the new one. What stands at the name
    of the spare file, a link to another among others, is removed and never written through. `like`: a file
    whose owner and mode the new one is given.
    """
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with new.open("xb") as out:
        if like is not None:
            give_to_owner_of(like, out.fileno())
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    new.replace(path)
    sync_directory(path.parent)


def give_to_owner_of(path: Path, file: int) -> None:
    """Give an open file the owner and the mode of another: what root makes is for the daemon's user.

    Who is neither root nor the owner may not, and has nothing to give. Raises `OSError`.
    """
    wanted = path.stat()
    with suppress(PermissionError):
        os.fchown(file, wanted.st_uid, wanted.st_gid)
        os.fchmod(file, stat.S_IMODE(wanted.st_mode))
