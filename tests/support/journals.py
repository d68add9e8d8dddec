"""Journals as a killed daemon leaves them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.support.chains import SITE, ChainMaker

from dollyd.daemon.evidence.export import Texts, Wanted, export
from dollyd.daemon.journal.store import Journal


def filled(path: Path, rounds: int = 5) -> ChainMaker:
    """A journal as a killed process leaves it: the newest records are in the WAL only."""
    maker = ChainMaker().begin().play(1, rounds)
    code = (
        "import os, pickle, sys; from pathlib import Path; from dollyd.daemon.journal.store import Journal;"
        "journal = Journal.open(Path(sys.argv[1])); entries = pickle.load(sys.stdin.buffer);"
        "[journal.append([entry]) for entry in entries]; os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], input=pickle.dumps(maker.entries), check=False)
    return maker


def journal_of(path: Path, maker: ChainMaker) -> Path:
    """A journal with all records of a chain."""
    with closing(Journal.open(path)) as journal:
        journal.append(maker.entries)
    return path


def envelopes(journal: Journal) -> list[bytes]:
    return [entry.envelope for entry in journal.entries_after(0, 10_000)]


def evidence_of(path: Path, maker: ChainMaker, trust: bytes) -> Path:
    """An evidence file of a chain, with this trust file in it and no rule texts."""
    journal = journal_of(path.with_suffix(".db"), maker)
    texts = Texts(SITE, {"rulebooks": {}, "profiles": {}, "layouts": {}}, b"", trust)
    with closing(Journal.open(journal, read_only=True)) as opened:
        export(path, opened, Wanted(), texts, 0)
    return path
