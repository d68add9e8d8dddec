"""A short soak; the long one is `make soak`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tools.soak.plan import MATRIX, plan

ROOT = Path(__file__).parents[2]


def test_a_seed_is_a_plan_and_no_fault_is_left_out() -> None:
    struck = Counter(strike.fault for strike in plan(3, 100_000))
    assert plan(3, 100_000) == plan(3, 100_000) != plan(4, 100_000)
    assert struck == {fault: 100_000 // often.games for fault, often in MATRIX.items()}
    assert {strike.fault for strike in plan(3, 60)} == set(MATRIX)


@pytest.mark.slow
def test_nothing_of_the_fault_matrix_breaks_a_promise() -> None:
    command = [sys.executable, "-m", "tools.soak", "--games", "60", "--seed", "11"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "NOT GOOD" not in run.stdout
    assert "good: unexplained missing games 0" in run.stdout
