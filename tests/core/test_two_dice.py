"""Tuplanoppa and craps: all 36 throws, and the phases of craps (rulebook 5, 7)."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from tests.support.tables import game_setup

from dollyd.daemon.core.games.craps import CRAPS
from dollyd.daemon.core.games.spec import Drawn, Game, Memory, Outcome
from dollyd.daemon.core.games.tuplanoppa import TUPLANOPPA

TUPLANOPPA_SETUP, CRAPS_SETUP = game_setup("tuplanoppa"), game_setup("craps")
# sum of the first die (down) and the second (across)
SUMS = """
2 3 4 5 6 7
3 4 5 6 7 8
4 5 6 7 8 9
5 6 7 8 9 10
6 7 8 9 10 11
7 8 9 10 11 12
"""
TOTALS = {
    (first, second): int(cell)
    for first, line in enumerate(SUMS.strip().splitlines(), start=1)
    for second, cell in enumerate(line.split(), start=1)
}
SIDE_OF_SEVEN = dict.fromkeys(range(2, 7), "under") | {7: "seven"} | dict.fromkeys(range(8, 13), "over")
THROWS = list(product(range(1, 7), range(1, 7)))


def tuplanoppa(first: int, second: int, memory: Memory = ()) -> Outcome:
    return TUPLANOPPA.outcome(Drawn((str(first), str(second)), TUPLANOPPA_SETUP.variant, None, memory))


def craps(first: int, second: int, memory: Memory = ()) -> Outcome:
    return CRAPS.outcome(Drawn((str(first), str(second)), CRAPS_SETUP.variant, None, memory))


@pytest.mark.parametrize("game", [TUPLANOPPA, CRAPS], ids=lambda game: game.name)
def test_every_throw_of_two_dice_can_be_read(game: Game) -> None:
    assert game.values(None) == tuple((str(first), str(second)) for first, second in THROWS)
    assert Counter(TOTALS.values()) == {2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 6, 8: 5, 9: 4, 10: 3, 11: 2, 12: 1}


# --- Tuplanoppa --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("throw", THROWS, ids=str)
def test_a_throw_of_tuplanoppa_has_its_attributes(throw: tuple[int, int]) -> None:
    first, second = throw
    total = TOTALS[throw]
    assert tuplanoppa(first, second) == {
        "die_1": first,
        "die_2": second,
        "sum": total,
        "pair": throw in {(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)},
        "under_over": SIDE_OF_SEVEN[total],
    }


@pytest.mark.parametrize(
    ("throw", "attributes"),
    [
        pytest.param((4, 4), {"pair": True, "sum": 8, "under_over": "over"}, id="T41"),
        pytest.param((1, 6), {"pair": False, "sum": 7, "under_over": "seven"}, id="T42"),
        pytest.param((1, 1), {"pair": True, "sum": 2, "under_over": "under"}, id="T43"),
    ],
)
def test_case(throw: tuple[int, int], attributes: Outcome) -> None:
    assert attributes.items() <= tuplanoppa(*throw).items()


# --- craps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [None, 4, 5, 6, 8, 9, 10], ids=str)
@pytest.mark.parametrize("throw", THROWS, ids=str)
def test_a_roll_tells_the_phase_and_the_point_of_its_start(throw: tuple[int, int], point: int | None) -> None:
    memory = () if point is None else (("point", str(point)),)
    expected: Outcome = {
        "die_1": throw[0],
        "die_2": throw[1],
        "sum": TOTALS[throw],
        "pair": throw[0] == throw[1],
        "phase": "come-out" if point is None else "point",
    }
    assert craps(*throw, memory) == expected | ({} if point is None else {"point": point})


# What a total makes of the phase: `-` come-out, else the point.
NEXT = """
from   2  3  4  5  6  7  8  9  10 11 12
-      -  -  4  5  6  -  8  9  10 -  -
4      4  4  -  4  4  -  4  4  4  4  4
5      5  5  5  -  5  -  5  5  5  5  5
6      6  6  6  6  -  -  6  6  6  6  6
8      8  8  8  8  8  -  -  8  8  8  8
9      9  9  9  9  9  -  9  -  9  9  9
10     10 10 10 10 10 -  10 10 -  10 10
"""
HEAD, *LINES = (line.split() for line in NEXT.strip().splitlines())
STEPS = [
    (start, total, after) for start, *cells in LINES for total, after in zip(HEAD[1:], cells, strict=True)
]


@pytest.mark.parametrize(("start", "total", "after"), STEPS)
def test_the_phase_goes_on(start: str, total: str, after: str) -> None:
    throw = next(throw for throw in THROWS if TOTALS[throw] == int(total))
    memory: Memory = () if start == "-" else (("point", start),)
    assert CRAPS.after(craps(*throw, memory)) == (() if after == "-" else (("point", after),))


def test_a_sequence_of_rolls() -> None:
    memory: Memory = ()
    told = []
    for throw in [(5, 6), (2, 2), (5, 6), (1, 3), (3, 4), (4, 4), (3, 4), (6, 6)]:
        one = craps(*throw, memory)
        told.append((one["sum"], one["phase"], one.get("point")))
        memory = CRAPS.after(one)
    assert told == [
        (11, "come-out", None),
        (4, "come-out", None),
        (11, "point", 4),
        (4, "point", 4),
        (7, "come-out", None),
        (8, "come-out", None),
        (7, "point", 8),
        (12, "come-out", None),
    ]
