"""The real daemon as a child process: its configuration, its life, its journal, and who listens to it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from tests.support.broker import Listener

from dollyd.client.proof.sources import JournalFile
from dollyd.daemon.host.secret_files import write_secret
from dollyd.daemon.keys.signing import new_key
from dollyd.wire.jws import parse_envelope
from dollyd.wire.topics import Topics

SITE, NODE = "house", "box1"
TOPICS = Topics(SITE)
START_S = 60.0
STOP_S = 5.0
"""A stop must not take longer."""
ODDS_KEY = b"shared by box and host"

PROFILE = """
id = "test"
[games.roulette]
source = "fi-ray-2013, and an unresolved round frees the table by itself"
nmb_before_draw = "allowed"
hold_ms = {hold_ms}
unresolved_void_after_s = {unresolved_void_after_s}
records_at_once = 1000
records_per_s = 1000
"""
TABLE = """
[tables.{table}]
game = "roulette"
variant = "{variant}"
rulebook = "fi-ray-2013-roulette"
profile = "profile.toml"
stakes = {{ minimum = 100, maximum = 100000, currency = "EUR" }}

[tables.{table}.devices.wheel]
driver = "cammegh-ss2"
role = "wheel"
port = "{directory}/{table}-wheel"
status_period_ms = {period_ms}
silence_ms = {silence_ms}
expect = {{ pockets = "37" }}
"""
ODDS_BOX = """
[tables.{table}.devices.odds]
driver = "tlp"
role = "odds"
port = "{directory}/{table}-odds"
secret_file = "odds.key"
status_period_ms = {period_ms}
"""


class Installation:
    """A directory with everything that a daemon needs: key, shared key, profile, configuration.

    `period_ms` is what the daemon expects of its devices. It may be longer than the period of the simulated
    ones: on a busy machine a line may be late without the device being at fault.
    """

    def __init__(
        self,
        directory: Path,
        broker: str,
        tables: Iterable[str] = ("r1",),
        *,
        variant: str = "B",
        period_ms: int = 200,
        silence_ms: int = 3000,
        hold_ms: int = 0,
        unresolved_void_after_s: int = 1,
    ) -> None:
        self.directory = directory
        self.config = directory / "dollyd.toml"
        self.journal = directory / "journal.db"
        self.jwks = directory / "jwks.json"
        self.signing_key = directory / "signing.pem"
        signer = new_key(self.signing_key)
        self.jwks.write_text(json.dumps({"keys": [signer.jwk]}))
        write_secret(directory / "odds.key", ODDS_KEY)
        (directory / "profile.toml").write_text(
            PROFILE.format(hold_ms=hold_ms, unresolved_void_after_s=unresolved_void_after_s)
        )
        text = (
            f'site = "{SITE}"\nnode = "{NODE}"\n[journal]\npath = "{self.journal}"\n'
            f'[signing]\nkey = "{self.signing_key}"\n[mqtt]\nbrokers = ["{broker}"]\n'
        )
        for table in tables:
            parts = TABLE + (ODDS_BOX if variant == "B" else "")
            text += parts.format(
                table=table,
                variant=variant,
                directory=directory,
                period_ms=period_ms,
                silence_ms=silence_ms,
            )
        self.config.write_text(text)

    def reconfigure(self, old: str, new: str) -> None:
        """Change the one place of the configuration where `old` stands."""
        text = self.config.read_text()
        assert text.count(old) == 1, old
        self.config.write_text(text.replace(old, new))


def dollyd(*arguments: str | Path, under: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """One run of the command line to its end, `under` another command."""
    return subprocess.run(
        [*under, sys.executable, "-m", "dollyd.daemon", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Daemon:
    """`dollyd run` as a child, with its log in a file. Leaving the context kills what still runs.

    `prelude` is code that runs in the child before all else, for faults that cannot be made from outside.
    """

    def __init__(
        self, installation: Installation, environment: Mapping[str, str] | None = None, prelude: str = ""
    ) -> None:
        self.installation = installation
        self._environment = environment
        code = f"{prelude}\nfrom dollyd.daemon.__main__ import main\nmain()"
        self._program = ["-c", code] if prelude else ["-m", "dollyd.daemon"]
        self._log = installation.directory / "log"
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> list[str]:
        """Everything that this run has logged so far."""
        return self._log.read_bytes()[self._log_start :].decode("utf-8", "replace").splitlines()

    def start(self) -> None:
        """Start it; see `started`."""
        assert self._process is None, "one at a time"
        with self._output() as log:
            self._log_start = self._log.stat().st_size
            self._process = subprocess.Popen(
                [sys.executable, *self._program, "run", "--config", str(self.installation.config)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._environment,
            )

    def _output(self) -> BinaryIO:
        """Where it writes."""
        return self._log.open("ab")

    async def started(self) -> None:
        """Wait until this run has logged that it started."""
        deadline = time.monotonic() + START_S
        while not self.logged("started"):
            assert self.running, "\n".join(self.log)
            assert time.monotonic() < deadline, "dollyd did not start in time"
            await asyncio.sleep(0.01)

    def logged(self, event: str) -> list[str]:
        """Lines of one event in this run."""
        return [line for line in self.log if f"event={event} " in f"{line} "]

    def kill(self) -> None:
        """As a power cut does."""
        process = self._running()
        process.kill()
        process.wait(STOP_S)
        self._process = None

    async def stop(self) -> int:
        """SIGTERM; the exit code. Fails when it takes too long."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(process.wait, STOP_S)
        self._process = None
        return code

    async def ended(self, within_s: float = 20.0) -> int:
        """Wait until it has ended by itself; the exit code."""
        code = await asyncio.to_thread(self._running().wait, within_s)
        self._process = None
        return code

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "dollyd is not running"
        return self._process


