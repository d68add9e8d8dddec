"""What a durable file needs beyond its own fsync."""

from __future__ import annotations

import os
from pathlib import Path


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
