"""Watermarks, what is believed of nodes, and what the client needs of the machine."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from dollyd.client import (
    FileWatermarks,
    MemoryWatermarks,
    Nodes,
    NodeState,
    SqliteWatermarks,
    Watermark,
    WatermarkStore,
)
from dollyd.client.stream.watermark import session_of
from dollyd.wire.errors import ConfigError

A7 = Watermark("r1", "a", 7, "7" * 64)
A8 = Watermark("r1", "a", 8, "8" * 64, ("key-1", "key-2"), "kid-0")
B1 = Watermark("r2", "b", 1, "1" * 64)


def check_store(store: WatermarkStore) -> None:
    assert store.load() == {}
    for mark in (A8, B1, A7):
        store.save(mark)
    assert store.load() == {"a": A8, "b": B1}


def test_watermarks_in_memory() -> None:
    check_store(MemoryWatermarks())


def test_watermarks_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "marks.json"
    check_store(FileWatermarks(path))
    assert FileWatermarks(path).load() == {"a": A8, "b": B1}
    assert sorted(one.name for one in tmp_path.iterdir()) == [".marks.json.lock", "marks.json"]


def test_two_processes_never_share_a_file_of_watermarks(tmp_path: Path) -> None:
    path = tmp_path / "marks.json"
    FileWatermarks(path).save(A7)
    code = (
        "import sys; from pathlib import Path; from dollyd.client import FileWatermarks;"
        "FileWatermarks(Path(sys.argv[1]))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert other.returncode == 1
    assert "another process keeps its watermarks there; stop the other one" in other.stderr
    alone = subprocess.run([sys.executable, "-c", code, str(tmp_path / "other.json")], check=False)
    assert alone.returncode == 0


@pytest.mark.parametrize("content", [b"", b"{}", b'[{"table":"r1"}]', b"\x00" * 100])
def test_a_file_that_holds_no_watermarks_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "marks.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"marks\.json.*restore it from a copy.*pays twice"):
        FileWatermarks(path)
    assert path.read_bytes() == content


def test_a_crash_while_the_file_is_written_keeps_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "marks.json"
    store = FileWatermarks(path)
    store.save(A7)

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="space"):
        store.save(A8)
    assert FileWatermarks(path).load() == store.load() == {"a": A7}


@pytest.mark.parametrize("isolation_level", ["", None])
def test_watermarks_in_the_consumers_own_transaction(tmp_path: Path, isolation_level: str | None) -> None:
    path = tmp_path / "settlement.db"
    with closing(sqlite3.connect(path, isolation_level=isolation_level)) as database:  # type: ignore[arg-type]  # typeshed wants a literal
        check_store(SqliteWatermarks(database))
        store = SqliteWatermarks(database)
        database.execute("CREATE TABLE payout (bet TEXT)")
        for end in ("ROLLBACK", "COMMIT"):
            database.execute("BEGIN")
            database.execute("INSERT INTO payout VALUES ('x')")
            store.save(Watermark("r1", "a", 9, "9" * 64))
            database.execute(end)
            payouts = database.execute("SELECT count(*) FROM payout").fetchone()[0]
            assert (payouts, store.load()["a"].seq) == ((0, 8) if end == "ROLLBACK" else (1, 9))
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row  # as many a program has it
        assert SqliteWatermarks(database).load()["a"].seq == 9


def test_watermarks_of_an_older_version_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "marks.json"
    path.write_bytes(b'[{"table":"r1","chain":"a","seq":7,"digest":"%s","keys":[]}]' % (b"7" * 64))
    with closing(sqlite3.connect(tmp_path / "settlement.db")) as database:
        database.execute(
            "CREATE TABLE dollyd_watermark (chain TEXT PRIMARY KEY, table_name TEXT NOT NULL,"
            " seq INTEGER NOT NULL, digest TEXT NOT NULL, keys TEXT NOT NULL)"
        )
        database.execute("INSERT INTO dollyd_watermark VALUES ('a', 'r1', 7, ?, '')", (A7.digest,))
        for store in (FileWatermarks(path), SqliteWatermarks(database)):
            assert store.load() == {"a": A7}
            store.save(A8)
            assert store.load() == {"a": A8}
        assert SqliteWatermarks(database).load() == {"a": A8}


# --- nodes ----------------------------------------------------------------------------------------

UTC_S = 1_800_000_000.0


def status(state: str, session: int, valid_until_s: float = 0.0) -> bytes:
    until = datetime.fromtimestamp(valid_until_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000000Z")
    told = {"state": state, "node": "n1", "session": session, "version": "1", "time": "t"}
    if state == "online":
        told |= {"valid_until": until, "valid_for_s": 30}
    return msgspec.json.encode(told)


def test_b34_the_will_of_an_older_session_is_ignored_while_the_newer_one_lives() -> None:
    nodes = Nodes()
    assert nodes.state("n1", 0) is NodeState.UNKNOWN
    nodes.take("n1", status("online", 5), 0, UTC_S, retained=False)
    nodes.take("n1", status("offline", 4), 1, UTC_S, retained=False)
    assert nodes.state("n1", 2) is NodeState.ONLINE
    assert nodes.ignored == 1
    nodes.take("n1", status("offline", 5), 3, UTC_S, retained=False)
    assert nodes.state("n1", 3) is NodeState.OFFLINE
    nodes.take("n1", status("online", 6), 4, UTC_S, retained=False)
    assert nodes.states(4) == {"n1": NodeState.ONLINE}


def test_b35_an_online_that_is_not_said_again_expires() -> None:
    nodes = Nodes()
    nodes.take("n1", status("online", 5), 100, UTC_S, retained=False)
    assert nodes.state("n1", 129) is NodeState.ONLINE
    assert nodes.state("n1", 130) is NodeState.EXPIRED
    nodes.take("n1", status("online", 1), 140, UTC_S, retained=False)  # set up anew
    assert nodes.state("n1", 141) is NodeState.ONLINE


def test_b35_a_retained_online_is_worth_what_is_left_of_it() -> None:
    nodes = Nodes()
    nodes.take("n1", status("online", 5, UTC_S - 1), 0, UTC_S, retained=True)
    assert nodes.state("n1", 0) is NodeState.EXPIRED
    nodes.take("n1", status("online", 5, UTC_S + 10), 0, UTC_S, retained=True)
    assert nodes.state("n1", 9) is NodeState.ONLINE
    assert nodes.state("n1", 10) is NodeState.EXPIRED
    nodes.take("n1", status("online", 5, UTC_S + 9999), 0, UTC_S, retained=True)  # its clock is ahead
    assert nodes.state("n1", 30) is NodeState.EXPIRED
    nodes.take(
        "n1", status("online", 5, UTC_S - 9999), 0, UTC_S, retained=False
    )  # fresh: clocks do not matter
    assert nodes.state("n1", 29) is NodeState.ONLINE


@pytest.mark.parametrize("payload", [b"", b"{}", b"\xff", status("online", 1).replace(b"1970", b"never")])
def test_a_status_that_is_none_is_counted(payload: bytes) -> None:
    nodes = Nodes()
    nodes.take("n1", payload, 0, UTC_S, retained=True)
    nodes.take("n2", status("online", 1), 0, UTC_S, retained=True)
    assert nodes.states(0) == {}
    assert nodes.ignored == 2


# --- the package ----------------------------------------------------------------------------------


def test_the_client_needs_nothing_of_the_hardware() -> None:
    code = (
        "import sys\n"
        "for name in ('serial', 'usb', 'dollyd.drivers', 'dollyd.daemon.journal.store'):\n"
        "    sys.modules[name] = None\n"
        "import dollyd.client\n"
        "[getattr(dollyd.client, name) for name in dollyd.client.__all__]\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_attack_15_the_session_is_known_to_nobody_and_outlives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "marks.json"
    first = FileWatermarks(path).session()
    assert len(first) == 32
    assert FileWatermarks(path).session() == first
    kept = tmp_path / "marks.json.session"
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text(first[:7])  # cut off by a power cut
    again = FileWatermarks(path).session()
    assert again != first
    assert FileWatermarks(path).session() == again

    with closing(sqlite3.connect(tmp_path / "bets.db")) as database:
        ours = SqliteWatermarks(database).session()
    with closing(sqlite3.connect(tmp_path / "bets.db")) as database:
        assert SqliteWatermarks(database).session() == ours
    assert len({first, again, ours, MemoryWatermarks().session(), MemoryWatermarks().session()}) == 5


def test_attack_15_a_store_that_keeps_no_session_gives_one_of_this_process() -> None:
    class Plain:
        def load(self) -> dict[str, Watermark]:
            return {}

        def save(self, watermark: Watermark) -> None:
            raise NotImplementedError

    assert session_of(Plain()) != session_of(Plain())
