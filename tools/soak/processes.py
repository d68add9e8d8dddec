"""The node and the consumer as children that are killed and started again, and what the consumer has kept."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
from tests.support.daemon import Daemon, Installation
from tools.soak.reference import SCHEMA
from tools.truth import SoakError

from dollyd.wire.stamp import NS_PER_S

MB = 1_000_000
_CLOCK = Path(__file__).with_name("clock.c")
_LAST_LINES = 9


class Clock:
    """A wall clock for one process that can be stepped. Without a C compiler `environment` is empty."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock"
        self._file.write_bytes(bytes(16))
        self._step_ns = 0
        self.environment: dict[str, str] = {}
        library = directory / "clock.so"
        command = ["cc", "-shared", "-fPIC", "-o", str(library), str(_CLOCK), "-ldl"]
        if shutil.which("cc") and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            self.environment = {"LD_PRELOAD": str(library), "SOAK_CLOCK": str(self._file)}

    def step(self, step_s: int) -> None:
        """Move UTC by so much at once; the monotonic clock goes on."""
        self._step_ns += step_s * NS_PER_S
        self._write(0, self._step_ns)

    def vouch(self, *, vouched: bool) -> None:
        """Whether the kernel says that it is synchronised, whatever it says of this machine's own."""
        self._write(8, int(vouched))

    def _write(self, place: int, number: int) -> None:
        with self._file.open("r+b") as file:
            file.seek(place)
            file.write(number.to_bytes(8, sys.byteorder, signed=True))


class Node(Daemon):
    """The daemon. `lock` is held by whoever wants it to stay as it is, or does something to it."""

    def __init__(self, house: Installation, prelude: str = "") -> None:
        self.clock = Clock(house.directory)
        super().__init__(house, os.environ | self.clock.environment, prelude)
        self.lock = asyncio.Lock()
        self.lives = 0
        self.rss_mb: list[float] = []

    def start(self) -> None:
        """Start it; see `started`."""
        self.lives += 1
        super().start()

    def check_alive(self) -> None:
        """It ends only when it is made to."""
        if not self.running:
            raise SoakError("\n".join(["the daemon ends only when it is killed:", *self.log[-_LAST_LINES:]]))

    def measure(self) -> None:
        """Take note of its memory."""
        if self.running:
            self.rss_mb.append(psutil.Process(self.pid).memory_info().rss / MB)


class Consumer:
    """The reference consumer, and its data base."""

    def __init__(
        self, house: Installation, *brokers: str, name: str = "consumer", options: Sequence[str] = ()
    ) -> None:
        self._data = house.directory / f"{name}.db"
        self._log = house.directory / f"{name}.log"
        command = [
            sys.executable,
            "-m",
            "tools.soak.reference",
            "--name",
            name,
            *options,
            "--broker",
            *brokers,
        ]
        self._command = [*command, "--data", str(self._data), "--keys", str(house.jwks)]
        self._process: subprocess.Popen[bytes] | None = None
        self.lock = asyncio.Lock()
        self.lives = 0
        self.rss_mb: list[float] = []
        with closing(sqlite3.connect(self._data)) as database:
            database.executescript(SCHEMA)
        self._database = sqlite3.connect(f"{self._data.as_uri()}?mode=ro", uri=True)

    def close(self) -> None:
        """Kill what runs."""
        self._database.close()
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        """Start it."""
        self.lives += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """As a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check_alive(self) -> None:
        """It ends only when it is made to: a stream that cannot go on says why."""
        if self._process is None or self._process.poll() is not None:
            log = self._log.read_text("utf-8", "replace").splitlines()
            raise SoakError("\n".join(["the consumer ends only when it is killed:", *log[-_LAST_LINES:]]))

    def measure(self) -> None:
        """Take note of its memory."""
        if self._process is not None and self._process.poll() is None:
            self.rss_mb.append(psutil.Process(self._process.pid).memory_info().rss / MB)

    def records(self) -> int:
        """How many it has."""
        return int(self._rows("SELECT count(*) FROM heard")[0][0])

    def last(self) -> int:
        """Number of the last one kept."""
        return int(self._rows("SELECT coalesce(max(n), 0) FROM heard")[0][0])

    def results_since(self, n: int) -> set[str]:
        """Tables that had a result after that."""
        query = "SELECT DISTINCT table_name FROM heard WHERE kind = 'result' AND n > ?"
        return {str(table) for (table,) in self._rows(query, n)}

    def played_after(self, mono_ns: int) -> set[str]:
        """Tables of which there is a result that was signed after that moment."""
        query = (
            "SELECT DISTINCT table_name FROM (SELECT * FROM heard ORDER BY n DESC LIMIT 5000)"
            " WHERE kind = 'result' AND mono_ns > ?"
        )
        return {str(table) for (table,) in self._rows(query, mono_ns)}

    def phase(self, table: str) -> str:
        """The last of a table's records that moved a round."""
        query = (
            "SELECT kind FROM heard WHERE table_name = ?"
            " AND kind IN ('round', 'bets-closed', 'result', 'void')"
            " ORDER BY n DESC LIMIT 1"
        )
        return str(next(iter(self._rows(query, table)), ("",))[0])

    def heard(self) -> dict[str, list[tuple[int, str]]]:
        """Number and digest of all records, by chain, in the order in which they were kept."""
        chains: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        for chain, seq, digest in self._database.execute("SELECT chain, seq, digest FROM heard ORDER BY n"):
            chains[chain].append((seq, digest))
        return chains

    def life(self) -> dict[str, int]:
        """What it counted in all its lives."""
        query = "SELECT total(links), total(repeats), total(requests), total(gaps) FROM life"
        totals = map(int, self._rows(query)[0])
        return dict(zip(("links", "repeats", "requests", "gaps"), totals, strict=True))

    def _rows(self, query: str, *values: int | str) -> list[tuple[Any, ...]]:
        return self._database.execute(query, values).fetchall()
