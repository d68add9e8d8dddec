"""Ten tables, their node under a supervisor, the broker with a second listener, and three who read."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO, cast

from tests.support.broker import Mosquitto
from tests.support.commands import ROOT, trust_bytes
from tests.support.daemon import NODE, SITE
from tests.support.site_broker import Authority
from tools.soak.house import SS2, TLP, House, PlayedTable
from tools.soak.line import FaultyLine
from tools.soak.processes import Consumer, Node
from tools.truth import check

from dollyd.daemon.keys.signing import Signer

TABLES = {
    **{f"b{number}": (SS2, "B") for number in (1, 2, 3)},
    **{f"c{number}": (SS2, "C") for number in (1, 2, 3)},
    "b4": (TLP, "B"),
    **{f"c{number}": (TLP, "C") for number in (4, 5, 6)},
}
SPARE = "spare"
"""A table without devices that comes and goes."""
PERIODS_MS = {SS2: 60, TLP: 20}
EXPECTED_MS = {SS2: 300, TLP: 300}
"""On a busy machine a line may be late without the device being at fault."""
AGAIN_S = 2.0
"""The unit's `RestartSec`."""
BROKER = """
autosave_interval 5
max_queued_messages 0
listener {port} 127.0.0.1
cafile {directory}/ca.crt
certfile {directory}/broker.crt
keyfile {directory}/broker.key
require_certificate true
"""
SMALL = "max_packet_size 2000\n"
"""A result with an odds table is longer, one without is not."""
_PIPE_BYTES = 4096
PRELUDE = """
import pathlib, serial
import dollyd.daemon.journal.audit as audit
_house = pathlib.Path({directory!r})
if (_house / "audit-soon").exists():
    audit.FIRST_AFTER_S = {audit_s}
_open = serial.Serial.open
def _raising(self):
    ports = [_house / flag.name for flag in (_house / "raise").iterdir()]
    if any(port.exists() and port.samefile(self.port) for port in ports):
        raise AttributeError("no attribute of that name")
    _open(self)
serial.Serial.open = _raising
"""
"""What a library raises, and a verification that comes soon: neither is to be had from outside."""
AUDIT_S = 10
SPARE_TABLE = """
[tables.{table}]
game = "roulette"
variant = "C"
rulebook = "fi-ray-2013-roulette"
profile = "profile.toml"
stakes = {{ minimum = 100, maximum = 100000, currency = "EUR" }}
[tables.{table}.devices.wheel]
driver = "cammegh-ss2"
role = "wheel"
port = "{directory}/{table}-wheel"
"""


def trust_of(jwk: dict[str, str]) -> bytes:
    """The site's trust file: this node and the people of the tests."""
    node = cast("Signer", SimpleNamespace(jwk=jwk))
    return trust_bytes(node=NODE, site=SITE, keys=(node,))


class TenTables(House):
    """The node's directory: TLS to the broker, a trust file with people, a spare table."""

    def __init__(self, directory: Path, broker: str, certificates: Path) -> None:
        super().__init__(directory, f"mqtts://{broker}", None, TABLES, EXPECTED_MS)
        (directory / "raise").mkdir()
        jwk = json.loads(self.jwks.read_bytes())["keys"][0]
        (directory / "trust.json").write_bytes(trust_of(jwk))
        names = {"ca_file": "ca.crt", "cert_file": f"{NODE}.crt", "key_file": f"{NODE}.key"}
        files = "".join(f'{key} = "{certificates / name}"\n' for key, name in names.items())
        self.reconfigure("[mqtt]\n", f"[mqtt]\n{files}")
        self.reconfigure("[signing]\n", f'[signing]\ntrust = "trust.json"\nroot = "{ROOT.kid}"\n')
        self.reconfigure("[journal]\n", "[journal]\nkeep_days = 365\n")
        with (directory / "profile.toml").open("a") as profile:
            profile.write('unsound_journal = "tell"\n')
        self.spare = SPARE_TABLE.format(table=SPARE, directory=directory)
        self.with_spare()

    def with_spare(self) -> None:
        """The configuration has the spare table, from the next start or reload on."""
        self.config.write_text(self.config.read_text() + self.spare)

    def without_spare(self) -> None:
        """It has no such table."""
        self.reconfigure(self.spare, "")

    @property
    def journals(self) -> list[Path]:
        """All that holds records: what was saved of files that went, and the journal."""
        return [*sorted(self.directory.glob("journal.db.saved-*")), self.journal]


