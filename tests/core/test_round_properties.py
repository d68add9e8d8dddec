"""What holds for every sequence of events at a table of any game, sensible or not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.stories import SETUPS, Run, Told, parts_of, read_of, story_of

from dollyd.daemon.core.events import OddsDrawn, Reading, Tick
from dollyd.daemon.core.round import AskOdds, Emit, Untold, deadline_ns, step
from dollyd.daemon.core.state import Table
from dollyd.wire.record import Kind, encode
from dollyd.wire.round_rules import RoundRules
from dollyd.wire.stamp import Stamp

every_setup = pytest.mark.parametrize(
    "index",
    range(len(SETUPS)),
    ids=[f"{setup.table}-{setup.variant_name}-{n}" for n, setup in enumerate(SETUPS)],
)


@every_setup
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_round_ends_once_and_its_records_keep_the_rules_of_the_chain(
    index: int, data: st.DataObject
) -> None:
    setup, told = SETUPS[index], data.draw(story_of(index))
    run = Run(setup).tell(told)
    finals = Counter(emit.round for emit in run.emitted(Kind.RESULT, Kind.VOID))
    assert all(count == 1 for count in finals.values())
    opened = [emit.round for emit in run.emitted(Kind.ROUND)]
    assert opened == list(range(1, len(opened) + 1))
    rules = RoundRules()
    for emit in (effect for effect in run.effects if isinstance(effect, Emit)):
        mode = getattr(emit.body, "mode", "")
        assert rules.take(emit.kind, emit.round, mode) == ""


@every_setup
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_result_rests_on_a_clean_reading_and_on_its_own_odds_table(index: int, data: st.DataObject) -> None:
    setup, told = SETUPS[index], data.draw(story_of(index))
    run = Run(setup).tell(told)
    closed: dict[int, int] = {}
    for effect, before in zip(run.effects, run.told_before, strict=True):
        if isinstance(effect, Emit) and effect.kind is Kind.BETS_CLOSED:
            closed[effect.round] = before
        if not isinstance(effect, Emit) or effect.kind is not Kind.RESULT:
            continue
        body: Any = effect.body
        heard = run.told[:before]
        for witness in body.evidence.witnesses:
            assert not witness.defects
            if witness.device in setup.supporters:
                continue
            assert witness.value == read_of(body.outcome)
            assert any(
                isinstance(event, Reading)
                and str(event.game) == witness.game
                and list(event.value) == witness.value
                and not event.facts.defects
                for event in heard
            )
        assert {w.device for w in body.evidence.witnesses} >= {*setup.witnesses, *setup.supporters}
        if setup.needs_odds:
            assert body.odds.table in {
                event.table
                for event in heard[closed[effect.round] :]
                if isinstance(event, OddsDrawn) and event.round == effect.round
            }


@every_setup
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_rejected_throws_are_counted_within_a_round_and_end_nothing(index: int, data: st.DataObject) -> None:
    setup, told = SETUPS[index], data.draw(story_of(index))
    run = Run(setup).tell(told)
    if not setup.game.throws:
        assert not run.emitted(Kind.THROW_REJECTED)
    throws: Counter[int] = Counter()
    for emit in run.emitted(Kind.BETS_CLOSED, Kind.THROW_REJECTED, Kind.RESULT, Kind.VOID, Kind.UNRESOLVED):
        if emit.kind is Kind.THROW_REJECTED:
            throws[emit.round] += 1
            rejected: Any = emit.body
            assert rejected.throw == throws[emit.round]
    closed = Counter(emit.round for emit in run.emitted(Kind.BETS_CLOSED))
    assert all(count == 1 for count in closed.values()), "stakes are locked once a round"


@every_setup
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_the_deadline_is_moved_by_its_tick(index: int, data: st.DataObject) -> None:
    setup, told = SETUPS[index], data.draw(story_of(index))
    run = Run(setup)
    for pause_ms, event in told:
        run.step(pause_ms, event)
        due = deadline_ns(setup, run.table)
        if due is not None:
            at = Stamp(max(due, run.at.mono_ns), run.at.utc_ns)
            ticked, _ = step(setup, run.table, Tick(), at)
            moved = deadline_ns(setup, ticked)
            assert moved is None or moved > at.mono_ns


@every_setup
@given(st.data())
@settings(max_examples=10, deadline=None)
def test_the_same_events_have_the_same_effects(index: int, data: st.DataObject) -> None:
    setup, told = SETUPS[index], data.draw(story_of(index))
    first, second = Run(setup).tell(told), Run(setup).tell(told)
    assert first.effects == second.effects
    assert first.table == second.table


@every_setup
@given(st.data())
@settings(max_examples=10, deadline=None)
def test_a_state_that_went_through_json_has_the_same_future(index: int, data: st.DataObject) -> None:
    setup, past, future = SETUPS[index], data.draw(story_of(index)), data.draw(parts_of(index))
    here = Run(setup).tell(past)
    text = msgspec.json.encode(here.table)
    there = Run(setup, msgspec.json.decode(text, type=Table), here.at)
    assert there.table == here.table
    assert msgspec.json.encode(there.table) == text
    here.effects.clear()
    assert here.tell(future).effects == there.tell(future).effects


@every_setup
@given(st.data())
@settings(max_examples=10, deadline=None)
def test_every_record_is_text_without_float_or_null(index: int, data: st.DataObject) -> None:
    setup, told = SETUPS[index], data.draw(story_of(index))
    for effect in Run(setup).tell(told).effects:
        if isinstance(effect, Emit):
            text = encode(effect.body).decode()
            assert "null" not in text
            msgspec.json.decode(text, type=type(effect.body))


def kinds_of(index: int) -> Counter[str]:
    """How often each kind of record, and a wish for an odds table, comes of the stories of a setup."""
    seen: Counter[str] = Counter()

    @given(story_of(index))
    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    def look(told: list[Told]) -> None:
        effects = Run(SETUPS[index]).tell(told).effects
        seen.update(
            "ask" if isinstance(effect, AskOdds) else str(effect.kind)
            for effect in effects
            if not isinstance(effect, Untold)
        )

    look()
    return seen


def test_the_stories_reach_results_voids_and_doubts_at_every_table() -> None:
    # A property over stories that never come to a result would prove nothing.
    every = [kinds_of(index) for index in range(len(SETUPS))]
    for index, seen in enumerate(every):
        for kind in ("round", "bets-closed", "result", "void", "unresolved"):
            assert seen[kind] >= 1, (index, kind, seen)
    together = sum(every, Counter())
    for kind in ("gap", "incident", "ask", "throw-rejected", "session", "clock"):
        assert together[kind] >= 5, (kind, together)
