"""Devices in trouble again and again: everything has its effect, not everything is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.tables import ODDS_BOX, PROVEN, START, WHEEL, Play, game, later, make_setup

from dollyd.daemon.core.events import DeviceReady, DeviceTrouble, DrawUpdate, OddsFailed, Tick
from dollyd.daemon.core.round import deadline_ns
from dollyd.daemon.core.telling import TOLD_MAX
from dollyd.wire.record import Kind

LOST, BACK = DeviceTrouble(WHEEL, "lost", "unplugged"), DeviceReady(WHEEL)


def flapped(play: Play, times: int, every_ms: int = 10) -> Play:
    """A plug that is loose."""
    for _ in range(times):
        play.tell(LOST, BACK, after_ms=every_ms)
    return play


def repeats(play: Play) -> list[tuple[str, str, str]]:
    """What was told of that was not told one by one: kind, count, and how the device stood."""
    bodies = [body for body in play.bodies(Kind.INCIDENT) if body.what == "repeated"]
    return [(body.details["what"], body.details["count"], body.details["status"]) for body in bodies]


def test_b48_a_loose_plug_is_told_a_few_times_a_minute_and_counted() -> None:
    play = flapped(Play(make_setup("A")).open(), 100)
    assert play.whats().count("device-lost") == TOLD_MAX
    assert len(play.whats()) == 2 * TOLD_MAX
    play.wait(60_000)
    assert repeats(play) == [("device-lost", "90", "ready"), ("device-back", "90", "ready")]
    assert deadline_ns(play.setup, play.table) is None, "told once"


def test_b48_a_plug_that_is_loose_all_night_costs_a_bounded_number_of_records() -> None:
    play = flapped(Play(make_setup("A")).open(), 5_000, every_ms=72)  # 12 minutes
    assert len(play.emitted) < 13 * 2 * (TOLD_MAX + 1)


def test_what_comes_now_and_then_is_told_each_time() -> None:
    play = flapped(Play(make_setup("A")).open(), 3 * TOLD_MAX, every_ms=3_100)
    assert play.whats().count("device-lost") == 3 * TOLD_MAX
    assert repeats(play) == []


def test_after_a_minute_the_same_incident_is_told_again() -> None:
    play = flapped(Play(make_setup("A")).open(), TOLD_MAX)
    play.wait(60_000)
    assert repeats(play) == []
    flapped(play, 1)
    assert play.whats().count("device-lost") == TOLD_MAX + 1


def test_each_kind_and_each_device_is_counted_by_itself() -> None:
    play = flapped(Play(make_setup("A", wheels=2)).open(), 50)
    play.tell(DeviceTrouble(WHEEL, "fault", "motor"), DeviceTrouble("wheel-2", "lost", "unplugged"))
    assert play.whats()[-2:] == ["device-fault", "device-lost"]


def test_b48_a_flag_that_blinks_is_told_a_few_times_and_every_relaunch_counts() -> None:
    play = Play(make_setup("A")).bets_open()
    for relaunches in range(1, 51):
        play.tell(DrawUpdate(game(), replace(PROVEN, relaunches=relaunches)))
    assert play.whats() == ["relaunch"] * TOLD_MAX
    assert play.round.witnesses[0].facts.relaunches == 50
    play.wait(60_000)
    assert repeats(play) == [("relaunch", "40", "init")]
    assert play.emitted[-1].round == 1


@pytest.mark.parametrize("before", [0, 50])
def test_odds_that_are_refused_are_told_in_each_round(before: int) -> None:
    # A restart knows from that record alone that the odds table of the round does not stand.
    play = Play(make_setup("B")).open()
    play.tell(*[OddsFailed(ODDS_BOX, 9, "two-answers")] * before)
    play.no_more_bets().tell(OddsFailed(ODDS_BOX, 1, "two-answers"))
    assert [(emit.kind, emit.round) for emit in play.emitted[-2:]] == [
        (Kind.INCIDENT, 1),
        (Kind.UNRESOLVED, 1),
    ]


def test_time_that_begins_anew_ends_the_minute() -> None:
    play = flapped(Play(make_setup("A")).open(), 50)
    play.now = later(START, -1_000)
    play.tell(Tick())
    assert [what for what, _, _ in repeats(play)] == ["device-lost", "device-back"]
