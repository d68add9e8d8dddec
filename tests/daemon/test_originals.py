"""What the journal says of a round that is to be corrected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.chains import SETTING, ChainMaker
from tests.support.commands import CHAIN, correction, manual

from dollyd.daemon.commands.originals import read_original
from dollyd.daemon.core.events import Original
from dollyd.daemon.journal.store import Journal
from dollyd.wire.record import Kind


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty one."""
    opened = Journal.open(tmp_path / "journal.db")
    yield opened
    opened.close()


class Night(ChainMaker):
    """A chain whose bodies are whole."""

    def result(self, number: int, pocket: str) -> int:
        self.add(Kind.RESULT, number, manual(outcome={"pocket": pocket}))
        return self.seq

    def void(self, number: int) -> int:
        body: dict[str, Any] = {
            "rule": "declared",
            "clause": "4.18.5",
            "text": "a coin",
            "stake_policy": "returned",
        }
        body |= {"setting": SETTING, "gaming_date": "2026-11-29", "evidence": manual()["evidence"]}
        self.add(Kind.VOID, number, body)
        return self.seq

    def correct(self, number: int, pocket: str) -> int:
        """To a number, or to void where it is empty."""
        after: dict[str, Any] = {"kind": "void", "rule": "corrected", "stake_policy": "returned"}
        if pocket:
            after = {"kind": "result", "outcome": {"pocket": pocket}}
        self.add(Kind.CORRECTION, number, correction(after=after))
        return self.seq

    def session(self, maximum: int) -> None:
        body: dict[str, Any] = {
            "event": "opened",
            "by": "d1",
            "setting": SETTING,
            "gaming_date": "2026-11-29",
        }
        stakes = {"minimum": 1, "maximum": maximum, "currency": "EUR"}
        self.add(Kind.SESSION, 0, body | {"stakes": stakes, "opened_at": "2026"})


def read(journal: Journal, night: Night, number: int) -> Original:
    journal.append(night.entries)
    original = read_original(journal, CHAIN, number)
    assert original is not None
    return original


def begun() -> Night:
    night = Night()
    night.begin()
    return night


def before(original: Original) -> Any:
    return original.outcome_before and original.outcome_before["pocket"]


def test_the_newest_result_with_the_one_before_it(journal: Journal) -> None:
    night = begun()
    night.result(1, "7")
    night.void(2)
    seq = night.result(3, "32")
    original = read(journal, night, 3)
    assert (original.seq, original.newest, before(original)) == (seq, True, "7")
    assert original.finding.outcome == {"pocket": "32"}
    assert (original.stakes and original.stakes.maximum, original.gaming_date) == (1000, "2026-11-29")


def test_what_was_corrected_counts_as_corrected(journal: Journal) -> None:
    night = begun()
    night.result(1, "7")
    night.result(2, "8")
    night.correct(1, "9")
    night.correct(2, "10")
    seq = night.correct(2, "11")
    original = read(journal, night, 2)
    assert (original.seq, original.finding.outcome) == (seq, {"pocket": "11"})
    assert before(original) == "9"


def test_a_result_that_became_void_is_none_before_it(journal: Journal) -> None:
    night = begun()
    night.result(1, "7")
    night.result(2, "8")
    night.correct(2, "")
    night.result(3, "9")
    assert before(read(journal, night, 3)) == "7"
    found = read_original(journal, CHAIN, 2)
    assert found is not None
    assert (found.finding.kind, found.newest) == ("void", False)


@pytest.mark.parametrize(("last", "newest"), [("result", False), ("void", True), ("corrected", True)])
def test_only_later_results_make_it_old(journal: Journal, last: str, newest: bool) -> None:
    night = begun()
    night.result(1, "7")
    if last == "void":
        night.void(2)
    else:
        night.result(2, "8")
        if last == "corrected":
            night.correct(2, "")
    assert read(journal, night, 1).newest is newest


def test_a_later_void_that_became_a_result_makes_it_old(journal: Journal) -> None:
    night = begun()
    night.result(1, "7")
    night.void(2)
    night.correct(2, "8")
    assert not read(journal, night, 1).newest


def test_the_limits_of_a_void_round_are_those_of_its_session(journal: Journal) -> None:
    night = begun()
    night.session(500)
    night.void(1)
    night.session(900)
    original = read(journal, night, 1)
    assert original.stakes is not None
    assert original.stakes.maximum == 500
    assert (original.finding.kind, original.finding.rule) == ("void", "declared")


def test_what_has_no_final_record_cannot_be_corrected(journal: Journal) -> None:
    night = begun()
    night.result(1, "7")
    night.add(Kind.ROUND, 2)
    journal.append(night.entries)
    for chain, number in ((CHAIN, 2), (CHAIN, 3), (CHAIN, 0), ("b" * 32, 1)):
        assert read_original(journal, chain, number) is None


def test_a_restart_goes_on_from_results_as_they_were_corrected(journal: Journal) -> None:
    night = begun()
    night.result(1, "7")
    night.result(2, "8")
    night.void(3)
    night.result(4, "0")
    night.correct(2, "")
    night.correct(3, "9")
    night.correct(4, "10")
    seq = night.correct(4, "11")
    journal.append(night.entries)
    tail = journal.tail("r1")
    assert tail is not None
    assert [(r["round"], r["body"]["outcome"]["pocket"]) for r in tail.results] == [
        (1, "7"),
        (3, "9"),
        (4, "11"),
    ]
    assert tail.results[-1]["seq"] == seq
