"""The conformance test over a real pseudo-terminal, through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dollyd.simulators.__main__ import app

SIMULATORS = [sys.executable, "-m", "dollyd.simulators"]


def has_open(pid: int, link: Path) -> bool:
    """Whether a process has the port open."""
    port = link.resolve()
    with suppress(FileNotFoundError):  # a descriptor may be closed while we look
        return any(fd.resolve() == port for fd in Path(f"/proc/{pid}/fd").iterdir())
    return False


@pytest.mark.long
def test_a_console_at_a_port_passes(tmp_path: Path) -> None:
    link = tmp_path / "console"
    device = [*SIMULATORS, "console", "--link", str(link)]
    with subprocess.Popen(device, stdin=subprocess.PIPE, bufsize=0) as console:
        try:
            deadline = time.monotonic() + 10
            while not link.is_symlink():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert console.stdin is not None
            test = [*SIMULATORS, "conformance", "--port", str(link), "--kind", "CN", "--games", "1", "--json"]
            with subprocess.Popen([*test, "--timeout-s", "30"], stdout=subprocess.PIPE) as host:
                time.sleep(1)  # a key that is pressed before the port is open is acknowledged all the same
                console.stdin.write(b"key NMB 12\n")
                output, _ = host.communicate(timeout=40)
        finally:
            console.kill()
    report = json.loads(output)
    failed = [clause for clause in report["clauses"] if clause["verdict"] == "fail"]
    assert failed == []
    assert (host.returncode, report["exit"]) == (0, 0), report
    assert report["device"] == "CONSOLE ACME CN7 CN000009 1.0.0"


def test_a_silent_port_is_not_seen(tmp_path: Path) -> None:
    link = tmp_path / "wheel"
    with subprocess.Popen([*SIMULATORS, "tlp-wheel", "--link", str(link), "--fault", "tlp-silent"]) as wheel:
        try:
            deadline = time.monotonic() + 10
            while not link.is_symlink():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            arguments = ["conformance", "--port", str(link), "--kind", "WH", "--timeout-s", "1"]
            result = CliRunner().invoke(app, arguments)
        finally:
            wheel.kill()
    assert result.exit_code == 2
    assert "nothing was heard" in result.output


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--port", "/nonexistent/port", "--kind", "WH"], "not-found"),
        (["--port", "usb:nonsense", "--kind", "WH"], "usb:VID:PID"),
        (["--port", "/dev/null", "--kind", "XY"], "XY"),
        (["--port", "/dev/null", "--kind", "OD"], "--key-file"),
        (["--port", "/dev/null", "--kind", "OD", "--key-file", "/nonexistent"], "/nonexistent"),
    ],
)
def test_mistakes_are_named(arguments: list[str], what: str) -> None:
    result = CliRunner().invoke(app, ["conformance", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 2
    assert what in result.output
