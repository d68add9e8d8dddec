"""Programs that run as a user who has no rights of his own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534
# Who has no rights may not see Python's library either: what is imported late is imported here, by use.
_AS_NOBODY = f"""import encodings.idna
from contextlib import suppress
from dollyd.daemon.cli import application
from dollyd.wire.errors import ConfigError
from dollyd.daemon.settings.load import shipped_table
shipped_table("roulette", "A", "cammegh-ss2")
with suppress(ConfigError):
    application(["check", "--config", "/nowhere"], standalone_mode=False)
import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})"""
NO_ROOT = "only root can become another user" if os.geteuid() else ""
"""Why a test that needs `as_nobody` must be skipped; empty where it need not."""


def as_nobody(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what stands in its first line is done by root."""
    first, _, rest = code.partition("\n")
    return subprocess.run(
        [sys.executable, "-c", f"{first}\n{_AS_NOBODY}\n{rest}", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def dollyd_as_nobody(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """One run of the command line to its end."""
    return as_nobody("from dollyd.daemon.__main__ import main\nmain()", *arguments)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that everybody may look into; those of pytest are closed."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
