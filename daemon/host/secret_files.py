"""Files that hold a secret: one rule for all of them, wherever they are read.

The node's key, the keys shared with devices, the broker's password, the key of a client certificate: a
regular file that nobody but its owner may read or write, and whose owner is this user or root.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dollyd.wire.errors import ConfigError
from dollyd.wire.files import FILE_MAX_BYTES, cure, open_file

_CREDENTIALS = "/run/credentials"
_ROOT = 0


def read_secret(path: Path, *, config_file: str, key: str, remedy: str) -> bytes:
    """What is in a secret file. `config_file` and `key` say where it was named, `remedy` what it should be.

    An empty `key` is that of a command's own option, which may be given a pipe.

    Raises `ConfigError` for a file that is missing, unreadable, too long, or readable or writable by others.
    """

    def refused(problem: str, remedy: str) -> ConfigError:
        return ConfigError(config_file, key, f"{path} {problem}", remedy)

    try:
        with open_file(path) if key else path.open("rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        raise refused("does not exist", remedy) from None
    except OSError as error:
        raise refused(f"cannot be read: {error.strerror}", cure(error, remedy)) from error
    if len(data) > FILE_MAX_BYTES:
        raise refused(f"has more than {FILE_MAX_BYTES} bytes", remedy)
    mode = stat.S_IMODE(found.st_mode)
    if mode & _bits_of_others(path):
        raise refused(f"can be read by others (mode {mode:04o})", f"run `chmod 0600 {path}`")
    if stat.S_ISREG(found.st_mode) and os.geteuid() not in {_ROOT, found.st_uid} and found.st_uid != _ROOT:
        raise refused(f"belongs to user {found.st_uid}", "give it to the user who reads it, or to root")
    return data


def write_secret(path: Path, data: bytes) -> None:
    """Make a secret file: a new one, mode 0600, and nothing half made.

    Raises `OSError`, `FileExistsError` where something is there.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _bits_of_others(path: Path) -> int:
    # systemd grants a credential to the service's user by an ACL, whose mask shows as the group's bits;
    # the directory around it is closed to everybody else, and below /run/credentials it is systemd's.
    in_credentials = path.is_relative_to(_CREDENTIALS) or (
        str(path.parent) == os.environ.get("CREDENTIALS_DIRECTORY")
    )
    return stat.S_IRWXO if in_credentials else stat.S_IRWXG | stat.S_IRWXO
