"""The demo, as a newcomer starts it: it sees what it promised, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from tests.support.broker import find_mosquitto

from dollyd.simulators.demo import checks, pit_checks

pytestmark = pytest.mark.long


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


ROULETTE = ("odds table 1", "odds table 2", "VOID by rule", "UNRESOLVED", "the broker is dead", "6. Proof")
EVERY_GAME = ("symbol", "in cup", "in phase point", "throw REJECTED by rule", "VOID by rule", "2. Proof")
SHOWS = {
    "roulette": (("--broker", "embedded"), checks.EXPECTATIONS, ROULETTE),
    "every-game": (("--broker", "mosquitto", "--all"), pit_checks.EXPECTATIONS, EVERY_GAME),
}
"""Arguments, what is promised, and words that must be among the lines."""


@pytest.mark.timeout(240)
def test_demos_see_all_that_they_promise(tmp_path: Path) -> None:
    """Side by side, for they wait most of their time."""
    find_mosquitto()
    with ExitStack() as stack:
        running = {}
        for name, (arguments, _, _) in SHOWS.items():
            (tmp_path / name).mkdir()
            running[name] = stack.enter_context(demo(tmp_path / name, *arguments))
        for name, (_, expectations, words) in SHOWS.items():
            output, _ = running[name].communicate(timeout=200)
            assert running[name].returncode == 0, output
            assert output.count("✓") == len(expectations)
            assert "✗" not in output
            assert "\x1b" not in output
            assert [word for word in words if word not in output] == []
            assert list((tmp_path / name).iterdir()) == []


@pytest.mark.parametrize(
    ("number", "arguments", "processes"), [(signal.SIGINT, (), 4), (signal.SIGTERM, ("--all",), 2)]
)
def test_an_interrupted_demo_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, arguments: tuple[str, ...], processes: int
) -> None:
    with demo(tmp_path, "--broker", "embedded", *arguments) as process:
        await_play(process)
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == processes
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
