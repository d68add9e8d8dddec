"""The time by which orders are judged, where the clock lies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from tests.support.chains import ChainMaker
from tests.support.commands import DEALER, later, order
from tests.support.desk import Bench, at_desk, why

from dollyd.daemon.commands.moment import Moment, _ns
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.journal.store import Journal
from dollyd.wire.errors import JournalError
from dollyd.wire.record import Kind, Time
from dollyd.wire.stamp import NS_PER_S, iso_utc


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with at_desk(tmp_path) as made:
        yield made


def journaled(bench: Bench, utc: str, *, synchronised: bool = True) -> None:
    """A record of that time stands in the journal; then the node starts anew."""
    maker = ChainMaker().begin()
    time = Time(utc=utc, monotonic_ns=1, boot="b", synchronised=synchronised, error_bound_us=10)
    maker.add(Kind.INCIDENT, body={"what": "x"}, header={"time": time})
    bench.journal.append(maker.entries)
    bench.start()


async def test_f7_a_clock_that_went_back_over_a_restart_makes_no_order_good_again(bench: Bench) -> None:
    """Never used, expired a minute ago; the newest record is younger than that."""
    expired = DEALER.sign(order("void", bench.now(-90)))
    journaled(bench, bench.now())
    bench.clock.step_utc(-75 * NS_PER_S)
    assert why(await bench.give(expired)) == "late"
    bench.clock.advance(10 * NS_PER_S)
    true_now = later(bench.now(), 75)
    assert (await bench.give(DEALER.sign(order("void", true_now))))["answer"] == "done"


async def test_f7_a_clock_that_goes_back_while_the_node_runs_makes_no_order_good_again(bench: Bench) -> None:
    expired = DEALER.sign(order("void", bench.now(-90)))
    assert why(await bench.give(expired)) == "late"
    bench.clock.step_utc(-75 * NS_PER_S)
    bench.clock.advance(NS_PER_S)
    assert why(await bench.give(DEALER.sign(order("void", bench.now(-15))))) == "late"


async def test_f7_records_of_a_nodes_first_evening_count_before_its_first_order(bench: Bench) -> None:
    expired = DEALER.sign(order("void", bench.now(-90)))
    bench.desk.written()
    bench.clock.step_utc(-75 * NS_PER_S)
    assert why(await bench.give(expired)) == "late"


async def test_f7_a_record_of_an_unsynchronised_clock_is_no_evidence(bench: Bench) -> None:
    """It may be years ahead: no order would be good until then."""
    journaled(bench, "2099-01-01T00:00:00.000000000Z", synchronised=False)
    assert (await bench.say(DEALER, "void"))["answer"] == "done"


@pytest.mark.parametrize(("rule", "answer"), [("any", "done"), ("synchronised", "refused")])
async def test_f7_by_profile_an_unsynchronised_clock_refuses(bench: Bench, rule: str, answer: str) -> None:
    engine = bench.table.engine
    rules = structs.replace(engine.setup.rules, orders_clock=rule)
    engine.setup = replace(engine.setup, rules=rules)
    bench.clock.synchronised = False
    said = await bench.say(DEALER, "void")
    assert said["answer"] == answer
    assert "not synchronised" in said["why"] or answer == "done"


def test_a_journal_that_cannot_be_read_says_nothing_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_id: int, _limit: int) -> list[object]:
        raise JournalError("damaged")

    journal, clock = Journal.open(tmp_path / "journal.db"), SystemClock()
    monkeypatch.setattr(journal, "entries_after", damaged)
    assert Moment(clock, journal).utc() <= iso_utc(clock.stamp().utc_ns)
    journal.close()


def test_times_of_records_are_read_to_the_nanosecond() -> None:
    for utc_ns in (0, 5, 1_800_000_000 * NS_PER_S + 123_456_789):
        assert _ns(iso_utc(utc_ns)) == utc_ns
