"""A PostgreSQL cluster of our own for tests: in a temporary directory, on a socket there, without a port."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import pytest
from tests.support.broker import free_port

UNPRIVILEGED = "nobody"
"""Whom the server runs as where we are root, which it refuses."""


def find_binaries() -> Path:
    """Where Debian keeps `initdb` and `pg_ctl`, the newest version; skips the test where there are none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if not found:
        pytest.skip("PostgreSQL is not installed: this test needs a real server")
    return found[-1].parent


class Postgres:
    """One cluster as a context manager; `new_database` gives each test its own."""

    def __init__(self) -> None:
        self._binaries = find_binaries()
        self._numbers = count(1)
        self.directory = Path()

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="pg-"))
        if os.geteuid() == 0:
            shutil.chown(self.directory, UNPRIVILEGED)
        try:
            self._run("initdb", "--no-sync", "--auth=trust", "--username=dollyd", "--locale=C.UTF-8")
            self.start()
        except BaseException:
            with suppress(
                subprocess.CalledProcessError, AssertionError
            ):  # it may not run yet, or not any more
                self.stop()
            shutil.rmtree(self.directory)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory)

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.directory} -c shared_buffers=32MB"
        self._run("pg_ctl", "--wait", f"--log={self.directory}/log", f"--options={options}", "start")

    def stop(self) -> None:
        """End it at once, as a crash does."""
        self._run("pg_ctl", "--wait", "--mode=immediate", "stop")

    def new_database(self) -> str:
        """The address of a data base that is empty."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._address(name)

    def _address(self, database: str) -> str:
        return f"postgresql://dollyd@/{database}?host={self.directory}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), f"--pgdata={self.directory / 'data'}", *arguments]
        user = pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None
        with (self.directory / "output").open("ab") as output:  # a pipe would be kept open by the server
            done = subprocess.run(
                command,
                cwd=self.directory,
                user=user.pw_uid if user else None,
                group=user.pw_gid if user else None,
                extra_groups=[] if user else None,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=60,
                check=False,
            )
        if done.returncode != 0:
            pytest.fail(f"{program}: {(self.directory / 'output').read_text()}")


@contextmanager
def pooled(server: Postgres, address: str) -> Iterator[str]:
    """The address of a data base behind PgBouncer in transaction mode; skips the test where there is none."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed: this test needs a real pooler")
    name, port = address.split("@/")[1].split("?", maxsplit=1)[0], free_port()
    settings = server.directory / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n{name} = host={server.directory} user=dollyd\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n"
        "unix_socket_dir =\n"
    )
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    with (server.directory / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen([program, str(settings)], user=user, stdout=log, stderr=log)
        try:
            _listens(port)
            yield f"postgresql://dollyd@127.0.0.1:{port}/{name}"
        finally:
            process.terminate()
            process.wait(10)


def _listens(port: int) -> None:
    deadline_s = time.monotonic() + 10
    while True:
        with socket.socket() as line:
            if line.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline_s, "the pooler does not listen"
        time.sleep(0.02)
