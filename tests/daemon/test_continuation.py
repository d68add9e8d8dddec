"""What a table goes on with after a restart, and under another configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.support.chains import UTC, ChainMaker
from tests.support.daemon import Installation
from tests.support.tables import ODDS_BOX, START, WHEEL, Play, game, make_setup, odds_drawn

from dollyd.daemon.core.events import (
    Approved,
    Defect,
    DrawFacts,
    Ending,
    GameEnded,
    Restarted,
    ResultProposed,
    VoidDeclared,
)
from dollyd.daemon.core.state import Table
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.journal.entry import utc_ns
from dollyd.daemon.journal.store import Journal, Tail
from dollyd.daemon.journal.writer import Draft
from dollyd.daemon.settings.load import load
from dollyd.daemon.table.engine import Engine, house
from dollyd.daemon.table.resume import carried_over, restarted, restored
from dollyd.daemon.table.runner import TableRunner
from dollyd.wire.record import Kind
from dollyd.wire.stamp import Stamp

COUNTED = {"counter": "9", "proof": "00AA"}
OPENED_AT = "2026-11-29T20:00:00.000000000Z"


class Drafts:
    """Keeps what is submitted."""

    def __init__(self) -> None:
        self.taken: list[Draft] = []

    def submit(self, draft: Draft, /) -> None:
        self.taken.append(draft)

    def bodies(self, kind: Kind) -> list[Any]:
        return [msgspec.json.decode(draft.body) for draft in self.taken if draft.kind is kind]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty one."""
    opened = Journal.open(tmp_path / "continued.db")
    yield opened
    opened.close()


def started(tmp_path: Path, tail: Tail | None, variant: str = "C") -> tuple[TableRunner, Drafts]:
    """A table that has taken up where the journal ends."""
    settings = load(Installation(tmp_path, "127.0.0.1:1", variant=variant).config).tables["r1"]
    drafts, failures = Drafts(), list[Exception]()
    runner = TableRunner(settings, drafts, SystemClock(), Random(1), lambda _: None, failures.append)
    runner.start(tail, "chain")
    return runner, drafts


def session(event: str, by: str) -> dict[str, Any]:
    return {"event": event, "by": by, "opened_at": OPENED_AT}


# --- open or closed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sessions", "is_open"),
    [
        pytest.param([], True, id="never-open"),
        pytest.param([("opened", "d1")], True, id="open"),
        pytest.param([("opened", "d1"), ("closed", "d1")], False, id="closed-by-the-dealer"),
        pytest.param([("opened", "configuration"), ("closed", "console:D17")], False, id="at-the-console"),
        pytest.param([("opened", "d1"), ("closed", "configuration")], True, id="taken-out-and-back"),
    ],
)
async def test_a_table_that_people_closed_stays_closed_over_a_restart(
    tmp_path: Path, journal: Journal, sessions: list[tuple[str, str]], is_open: bool
) -> None:
    maker = ChainMaker().begin()
    for event, by in sessions:
        maker.add(Kind.SESSION, body=session(event, by))
    journal.append(maker.entries)
    runner, drafts = started(tmp_path, journal.tail("r1"))
    assert runner.engine.table.open is is_open
    opened = [body["by"] for body in drafts.bodies(Kind.SESSION) if body["event"] == "opened"]
    was_open = bool(sessions) and sessions[-1][0] == "opened"
    assert opened == (["configuration"] if is_open and not was_open else [])


async def test_a_table_without_a_journal_is_opened(tmp_path: Path) -> None:
    runner, _ = started(tmp_path, None)
    assert runner.engine.table.open


# --- a round that is unresolved -----------------------------------------------------------------------------


def doubtful(*, with_odds: bool) -> Any:
    """The body of a round of variant B in which the wheel was lost after the odds table was drawn."""
    play = Play(make_setup("B")).no_more_bets()
    if with_odds:
        play.tell(odds_drawn(1, 2))
    play.tell(GameEnded(game(), Ending.LOST, DrawFacts(defects=(Defect.DEVICE_LOST,))))
    return msgspec.to_builtins(play.body(Kind.UNRESOLVED))


def unresolved_night(journal: Journal, *, with_odds: bool) -> ChainMaker:
    maker = ChainMaker().begin()
    maker.add(Kind.SESSION, body=session("opened", "d1"))
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.INCIDENT, 1, body={"what": "odds-refused"})  # of an answer before
    maker.add(Kind.BETS_CLOSED, 1)
    maker.add(Kind.UNRESOLVED, 1, body=doubtful(with_odds=with_odds))
    journal.append(maker.entries)
    return maker


