"""The writer: order, group commit, durable before it is told, and a full stop when something fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from tests.support.chains import decision, keys, signer

from dollyd.client.proof.verify import verify_envelopes
from dollyd.daemon.host.clock import Clock, Quality
from dollyd.daemon.journal.damage import Damage
from dollyd.daemon.journal.store import Entry, Journal, NewEntry
from dollyd.daemon.journal.writer import CROWD, Draft, Writer, chain_start
from dollyd.wire.errors import InvariantError, JournalError
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import ClockBody, Kind, encode
from dollyd.wire.stamp import NS_PER_S, Stamp

AT = Stamp(NS_PER_S, 1_796_000_000 * NS_PER_S)
WAIT_S = 10


class QuietClock:
    """A clock that says how often it was asked."""

    boot = "boot-1"

    def __init__(self) -> None:
        self.asked = 0

    def stamp(self) -> Stamp:
        return AT

    def quality(self) -> Quality:
        self.asked += 1
        return Quality(synchronised=True, error_bound_us=self.asked)

    async def sleep_until(self, mono_ns: int) -> None:
        raise NotImplementedError


class Desk:
    """A writer on a journal, and what it told."""

    def __init__(self, journal: Journal, crowd: int = CROWD) -> None:
        self.journal = journal
        self.clock = QuietClock()
        self.written: list[list[Entry]] = []
        self.failures: list[Exception] = []
        self.failed = threading.Event()
        self.crowds: list[bool] = []
        clock: Clock = self.clock
        self.writer = Writer(
            journal,
            signer(),
            site="house",
            node="node-1",
            clock=clock,
            on_written=self._told,
            on_failure=self._failure,
            on_crowded=self._crowd,
            crowd=crowd,
        )

    def _crowd(self, crowded: bool) -> None:
        self.crowds.append(crowded)

    def _told(self, entries: list[Entry]) -> None:
        self.written.append(entries)

    def _failure(self, error: Exception) -> None:
        self.failures.append(error)
        self.failed.set()

    def begin(self, *tables: str) -> None:
        for table in tables:
            tail = self.journal.tail(table)
            self.writer.start_chain(table, tail)
            if tail is None:
                self.writer.submit(chain_start(table, signer(), AT, self.journal.damage))

    @property
    def payloads(self) -> list[dict[str, object]]:
        return [
            msgspec.json.decode(parse_envelope(entry.envelope).payload)
            for entries in self.written
            for entry in entries
        ]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "journal.db")
    yield opened
    opened.close()


@pytest.fixture
def desk(journal: Journal) -> Iterator[Desk]:
    made = Desk(journal)
    yield made
    made.writer.close()


def _clock_draft(table: str, number: int = 0, at: Stamp = AT) -> Draft:
    return Draft(table, Kind.CLOCK, 0, encode(ClockBody(step_ns=number)), at)


def test_a_record_is_signed_chained_and_kept(desk: Desk) -> None:
    capture = b"raw frames"
    desk.begin("r1")
    desk.writer.submit(Draft("r1", Kind.ROUND, 1, b"{}", AT))
    desk.writer.submit(Draft("r1", Kind.RESULT, 1, msgspec.json.encode(decision(capture)), AT, capture))
    desk.writer.start()
    desk.writer.close()
    entries = desk.journal.entries_after(0, 10)
    assert [(e.table, e.seq, e.kind, e.round, e.final) for e in entries] == [
        ("r1", 1, "key", 0, False),
        ("r1", 2, "round", 1, False),
        ("r1", 3, "result", 1, True),
    ]
    assert [entry for batch in desk.written for entry in batch] == entries
    assert desk.journal.capture(entries[0].chain, 3) == capture
    last = desk.payloads[2]
    assert last["time"] == {
        "utc": "2026-11-30T00:53:20.000000000Z",
        "monotonic_ns": NS_PER_S,
        "boot": "boot-1",
        "synchronised": True,
        "error_bound_us": 1,
    }
    assert last["prev"] == sha256(entries[1].envelope).hexdigest()
    assert last["body"] == decision(capture)
    assert list(last) == [
        *("v", "kind", "site", "node", "table", "chain", "seq", "prev", "round", "time", "body")
    ]
    report = verify_envelopes((e.envelope for e in entries), keys(signer()), desk.journal.capture)
    assert report.ok
    assert report.captures == 1


def test_order_is_that_of_submit_and_commits_are_shared(desk: Desk) -> None:
    desk.begin("r1", "r2")
    for number in range(1000):
        desk.writer.submit(_clock_draft("r1" if number % 3 else "r2", number))
    desk.writer.start()
    desk.writer.close()
    bodies = [payload["body"] for payload in desk.payloads][2:]
    assert bodies == [{"step_ns": number} for number in range(1000)]
    assert len(desk.written) == 4  # 1002 records, at most 256 a commit
    assert verify_envelopes(e.envelope for e in desk.journal.entries_after(0, 2000)).ok


def test_a_chain_goes_on_after_a_restart(journal: Journal) -> None:
    for _ in range(3):
        desk = Desk(journal)
        desk.begin("r1")
        desk.writer.submit(_clock_draft("r1"))
        desk.writer.start()
        desk.writer.close()
    entries = journal.entries_after(0, 10)
    assert [entry.seq for entry in entries] == [1, 2, 3, 4]
    assert len({entry.chain for entry in entries}) == 1
    assert verify_envelopes(e.envelope for e in entries).ok


def test_every_new_chain_has_its_own_random_name(desk: Desk) -> None:
    names = {desk.writer.start_chain(f"t{n}", None) for n in range(50)}
    assert len(names) == 50
    assert all(len(name) == 32 and int(name, 16) for name in names)


def test_the_first_record_tells_of_the_damaged_journal() -> None:
    damage = Damage(Path("/var/lib/journal.db.damaged-1"), "torn", {"r1": ("a" * 32, 77)})
    body = msgspec.json.decode(chain_start("r1", signer(), AT, damage).body)
    assert body == {
        "event": "chain-start",
        "jwk": signer().jwk,
        "reason": "journal-damaged: journal.db.damaged-1",
        "previous_chain": "a" * 32,
        "previous_seq": 77,
    }
    unknown = msgspec.json.decode(chain_start("r2", signer(), AT, damage).body)
    assert set(unknown) == {"event", "jwk", "reason"}
    assert msgspec.json.decode(chain_start("r1", signer(), AT, None).body)["reason"] == "new-journal"


def test_a_chain_must_begin_with_its_key(desk: Desk) -> None:
    desk.writer.start_chain("r1", None)
    desk.writer.submit(_clock_draft("r1"))
    desk.writer.start()
    assert desk.failed.wait(WAIT_S)
    assert isinstance(desk.failures[0], InvariantError)
    assert desk.journal.last_id == 0


def test_the_clocks_quality_is_asked_once_a_second(desk: Desk) -> None:
    desk.begin("r1")
    for tenth in range(25):
        desk.writer.submit(_clock_draft("r1", 0, Stamp(AT.mono_ns + tenth * NS_PER_S // 10, AT.utc_ns)))
    desk.writer.start()
    desk.writer.close()
    assert desk.clock.asked == 3


# --- limits and failure --------------------------------------------------------------------------


def test_attack_4_a_full_queue_is_told_and_waited_out_and_refuses_no_record(journal: Journal) -> None:
    desk = Desk(journal, crowd=3)
    desk.begin("r1")
    for _ in range(9):
        desk.writer.submit(_clock_draft("r1"))
    assert desk.crowds == [True], "told once, when the fourth came"
    desk.writer.start()
    desk.writer.close()
    assert desk.crowds == [True, False]
    assert journal.last_id == 10
    assert desk.failures == []


def test_the_queue_tells_its_age(journal: Journal) -> None:
    desk = Desk(journal)
    desk.begin("r1")
    for _ in range(2):
        desk.writer.submit(_clock_draft("r1"))
    assert desk.writer.depth == 3
    assert desk.writer.oldest_ms(Stamp(AT.mono_ns + 1_500_000_000, AT.utc_ns)) == 1500
    assert desk.writer.oldest_ms(Stamp(AT.mono_ns - 1, AT.utc_ns)) == 0  # B51: never negative
    desk.writer.start()
    desk.writer.close()
    assert journal.last_id == 3
    assert desk.writer.depth == 0
    assert desk.writer.oldest_ms(AT) == 0


def _hold_append(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> tuple[threading.Event, threading.Event]:
    """Make the journal's disk hang until the second event is set; the first says that it hangs."""
    hangs, go_on = threading.Event(), threading.Event()
    append = journal.append

    def slow(entries: Sequence[NewEntry]) -> list[Entry]:
        hangs.set()
        go_on.wait(WAIT_S)
        return append(entries)

    monkeypatch.setattr(journal, "append", slow)
    return hangs, go_on


