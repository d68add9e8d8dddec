"""Runs on the machine under test, `inside.py JOURNAL`: prints its records, JSON, one a line."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from dollyd.client.proof.sources import JournalFile
from dollyd.wire.jws import parse_envelope


def main() -> None:
    """Print them."""
    with closing(JournalFile(Path(sys.argv[1]))) as journal:
        for envelope in journal.envelopes(check_structure=False):
            print(json.dumps(json.loads(parse_envelope(envelope).payload)))


if __name__ == "__main__":
    main()
