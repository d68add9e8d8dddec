"""Budgets of records: the accounts, people who order too often, and devices under any sequence of events."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.stories import any_event
from tests.support.tables import START, WHEEL, Play, game_setup, later, make_setup

from dollyd.daemon.core.budget import RECORDS_AT_ONCE, RECORDS_PER_S, Account, Limits, overdrawn, spend
from dollyd.daemon.core.events import (
    ClockStepped,
    Event,
    Restarted,
    Spoken,
    TableClosed,
    TableOpened,
    Tick,
    VoidDeclared,
)
from dollyd.daemon.core.round import Untold
from dollyd.daemon.core.telling import TOLD_MAX
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op, house
from dollyd.drivers.framing import AnyFrame, Frame
from dollyd.drivers.spec import NOTHING, Said, Status
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_S, Stamp

IN_EARNEST = {"records_at_once": RECORDS_AT_ONCE, "records_per_s": RECORDS_PER_S}
ONE_INPUT = 12
"""What the input that goes beyond the budget may cause, with the fault, the loss and the new beginning."""
LIMITS = Limits(4, 2)


# --- accounts ------------------------------------------------------------------------------------


def test_so_many_at_once_and_so_many_a_second() -> None:
    accounts = spend((), "wheel", 3, LIMITS, START)
    assert not overdrawn(accounts, "wheel", LIMITS, START)
    accounts = spend(accounts, "wheel", 1, LIMITS, START)
    assert overdrawn(accounts, "wheel", LIMITS, START)
    assert not overdrawn(accounts, "odds", LIMITS, START)
    assert not overdrawn(accounts, "wheel", LIMITS, later(START, 500))


def test_an_account_that_is_even_is_forgotten() -> None:
    accounts = spend(spend((), "wheel", 1, LIMITS, START), "odds", 4, LIMITS, START)
    assert spend(accounts, "odds", 1, LIMITS, later(START, 600)) == (
        Account("odds", START.mono_ns + 5 * NS_PER_S // 2),
    )


# --- people --------------------------------------------------------------------------------------


def test_attack_17_refused_orders_are_counted_by_who_and_what() -> None:
    play = Play(make_setup("A", rules=IN_EARNEST)).open()
    effects = play.tell(*[VoidDeclared("d1", "dealer", "coin")] * 1_000, after_ms=10)
    assert play.whats().count("void-refused") == TOLD_MAX
    assert sum(isinstance(effect, Untold) for effect in effects) == 1_000 - TOLD_MAX, "each is answered"
    play.tell(VoidDeclared("d2", "dealer", "coin"))
    assert play.whats().count("void-refused") == TOLD_MAX + 1, "another person is heard"
    play.wait(60_000)
    (repeated,) = (body for body in play.bodies(Kind.INCIDENT) if body.what == "repeated")
    assert repeated.details == {"what": "void-refused", "count": "990", "by": "d1"}


def test_attack_4_a_person_who_opens_and_closes_without_end_makes_a_bounded_number_of_records() -> None:
    play = Play(make_setup("A", rules=IN_EARNEST))
    for _ in range(1_000):
        play.tell(TableOpened("d1"), TableClosed("d1"), after_ms=5)
    assert play.kinds.count(Kind.SESSION) <= 2 * (RECORDS_AT_ONCE + 10 * RECORDS_PER_S + 1)
    assert "asked more often" in play.bodies(Kind.INCIDENT)[-1].text
    play.wait(60_000)
    play.tell(TableClosed("d1"), TableOpened("d1"))
    assert play.table.open, "and is heard again"


# --- devices -------------------------------------------------------------------------------------


class Parrot:
    """A device that says what a test hands it: a frame is the place of an event in the test's list."""

    def __init__(self, events: list[Event]) -> None:
        self.counters: Counter[str] = Counter()
        self.status = Status.READY
        self.identity: tuple[tuple[str, str], ...] = ()
        self._events = events

    def opened(self, _at: Stamp) -> Said:
        return NOTHING

    def received(self, frame: AnyFrame, _at: Stamp) -> Said:
        event: Any = self._events[int(frame.raw)] if isinstance(frame, Frame) else Tick()
        spoken: Spoken = event
        return Said((spoken,))

    def remember(self, _game: str, _utc_ns: int) -> None:
        pass

    def lost(self, _cause: str, _at: Stamp, /) -> Said:
        return NOTHING

    def tick(self, _at: Stamp) -> Said:
        return NOTHING

    def order(self, _order: object, _at: Stamp, /) -> Said:
        return NOTHING

    def deadline_ns(self) -> int | None:
        return None

    def snapshot(self) -> None:
        return None

    def restore(self, _snapshot: Any) -> None:
        return None


def told_by_a_device(events: list[tuple[int, Event]]) -> list[NewRecord]:
    """The records of a table whose wheel says all this, while its session keeps to the pauses."""
    setup = game_setup("roulette", rules=IN_EARNEST)
    engine = Engine(setup, {WHEEL: Parrot([event for _, event in events])})
    at, records, deaf_until = START, list[NewRecord](), START.mono_ns
    records += engine.feed(house(TableOpened("configuration"), at)).records
    connected = False
    for place, (after_ms, _) in enumerate(events):
        at = later(at, after_ms)
        if (due := engine.deadline_ns()) is not None and due <= at.mono_ns:
            records += engine.feed(Input(Op.TICK, at)).records
        if at.mono_ns < deaf_until:
            continue
        if not connected:
            connected = True
            records += engine.feed(Input(Op.OPEN, at, WHEEL)).records
        output = engine.feed(Input(Op.FRAME, at, WHEEL, str(place)))
        records += output.records
        if output.too_fast:
            connected, deaf_until = False, at.mono_ns + 5 * NS_PER_S
            assert engine.status(WHEEL) is Status.FAULT
            records += engine.feed(Input(Op.LOST, at, WHEEL, "too-fast")).records
    return records


def most_beyond(records: list[NewRecord], limits: Limits) -> float:
    """By how much the records of any stretch of time exceed its budget."""
    times = [record.at.mono_ns for record in records]
    return max(
        (
            (last - first + 1) - limits.at_once - limits.per_s * (times[last] - times[first]) / NS_PER_S
            for first in range(len(times))
            for last in range(first, len(times))
        ),
        default=0,
    )


def as_told(event: Event) -> Event:
    """What a device cannot say becomes what makes a record each time."""
    return TableOpened("d1") if isinstance(event, Restarted | Tick | ClockStepped) else event


SPOKEN = any_event(make_setup("A")).map(as_told)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 5, 5, 20, 700]), SPOKEN), min_size=5, max_size=30))
@settings(max_examples=40, deadline=None)
def test_attack_4_no_stretch_of_time_has_more_records_than_a_devices_budget(
    events: list[tuple[int, Event]],
) -> None:
    records = told_by_a_device(events * 8)
    assert most_beyond(records, Limits(RECORDS_AT_ONCE, RECORDS_PER_S)) <= ONE_INPUT


def test_attack_4_a_device_beyond_its_budget_is_at_fault_and_its_round_unresolved() -> None:
    flood: list[tuple[int, Event]] = [
        (1, event) for _ in range(40) for event in (TableClosed("console:c"), TableOpened("console:c"))
    ]
    records = told_by_a_device(flood)
    assert len(records) <= RECORDS_AT_ONCE + ONE_INPUT
    faults = [msgspec.json.decode(r.body) for r in records if r.kind is Kind.INCIDENT]
    assert [(body["what"], body["text"].split(":")[0]) for body in faults] == [("device-fault", "too-fast")]