def entered_by_two(runner: TableRunner) -> None:
    at = SystemClock().stamp()
    runner.tell(house(ResultProposed("d1", "dealer", "{}", "ab", 1, ("17",), "the sensor is dead"), at))
    runner.tell(house(Approved("p1", "pit-boss", "{}", "ab"), at))


async def test_an_unresolved_round_keeps_its_odds_table_and_its_rule_over_a_restart(
    tmp_path: Path, journal: Journal
) -> None:
    unresolved_night(journal, with_odds=True)
    runner, drafts = started(tmp_path, journal.tail("r1"), "B")
    assert runner.engine.table.blocked == "device-lost"
    entered_by_two(runner)
    (result,) = drafts.bodies(Kind.RESULT)
    assert result["odds"] == doubtful(with_odds=True)["odds"], "the draw as it was recorded, and when"
    assert result["mode"] == "manual"


async def test_a_round_whose_odds_table_was_never_drawn_can_only_be_void_after_a_restart(
    tmp_path: Path, journal: Journal
) -> None:
    unresolved_night(journal, with_odds=False)
    runner, drafts = started(tmp_path, journal.tail("r1"), "B")
    entered_by_two(runner)
    assert drafts.bodies(Kind.RESULT) == []


async def test_odds_that_were_contradicted_later_do_not_come_back_by_a_restart(
    tmp_path: Path, journal: Journal
) -> None:
    maker = unresolved_night(journal, with_odds=True)
    maker.add(Kind.INCIDENT, 1, body={"what": "odds-refused"})
    journal.append(maker.entries[-1:])
    runner, drafts = started(tmp_path, journal.tail("r1"), "B")
    entered_by_two(runner)
    assert drafts.bodies(Kind.RESULT) == []


async def test_l5_odds_that_came_after_unresolved_are_kept_over_a_restart(
    tmp_path: Path, journal: Journal
) -> None:
    maker = unresolved_night(journal, with_odds=False)
    maker.add(Kind.INCIDENT, 1, body=drawn_later())
    journal.append(maker.entries[-1:])
    runner, drafts = started(tmp_path, journal.tail("r1"), "B")
    entered_by_two(runner)
    (result,) = drafts.bodies(Kind.RESULT)
    drawn = odds_drawn(1, 2)
    assert (result["odds"]["table"], result["odds"]["counter"]) == (drawn.table, drawn.counter)
    assert (result["odds"]["nonce"], result["odds"]["proof"]) == (drawn.nonce, drawn.proof)
    assert result["odds"]["drawn"] == {"utc": UTC, "monotonic_ns": 1}, "the time of the record"


def drawn_later() -> Any:
    """The body of the incident of an odds table that was drawn after the round became unresolved."""
    play = Play(make_setup("B")).no_more_bets()
    play.tell(GameEnded(game(), Ending.LOST, DrawFacts(defects=(Defect.DEVICE_LOST,))), odds_drawn(1, 2))
    return msgspec.to_builtins(play.body(Kind.INCIDENT))


# --- the counter of the odds box --------------------------------------------------------------------------


def void_with_odds(counter: int) -> Any:
    play = Play(make_setup("B")).no_more_bets()
    play.tell(replace(odds_drawn(1, 2), counter=counter), VoidDeclared("d1", "dealer", "a coin"))
    return msgspec.to_builtins(play.body(Kind.VOID))


@pytest.mark.parametrize(
    ("later", "counter"),
    [
        pytest.param([], 1, id="a-void"),
        pytest.param([(Kind.INCIDENT, {"what": "relaunch", "details": {"counter": "7"}})], 1, id="no-draw"),
        pytest.param([(Kind.INCIDENT, {"what": "odds-unused", "details": COUNTED})], 9, id="an-incident"),
        pytest.param(
            [(Kind.CORRECTION, {"odds": {"counter": 0, "proof": ""}, "after": {"kind": "void"}})],
            1,
            id="no-correction",
        ),
    ],
)
async def test_f10_the_counter_of_the_odds_box_is_kept_over_a_restart(
    tmp_path: Path, journal: Journal, later: list[tuple[Kind, Any]], counter: int
) -> None:
    maker = ChainMaker().begin()
    maker.add(Kind.INCIDENT, body={"what": "odds-counter-jump", "details": COUNTED | {"counter": "0"}})
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.VOID, 1, body=void_with_odds(1))
    for kind, body in later:
        maker.add(kind, 1, body=body)
    maker.add(Kind.ROUND, 2)
    maker.add(Kind.BETS_CLOSED, 2)  # drawn, and killed before the round had a record of it
    journal.append(maker.entries)
    runner, _ = started(tmp_path, journal.tail("r1"), "B")
    assert runner.engine.table.odds_counter == counter


