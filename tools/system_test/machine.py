"""A machine under test: a Debian with a systemd of its own in a container, and a shell in it."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

import psutil

BOOT_S = 60.0
LOOK_S = 0.1


class MachineError(Exception):
    """The machine did not do what was asked; the text says what it did."""


class Machine:
    """Everything inside is done by `sh`, as root. Whoever boots it must `cut` it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._console = root.parent / "console.log"
        self._container: subprocess.Popen[bytes] | None = None

    def boot(self) -> float:
        """Switch on; the seconds until it is up."""
        command = ["systemd-nspawn", "--boot", "--quiet", "--register=no", "--keep-unit", "--private-network"]
        with self._console.open("ab") as console:
            self._container = subprocess.Popen(
                [*command, f"--directory={self.root}", f"--machine=dollyd-test-{os.getpid()}"],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        return self.wait_until_up()

    def cut(self) -> None:
        """Take the power away."""
        if self._container is None:
            return
        if self._container.poll() is None:
            for process in psutil.Process(self._container.pid).children():
                process.kill()
        try:
            self._container.wait(10)
        except subprocess.TimeoutExpired:
            self._container.kill()
            self._container.wait()
        self._container = None

    def reboot(self) -> float:
        """Boot again in an orderly way; the seconds until it is up."""
        self.sh("systemctl reboot", check=False)
        if self._container is not None:
            try:
                self._container.wait(BOOT_S)  # ends with the code for "again", for systemd is not above it
            except subprocess.TimeoutExpired as error:
                raise MachineError("it does not go down for a reboot") from error
        return self.boot()

    def wait_until_up(self) -> float:
        """Wait until systemd has started everything; the seconds it took."""
        began = time.monotonic()
        while self.sh("systemctl is-system-running", check=False).strip() not in ("running", "degraded"):
            took_s = time.monotonic() - began
            ended = self._container is None or self._container.poll() is not None
            if ended or took_s > BOOT_S:
                said = self._console.read_text("utf-8", "replace")[-1000:]
                raise MachineError(f"{'ended' if ended else 'not up'} after {took_s:.0f} s: {said}")
            time.sleep(LOOK_S)
        return time.monotonic() - began

    def sh(self, command: str, *, check: bool = True, within_s: float = 120.0) -> str:
        """What a shell command prints. Raises `MachineError` where it fails, unless `check` is off."""
        init = self._init()
        if init is None:
            return ""
        enter = ["nsenter", "--target", str(init), "--all", "/usr/bin/env", "--ignore-environment"]
        environment = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "COLUMNS=200"]
        environment += ["DEBIAN_FRONTEND=noninteractive"]
        try:
            done = subprocess.run(
                [*enter, *environment, "/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=within_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise MachineError(f"{command}: no end after {within_s:.0f} s") from error
        said = done.stdout.decode("utf-8", "replace")
        if check and done.returncode != 0:
            raise MachineError(f"{command}: exit {done.returncode}\n{said[-3000:]}")
        return said

    def write(self, path: str, text: str, *, owner: str = "root:root", mode: int = 0o644) -> None:
        """Make a file in it."""
        self.sh(f"printf %s {shlex.quote(text)} >{path} && chown {owner} {path} && chmod {mode:o} {path}")

    def _init(self) -> int | None:
        """Its process 1, seen from outside."""
        if self._container is None or self._container.poll() is not None:
            return None
        children = psutil.Process(self._container.pid).children()
        return children[0].pid if children else None
