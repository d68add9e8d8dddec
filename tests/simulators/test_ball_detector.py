"""The simulated ball detector, alone and beside a wheel."""

from __future__ import annotations

from random import Random

import pytest
from tests.simulators.tlp_devices import Heard, detector, listen, of, path, states_of

from dollyd.simulators.ball_detector import BallDetector, BallDetectorOptions
from dollyd.simulators.faults import names
from dollyd.simulators.tlp import parse
from dollyd.simulators.tlp_device import TlpDevice
from dollyd.simulators.tlp_wheel import TlpWheel, WheelOptions
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S


def spoilt(name: str, until_s: float = 120) -> tuple[BallDetector, list[Heard]]:
    device = detector()
    device.faults.set(name)
    return device, listen(device, until_s)


def laps_of(heard: list[Heard], game: str = "0001") -> list[Heard]:
    return of(heard, "EVT", event="LAP", game=game)


def together(*devices: TlpDevice, until_s: float) -> list[list[Heard]]:
    """Both move from instant to instant on one clock."""
    heard: list[list[Heard]] = [[] for _ in devices]
    while True:
        due_ns = min(device.due_ns() or 0 for device in devices)
        if due_ns > until_s * NS_PER_S:
            return heard
        for device, sentences in zip(devices, heard, strict=True):
            lines = [line for line in device.advance(due_ns).split(b"\r\n") if line]
            sentences += [Heard(due_ns / NS_PER_MS, line, parse(line)) for line in lines]


def test_alone_it_plays_runs_of_its_own() -> None:
    device = detector()
    heard = listen(device, 300)
    assert path(heard).startswith("2352352")
    for seen in device.played:
        laps = laps_of(heard, seen.game)
        assert len(laps) == seen.laps == seen.said_laps
        times = [int(one.fields[3]) for one in laps]
        assert times == sorted(times)
        (drop,) = of(heard, "EVT", event="DROP", game=seen.game)
        assert drop.fields[2:] == (str(seen.laps), str(seen.direction))
        assert of(heard, "RES", game=seen.game)[0].fields[1:] == (str(seen.laps), str(seen.direction), "00")
    assert {seen.direction for seen in device.played} == {0, 1}


def test_beside_a_wheel_it_sees_the_same_spins() -> None:
    wheel = TlpWheel(WheelOptions(), Random(5), 0)
    device = BallDetector(BallDetectorOptions(first_game=300), Random(6), 0, wheel.track)
    wheel.faults.set("wheel-same-direction")
    spoken, seen = together(wheel, device, until_s=400)
    assert len(wheel.played) > 8
    for spin, run in zip(wheel.played, device.played, strict=False):
        assert run.laps == spin.laps
        assert run.direction == (spin.direction if spin.with_rotor else 1 - spin.direction)
        wheel_laps, own_laps = laps_of(spoken, spin.game), laps_of(seen, run.game)
        for one, other in zip(wheel_laps, own_laps, strict=True):
            assert abs(int(one.fields[3]) - int(other.fields[3])) <= 1
            assert abs(one.ms - other.ms) <= 1


def test_a_run_during_its_power_cut_is_not_seen() -> None:
    wheel = TlpWheel(WheelOptions(), Random(5), 0)
    device = BallDetector(BallDetectorOptions(), Random(6), 0, wheel.track)
    together(wheel, device, until_s=20)
    device.power_off(20 * NS_PER_S)
    wheel.advance(100 * NS_PER_S)
    device.power_on(100 * NS_PER_S)
    together(wheel, device, until_s=160)
    assert device.played[0].outcome == "aborted"
    assert device.played[1].start_ns > 100 * NS_PER_S


# --- faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("ball-detector"))
def test_every_fault_changes_the_bytes_and_strikes_once(name: str) -> None:
    device, heard = spoilt(name)
    assert [one.raw for one in heard] != [one.raw for one in listen(detector(), 120)]
    assert not device.faults.on(name)


@pytest.mark.parametrize(("name", "difference"), [("detector-misses-laps", -2), ("detector-one-too-many", 1)])
def test_40_it_counts_wrong(name: str, difference: int) -> None:
    device, heard = spoilt(name)
    said = int(of(heard, "RES")[0].fields[1])
    assert said == device.played[0].said_laps == device.played[0].laps + difference
    assert len(laps_of(heard)) == said


def test_40_its_total_is_not_its_events() -> None:
    _, heard = spoilt("detector-counts-differ")
    assert int(of(heard, "RES")[0].fields[1]) == len(laps_of(heard)) + 1


def test_45_wrong_direction() -> None:
    device, heard = spoilt("detector-wrong-direction")
    assert of(heard, "RES")[0].fields[2] == str(1 - device.played[0].direction)


def test_43_a_run_that_it_does_not_see_and_a_ball_that_never_drops() -> None:
    device, heard = spoilt("detector-sees-nothing")
    assert states_of(heard, "0001") == "2"
    assert laps_of(heard) == []
    assert device.played[0].laps > 0
    assert path(spoilt("detector-no-drop", 1200)[1]) == "23"


@pytest.mark.parametrize(
    ("name", "mask"),
    [("detector-ball-lost", "01"), ("detector-sensor-fault", "04"), ("detector-second-ball", "40")],
)
def test_34_flags(name: str, mask: str) -> None:
    _, heard = spoilt(name)
    assert [one.fields[1] for one in of(heard, "FLT")] == [mask, "00"]
    assert of(heard, "RES")[0].fields[3] == mask
