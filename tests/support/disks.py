"""Small disks of their own, for tests that fill them or take the right to write away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MB = 1_000_000


@contextmanager
def small_disk(mount_point: Path, size_mb: int = 50) -> Iterator[Path]:
    """A tmpfs of this size; skips the test where nobody may mount one."""
    mount_point.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    options = ("-o", f"size={size_mb * MB}", "tmpfs", str(mount_point))
    made = subprocess.run(["mount", "-t", "tmpfs", *options], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no disk can be mounted here: {made.stderr.strip()}")
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", "-l", str(mount_point)], check=True)


def remount(mount_point: Path, mode: str) -> None:
    """`ro` or `rw`."""
    subprocess.run(["mount", "-o", f"remount,{mode}", str(mount_point)], check=True)


def free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def fill(disk: Path, leave_bytes: int) -> Path:
    """Take room on a disk until so much is left; gives the file that takes it."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free_bytes(disk) - leave_bytes))
    return filler
