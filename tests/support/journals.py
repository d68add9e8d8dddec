"""Journals as a killed daemon leaves them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from tests.support.chains import ChainMaker

from dollyd.daemon.journal import Journal


def filled(path: Path, rounds: int = 5) -> ChainMaker:
    """A journal as a killed process leaves it: the newest records are in the WAL only."""
    maker = ChainMaker().begin().play(1, rounds)
    code = (
        "import os, pickle, sys; from pathlib import Path; from dollyd.daemon.journal import Journal;"
        "journal = Journal.open(Path(sys.argv[1])); entries = pickle.load(sys.stdin.buffer);"
        "[journal.append([entry]) for entry in entries]; os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], input=pickle.dumps(maker.entries), check=False)
    return maker


def envelopes(journal: Journal) -> list[bytes]:
    return [entry.envelope for entry in journal.entries_after(0, 10_000)]
