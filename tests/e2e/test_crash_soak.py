"""A short crash soak; the long one is `make crash`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_killing_daemon_and_broker_breaks_no_promise() -> None:
    command = [sys.executable, "-m", "tools.crash_soak", "--games", "60"]
    command += ["--daemon-kills", "3", "--broker-kills", "2", "--unplugged-s", "0", "--seed", "11"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "daemon killed 3 times, broker killed 2 times" in run.stdout
