"""Long runs that are ended leave nothing behind (L9)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.support.postgres import find_binaries

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 90


@pytest.mark.long
def test_l9_an_archive_soak_that_is_ended_ends_its_data_base() -> None:
    find_binaries()
    with tempfile.TemporaryDirectory(prefix="l9-") as name:
        Path(name).chmod(0o755)  # the server runs as somebody else
        run = subprocess.Popen(
            [sys.executable, "-m", "tools.archive_soak", "--records", "20000", "--seed", "1"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            server = postmaster(Path(name), run)
            run.send_signal(signal.SIGTERM)
            assert run.wait(WAIT_S) != 0
            with suppress(psutil.NoSuchProcess):
                psutil.Process(server).wait(WAIT_S)
            assert not list(Path(name).glob("pg-*"))
        finally:
            run.kill()
            run.wait()


@pytest.mark.long
def test_an_evening_that_is_ended_leaves_no_process_and_no_file() -> None:
    find_binaries()
    with tempfile.TemporaryDirectory(prefix="endure-") as name:
        Path(name).chmod(0o755)  # the server runs as somebody else
        run = subprocess.Popen(
            [sys.executable, "-m", "tools.endure", "--minutes", "3", "--seed", "1"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline_s = time.monotonic() + WAIT_S
            while not list(Path(name).glob("dollyd-endure-*/course.log")):  # it plays, and is struck
                assert run.poll() is None
                assert time.monotonic() < deadline_s, "nothing happens"
                time.sleep(0.05)
            children = psutil.Process(run.pid).children(recursive=True)
            run.send_signal(signal.SIGTERM)
            assert run.wait(WAIT_S) == 1
            assert psutil.wait_procs(children, timeout=WAIT_S)[1] == []
            assert list(Path(name).iterdir()) == []
        finally:
            run.kill()
            run.wait()


def postmaster(directory: Path, run: subprocess.Popen[bytes]) -> int:
    """The process of the data base, as soon as it takes connections."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s and run.poll() is None:
        for file in directory.glob("pg-*/data/postmaster.pid"):
            lines = file.read_text().splitlines()
            if len(lines) > 7 and lines[7].strip() == "ready":
                return int(lines[0])
        time.sleep(0.05)
    pytest.fail("no data base was started")
