"""The machine as its files and its commands show it. Tests give it another root and another runner."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_COMMAND_S = 5.0
"""No question to the machine may take longer."""


def run_command(words: Sequence[str]) -> str:
    """What a command prints; empty where it is not there, may not or does not end. Changes nothing."""
    try:
        done = subprocess.run(  # noqa: S603  the words are ours, and no shell reads them
            words, capture_output=True, timeout=_COMMAND_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Host:
    """Where `/` is, and how a command is run. All names are given as on the machine itself."""

    root: Path = Path("/")
    run: Callable[[Sequence[str]], str] = run_command

    def path(self, name: str | Path) -> Path:
        """Where a file of the machine is to be found."""
        return self.root / str(name).lstrip("/")

    def read(self, name: str | Path) -> str:
        """The text of a file without the blanks around it; empty where it cannot be read."""
        try:
            return self.path(name).read_text("utf-8", errors="replace").strip()
        except OSError:
            return ""

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; nothing where it cannot be read."""
        try:
            return sorted(entry.name for entry in self.path(folder).iterdir())
        except OSError:
            return []

    def real(self, name: str | Path) -> str:
        """A name with all its links followed, as the machine itself would give it."""
        found = os.path.realpath(self.path(name))
        root = os.path.realpath(self.root)
        return "/" + found.removeprefix(root).lstrip("/") if found.startswith(root) else found