def test_a_slow_disk_holds_up_nobody_and_is_seen(
    desk: Desk, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, go_on = _hold_append(journal, monkeypatch)
    desk.begin("r1")
    desk.writer.start()
    assert hangs.wait(WAIT_S)
    desk.writer.submit(_clock_draft("r1"))
    assert desk.writer.depth == 2  # what is in the hanging commit counts as well
    assert desk.written == []
    go_on.set()
    desk.writer.close()
    assert [len(entries) for entries in desk.written] == [1, 1]


def test_close_does_not_wait_for_ever(desk: Desk, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, go_on = _hold_append(journal, monkeypatch)
    desk.begin("r1")
    desk.writer.start()
    assert hangs.wait(WAIT_S)
    with pytest.raises(JournalError, match="1 records were not written"):
        desk.writer.close(0.01)
    with pytest.raises(JournalError, match="closed"):
        desk.writer.submit(_clock_draft("r1"))
    go_on.set()


def _disk_full(_entries: Sequence[NewEntry]) -> list[Entry]:
    raise JournalError("database or disk is full")


def _told_wrong(_entries: list[Entry]) -> None:
    raise RuntimeError("the loop is gone")


@pytest.mark.parametrize("fails", ["journal", "signer", "listener"])
def test_a_failure_stops_everything_once(
    desk: Desk, journal: Journal, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    desk.begin("r1")
    for number in range(600):
        desk.writer.submit(_clock_draft("r1", number))
    failing: dict[str, Callable[[], None]] = {
        "journal": lambda: monkeypatch.setattr(journal, "append", _disk_full),
        "signer": lambda: monkeypatch.setattr(desk.writer._signer, "sign", _told_wrong),
        "listener": lambda: monkeypatch.setattr(desk.writer, "_on_written", _told_wrong),
    }
    failing[fails]()
    desk.writer.start()
    assert desk.failed.wait(WAIT_S)
    with pytest.raises(JournalError, match="failed"):
        desk.writer.submit(_clock_draft("r1"))
    desk.writer.close()
    assert len(desk.failures) == 1
    assert desk.written == []
    assert journal.last_id == (256 if fails == "listener" else 0)


def test_b45_fsync_comes_before_anybody_is_told(tmp_path: Path) -> None:
    """The kernel's own account of it: the record's bytes, then fsync, then the listener's output."""
    code = """
import os, sys
from pathlib import Path
from dollyd.daemon.journal.store import Journal
from tests.daemon.test_writer import Desk, _clock_draft
desk = Desk(Journal.open(Path(sys.argv[1])))
desk.writer._on_written = lambda entries: [os.write(1, b"told %d\\n" % entry.seq) for entry in entries]
desk.begin("r1")
desk.writer.start()
for number in range(5):
    while desk.writer.depth:
        pass
    desk.writer.submit(_clock_draft("r1", number))
desk.writer.close()
"""
    trace = tmp_path / "trace"
    command = [
        "strace",
        "-f",
        "-y",
        "-s",
        "16",
        "-o",
        str(trace),
        "-e",
        "trace=write,pwrite64,fsync,fdatasync",
    ]
    if shutil.which("strace") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("no strace here, or it may not trace")
    subprocess.run(
        [*command, sys.executable, "-c", code, str(tmp_path / "journal.db")],
        cwd=Path(__file__).parents[2],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    steps = []
    for line in trace.read_text("utf-8", "replace").splitlines():
        if "journal.db-wal" in line:
            steps.append("sync" if "sync(" in line else "write")
        elif '"told ' in line:
            steps.append("told")
    assert steps.count("told") == 6
    for at, step in enumerate(steps):
        if step == "told":
            before = [other for other in steps[:at] if other != "told"]
            assert before[-1] == "sync"
            assert "write" in steps[max((n for n in range(at) if steps[n] == "told"), default=0) : at]
