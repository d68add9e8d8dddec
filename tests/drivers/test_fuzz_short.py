"""A short run of the fuzz tool as `make fuzz` starts it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.fuzz import __main__ as fuzz
from tools.fuzz.judge import Outcome
from tools.fuzz.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
DECISIVE = {"odds-box": "drawn", "console": "VOID told", "generators": "drawn"}
"""What a kind of device must have told for its run to mean anything; `result` where it is not named."""


@pytest.mark.long
def test_a_hundred_damaged_streams_of_each_kind_tell_nothing_untrue() -> None:
    command = [sys.executable, "-m", "tools.fuzz", "100", "--seed", "20261129"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n0 failures in" in done.stdout
    for kind in KINDS:
        counts = done.stdout.split(f"\n{kind}: ")[1].split(" failures\n")
        told = re.search(rf"([\d,]+)  {DECISIVE.get(kind, 'result')}\n", counts[1])
        assert told, kind
        assert int(told[1].replace(",", "")) >= 20, kind


def test_a_finding_is_printed_with_the_way_to_make_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def untrue(*_: object) -> Outcome:
        return Outcome(failures=["game 0001: 17 is not 18"])

    def raising(*_: object) -> Outcome:
        raise ZeroDivisionError

    monkeypatch.setattr(sys, "argv", ["fuzz", "--seed", "5", "--only", "console", "--stream", "7"])
    for play, what in ((untrue, "17 is not 18"), (raising, "ZeroDivisionError")):
        monkeypatch.setitem(KINDS, "console", play)
        assert fuzz.main() == 1
        printed = capsys.readouterr().out
        assert what in printed
        assert "--seed 5 --only console --stream 7" in printed
