"""A TLP/1 ball detector: laps and direction as a second witness, never a number (tlp-1.md 7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tlp_lines import SILENCE_MS, Host, ref, setup_of
from tests.support.tlp_speakers import WHEEL_GAME, Detector

from dollyd.daemon.core.events import (
    Defect,
    DeviceReady,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Flag,
    GameEnded,
    GameStarted,
    Observed,
    Reading,
    ReadingContradicted,
    TurnsBasis,
)


def heard(lines: list[bytes], **changes: Any) -> Host:
    return Host(setup_of("BD", "roulette", **changes)).open().hear(*lines, ms=100)


def seen(laps: int, **changes: Any) -> DrawFacts:
    return DrawFacts(turns_basis=TurnsBasis.COUNTED, ball_turns_x100=100 * laps, **changes)


def whole_run(detector: Detector | None = None) -> list[bytes]:
    detector = detector or Detector()
    return [detector.hello(), *detector.run(2), detector.res("2")]


def test_a_run_from_the_rim_to_the_drop() -> None:
    told, game = heard(whole_run()), ref("ball", WHEEL_GAME)
    assert told.events == [
        DeviceReady("ball", told.protocol.identity),
        GameStarted(game),
        DrawStarted(game),
        DrawUpdate(game, seen(1)),
        DrawUpdate(game, seen(2)),
        Observed(game, seen(2, ball_direction="clockwise")),
    ]
    assert told.acks == [(7, WHEEL_GAME)]


def test_the_first_lap_begins_a_run_that_no_state_has_told() -> None:
    detector = Detector()
    lines = [detector.hello(), detector.sta(2, "0411"), *detector.laps(4), detector.sta(3), detector.drop(4)]
    told = heard([*lines, detector.res()])
    assert told.of(GameStarted) == [GameStarted(ref("ball", WHEEL_GAME))]
    assert told.of(Observed)[0].facts.ball_turns_x100 == 400


def test_a_drop_that_was_lost_leaves_the_count_a_lower_bound() -> None:
    lines = whole_run()
    (observed,) = heard([*lines[:5], *lines[6:]]).of(Observed)
    assert (observed.facts.ball_turns_x100, observed.facts.turns_lower_bound) == (200, True)


@pytest.mark.parametrize("place", [3, 4])
def test_a_lost_lap_makes_the_count_a_lower_bound(place: int) -> None:
    lines = whole_run()
    (observed,) = heard([*lines[:place], *lines[place + 1 :]]).of(Observed)
    assert (observed.facts.ball_turns_x100, observed.facts.turns_lower_bound) == (100, True)


def test_the_lap_that_was_lost_before_the_run_was_known_counts_as_lost() -> None:
    detector = Detector()
    lines = [detector.hello(), detector.sta(2), *detector.laps(4), detector.drop(4), detector.res()]
    (observed,) = heard([*lines[:2], *lines[3:]]).of(Observed)
    assert (observed.facts.ball_turns_x100, observed.facts.turns_lower_bound) == (300, True)


@pytest.mark.parametrize("total", ["3", "5"])
def test_a_total_that_is_not_our_count_is_a_doubt(total: str) -> None:
    detector = Detector()
    told = heard([detector.hello(), *detector.run(4), detector.res(total)])
    assert (told.of(Observed), told.defects) == ([], (Defect.COUNTS_DIFFER,))


def test_a_detector_without_events_reports_its_total() -> None:
    detector = Detector()
    told = heard([detector.hello(), detector.sta(2), detector.sta(3), detector.sta(5), detector.res("7")])
    (observed,) = told.of(Observed)
    assert (observed.facts.turns_basis, observed.facts.ball_turns_x100) == (TurnsBasis.REPORTED, 700)


@pytest.mark.parametrize(
    ("mask", "flag"),
    [
        ("01", Flag.BALL_NOT_DETECTED),
        ("02", Flag.BALL_WITH_ROTOR),
        ("04", Flag.DEVICE_FAULT),
        ("08", Flag.LAUNCH_FAILED),
        ("40", Flag.SECOND_BALL),
        ("100", Flag.BALL_OUT),
    ],
)
def test_flags_in_the_rim_are_told(mask: str, flag: Flag) -> None:
    detector = Detector()
    lines = [detector.hello(), detector.sta(2), detector.sta(3, flags=mask)]
    assert heard(lines).of(DrawUpdate)[0].facts.flags == (flag,)


def test_sensors_that_disagree_spoil_the_run() -> None:
    detector = Detector()
    told = heard([detector.hello(), *detector.run(4), detector.res(flags="80")])
    assert (told.of(Observed), told.defects) == ([], (Defect.SENSORS_DISAGREE,))


def test_only_flag_02_tells_it_the_direction_of_the_rotor() -> None:
    detector = Detector()
    detector.way = "1"
    told = heard([detector.hello(), *detector.run(4), detector.res(flags="02")])
    facts = told.of(Observed)[0].facts
    assert facts.ball_direction == facts.wheel_direction == "counter-clockwise"


@pytest.mark.parametrize("state", [3, 5])
def test_42_a_run_that_was_under_way_proves_nothing(state: int) -> None:
    detector = Detector()
    told = heard([detector.hello(), detector.sta(state), *detector.laps(3), detector.drop(3), detector.res()])
    assert told.of(GameStarted) == [GameStarted(ref("ball", WHEEL_GAME), joined=True)]
    assert told.of(Observed) == []
    assert told.hear(*detector.run(4, "0413"), detector.res(game="0413"), ms=50).of(Observed)


def test_15_silence_while_the_ball_runs_is_a_gap() -> None:
    lines = whole_run()
    told = heard(lines[:4]).quiet(SILENCE_MS).hear(*lines[4:])
    assert (told.of(Observed), told.defects) == ([], (Defect.DATA_GAP,))


def test_a_ball_that_is_taken_away_without_a_drop() -> None:
    detector = Detector()
    told = heard([detector.hello(), detector.sta(2), detector.sta(3), detector.lap(1), detector.sta(2)])
    (ended,) = told.of(GameEnded)
    assert (ended.ending, ended.facts.defects) == (Ending.SUPERSEDED, (Defect.ILLEGAL_TRANSITION,))


def test_31_46_a_repeated_result_is_told_once() -> None:
    detector = Detector()
    lines = whole_run(detector)
    told = heard([*lines, lines[-1]]).lose().open().hear(detector.hello(), lines[-1])
    assert len(told.of(Observed)) == 1
    assert len(told.acks) == 3
    assert told.hear(detector.res("9")).of(ReadingContradicted) == [
        ReadingContradicted(ref("ball", WHEEL_GAME), ("9",))
    ]


def test_29_a_wheel_is_no_ball_detector() -> None:
    detector = Detector()
    detector.kind = "WHEEL"
    assert heard(whole_run(detector)).protocol.status == "wrong-device"


@settings(deadline=None)
@given(st.lists(st.binary(max_size=30), min_size=8, max_size=8))
def test_9_noise_between_sentences_makes_no_other_count(noise: list[bytes]) -> None:
    told = heard([])
    for garbage, line in zip(noise, whole_run(), strict=True):
        told.bytes(garbage).bytes(line)
        told.through_json()
    for observed in told.of(Observed):
        turns_x100, facts = observed.facts.ball_turns_x100 or 0, observed.facts
        assert turns_x100 == 200 or facts.turns_lower_bound or facts.turns_basis is TurnsBasis.REPORTED
    assert told.of(Reading) == []
