"""A version change while stakes may be imprisoned (rulebook 2.9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.chains import ChainMaker
from tests.support.tables import make_setup

from dollyd.daemon.core import decision
from dollyd.daemon.journal.store import Journal, Tail
from dollyd.daemon.settings.load import TableSettings
from dollyd.daemon.table.version_change import check_version_change
from dollyd.wire.errors import ConfigError
from dollyd.wire.record import Kind

RESULT_SEQ = 4


def table(variant: str) -> TableSettings:
    return TableSettings(make_setup(variant), {})


def tail(variant: str, zeros: int | None) -> Tail:
    """A journal that ends with a result of this variant."""
    setting: Any = msgspec.to_builtins(decision.setting(make_setup(variant)))
    outcome = {"pocket": "0"} | ({} if zeros is None else {"zeros_in_a_row": zeros})
    return Tail(
        chain="a" * 32,
        seq=9,
        prev="0",
        kid="k",
        last_utc="",
        last_mono_ns=0,
        last_boot="",
        last_round=1,
        open_round=None,
        unresolved=False,
        session={"body": {"event": "opened", "setting": setting}},
        inspection="",
        results=({"seq": RESULT_SEQ, "body": {"outcome": outcome}},),
    )


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty one."""
    opened = Journal.open(tmp_path / "journal.db")
    yield opened
    opened.close()


def confirmed(journal: Journal, *, before: bool = False, what: str = "none-imprisoned") -> Journal:
    """A round with its result, record 4, and an incident before or after it."""
    maker = ChainMaker().begin()
    if before:
        maker.add(Kind.INCIDENT, body={"what": what})
        maker.add(Kind.ROUND, 1)
    else:
        maker.add(Kind.ROUND, 1)
        maker.add(Kind.BETS_CLOSED, 1)
    maker.add(Kind.RESULT, 1)
    assert maker.seq == RESULT_SEQ
    if not before:
        maker.add(Kind.VOID, 2)
        maker.add(Kind.INCIDENT, body={"what": what})
    journal.append(maker.entries)
    return journal


def test_t63_d_to_c_right_after_a_zero_is_refused_until_a_supervisor_confirms(journal: Journal) -> None:
    with pytest.raises(ConfigError) as refused:
        check_version_change("f.toml", table("C"), tail("D", zeros=1), journal)
    assert refused.value.key.endswith(".variant")
    assert "dollyd table none-imprisoned" in refused.value.remedy
    check_version_change("f.toml", table("C"), tail("D", zeros=1), confirmed(journal))


@pytest.mark.parametrize("record", [{"before": True}, {"what": "none-imprisoned-refused"}])
def test_a_confirmation_before_the_zero_or_a_refused_one_is_none(
    journal: Journal, record: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        check_version_change("f.toml", table("C"), tail("D", zeros=2), confirmed(journal, **record))


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
def test_any_other_change_is_free(now: str, before: Tail | None, journal: Journal) -> None:
    check_version_change("f.toml", table(now), before, journal)
