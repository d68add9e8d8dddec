"""Runs in the machine: prints the envelopes of the journal that is named, one a line."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from dollyd.client.sources import JournalFile


def main() -> None:
    """Print them."""
    with closing(JournalFile(Path(sys.argv[1]))) as journal:
        for envelope in journal.envelopes(check_structure=False):
            sys.stdout.buffer.write(envelope + b"\n")


if __name__ == "__main__":
    main()
