"""Runs in the machine: prints the envelopes of a journal in use, one a line, behind entry number SINCE.

    inside.py JOURNAL SINCE

Needs nothing but Python: under emulation every import counts.
"""

import sqlite3
import sys


def main() -> None:
    """Print them."""
    journal = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
    rows = journal.execute("SELECT envelope FROM entry WHERE id > ? ORDER BY id", (int(sys.argv[2]),))
    sys.stdout.buffer.writelines(envelope + b"\n" for (envelope,) in rows)


if __name__ == "__main__":
    main()
