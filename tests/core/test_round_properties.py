"""What holds for every sequence of events, sensible or not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import ODDS_BOX, PROVEN, SECOND_WHEEL, START, WHEEL, game, later, make_setup

from dollyd.client.round_rules import RoundRules
from dollyd.daemon.core.events import (
    BetsClosed,
    ClockStepped,
    Confirmed,
    Defect,
    DeviceReady,
    DeviceTrouble,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Event,
    Flag,
    GameEnded,
    GameRef,
    GameStarted,
    OddsDrawn,
    OddsFailed,
    Reading,
    ReadingContradicted,
    Restarted,
    TableClosed,
    TableOpened,
    Tick,
    TurnsBasis,
    VoidDeclared,
)
from dollyd.daemon.core.record import Kind, encode
from dollyd.daemon.core.round import AskOdds, Effect, Emit, deadline_ns, step
from dollyd.daemon.core.stamp import Stamp
from dollyd.daemon.core.state import Setup, Table

CURRENT = 0
"""Round number of an odds answer that stands for the round in progress."""
Told: TypeAlias = tuple[int, Event]
"""Milliseconds since the event before, and the event."""

SETUPS = [
    make_setup("A"),
    make_setup("B"),
    make_setup("B", confirm="dealer", hold_ms=2_000, unresolved_void_ms=60_000),
    make_setup("D", hold_ms=2_000, unresolved_void_ms=10_000),
    make_setup("E", profile_name="us-sd"),
    make_setup("A", wheels=2, confirm="dealer"),
    make_setup("B", wheels=2),
]

games = st.builds(game, st.integers(1, 2), st.sampled_from([WHEEL, WHEEL, SECOND_WHEEL]))
values = st.sampled_from([("17",), ("17",), ("0",), ("18",), ()])
facts = st.one_of(
    st.just(PROVEN),
    st.builds(
        DrawFacts,
        flags=st.lists(st.sampled_from(Flag), max_size=1).map(tuple),
        defects=st.lists(st.sampled_from(Defect), max_size=1).map(tuple),
        relaunches=st.integers(0, 2),
        turns_basis=st.sampled_from(TurnsBasis),
        ball_turns_x100=st.none() | st.integers(0, 900),
        wheel_turns_x100=st.none() | st.integers(0, 900),
        ball_direction=st.sampled_from(["", "clockwise", "counter-clockwise"]),
        wheel_direction=st.sampled_from(["", "clockwise", "counter-clockwise"]),
        details=st.just((("bare_number", "17"),)),
    ),
)
odds = st.builds(
    OddsDrawn,
    st.just(ODDS_BOX),
    st.sampled_from([CURRENT, CURRENT, 1, 2, 9]),
    st.sampled_from([1, 2]),
    st.integers(1, 9),
    st.just("0" * 16),
    st.just("F" * 16),
)
any_event: st.SearchStrategy[Event] = st.one_of(
    st.just(TableOpened("d1")),
    st.just(TableClosed("d1")),
    st.builds(GameStarted, games, st.booleans()),
    st.builds(DrawStarted, games),
    st.builds(BetsClosed, st.just(WHEEL), games | st.none()),
    st.builds(DrawUpdate, games, facts),
    st.builds(Reading, games, values, facts),
    st.builds(GameEnded, games, st.sampled_from(Ending), facts),
    st.builds(ReadingContradicted, games, values),
    odds,
    st.builds(OddsFailed, st.just(ODDS_BOX), st.sampled_from([CURRENT, 1, 2]), st.just("bad-mac")),
    st.builds(VoidDeclared, st.just("d1"), st.sampled_from(["dealer", "inspector"]), st.just("a coin")),
    st.just(Confirmed("d1")),
    st.just(DeviceReady(WHEEL)),
    st.just(DeviceTrouble(WHEEL, "lost", "unplugged")),
    st.just(ClockStepped(-5)),
    st.just(Restarted("2026-11-29T18:41:20Z")),
    st.just(Tick()),
)
pauses = st.one_of(st.integers(0, 20), st.sampled_from([1_999, 2_000, 5_000, 60_000, 120_000, 86_400_000]))


def good_round(first: GameRef, others: tuple[GameRef, ...], value: tuple[str, ...]) -> list[Event]:
    """What a table hears of a round in which all goes well."""
    started = [GameStarted(one) for one in (first, *others)]
    read = [Reading(one, value, PROVEN) for one in (first, *others)]
    drawn = OddsDrawn(ODDS_BOX, CURRENT, 2, 1, "0" * 16, "F" * 16)
    return [*started, DrawStarted(first), BetsClosed(WHEEL, first), drawn, *read, Confirmed("d1")]


good_rounds = st.builds(
    good_round,
    st.builds(game, st.integers(1, 2), st.just(WHEEL)),
    st.sampled_from([(), (game(2, SECOND_WHEEL),)]),
    st.sampled_from([("17",), ("0",)]),
)
single: st.SearchStrategy[Told] = st.tuples(pauses, any_event)
void: st.SearchStrategy[Told] = st.tuples(st.integers(0, 20), st.just(VoidDeclared("d1", "dealer", "a coin")))


def disturbed(events: list[Event], disturbances: list[tuple[int, Told]]) -> list[Told]:
    """A good round with something else told in between."""
    story: list[Told] = [(1, event) for event in events]
    for place, told in disturbances:
        story.insert(place, told)
    return story


rounds = st.builds(disturbed, good_rounds, st.lists(st.tuples(st.integers(1, 7), single | void), max_size=2))
parts = st.lists(st.one_of(rounds, rounds, st.lists(single, max_size=4)), min_size=1, max_size=8)
stories: st.SearchStrategy[list[Told]] = parts.map(
    lambda found: [(0, TableOpened("d1")), *(told for part in found for told in part)]
)
setups = st.sampled_from(SETUPS)


@dataclass
class Run:
    """A story told to a table, with all that was told and all that followed."""

    setup: Setup
    table: Table = field(default_factory=Table)
    at: Stamp = START
    effects: list[Effect] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    told_before: list[int] = field(default_factory=list)
    """For each effect, how many events had been told."""

    def tell(self, story: list[Told]) -> Run:
        for pause_ms, event in story:
            self.step(pause_ms, event)
        return self

    def step(self, pause_ms: int, event: Event) -> None:
        if isinstance(event, OddsDrawn | OddsFailed) and event.round == CURRENT:
            event = replace(event, round=self.table.number)
        self.at = later(self.at, pause_ms)
        self.told.append(event)
        self.table, effects = step(self.setup, self.table, event, self.at)
        self.effects += effects
        self.told_before += [len(self.told)] * len(effects)

    def emitted(self, *kinds: Kind) -> list[Emit]:
        return [e for e in self.effects if isinstance(e, Emit) and e.kind in kinds]


@given(setups, stories)
@settings(max_examples=300, deadline=None)
def test_a_round_ends_once_and_its_records_keep_the_rules_of_the_chain(
    setup: Setup, story: list[Told]
) -> None:
    run = Run(setup).tell(story)
    finals = Counter(emit.round for emit in run.emitted(Kind.RESULT, Kind.VOID))
    assert all(count == 1 for count in finals.values())
    opened = [emit.round for emit in run.emitted(Kind.ROUND)]
    assert opened == list(range(1, len(opened) + 1))
    rules = RoundRules()
    for emit in (effect for effect in run.effects if isinstance(effect, Emit)):
        mode = getattr(emit.body, "mode", "")
        assert rules.take(emit.kind, emit.round, mode) == ""


@given(setups, stories)
@settings(max_examples=300, deadline=None)
def test_a_result_rests_on_a_clean_reading_and_on_its_own_odds_table(setup: Setup, story: list[Told]) -> None:
    run = Run(setup).tell(story)
    closed: dict[int, int] = {}
    for effect, told in zip(run.effects, run.told_before, strict=True):
        if isinstance(effect, Emit) and effect.kind is Kind.BETS_CLOSED:
            closed[effect.round] = told
        if not isinstance(effect, Emit) or effect.kind is not Kind.RESULT:
            continue
        body: Any = effect.body
        heard = run.told[:told]
        for witness in body.evidence.witnesses:
            assert witness.value == [body.outcome["pocket"]]
            assert not witness.defects
            assert any(
                isinstance(event, Reading)
                and str(event.game) == witness.game
                and list(event.value) == witness.value
                and not event.facts.defects
                for event in heard
            )
        assert {w.device for w in body.evidence.witnesses} >= set(setup.witnesses)
        if setup.needs_odds:
            assert body.odds.table in {
                event.table
                for event in heard[closed[effect.round] :]
                if isinstance(event, OddsDrawn) and event.round == effect.round
            }


@given(setups, stories)
@settings(max_examples=300, deadline=None)
def test_the_deadline_is_moved_by_its_tick(setup: Setup, story: list[Told]) -> None:
    run = Run(setup)
    for pause_ms, event in story:
        run.step(pause_ms, event)
        due = deadline_ns(setup, run.table)
        if due is not None:
            at = Stamp(max(due, run.at.mono_ns), run.at.utc_ns)
            ticked, _ = step(setup, run.table, Tick(), at)
            moved = deadline_ns(setup, ticked)
            assert moved is None or moved > at.mono_ns


@given(setups, stories)
@settings(max_examples=100, deadline=None)
def test_the_same_events_have_the_same_effects(setup: Setup, story: list[Told]) -> None:
    first, second = Run(setup).tell(story), Run(setup).tell(story)
    assert first.effects == second.effects
    assert first.table == second.table


@given(setups, stories, stories)
@settings(max_examples=100, deadline=None)
def test_a_state_that_went_through_json_has_the_same_future(
    setup: Setup, past: list[Told], future: list[Told]
) -> None:
    here = Run(setup).tell(past)
    text = msgspec.json.encode(here.table)
    there = Run(setup, msgspec.json.decode(text, type=Table), here.at)
    assert there.table == here.table
    assert msgspec.json.encode(there.table) == text
    here.effects.clear()
    assert here.tell(future).effects == there.tell(future).effects


@given(setups, stories)
@settings(max_examples=50, deadline=None)
def test_every_record_is_text_without_float_or_null(setup: Setup, story: list[Told]) -> None:
    for effect in Run(setup).tell(story).effects:
        if isinstance(effect, Emit):
            text = encode(effect.body).decode()
            assert "null" not in text
            msgspec.json.decode(text, type=type(effect.body))


def test_the_stories_reach_results_voids_and_doubts() -> None:
    # A property over stories that never come to a result would prove nothing.
    seen: Counter[str] = Counter()

    @given(setups, stories)
    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    def look(setup: Setup, story: list[Told]) -> None:
        seen.update("ask" if isinstance(e, AskOdds) else str(e.kind) for e in Run(setup).tell(story).effects)

    look()
    for kind in ("result", "void", "unresolved", "gap", "incident", "bets-closed", "ask"):
        assert seen[kind] >= 5, seen