async def test_f10_drawn_killed_started_void_and_the_next_draw_tells_that_one_was_consumed(
    tmp_path: Path, journal: Journal
) -> None:
    maker = ChainMaker().begin()
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.VOID, 1, body=void_with_odds(1))
    maker.add(Kind.ROUND, 2)
    journal.append(maker.entries)
    tail = journal.tail("r1")
    assert tail is not None
    setup = make_setup("B")
    play = Play(setup, replace(restored(setup, tail, START), open=True))
    play.tell(restarted(tail, START, "boot"), VoidDeclared("d1", "dealer", "restarted", 2))
    assert play.bodies(Kind.VOID)[-1].odds is msgspec.UNSET
    play.no_more_bets().tell(odds_drawn(3))
    (jump,) = [body for body in play.bodies(Kind.INCIDENT) if body.what == "odds-counter-jump"]
    assert (jump.details["before"], jump.details["counter"]) == ("1", "3")


async def test_f10_a_table_without_draws_knows_no_counter(tmp_path: Path, journal: Journal) -> None:
    journal.append(ChainMaker().begin().play(1, 3).entries)
    runner, _ = started(tmp_path, journal.tail("r1"))
    assert runner.engine.table.odds_counter == -1


def test_f10_another_odds_box_counts_its_own_draws() -> None:
    setup = make_setup("B")
    engine = Engine(setup, {}, Table(odds_counter=7))
    assert carried_over(engine, setup, {WHEEL, ODDS_BOX}).odds_counter == 7
    assert carried_over(engine, setup, {WHEEL}).odds_counter == -1


# --- the direction of the wheel ---------------------------------------------------------------------------


def test_which_way_the_wheel_turned_is_forgotten_over_a_restart(journal: Journal) -> None:
    maker = ChainMaker().begin().play(1, 2)
    journal.append(maker.entries)
    tail = journal.tail("r1")
    assert tail is not None
    witness = {"witnesses": [{"wheel_direction": "clockwise"}]}
    last = {"body": {"outcome": {"pocket": "17"}, "evidence": witness}}
    assert restored(make_setup("C"), replace(tail, results=(last,)), START).wheel_direction == ""


@pytest.mark.parametrize(("kept", "direction"), [({WHEEL}, "clockwise"), (set[str](), "")])
def test_another_wheel_has_another_last_spin(kept: set[str], direction: str) -> None:
    setup = make_setup("C")
    engine = Engine(setup, {}, Table(open=True, wheel_direction="clockwise", running=(game(1),)))
    after = carried_over(engine, setup, kept)
    assert after.wheel_direction == direction
    assert after.running == ((game(1),) if kept else ())


@pytest.mark.parametrize(("boot", "mono_ns"), [("one", 5 * 10**9), ("other", -1), ("unknown", -1)])
def test_f9_the_monotonic_clock_says_how_long_ago_the_last_record_of_the_same_boot_was(
    journal: Journal, boot: str, mono_ns: int
) -> None:
    journal.append(ChainMaker().begin().play(1, 1).entries)
    tail = journal.tail("r1")
    assert tail is not None
    tail = replace(tail, last_boot="unknown" if boot == "unknown" else "one")
    at = Stamp(tail.last_mono_ns + 5 * 10**9, utc_ns(tail.last_utc) + 7 * 10**9)
    assert restarted(tail, at, boot) == Restarted(tail.last_utc, 7 * 10**9, mono_ns)


@pytest.mark.parametrize("mode", ["manual", "auto"])
def test_s1_after_a_restart_the_mode_is_that_of_the_last_result(journal: Journal, mode: str) -> None:
    chain = ChainMaker().begin()
    chain.add(Kind.RESULT, 1, {"outcome": {"pocket": "17"}, "mode": mode})
    chain.add(Kind.VOID, 2, {})
    journal.append(chain.entries)
    tail = journal.tail("r1")
    assert tail is not None
    assert restored(make_setup("C"), tail, START).mode == mode
