"""Everything on the stage: one temporary directory, and the processes that work in it.

Broker, daemon, wheel and odds box are processes of their own, as at a real table. None of them outlives the
demo: each dies with it, also where the demo itself is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from dollyd.simulators.demo.broker import Broker

SITE, NODE, TABLE = "demo", "laptop", "roulette-1"
PERIOD_MS = 50
"""Status period of both devices, ten times faster than real ones: a game takes a second and a half."""
UNRESOLVED_VOID_AFTER_S = 3
_SILENCE_MS = 1000  # a busy laptop is no gap in the data
_START_S = 10.0
_STOP_S = 10.0
_LOOK_S = 0.02

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

[tables.{table}]
game = "roulette"
variant = "B"
rulebook = "fi-ray-2013-roulette"
profile = "profile.toml"
stakes = {{ minimum = 100, maximum = 100000, currency = "EUR" }}

[tables.{table}.devices.wheel]
driver = "cammegh-ss2"
role = "wheel"
port = "{directory}/wheel"
status_period_ms = {period_ms}
silence_ms = {silence_ms}
expect = {{ pockets = "37" }}

[tables.{table}.devices.odds]
driver = "tlp"
role = "odds"
port = "{directory}/odds"
status_period_ms = {period_ms}
secret_file = "odds.key"
expect = {{ serial = "OB000042" }}
"""


class StageError(Exception):
    """The demo cannot go on; the text says why."""


@dataclass(frozen=True, slots=True)
class Game:
    """A game as the wheel itself played it, and what stood between it and its record."""

    counter: int
    pocket: str
    """Empty where the game was aborted."""
    wheel_heard: bool
    broker_up: bool


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
    """Sets the table up, and clears it away."""

    def __init__(self, directory: Path, broker: Broker, seed: int) -> None:
        self.directory = directory
        self.broker = broker
        self.port = _free_port()
        self.games: list[Game] = []
        """The wheel's truth, in order."""
        self.wheel_heard = False
        """Set by the script: whether the daemon hears the wheel."""
        self.keys = b""
        """The public keys, as `dollyd keys show` prints them."""
        self._seed = seed
        self._children: dict[str, Child] = {}
        self._followers: list[asyncio.Task[None]] = []

    @property
    def journal(self) -> Path:
        """The daemon's journal."""
        return self.directory / "journal.db"

    @property
    def broker_up(self) -> bool:
        """Whether the broker runs."""
        return "broker" in self._children

    @property
    def daemon_up(self) -> bool:
        """Whether the daemon runs."""
        return "daemon" in self._children

    async def set_up(self) -> None:
        """Make keys, rules and configuration; start the broker, the daemon and the devices."""
        await self._write_files()
        await self.start_broker()
        await self._start("daemon", *_dollyd("run", "--config", str(self.directory / "dollyd.toml")))
        odds = _simulator("odds-box", "--key-file", str(self.directory / "odds.key"))
        await self._start("odds", *odds, *self._device_options("odds"))
        wheel_command = _simulator("ss2", "--compact", "--games-per-hour", "100000", "--json")
        wheel = await self._start("wheel", *wheel_command, *self._device_options("wheel"), piped=True)
        wheel.order("power-off")  # until somebody listens
        self._followers.append(asyncio.create_task(wheel.follow(self._played)))

    def _device_options(self, name: str) -> tuple[str, ...]:
        port = str(self.directory / name)
        return ("--period-ms", str(PERIOD_MS), "--seed", str(self._seed), "--link", port)

    async def _write_files(self) -> None:
        await self.dollyd("keys", "new", str(self.directory / "signing.pem"))
        self.keys = (await self.dollyd("keys", "show", str(self.directory / "signing.pem"))).encode()
        (self.directory / "keys.json").write_bytes(self.keys)
        (self.directory / "odds.key").write_text(secrets.token_hex(16), "ascii")
        shipped = files("dollyd").joinpath("config", "profiles", "fi-ray-2013.toml").read_text("utf-8")
        section = "[games.roulette]\n"
        limit = f"unresolved_void_after_s = {UNRESOLVED_VOID_AFTER_S}\n"
        (self.directory / "profile.toml").write_text(shipped.replace(section, section + limit), "utf-8")
        configuration = _CONFIGURATION.format(
            site=SITE,
            node=NODE,
            table=TABLE,
            directory=self.directory,
            port=self.port,
            protocol=self.broker.protocol,
            period_ms=PERIOD_MS,
            silence_ms=_SILENCE_MS,
        )
        (self.directory / "dollyd.toml").write_text(configuration, "utf-8")

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

    # --- devices and the daemon ----------------------------------------------------------------------

    def order(self, device: str, text: str) -> None:
        """An order to a simulated device (see `simulators.control`)."""
        self._children[device].order(text)

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
        try:
            return await self.dollyd("verify", str(self.journal), "--keys", str(self.directory / "keys.json"))
        except StageError:
            return ""

    async def stop_daemon(self) -> int:
        """Ask the daemon to end; gives its exit code."""
        return await self._children.pop("daemon").stop()

    def _played(self, line: str) -> None:
        game = json.loads(line)
        pocket = (game["pocket"] or "").strip()
        self.games.append(Game(game["counter"], pocket, self.wheel_heard, self.broker_up))

    # --- all of them ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `StageError` where a process has ended that should run."""
        for child in self._children.values():
            if child.exit_code is not None:
                last = child.log.read_text("utf-8", "replace").strip().splitlines()[-1:]
                why = f": {last[0]}" if last else ""
                raise StageError(f"the {child.name} ended with exit code {child.exit_code}{why}")

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


def _dollyd(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "dollyd.daemon", *arguments)


def _simulator(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "dollyd.simulators", *arguments)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
