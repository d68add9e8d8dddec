"""Pauses between starts that come to nothing, and who need not wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.daemon import Installation

from dollyd.daemon.host.restart_pause import PAUSE_MAX_S, RESTART_S, SHORT_S, RestartPause


class Service:
    """Starts of one service, as its manager sees them."""

    def __init__(self, directory: Path) -> None:
        self.environ = {"RUNTIME_DIRECTORY": str(directory)}
        self.now_s = 1000.0

    def start(self) -> float:
        """One more process; how long its manager and itself have waited before it."""
        self.now_s += RESTART_S
        pause_s = RestartPause(self.environ, lambda: self.now_s).pause_s()
        self.now_s += pause_s
        return RESTART_S + pause_s


def test_b40_pauses_grow_to_a_minute_and_are_short_again_after_a_long_run(tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.start()
    pauses = []
    for _ in range(8):
        service.now_s += SHORT_S - PAUSE_MAX_S  # of a hang that the watchdog ends
        pauses.append(service.start())
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    service.now_s += SHORT_S
    assert service.start() == RESTART_S


def test_a_run_that_ends_well_is_none_of_those_that_are_counted(tmp_path: Path) -> None:
    service = Service(tmp_path)
    assert [service.start() for _ in range(5)][-1] > RESTART_S
    RestartPause(service.environ).forget()
    assert [service.start() for _ in range(2)] == [RESTART_S, RESTART_S]


@pytest.mark.parametrize("left", ["", "\xff", "one 2", "3"])
def test_what_cannot_be_read_or_written_costs_no_start(left: str, tmp_path: Path) -> None:
    (tmp_path / "restarts").write_text(left)
    assert RestartPause({"RUNTIME_DIRECTORY": str(tmp_path)}).pause_s() == 0
    assert RestartPause({"RUNTIME_DIRECTORY": str(tmp_path / "away")}).pause_s() == 0
    assert RestartPause({}).pause_s() == 0
    RestartPause({}).forget()


def test_a_pause_ends_when_it_is_asked_to_and_the_next_start_does_not_wait(tmp_path: Path) -> None:
    installation = Installation(tmp_path, "localhost:1")
    (tmp_path / "restarts").write_text(f"8 {time.monotonic()}")
    command = [sys.executable, "-m", "dollyd.daemon", "run", "--config", str(installation.config)]
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True) as daemon:
        assert daemon.stderr is not None
        assert "event=start_waits pause_s=58" in daemon.stderr.readline()
        assert not installation.journal.exists()
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(5) == 0
    assert not (tmp_path / "restarts").exists()
