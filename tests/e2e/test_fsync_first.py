"""The kernel's own account of the real daemon: a record is on the disk before its first byte leaves."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.broker import until
from tests.support.daemon import TOPICS, Consumer, Daemon, Installation
from tests.support.simulated_table import SimulatedTable, playing

RECORDS = 8
_CALLS = "trace=write,pwrite64,pwritev,fsync,fdatasync,sendto,sendmsg"
_LINE = re.compile(rb"(?P<pid>\d+) +(?P<call>\w+)\((?P<rest>.*)", re.DOTALL)
_RESUMED = re.compile(rb"(?P<pid>\d+) +<\.\.\. f(data)?sync resumed>")


class TracedDaemon(Daemon):
    """The daemon under strace, which stands aside (-D): signals go to the daemon."""

    @property
    def trace(self) -> Path:
        return self.installation.directory / "trace"

    def start(self) -> None:
        strace = ["strace", "-D", "-f", "-y", "-xx", "-s", "100000", "-o", str(self.trace), "-e", _CALLS]
        if shutil.which("strace") is None or subprocess.run([*strace, "true"], check=False).returncode:
            pytest.skip("no strace here, or it may not trace")
        run = [sys.executable, "-m", "dollyd.daemon", "run", "--config", str(self.installation.config)]
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [*strace, *run], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )


def steps(trace: Path) -> Iterator[tuple[str, bytes]]:
    """`write`: bytes on their way into the journal; `sync`: one has ended; `send`: bytes of a socket."""
    syncing: set[bytes] = set()
    for raw in trace.read_bytes().splitlines():
        line = re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), raw)
        if (resumed := _RESUMED.match(line)) and resumed["pid"] in syncing:
            syncing.remove(resumed["pid"])
            yield "sync", b""
        elif call := _LINE.match(line):
            if b"sync" in call["call"]:
                if b"journal.db-wal" not in call["rest"]:
                    continue
                if b"<unfinished" in call["rest"]:
                    syncing.add(call["pid"])
                else:
                    yield "sync", b""
            elif b"journal.db-wal" in call["rest"][:500]:
                yield "write", call["rest"]
            elif b"<socket:" in call["rest"][:100] or b"<TCP" in call["rest"][:100]:
                yield "send", call["rest"]


def marks(envelope: bytes) -> tuple[bytes, ...]:
    """Parts of a record's signature: one of them is whole, wherever a page of the journal ends."""
    signature = envelope.rpartition(b'"signature":"')[2].rstrip(b'"}')
    assert len(signature) == 86
    return signature[:28], signature[28:56], signature[56:]


async def test_b45_every_record_is_synced_before_the_first_byte_of_its_publish(
    installation: Installation, table: SimulatedTable, consumer: Consumer
) -> None:
    with TracedDaemon(installation) as daemon:
        await daemon.started()
        await playing(table, consumer, 2)
        assert await daemon.stop() == 0
    await until(lambda: b"+++ exited with 0" in daemon.trace.read_bytes()[-500:])
    records = consumer.records
    assert len(records) >= RECORDS
    course = await asyncio.to_thread(lambda: list(steps(daemon.trace)))
    for record in records:
        parts = marks(record.envelope)
        topic = TOPICS.record(record.table, record.kind).encode()
        written = next(n for n, (step, data) in enumerate(course) if step == "write" and has(data, parts))
        sent = next(n for n, (step, data) in enumerate(course) if step == "send" and has(data, parts))
        assert topic in course[sent][1]
        assert ("sync", b"") in course[written:sent], f"record {record.seq} left before it was on the disk"


def has(data: bytes, parts: tuple[bytes, ...]) -> bool:
    return any(part in data for part in parts)


def test_a_publish_before_the_sync_would_be_seen(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(
        '7 pwrite64(4</j/journal.db-wal>, "\\x61\\x62", 2, 0) = 2\n'
        "7 fdatasync(4</j/journal.db-wal> <unfinished ...>\n"
        '9 sendto(8<socket:[12]>, "\\x61\\x62", 2, 0, NULL, 0) = 2\n'
        "7 <... fdatasync resumed>)  = 0\n"
        "7 fsync(5</j/other>) = 0\n"
    )
    assert [step for step, _ in steps(trace)] == ["write", "send", "sync"]
