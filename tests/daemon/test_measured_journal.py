from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.support.chains import ChainMaker

from dollyd.daemon.journal.measured_journal import MeasuredJournal


def test_commits_and_captures_are_measured(tmp_path: Path) -> None:
    with closing(MeasuredJournal.open(tmp_path / "journal.db")) as journal:
        maker = ChainMaker().begin().play(1, 4, b"raw frames of a round")
        assert journal.captures_bytes() == 0
        for entry in maker.entries[:7]:
            journal.append([entry])
        kept = journal.captures_bytes()
        assert (journal.commits.count, kept > 0) == (7, True)
        assert journal.commits.max_us >= journal.commits.last_us > 0
        journal.keep_captures = False
        journal.append(maker.entries[7:])
        assert (journal.captures_left_out, journal.captures_bytes()) == (2, kept)
        while journal.prune_captures(0):
            pass
        assert (journal.captures_pruned, journal.captures_bytes()) == (2, 0)
