"""A version change while stakes may be imprisoned (rulebook 2.9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.support.tables import make_setup

from dollyd.daemon.core import decision
from dollyd.daemon.errors import ConfigError
from dollyd.daemon.journal import Tail
from dollyd.daemon.settings import TableSettings
from dollyd.daemon.version_change import check_version_change

LAST_ROUND = 17


def table(variant: str, released: int = 0) -> TableSettings:
    return TableSettings(make_setup(variant), {}, released)


def tail(variant: str, zeros: int | None) -> Tail:
    """A journal that ends with a result of this variant."""
    setting: Any = msgspec.to_builtins(decision.setting(make_setup(variant)))
    outcome = {"pocket": "0"} | ({} if zeros is None else {"zeros_in_a_row": zeros})
    return Tail(
        chain="c",
        seq=9,
        prev="0",
        kid="k",
        last_utc="",
        last_round=LAST_ROUND,
        open_round=None,
        unresolved=False,
        session={"body": {"event": "opened", "setting": setting}},
        inspection="",
        results=({"body": {"outcome": outcome}},),
    )


def test_t63_d_to_c_right_after_a_zero_is_refused_until_an_operator_confirms() -> None:
    with pytest.raises(ConfigError) as refused:
        check_version_change("f.toml", table("C"), tail("D", zeros=1))
    assert refused.value.key.endswith(".variant")
    assert f"no_stakes_imprisoned_after_round = {LAST_ROUND}" in refused.value.remedy
    check_version_change("f.toml", table("C", released=LAST_ROUND), tail("D", zeros=1))


def test_a_confirmation_of_another_round_is_none() -> None:
    with pytest.raises(ConfigError):
        check_version_change("f.toml", table("C", released=LAST_ROUND - 1), tail("D", zeros=2))


@pytest.mark.parametrize(
    ("now", "before"),
    [
        pytest.param("D", tail("D", zeros=1), id="no-change"),
        pytest.param("C", tail("D", zeros=0), id="no-zero"),
        pytest.param("D", tail("C", zeros=None), id="nothing-can-be-imprisoned"),
        pytest.param("C", None, id="no-journal"),
        pytest.param("C", replace(tail("D", zeros=1), session=None), id="never-opened"),
    ],
)
def test_any_other_change_is_free(now: str, before: Tail | None) -> None:
    check_version_change("f.toml", table(now), before)
