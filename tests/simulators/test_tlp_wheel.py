"""The simulated TLP/1 wheel and boule bowl: motion, numbers, and every fault switch."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tests.simulators.tlp_devices import Heard, bowl, listen, of, path, states_of, wheel

from dollyd.simulators.faults import names
from dollyd.simulators.layouts import american, boule, european
from dollyd.simulators.motion import ball_laps, slowing
from dollyd.simulators.tlp_wheel import TlpWheel, WheelOptions, boule_bowl
from dollyd.wire.stamp import NS_PER_S

HALF_HOUR_S = 1800


def spoilt(name: str, until_s: float = 120) -> tuple[TlpWheel, list[Heard]]:
    device = wheel()
    device.faults.set(name)
    return device, listen(device, until_s)


def test_a_run_ends_as_it_should_and_every_step_is_longer() -> None:
    times = slowing(20, 2.0, 0.04, 0.045)
    assert len(times) == 20
    assert times[-1] == 2.0
    assert all(later > earlier for earlier, later in itertools.pairwise(times))


def test_a_ball_is_launched_faster_for_more_laps() -> None:
    assert ball_laps(18, Random(1))[0] < ball_laps(11, Random(1))[0] < 1.1


def test_laps_get_longer_and_are_counted_from_one() -> None:
    device = wheel()
    heard = listen(device, HALF_HOUR_S)
    for spin in device.played:
        laps = of(heard, "EVT", event="LAP", game=spin.game)
        assert [int(one.fields[2]) for one in laps] == list(range(1, spin.laps + 1))
        times = [int(one.fields[3]) for one in laps]
        assert times == sorted(times)
        assert 500 < times[0] < times[-1] < 2400
        for before, now in itertools.pairwise(laps):
            assert now.ms - before.ms == pytest.approx(int(now.fields[3]), abs=1)


def test_rotor_slows_down_turn_by_turn_and_turns_round_each_game() -> None:
    device = wheel()
    heard = listen(device, HALF_HOUR_S)
    for spin in device.played:
        times = [int(one.fields[3]) for one in of(heard, "EVT", event="REV", game=spin.game)]
        assert len(times) == spin.turns >= 3
        assert times == sorted(times)
    assert [spin.direction for spin in device.played[:4]] == [1, 0, 1, 0]


def test_states_of_faultless_games() -> None:
    device = wheel()
    heard = listen(device, HALF_HOUR_S)
    assert path(heard).startswith("6123452345")
    for spin in device.played[:-1]:
        assert states_of(heard, spin.game) == "2345"


def test_no_more_bets_before_the_drop_and_no_number_before_the_result() -> None:
    heard = listen(wheel(), HALF_HOUR_S)
    assert {one.fields[2] for one in of(heard, "STA")} == {""}
    first = next(one for one in of(heard, "STA") if one.fields[0] == "4")
    last = of(heard, "EVT", event="LAP", game="0001")[-1]
    assert first.ms < last.ms


def test_result_says_the_truth() -> None:
    device = wheel()
    results = of(listen(device, HALF_HOUR_S), "RES")
    assert len(results) > 30
    for spin, result in zip(device.played, results, strict=True):
        number, _, direction, laps, flags, pocket = result.fields[1:]
        assert (number, int(pocket), int(laps), flags) == (spin.number, spin.pocket, spin.laps, "00")
        assert number == european()[int(pocket)]
        assert int(direction) == spin.direction


def test_numbers_can_be_scripted_and_double_zero_is_a_text() -> None:
    options = replace(WheelOptions(), pockets=american())
    device = TlpWheel(options, Random(3), 0, script=["00", "0"])
    results = of(listen(device, 100), "RES")
    assert [one.fields[1] for one in results[:2]] == ["00", "0"]
    with pytest.raises(ValueError, match="no pocket '37'"):
        device.will_fall_into("37")


def test_every_pocket_is_about_as_likely() -> None:
    device = wheel()
    device.advance(25_000 * NS_PER_S)
    counts = Counter(spin.pocket for spin in device.played)
    expected = len(device.played) / 37
    chi_squared = sum((counts[pocket] - expected) ** 2 / expected for pocket in range(37))
    assert len(device.played) > 450
    assert chi_squared < 76.4, "p = 0.0001 at 36 degrees of freedom"


def test_boule_bowl_stands_still_and_names_the_cup() -> None:
    device = bowl()
    heard = listen(device, HALF_HOUR_S)
    assert of(heard, "EVT", event="REV") == []
    assert {one.fields[3] for one in of(heard, "STA")} == {"0"}
    for result in of(heard, "RES"):
        assert result.fields[1] == boule()[int(result.fields[6])]
    assert all(6 <= spin.laps <= 10 for spin in device.played)


def test_a_scripted_boule_number_lies_in_any_of_its_four_cups() -> None:
    device = TlpWheel(boule_bowl(), Random(3), 0, script=["5"] * 40)
    device.advance(HALF_HOUR_S * NS_PER_S)
    assert {spin.pocket for spin in device.played[:40]} == {4, 13, 22, 31}


def test_unattended_wheel_waits_for_its_key() -> None:
    device = TlpWheel(WheelOptions(attended=False), Random(3), 0)
    assert path(listen(device, 600)) == "612"
    device.press_start()
    assert path(listen(device, 660)).endswith("3452")


# --- faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("tlp-wheel"))
def test_every_fault_changes_the_bytes_and_strikes_once(name: str) -> None:
    device, heard = spoilt(name)
    assert [one.raw for one in heard] != [one.raw for one in listen(wheel(), 120)]
    assert not device.faults.on(name)


@pytest.mark.parametrize(
    ("name", "flags", "text", "path_of_game", "outcome"),
    [
        ("wheel-launch-fails", 0x08, "RELAUNCH", "2345", "completed"),
        ("wheel-launch-given-up", 0x08, "RELAUNCH", "261", "aborted"),
        ("wheel-same-direction", 0x02, "SAMEDIR", "2345", "completed"),
        ("wheel-second-ball", 0x40, "SECONDBALL", "2345", "completed"),
        ("wheel-sensors-disagree", 0x80, "DISAGREE", "2345", "completed"),
        ("wheel-ball-out", 0x01, "BALLOUT", "2361", "aborted"),
        ("wheel-sensor-fault", 0x04, "SENSOR", "23461", "aborted"),
        ("wheel-rotor-stops", 0x10, "ROTORSTOP", "2345", "completed"),
        ("wheel-rotor-races", 0x20, "OVERSPEED", "23461", "aborted"),
        ("wheel-quiet-stop", 0x00, "", "23461", "aborted"),
    ],
)
def test_34_flags_and_what_becomes_of_the_game(
    name: str, flags: int, text: str, path_of_game: str, outcome: str
) -> None:
    device, heard = spoilt(name)
    spin = device.played[0]
    assert (spin.outcome, spin.flags) == (outcome, flags)
    assert states_of(heard, "0001") == path_of_game
    told = [(one.fields[1], one.fields[2]) for one in of(heard, "FLT", game="0001")]
    assert told == ([(f"{flags:02X}", text), ("00", "CLEAR")] if flags else [])
    results = of(heard, "RES", game="0001")
    assert bool(results) == (outcome == "completed")
    if results and name != "wheel-launch-fails":
        assert results[0].fields[5] == f"{flags:02X}"


def test_37_relaunch_keeps_the_game_number() -> None:
    device, heard = spoilt("wheel-launch-fails")
    assert device.played[0].relaunched
    assert of(heard, "RES")[0].fields[0] == "0001"


def test_too_few_laps() -> None:
    device, heard = spoilt("wheel-few-laps")
    assert 1 <= device.played[0].laps <= 3
    assert len(of(heard, "EVT", event="LAP", game="0001")) == device.played[0].laps


def test_ball_in_the_direction_of_the_rotor_is_seen_beside_the_wheel() -> None:
    device, _ = spoilt("wheel-same-direction")
    assert device.track.runs[0].direction == device.played[0].direction
    assert device.track.runs[1].direction != device.played[1].direction


def test_44_rotor_stands() -> None:
    _, heard = spoilt("wheel-rotor-stops")
    assert of(heard, "RES")[0].fields[2] == "0"


def test_45_direction_flips_without_a_flag() -> None:
    _, heard = spoilt("wheel-direction-flips")
    shown = [one.fields[4] for one in of(heard, "STA", game="0001") if one.fields[0] in "34"]
    assert set(shown) == {"0", "1"}
    assert of(heard, "FLT") == []


def test_34_a_flag_that_no_heartbeat_shows() -> None:
    _, heard = spoilt("wheel-flag-blinks")
    assert [one.fields[1] for one in of(heard, "FLT", game="0001")] == ["01", "00"]
    assert {one.fields[6] for one in of(heard, "STA")} == {"00"}


@pytest.mark.parametrize(("name", "stays"), [("wheel-stuck-in-2", "2"), ("wheel-stuck-in-4", "4")])
def test_43_stuck(name: str, stays: str) -> None:
    device, heard = spoilt(name, 1200)
    assert path(heard).endswith(stays)
    assert device.played == []


def test_36_from_2_to_5_and_from_3_to_2() -> None:
    assert states_of(spoilt("wheel-jump-2-5")[1], "0001") == "25"
    device, heard = spoilt("wheel-jump-3-2")
    assert states_of(heard, "0001") == "234"
    assert device.played[0].number is not None
    assert of(heard, "RES")[0].fields[0] == "0002"


def test_32_old_number_in_the_next_game() -> None:
    device = wheel()
    listen(device, 36)
    device.faults.set("wheel-number-early")
    heard = listen(device, 80)
    shown = {one.fields[2] for one in of(heard, "STA", game="0002") if one.fields[0] in "234"}
    assert shown == {device.played[0].number}


def test_33_blank_39_off_the_wheel() -> None:
    assert of(spoilt("wheel-number-blank")[1], "RES")[0].fields[1] == ""
    assert of(spoilt("wheel-number-off-wheel")[1], "RES")[0].fields[1] == "37"
    cups = bowl()
    cups.faults.set("wheel-number-off-wheel")
    assert of(listen(cups, 60), "RES")[0].fields[1] == "10"


def test_48_second_result_with_another_number() -> None:
    device, heard = spoilt("wheel-number-changes")
    first, second = of(heard, "RES", game="0001")
    assert first.fields[1] == device.played[0].number != second.fields[1]
    assert second.seq > first.seq


def test_40_total_is_not_what_was_counted() -> None:
    device, heard = spoilt("wheel-counts-differ")
    assert int(of(heard, "RES")[0].fields[4]) == device.played[0].laps + 2
