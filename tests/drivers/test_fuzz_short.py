"""A short run of the fuzz tool as `make fuzz` starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_few_hundred_damaged_streams_give_no_wrong_number() -> None:
    command = [sys.executable, "-m", "tools.fuzz", "300", "--seed", "20261129"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  wheel: result" in done.stdout
    assert "  odds: drawn" in done.stdout
    assert "0  failures" in done.stdout
