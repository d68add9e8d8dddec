"""The command line: starts, obeys, tells the truth, ends and leaves nothing behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dollyd.simulators.__main__ import app
from dollyd.simulators.faults import FAULTS
from dollyd.simulators.tlp import frame

FAST = ("--period-ms", "5", "--compact")


@contextmanager
def simulator(link: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A simulator in a process of its own, with its port made."""
    command = [sys.executable, "-m", "dollyd.simulators", *arguments, "--link", str(link)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            await_(link.is_symlink)
            yield process
        finally:
            process.kill()


def await_(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def order(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text.encode() + b"\n")


def truths(process: subprocess.Popen[bytes], count: int) -> list[dict[str, object]]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def read_until(port: int, wanted: bytes) -> bytes:
    data = b""
    while wanted not in data:
        assert select.select([port], [], [], 10)[0], data
        data += os.read(port, 4096)
    return data


def test_help_and_faults_read_well() -> None:
    runner = CliRunner()
    assert "pseudo-terminal" in runner.invoke(app, ["--help"]).output
    listed = runner.invoke(app, ["faults"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.output.splitlines()] == list(FAULTS)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["ss2", "--fault", "nonsense", "--link", "/tmp/never-made"], "nonsense"),
        (["ss2", "--link", "/nonexistent/wheel"], "cannot make the port"),
        (["odds-box", "--key-file", "/nonexistent", "--link", "/tmp/never-made"], "/nonexistent"),
    ],
)
def test_mistakes_are_named(arguments: list[str], what: str) -> None:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 2
    assert what in result.output
    assert not Path("/tmp/never-made").is_symlink()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with simulator(tmp_path / "wheel", "ss2") as process:
        process.send_signal(number)
        assert process.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


def test_wheel_plays_so_many_games_and_tells_the_truth(tmp_path: Path) -> None:
    arguments = ("ss2", *FAST, "--json", "--games", "3", "--seed", "7", "--first-counter", "256")
    with simulator(tmp_path / "wheel", *arguments) as process:
        games = truths(process, 3)
        assert process.wait(10) == 0
    assert [(game["counter"], game["outcome"], game["session"]) for game in games] == [
        (256, "completed", 1),
        (1, "completed", 1),
        (2, "completed", 1),
    ]
    assert list(tmp_path.iterdir()) == []


def test_orders_on_standard_input(tmp_path: Path) -> None:
    link = tmp_path / "wheel"
    with simulator(link, "ss2", *FAST, "--json", "--fault", "quiet-stop") as process:
        port = os.open(link, os.O_RDWR | os.O_NOCTTY)
        assert truths(process, 1)[0]["outcome"] == "aborted"
        order(process, "number 7")
        assert " 7" in [game["pocket"] for game in truths(process, 3)]
        order(process, "nonsense")
        order(process, "fault line-lf")
        read_until(port, b"*X;5")
        os.close(port)
        order(process, "unplug")
        await_(lambda: not link.is_symlink())
        order(process, "plug")
        await_(link.is_symlink)
        order(process, "power-off")
        order(process, "power-on")
        await_(lambda: truths(process, 1)[0]["session"] == 2)
        order(process, "quit")
        assert process.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


def test_odds_box_answers_over_its_port(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"secret")
    link = tmp_path / "odds"
    with simulator(link, "odds-box", "--key-file", str(key), "--json", "--period-ms", "20") as process:
        order(process, "table 2")
        order(process, "table two")
        port = os.open(link, os.O_RDWR | os.O_NOCTTY)
        read_until(port, b"$ODSTA,")  # the orders have been read by now
        os.write(port, frame("HC", "DRW", 1, "0412", "9C0D4E7A11B2F00D"))
        read_until(port, b"$ODRES,")
        os.close(port)
        drawn = truths(process, 1)[0]
        process.terminate()
        assert process.wait(10) == 0
    assert (drawn["game"], drawn["counter"], drawn["nonce"]) == ("0412", 1, "9C0D4E7A11B2F00D")
    assert drawn["table"] == 2
    assert list(tmp_path.iterdir()) == [key]
