"""The odds of the shipped rulebooks against tables written here (rulebook 3 to 7), but roulette's."""

from __future__ import annotations

import pytest
from tests.support.tables import TEXTS, game_setup, rulebook

BOULE = {"straight": 7, "even": 1, "odd": 1, "black": 1, "red": 1, "1-4": 1, "6-9": 1}
MONEY_WHEEL = {"1": 1, "2": 2, "5": 5, "10": 10, "20": 20, "45A": 45, "45B": 45}
SUMS = {2: 32, 3: 15, 4: 10, 5: 7, 6: 5, 7: 4, 8: 5, 9: 7, 10: 10, 11: 15, 12: 32}
TUPLANOPPA = {f"sum_{total}": odds for total, odds in SUMS.items()} | {
    "any_pair": 4,
    "under_7": 1,
    "over_7": 1,
}
TOTALS = {4: 60, 5: 30, 6: 18, 7: 12, 8: 8, 9: 6, 10: 6}
SIC_BO = (
    {"small": 1, "big": 1, "single_1": 1, "single_2": 2, "single_3": 12, "two_dice": 6, "double": 11}
    | {"any_triple": 30, "triple": 180}
    | {f"total_{total}": odds for total, odds in TOTALS.items()}
    | {f"total_{21 - total}": odds for total, odds in TOTALS.items()}
)
# number: right, buy, lay
PLACE = {
    4: "9:5 2:1 1:2",
    5: "7:5 3:2 2:3",
    6: "7:6 6:5 5:6",
    8: "7:6 6:5 5:6",
    9: "7:5 3:2 2:3",
    10: "9:5 2:1 1:2",
}
CRAPS: dict[str, int | str] = {"buy_commission": 5, "lay_commission": 5}
for number, cells in PLACE.items():
    CRAPS |= zip((f"right_{number}", f"buy_{number}", f"lay_{number}"), cells.split(), strict=True)


@pytest.mark.parametrize(
    ("name", "variant", "odds"),
    [
        ("boule", "standard", BOULE),
        ("money-wheel", "standard", MONEY_WHEEL),
        ("tuplanoppa", "A", TUPLANOPPA),
        ("tuplanoppa", "B", TUPLANOPPA),
        ("sic-bo", "standard", SIC_BO),
        ("craps", "place", CRAPS),
    ],
)
def test_the_shipped_odds(name: str, variant: str, odds: dict[str, int | str]) -> None:
    assert game_setup(name, variant=variant).variant.odds == odds


def test_the_money_wheel_counts_sectors_by_odds() -> None:
    by_odds = game_setup("money-wheel").variant.sectors_by_odds
    assert by_odds == {"1": 23, "2": 15, "5": 8, "10": 4, "20": 2, "45": 2}
    assert sum(by_odds.values()) == 54


@pytest.mark.parametrize("name", TEXTS)
def test_a_rulebook_names_its_game_and_source(name: str) -> None:
    book = rulebook(TEXTS[name][0])
    assert book.game == name
    assert book.source
    assert TEXTS[name][1] in book.variants
    assert (book.quarter_odds > 0) == (name == "roulette")
