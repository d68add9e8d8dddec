"""Entry point: `dollyd` and `python -m dollyd.daemon`. Arguments to commands, errors to exit codes."""

from __future__ import annotations

import sys

from dollyd.daemon.cli import application
from dollyd.daemon.host.terminal import say
from dollyd.wire.errors import EXIT_CONFIG, ConfigError


def main() -> None:
    """Run the command line; each mistake in a configuration is one clear line, and the exit is 78."""
    try:
        application()
    except ConfigError as error:
        say(*(f"dollyd: {one}" for one in error.all), to_stderr=True)
        sys.exit(EXIT_CONFIG)


if __name__ == "__main__":
    main()
