"""The whole journal is verified in the background (finding F11)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.support.broker import until
from tests.support.chains import ChainMaker
from tests.support.tables import Play, make_setup

from dollyd.daemon.core.events import PlayHalted
from dollyd.daemon.core.state import Table
from dollyd.daemon.journal.audit import FIRST_AFTER_S, Audit, Auditor, last_audit
from dollyd.daemon.journal.file import audit_path
from dollyd.daemon.journal.store import Journal
from dollyd.simulators.clock import VirtualClock
from dollyd.wire.files import replace_file
from dollyd.wire.stamp import NS_PER_S

WAIT_S = 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of 60 rounds, in use by nobody."""
    path = tmp_path / "journal.db"
    with closing(Journal.open(path)) as journal:
        journal.append(ChainMaker().begin().play(1, 60, capture=b"raw frames").entries)
    return path


async def audited(path: Path) -> Audit:
    found: list[Audit] = []
    await Auditor(path, VirtualClock(), 3600, found.append).audit()
    assert [last_audit(path)] == found
    return found[0]


async def test_f11_a_sound_journal_is_verified_up_to_now(path: Path) -> None:
    found = await audited(path)
    assert (found.problems, found.records) == ((), 181)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM entry WHERE seq = 16",
        "UPDATE capture SET data = x'789c030000000001' WHERE entry = (SELECT min(entry) FROM capture)",
        "UPDATE entry SET envelope = CAST(replace(envelope, 'W', 'X') AS BLOB) WHERE seq = 16",
    ],
    ids=["hole", "capture", "record"],
)
async def test_f11_an_old_record_that_is_gone_or_changed_is_found(path: Path, damage: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        changed = connection.execute(damage).rowcount
        assert changed == 1
    found = await audited(path)
    assert found.problems


async def test_f11_it_is_done_some_time_after_a_start_and_then_as_often_as_configured(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, times = VirtualClock(), list[int]()

    async def note(_auditor: Auditor) -> None:
        times.append(clock.stamp().mono_ns)

    monkeypatch.setattr(Auditor, "audit", note)
    began_ns = clock.stamp().mono_ns
    task = asyncio.create_task(Auditor(path, clock, 3600, lambda _: None).run())
    for _ in range(3):
        await until(lambda: clock.next_wake_ns() is not None)
        clock.advance((clock.next_wake_ns() or 0) - clock.stamp().mono_ns)
        await until(lambda: clock.next_wake_ns() is not None)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    after_s = [(time_ns - began_ns) // NS_PER_S for time_ns in times]
    assert after_s == [FIRST_AFTER_S, FIRST_AFTER_S + 3600, FIRST_AFTER_S + 7200]


async def test_f11_a_verification_that_cannot_be_done_finds_nothing_and_ends_nothing(tmp_path: Path) -> None:
    found: list[Audit] = []
    auditor = Auditor(tmp_path / "none.db", VirtualClock(), 3600, found.append)
    await auditor.audit()
    assert found == []
    assert auditor.last is None


@pytest.mark.parametrize(("says", "halted"), [("block", "journal-unsound"), ("tell", "")])
def test_f11_the_profile_says_whether_an_unsound_journal_blocks(says: str, halted: str) -> None:
    setup = make_setup("A")
    setup = replace(setup, rules=msgspec.structs.replace(setup.rules, unsound_journal=says))
    play = Play(setup, Table(open=True, number=7))
    play.tell(PlayHalted("journal-unsound"))
    assert play.table.halted == halted
    play.tell(PlayHalted("disk-full,journal-unsound"))
    assert play.table.halted.split(",")[0] == "disk-full"
    play.tell(PlayHalted(""))
    assert play.table.halted == ""


def test_a_journal_that_is_put_aside_takes_along_what_was_found_of_it(path: Path) -> None:
    replace_file(audit_path(path), b"{}")
    path.write_bytes(b"no data base " * 1000)
    with closing(Journal.open(path)) as journal:
        assert journal.damage is not None
        assert last_audit(path) is None
        assert audit_path(journal.damage.path).exists()
