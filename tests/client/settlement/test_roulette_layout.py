"""The fields of the cloth: how many there are, and that the grid is the one on the table."""

from __future__ import annotations

from collections import Counter

import pytest

from dollyd.client.settlement.roulette_layout import AT_ZERO, CLOTHS, field_of
from dollyd.client.settlement.spec import SettlementError

EUROPEAN, AMERICAN = "roulette-european", "roulette-american"
OUTSIDE_FIELDS = {"dozen": 3, "column": 3, "quarter": 4, "even_money": 6}


def test_the_cloths_have_the_fields_of_the_common_layout() -> None:
    inside = {
        EUROPEAN: {"straight": 37, "split": 60, "street": 14, "corner": 23, "sixline": 11},
        AMERICAN: {"straight": 38, "split": 62, "street": 15, "corner": 22, "sixline": 11, "first_five": 1},
    }
    for layout, fields in inside.items():
        assert Counter(kind for kind, _ in CLOTHS[layout]) == fields | OUTSIDE_FIELDS


def test_splits_touch_side_by_side_or_end_to_end() -> None:
    on_grid = {
        frozenset({one, other})
        for one in range(1, 37)
        for other in range(one + 1, 37)
        if (other - one == 1 and (one - 1) // 3 == (other - 1) // 3) or other - one == 3
    }
    splits = {frozenset(map(int, pockets)) for kind, pockets in CLOTHS[EUROPEAN] if kind == "split"}
    assert {split for split in splits if 0 not in split} == on_grid


def test_every_number_of_the_middle_column_has_four_neighbours() -> None:
    splits = [pockets for kind, pockets in CLOTHS[EUROPEAN] if kind == "split"]
    counts = [sum(str(number) in pockets for pockets in splits) for number in range(2, 37, 3)]
    assert counts == [4] * 11 + [3]  # 35 has no street below it


@pytest.mark.parametrize(("layout", "zeros"), [(EUROPEAN, {"0"}), (AMERICAN, {"0", "00"})])
def test_only_the_table_at_zero_touches_zeros(layout: str, zeros: set[str]) -> None:
    touching = {(kind, field.values) for (kind, _), field in CLOTHS[layout].items() if zeros & field.values}
    assert touching == {
        (kind, frozenset(pockets)) for kind, fields in AT_ZERO[layout].items() for pockets in fields
    }


def test_a_wheel_without_a_cloth_is_refused_by_name() -> None:
    with pytest.raises(SettlementError, match="no cloth is known for the wheel 'roulette-triple'"):
        field_of("straight", ("1",), "roulette-triple")
