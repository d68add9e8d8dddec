"""What every demo has on its stage: one temporary directory, and the processes that work in it.

Broker and daemon are processes of their own, as at a real table. None of them outlives the demo: each dies
with it, also where the demo itself is killed.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from dollyd.simulators.demo.broker import Broker

T = TypeVar("T")

SITE, NODE = "demo", "laptop"
_PATIENCE_S = 20.0
_START_S = 10.0
_STOP_S = 10.0
_LOOK_S = 0.01

_LAUNCH = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
"""PR_SET_PDEATHSIG (prctl(2)): the kernel kills the process when the demo is gone."""

_CONFIGURATION = """\
site = "{site}"
node = "{node}"

[journal]
path = "{directory}/journal.db"

[signing]
key = "{directory}/signing.pem"

[mqtt]
brokers = ["127.0.0.1:{port}"]
protocol = "{protocol}"

"""


class StageError(Exception):
    """The demo cannot go on; the text says why."""


class Child:
    """One process, leader of a group of its own; what it prints on standard error goes to its log."""

    def __init__(self, name: str, log: Path, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.log = log
        self._process = process

    @classmethod
    async def start(cls, name: str, directory: Path, *command: str, piped: bool = False) -> Child:
        """Start a command given by its full path. `piped`: it prints for `follow`, not into the log."""
        log = directory / f"{name}.log"
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", "-c", _LAUNCH),
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE if piped else errors,
                stderr=errors,
                start_new_session=True,
            )
        return cls(name, log, process)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.returncode

    def order(self, text: str) -> None:
        """A line on its standard input."""
        if self._process.stdin is not None and self.exit_code is None:
            self._process.stdin.write(text.encode() + b"\n")

    async def follow(self, tell: Callable[[str], None]) -> None:
        """Tell each line that it prints, until it ends."""
        if self._process.stdout is not None:
            async for line in self._process.stdout:
                tell(line.decode("utf-8", "replace"))

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        return await self._process.wait()

    async def stop(self) -> int:
        """End it in good order; gives its exit code. Raises `StageError` where it does not obey."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.wait(), _STOP_S)
        except TimeoutError as error:
            raise StageError(f"{self.name} did not stop within {_STOP_S:.0f} s; see {self.log}") from error

    async def kill(self) -> None:
        """End it as a power cut does, with all that it may have started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await self.wait()


class Stage:
    """Sets broker and daemon up, and clears them away."""

    def __init__(self, directory: Path, broker: Broker, seed: int) -> None:
        self.directory = directory
        self.broker = broker
        self.seed = seed
        self.port = _free_port()
        self.keys = b""
        """The public keys, as `dollyd keys show` prints them."""
        self._children: dict[str, Child] = {}
        self._followers: list[asyncio.Task[None]] = []

    @property
    def journal(self) -> Path:
        """The daemon's journal."""
        return self.directory / "journal.db"

    @property
    def configuration(self) -> Path:
        """What the daemon is told."""
        return self.directory / "dollyd.toml"

    @property
    def broker_up(self) -> bool:
        """Whether the broker runs."""
        return "broker" in self._children

    @property
    def daemon_up(self) -> bool:
        """Whether the daemon runs."""
        return "daemon" in self._children

    async def set_up(self, tables: str) -> None:
        """Make keys and configuration; start the broker, and the daemon for these tables (TOML)."""
        await self.dollyd("keys", "new", str(self.directory / "signing.pem"))
        self.keys = (await self.dollyd("keys", "show", str(self.directory / "signing.pem"))).encode()
        (self.directory / "keys.json").write_bytes(self.keys)
        head = _CONFIGURATION.format(
            site=SITE, node=NODE, directory=self.directory, port=self.port, protocol=self.broker.protocol
        )
        self.configuration.write_text(head + tables, "utf-8")
        await self.start_broker()
        await self._start("daemon", *_dollyd("run", "--config", str(self.configuration)))

    # --- the broker ----------------------------------------------------------------------------------

    async def start_broker(self) -> None:
        """Start it, or start it again, on the same port. Raises `StageError`."""
        broker = await self._start("broker", *self.broker.command(self.directory, self.port))
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s:
            self.check()
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            await asyncio.sleep(_LOOK_S)
        raise StageError(f"the broker does not listen after {_START_S:.0f} s; see {broker.log}")

    async def kill_broker(self) -> None:
        """`kill -9`."""
        await self._children.pop("broker").kill()

    # --- the daemon ----------------------------------------------------------------------

    async def dollyd(self, *arguments: str) -> str:
        """Run a dollyd command to its end and give what it printed. Raises `StageError` where it fails."""
        command = await self._start("command", *_dollyd(*arguments), piped=True)
        lines: list[str] = []
        await command.follow(lines.append)
        code = await self._children.pop("command").wait()
        if code != 0:
            why = command.log.read_text("utf-8", "replace").strip() or "".join(lines).strip()
            raise StageError(f"dollyd {' '.join(arguments)} failed:\n{why}")
        return "".join(lines)

    async def verify(self) -> str:
        """What `dollyd verify` says of the journal with the key pinned; empty where it is not good."""
        return await self._proof("verify", str(self.journal), "--keys", str(self.directory / "keys.json"))

    async def replay(self) -> str:
        """What `dollyd replay` says of the journal; empty where it derives another decision."""
        return await self._proof("replay", str(self.journal), "--config", str(self.configuration))

    async def _proof(self, *arguments: str) -> str:
        try:
            return await self.dollyd(*arguments)
        except StageError:
            return ""

    async def stop_daemon(self) -> int:
        """Ask the daemon to end; gives its exit code."""
        return await self._children.pop("daemon").stop()

    # --- all of them ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `StageError` where a process has ended that should run."""
        for child in self._children.values():
            if child.exit_code is not None:
                last = child.log.read_text("utf-8", "replace").strip().splitlines()[-1:]
                why = f": {last[0]}" if last else ""
                raise StageError(f"the {child.name} ended with exit code {child.exit_code}{why}")

    async def until(self, seen: Callable[[], T | None], what: str, within_s: float = _PATIENCE_S) -> T:
        """Wait until something is seen, and give it. Raises `StageError`."""
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            if found := seen():
                return found
            self.check()
            await asyncio.sleep(_LOOK_S)
        raise StageError(f"waited {within_s:.0f} s in vain for {what}")

    async def close(self) -> None:
        """Leave no process behind."""
        for child in self._children.values():
            await child.kill()
        self._children.clear()
        for follower in self._followers:
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)

    async def _start(self, name: str, *command: str, piped: bool = False) -> Child:
        child = self._children[name] = await Child.start(name, self.directory, *command, piped=piped)
        return child


_HURRIED = "records_at_once = 200\nrecords_per_s = 20"


def write_profile(directory: Path, name: str, unresolved_void_after_s: int) -> None:
    """A shipped profile under its own name, for devices that hurry: games may be short and records many.

    Its unresolved rounds are void after so long.
    """
    shipped = files("dollyd").joinpath("config", "profiles", f"{name}.toml").read_text("utf-8")
    shipped = re.sub(r"(?m)^game_min_ms = .*\n", "", shipped)
    limit = f"\\1\nunresolved_void_after_s = {unresolved_void_after_s}\n{_HURRIED}"
    (directory / f"{name}.toml").write_text(re.sub(r"(?m)^(\[games\..*\])$", limit, shipped), "utf-8")


def _dollyd(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "dollyd.daemon", *arguments)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