# --- records -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """A record, taken apart. `at_s`: when it was heard, monotonic; 0 where it was read from a journal."""

    table: str
    chain: str
    seq: int
    kind: str
    round: int
    time: dict[str, Any]
    body: dict[str, Any]
    envelope: bytes
    at_s: float = 0.0


def told(envelope: bytes, at_s: float = 0.0) -> Told:
    """Take an envelope apart, without checking its signature: `verified` does."""
    record = json.loads(parse_envelope(envelope).payload)
    names = ("table", "chain", "seq", "kind", "round", "time", "body")
    return Told(**{name: record[name] for name in names}, envelope=envelope, at_s=at_s)


def journaled(installation: Installation) -> list[Told]:
    """The records of a journal, which may be in use."""
    with closing(JournalFile(installation.journal)) as journal:
        return [told(envelope) for envelope in journal.envelopes()]


def verified(installation: Installation) -> dict[str, Any]:
    """What `dollyd verify` says with the node's key pinned; fails where anything is wrong."""
    run = dollyd("verify", installation.journal, "--keys", installation.jwks, "--json")
    assert run.returncode == 0, run.stdout + run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    assert report["ok"], report
    assert set(report["keys"].values()) == {"pinned"}
    return report


class Consumer:
    """What settlement does: drops repeats by chain and `seq`, and insists on the order of the rest."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.repeats = 0
        self._read = 0
        self._records: list[Told] = []
        self._envelopes: dict[str, list[bytes]] = {}
        """By chain, as first heard; record 1 at index 0."""

    @property
    def records(self) -> list[Told]:
        """Every record heard, once and in order. Fails where one is missing or another one comes again."""
        heard = self.listener.heard
        while self._read < len(heard):
            message = heard[self._read]
            self._read += 1
            if "/record/" in message.topic:
                self._take(message.topic, told(message.payload, message.at_s))
        return self._records

    def of(self, *kinds: str) -> list[Told]:
        """The records of some kinds."""
        return [record for record in self.records if record.kind in kinds]

    def latest(self, topic: str) -> dict[str, Any]:
        """The last payload of a retained topic, empty before the first."""
        payloads = (heard.payload for heard in reversed(self.listener.heard) if heard.topic == topic)
        return dict(json.loads(next(payloads, b"{}")))

    def status(self, device: str, table: str = "r1") -> str:
        """State of a device as last published."""
        return str(self.latest(TOPICS.device(table, device)).get("status", ""))

    def _take(self, topic: str, record: Told) -> None:
        assert topic == TOPICS.record(record.table, record.kind), topic
        seen = self._envelopes.setdefault(record.chain, [])
        if record.seq <= len(seen):
            assert seen[record.seq - 1] == record.envelope, f"two records {record.seq} of {record.table}"
            self.repeats += 1
            return
        missing = f"{record.table}: record {len(seen) + 1} is missing before {record.seq}"
        assert record.seq == len(seen) + 1, missing
        seen.append(record.envelope)
        self._records.append(record)


def numbers(records: Iterable[Told]) -> list[str]:
    """The numbers of results, in order."""
    return [record.body["outcome"]["pocket"] for record in records if record.kind == "result"]


def finals_by_round(records: Iterable[Told]) -> Mapping[tuple[str, int], list[str]]:
    """Kinds of the final records of every round, by table and number."""
    finals: dict[tuple[str, int], list[str]] = {}
    for record in records:
        if record.kind in ("result", "void"):
            finals.setdefault((record.table, record.round), []).append(record.kind)
    return finals
