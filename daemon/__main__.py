"""Entry point: `dollyd` and `python -m dollyd.daemon`. Arguments to commands, errors to exit codes."""

from __future__ import annotations

import sys

from dollyd.daemon.cli import application
from dollyd.daemon.errors import EXIT_CONFIG, ConfigError


def main() -> None:
    """Run the command line; a wrong configuration is one clear line and exit 78."""
    try:
        application()
    except ConfigError as error:
        print(f"dollyd: {error}", file=sys.stderr)  # noqa: T201  this is the operator's answer
        sys.exit(EXIT_CONFIG)


if __name__ == "__main__":
    main()
