"""The demo, as a newcomer starts it: it sees what it promised, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.support.broker import find_mosquitto

from dollyd.simulators.demo.checks import EXPECTATIONS

pytestmark = pytest.mark.slow


@contextmanager
def demo(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The demo without a terminal; its temporary directory is made in `directory`."""
    with subprocess.Popen(
        [sys.executable, "-m", "dollyd.simulators.demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TMPDIR": str(directory)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def await_all_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []


def await_play(process: subprocess.Popen[str]) -> None:
    """Read until the table is at work, with all that belongs to it."""
    assert process.stdout is not None
    for line in process.stdout:
        if "round 1:" in line:
            return
    pytest.fail("the demo ended before its first result")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("broker", ["mosquitto", "embedded"])
def test_demo_sees_all_that_it_promises(tmp_path: Path, broker: str) -> None:
    if broker == "mosquitto":
        find_mosquitto()
    with demo(tmp_path, "--broker", broker) as process:
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    assert output.count("✓") == len(EXPECTATIONS)
    assert "✗" not in output
    assert "\x1b" not in output
    for line in (
        "odds table 1",
        "odds table 2",
        "VOID by rule",
        "UNRESOLVED",
        "the broker is dead",
        "6. Proof",
    ):
        assert line in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with demo(tmp_path, "--broker", "embedded") as process:
        await_play(process)
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 4
        process.send_signal(number)
        assert process.wait(10) == 130
    await_all_gone(children)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_demo_takes_its_processes_with_it(tmp_path: Path) -> None:
    with demo(tmp_path, "--broker", "embedded") as process:
        await_play(process)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    await_all_gone(children)


def test_a_daemon_that_dies_ends_the_demo_with_its_reason(tmp_path: Path) -> None:
    with demo(tmp_path, "--broker", "embedded") as process:
        await_play(process)
        (daemon,) = (p for p in psutil.Process(process.pid).children() if "dollyd.daemon" in p.cmdline())
        daemon.kill()
        assert process.stdout is not None
        output = process.stdout.read()
        assert process.wait(10) == 1
    (kept,) = tmp_path.iterdir()
    assert "The demo stopped: the daemon ended with exit code -9" in output
    assert f"are kept in {kept}" in output
    assert (kept / "journal.db").exists()