class Supervised(Node):
    """The daemon, which logs into a pipe: while `reading` is not set nobody reads it."""

    def __init__(self, house: TenTables) -> None:
        prelude = PRELUDE.format(directory=str(house.directory), audit_s=AUDIT_S)
        super().__init__(house, prelude)
        self.clock.vouch(vouched=True)
        self.reading = threading.Event()
        self.reading.set()
        self._reader: threading.Thread | None = None

    def _output(self) -> BinaryIO:
        if self._reader is not None:
            self._reader.join()
        source, sink = os.pipe()
        fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        log = super()._output()
        self._reader = threading.Thread(target=self._read, args=(source, log), daemon=True)
        self._reader.start()
        return os.fdopen(sink, "wb")

    def _read(self, source: int, log: BinaryIO) -> None:
        with log, os.fdopen(source, "rb", buffering=0) as pipe:
            while data := pipe.read(_PIPE_BYTES):
                log.write(data)
                log.flush()
                self.reading.wait()

    def marks(self) -> int:
        """Where the log of all runs ends now."""
        return self._log.stat().st_size

    def since(self, mark: int) -> list[str]:
        """What all runs have logged behind a mark."""
        return self._log.read_bytes()[mark:].decode("utf-8", "replace").splitlines()

    async def again(self) -> None:
        """Start it as the unit does after an end that was no mistake of the operator, until it plays."""
        deadline_s = asyncio.get_running_loop().time() + 60
        self.start()
        while not self.logged("started"):
            if not self.running:
                code = await self.ended()
                check(code == 1, f"a start that may come to good ends with 1, not {code}")
                await asyncio.sleep(AGAIN_S)
                self.start()
            check(asyncio.get_running_loop().time() < deadline_s, "the daemon comes up")
            await asyncio.sleep(0.02)


class Archive:
    """`dollyd archive` in PostgreSQL, its log beside."""

    def __init__(self, house: TenTables, broker: str, database: str) -> None:
        self.log_file = house.directory / "archive.log"
        command = [sys.executable, "-m", "dollyd.daemon", "archive", "--broker", broker, "--site", SITE]
        self._command = [*command, "--keys", str(house.jwks), "--database", database]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def check_alive(self) -> None:
        """It ends only when it is made to."""
        dead = self._process is None or self._process.poll() is not None
        check(not dead, "the archive runs on:\n" + "\n".join(self.log[-9:]))

    @property
    def log(self) -> list[str]:
        """Its lines so far."""
        return self.log_file.read_text("utf-8", "replace").splitlines()

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Certificates:
    """The node's certificate and its key, which are renewed one after the other."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        authority.issue("broker")
        authority.issue(NODE)

    def renew_half(self) -> bytes:
        """A new certificate beside the old key; gives the new key."""
        key = self.authority.directory / f"{NODE}.key"
        old = key.read_bytes()
        self.authority.issue(NODE)
        new = key.read_bytes()
        key.write_bytes(old)
        return new

    def renew_rest(self, key: bytes) -> None:
        """The key comes, too."""
        (self.authority.directory / f"{NODE}.key").write_bytes(key)


class SecureBroker(Mosquitto):
    """Mosquitto with a second listener that asks for certificates; `small` takes short messages only."""

    def __init__(self, secure_port: int) -> None:
        super().__init__(persistence=True, started=False)
        self.secure_port = secure_port

    def set_up(self, *, small: bool = False) -> None:
        """Write its configuration; it counts from the next start."""
        own = BROKER.format(port=self.secure_port, directory=self.directory)
        self.configure((SMALL if small else "") + own)


@dataclass(frozen=True)
class Scene:
    """Everything that can be struck, and who watches."""

    house: TenTables
    node: Supervised
    broker: SecureBroker
    node_line: FaultyLine
    second_line: FaultyLine
    certificates: Certificates
    consumer: Consumer
    second: Consumer
    """It knows of a broker, too, at which no node is heard."""
    tables: Sequence[PlayedTable]
    archive: Archive | None
    database: str
    """The data base of the archive, past the pooler."""

    @property
    def played(self) -> int:
        """Games played so far."""
        return sum(table.played for table in self.tables)


def keep(directory: Path, to: Path) -> None:
    """Files for whoever looks into a failure."""
    shutil.copytree(directory, to, symlinks=True, ignore=shutil.ignore_patterns("*-wheel", "*-odds"))
