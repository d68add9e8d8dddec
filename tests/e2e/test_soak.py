"""A short soak; the long one is `make soak`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tools.soak.judge import Journaled, check_consumer
from tools.soak.plan import MATRIX, plan
from tools.truth import Game, Kept, SoakError, check_odds, explain

ROOT = Path(__file__).parents[2]
GAMES = [Game(1, "17", 10, 20), Game(2, "4", 30, 40), Game(3, "9", 50, 60), Game(4, "", 70, 75)]


@dataclass
class Table:
    games: Sequence[Game] = field(default_factory=lambda: GAMES)
    name: str = "r1"
    drawn: dict[str, int] = field(default_factory=lambda: {"N": 2})

    def was_unheard(self, game: Game) -> bool:
        return game.counter == 3


def told(*records: tuple[str, int, int, dict[str, Any]]) -> list[Kept]:
    return [Kept(seq, *record) for seq, record in enumerate(records, 1)]


RESULT: tuple[tuple[str, int, int, dict[str, Any]], ...] = (
    ("key", 0, 0, {}),
    ("round", 1, 11, {"game_ref": "wheel/1/001"}),
    ("result", 1, 21, {"outcome": "17"}),
)


def test_the_truth_tells_why_each_game_is_no_result() -> None:
    named = ("gap", 0, 45, {"cause": "no-round-open", "games": ["wheel/1/002"], "count": 1})
    assert explain(Table(), told(*RESULT, named)) == {
        "result": 1,
        "gap: no round open": 1,
        "port not open": 1,
    }
    counted = ("gap", 0, 45, {"cause": "no-round-open", "games": [], "count": 1})
    assert explain(Table(), told(*RESULT, counted))["gap: no round open"] == 1
    down = ("gap", 0, 65, {"cause": "daemon-down", "games": [], "count": 0})
    assert explain(Table(), told(*RESULT, down)) == {"result": 1, "gap: daemon down": 2}


def test_the_truth_finds_a_lost_game_a_wrong_number_and_a_wrong_odds_table() -> None:
    with pytest.raises(SoakError, match="game 2 is explained"):
        explain(Table(), told(*RESULT))
    with pytest.raises(SoakError, match="round 1 is 18, but the ball fell into 17"):
        explain(Table(), told(*RESULT[:2], ("result", 1, 21, {"outcome": "18"})))
    with pytest.raises(SoakError, match="the only one of game 1"):
        explain(Table(), told(*RESULT, ("round", 2, 22, {"game_ref": "wheel/1/001"})))
    with pytest.raises(SoakError, match="the table that was drawn"):
        check_odds(Table(), told(("result", 1, 21, {"outcome": "17", "odds": ("N", 1)})))


@pytest.mark.parametrize(
    ("heard", "promise"),
    [
        ([(1, "a"), (3, "c")], "record 2 is in its place"),
        ([(1, "a"), (2, "b"), (2, "b"), (3, "c")], "record 3 is in its place"),
        ([(2, "b"), (1, "a"), (3, "c")], "record 1 is in its place"),
        ([(1, "a"), (2, "x"), (3, "c")], "the same records"),
        ([(1, "a"), (2, "b")], "the same records"),
    ],
)
def test_the_judge_finds_what_the_consumer_lost_doubled_or_has_otherwise(
    heard: list[tuple[int, str]], promise: str
) -> None:
    journaled = Journaled()
    journaled.chains["c"] = [(1, "a"), (2, "b"), (3, "c")]
    check_consumer(journaled, {"c": [(1, "a"), (2, "b"), (3, "c")]})
    with pytest.raises(SoakError, match=promise):
        check_consumer(journaled, {"c": heard})


def test_a_seed_is_a_plan_and_no_fault_is_left_out() -> None:
    struck = Counter(strike.fault for strike in plan(3, 100_000))
    assert plan(3, 100_000) == plan(3, 100_000) != plan(4, 100_000)
    assert struck == {fault: 100_000 // often.games for fault, often in MATRIX.items()}
    assert {strike.fault for strike in plan(3, 60)} == set(MATRIX)


@pytest.mark.long
def test_nothing_of_the_fault_matrix_breaks_a_promise() -> None:
    # A seed of short strikes: the same faults in less time.
    command = [sys.executable, "-m", "tools.soak", "--games", "60", "--seed", "1608"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "NOT GOOD" not in run.stdout
    assert "good: unexplained missing games 0" in run.stdout
