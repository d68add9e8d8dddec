"""A timer of a table has no task: what goes wrong there must end the daemon all the same."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.support.daemon import Installation

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.journal.writer import Draft
from dollyd.daemon.settings.load import load
from dollyd.daemon.table.runner import TableRunner
from dollyd.wire.errors import JournalError


class FullSink:
    def submit(self, draft: Draft, /) -> None:
        raise JournalError("no more records are taken")


async def test_a_decision_at_a_timer_that_cannot_be_kept_ends_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = []
    settings = load(Installation(tmp_path, "127.0.0.1:1", variant="C").config).tables["r1"]
    runner = TableRunner(settings, FullSink(), SystemClock(), Random(1), lambda _: None, failures.append)
    monkeypatch.setattr(runner.engine, "deadline_ns", lambda: 0)
    monkeypatch.setattr(runner, "feed", lambda _op: FullSink().submit(None))  # type: ignore[arg-type]  # it only raises
    runner._on_timer()
    assert [str(failure) for failure in failures] == ["no more records are taken"]
