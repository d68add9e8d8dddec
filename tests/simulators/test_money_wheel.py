"""The simulated money wheel: pins, friction, wind-up, back-swing, and every fault switch."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest
from tests.simulators.tlp_devices import Heard, listen, money, of, path, states_of

from dollyd.simulators.faults import names
from dollyd.simulators.money_wheel import MoneyWheel, MoneyWheelOptions
from dollyd.wire.stamp import NS_PER_S

HALF_HOUR_S = 1800


def spoilt(name: str, until_s: float = 200) -> tuple[MoneyWheel, list[Heard]]:
    device = money()
    device.faults.set(name)
    return device, listen(device, until_s)


def steps(heard: list[Heard], game: str, sectors: int = 54) -> list[tuple[int, int]]:
    """Each pass of a game as (+1, -1 or another jump, ms)."""
    passes = of(heard, "EVT", event="PASS", game=game)
    jumps = []
    for before, now in itertools.pairwise(passes):
        jump = (int(now.fields[2]) - int(before.fields[2])) % sectors
        jumps.append((jump if jump <= sectors // 2 else jump - sectors, int(now.fields[3])))
    return jumps


def split(jumps: list[tuple[int, int]]) -> tuple[list[int], list[int], list[int]]:
    """Times of the wind-up, the run and the back-swing."""
    ways = [way for way, _ in jumps]
    start = ways.index(1)
    end = len(ways) - (1 if ways[-1] == -1 else 0)
    times = [ms for _, ms in jumps]
    assert set(ways[:start]) <= {-1}
    assert set(ways[start:end]) == {1}
    return times[:start], times[start:end], times[end:]


def test_wound_up_let_go_slower_and_slower_then_perhaps_back_by_one() -> None:
    device = money()
    heard = listen(device, HALF_HOUR_S)
    assert path(heard).startswith("61235235")
    for turn in device.played:
        wound, run, back = split(steps(heard, turn.game))
        assert len(wound) + 1 == turn.wound_back >= 3
        assert run == sorted(run)
        assert run[0] < 80
        assert 1000 < run[-1] < 2000
        assert len(run) == turn.passes
        assert len(back) == turn.swung_back
        assert states_of(heard, turn.game) in {"235", "23"}
    assert {turn.swung_back for turn in device.played} == {True, False}


def test_result_says_the_truth_and_counts_only_forward() -> None:
    device = money()
    results = of(listen(device, HALF_HOUR_S), "RES")
    assert len(results) > 20
    for turn, result in zip(device.played, results, strict=True):
        assert result.fields[1:] == (str(turn.sector), "0", str(turn.passes * 100 // 54), "00")
        assert turn.passes >= 5 * 54
        assert result.fields[1] == str(turn.sector)


def test_sector_of_the_result_is_that_of_the_last_pass() -> None:
    device = money()
    heard = listen(device, HALF_HOUR_S)
    for turn in device.played:
        assert int(of(heard, "EVT", event="PASS", game=turn.game)[-1].fields[2]) == turn.sector


def test_in_direction_1_the_sectors_come_in_falling_order() -> None:
    device = MoneyWheel(MoneyWheelOptions(direction=1), Random(3), 0)
    heard = listen(device, 100)
    ways = Counter(way for way, _ in steps(heard, "0001"))
    assert ways[-1] > 200
    assert 2 <= ways[1] < 10
    assert of(heard, "RES")[0].fields[2] == "1"


def test_sectors_can_be_scripted_with_and_without_a_back_swing() -> None:
    device = MoneyWheel(MoneyWheelOptions(), Random(3), 0, script=[1, 32, 54] * 4)
    device.advance(1200 * NS_PER_S)
    assert [turn.sector for turn in device.played[:12]] == [1, 32, 54] * 4
    assert any(turn.swung_back for turn in device.played[:12])
    with pytest.raises(ValueError, match="no sector 55"):
        device.will_stop_at(55)


def test_heartbeat_shows_speed_and_turns() -> None:
    shown = [one.fields for one in of(listen(money(), 90), "STA", game="0001") if one.fields[0] == "3"]
    turns = [int(fields[5]) for fields in shown]
    assert turns == sorted(turns)
    assert turns[-1] > 500
    speeds = [int(fields[3]) for fields in shown[1:]]
    assert 250 < max(speeds) < 500


# --- faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("money-wheel"))
def test_every_fault_changes_the_bytes_and_strikes_once(name: str) -> None:
    device, heard = spoilt(name)
    assert [one.raw for one in heard] != [one.raw for one in listen(money(), 200)]
    assert not device.faults.on(name)


@pytest.mark.parametrize(
    ("name", "passes", "turns", "mask"),
    [("money-few-turns", 215, "398", "01"), ("money-exactly-enough", 216, "400", "00")],
)
def test_52_one_pass_makes_the_difference(name: str, passes: int, turns: str, mask: str) -> None:
    device, heard = spoilt(name)
    assert device.played[0].passes == passes
    assert of(heard, "RES")[0].fields[3:] == (turns, mask)
    assert len(split(steps(heard, "0001"))[1]) == passes


def test_52_one_turn() -> None:
    device, heard = spoilt("money-one-turn")
    assert 54 <= device.played[0].passes < 108
    assert of(heard, "RES")[0].fields[4] == "01"


def test_52_on_a_pin_there_is_no_sector() -> None:
    device, heard = spoilt("money-on-pin")
    assert (device.played[0].outcome, device.played[0].sector) == ("on-pin", None)
    assert (of(heard, "RES")[0].fields[1], of(heard, "RES")[0].fields[4]) == ("", "04")


def test_52_touched_stops_early() -> None:
    device, heard = spoilt("money-touched")
    turn = device.played[0]
    assert turn.touched_at is not None
    assert 3 <= turn.passes - turn.touched_at <= 20
    assert int(of(heard, "RES")[0].fields[4], 16) & 0x20


def test_52_touched_at_a_given_pass() -> None:
    device = money()
    device.will_be_touched(230)
    listen(device, 100)
    assert device.played[0].touched_at == 230
    assert device.played[0].passes > 230


def test_45_reversed_in_mid_spin() -> None:
    device, heard = spoilt("money-reversed")
    assert Counter(way for way, _ in steps(heard, "0001"))[-1] > 100
    assert of(heard, "RES")[0].fields[4] == "03", "half of the passes are too few, too"
    assert device.played[0].passes < 216


def test_44_runaway_gets_faster_and_closes() -> None:
    device, heard = spoilt("money-runaway")
    times = [ms for way, ms in steps(heard, "0001") if way == 1]
    assert times == sorted(times, reverse=True)
    assert states_of(heard, "0001") == "2361"
    assert device.played[0].outcome == "aborted"
    assert of(heard, "FLT")[0].fields[1:] == ("10", "RUNAWAY")


def test_52_home_mismatch_jumps_over_a_sector() -> None:
    _, heard = spoilt("money-home-mismatch")
    assert Counter(way for way, _ in steps(heard, "0001"))[2] == 1
    assert int(of(heard, "RES")[0].fields[4], 16) & 0x08


def test_34_motor_fault_at_the_release() -> None:
    _, heard = spoilt("money-motor")
    assert states_of(heard, "0001") == "261"
    assert of(heard, "FLT")[0].fields[1] == "40"


def test_52_a_wheel_of_52_sectors() -> None:
    _, heard = spoilt("money-52-sectors")
    sectors = {int(one.fields[2]) for one in of(heard, "EVT", event="PASS")}
    assert sectors == set(range(1, 53))


def test_33_blank_39_off_the_wheel_48_changed_40_counts() -> None:
    assert of(spoilt("money-sector-blank")[1], "RES")[0].fields[1] == ""
    assert of(spoilt("money-sector-off-wheel")[1], "RES")[0].fields[1] == "55"
    first, second = of(spoilt("money-sector-changes")[1], "RES", game="0001")
    assert first.fields[1] != second.fields[1]
    device, heard = spoilt("money-counts-differ")
    assert int(of(heard, "RES")[0].fields[3]) == device.played[0].passes * 100 // 54 + 150
