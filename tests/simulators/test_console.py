"""The simulated dealer console."""

from __future__ import annotations

from random import Random

import pytest
from tests.simulators.tlp_devices import Heard, console, listen, of

from dollyd.simulators.console import KEYS, Console, ConsoleOptions
from dollyd.simulators.faults import names
from dollyd.simulators.tlp import frame
from dollyd.wire.stamp import NS_PER_S


def quiet(badge: str = "") -> Console:
    return Console(ConsoleOptions(badge=badge), Random(3), 0)


def keys(heard: list[Heard]) -> list[tuple[str, ...]]:
    return [one.fields for one in of(heard, "EVT")]


def test_script_is_played_in_time() -> None:
    device = console()
    heard = listen(device, 30)
    assert keys(heard) == [
        *(("NMB", str(at_s)) for at_s in range(2, 20, 3)),
        ("BADGE", "B7"),
    ]
    assert [one.ms for one in of(heard, "EVT")][:2] == [2000, 5000]
    assert [pressed.at_ns for pressed in device.played][:2] == [2 * NS_PER_S, 5 * NS_PER_S]


@pytest.mark.parametrize("key", KEYS)
def test_every_key(key: str) -> None:
    device = quiet()
    listen(device, 1)
    device.press(key, "4711")
    assert keys(listen(device, 2)) == [(key, "4711")]


def test_there_are_no_other_keys() -> None:
    with pytest.raises(ValueError, match="no key 'HELP'"):
        quiet().press("HELP")
    with pytest.raises(ValueError, match="no key 'HELP'"):
        Console(ConsoleOptions(), Random(1), 0, [(1, "HELP", "")])


def test_11_1_key_is_repeated_until_the_right_acknowledgement() -> None:
    device = quiet()
    listen(device, 1)
    device.press("VOID", "12")
    heard = of(listen(device, 4, acknowledge=False), "EVT")
    assert len(heard) == 6
    assert len({one.raw for one in heard}) == 1
    device.command(frame("HC", "ACK", heard[0].seq, "13"), 4 * NS_PER_S)
    device.command(frame("HC", "ACK", heard[0].seq + 1, "12"), 4 * NS_PER_S)
    assert len(of(listen(device, 5, acknowledge=False), "EVT")) == 2
    device.command(frame("HC", "ACK", heard[0].seq, "12"), 5 * NS_PER_S)
    assert of(listen(device, 9, acknowledge=False), "EVT") == []


def test_11_2_without_a_round_it_names_none() -> None:
    device = quiet()
    listen(device, 1)
    device.press("NMB")
    assert of(listen(device, 2), "EVT")[0].raw.startswith(b"$CNEVT,4,NMB,*")


def test_11_3_badge_at_power_on_put_on_and_taken_away() -> None:
    device = quiet("dealer-3")
    heard = listen(device, 2)
    device.put_on("dealer-5")
    heard += listen(device, 4)
    device.put_on("")
    heard += listen(device, 6)
    assert keys(heard) == [("BADGE", "dealer-3"), ("BADGE", "dealer-5"), ("BADGE", "")]
    shown = [one.fields[0] for one in of(heard, "STA")]
    assert (shown[3], shown[-4], shown[-1]) == ("dealer-3", "", "")
    assert "dealer-5" in shown


def test_without_power_no_key_counts() -> None:
    device = quiet()
    device.power_off(NS_PER_S)
    device.press("VOID")
    device.power_on(2 * NS_PER_S)
    assert keys(listen(device, 5)) == []


# --- faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("console"))
def test_every_fault_changes_the_bytes_and_strikes_once(name: str) -> None:
    device = console()
    device.faults.set(name)
    assert keys(listen(device, 30)) != keys(listen(console(), 30))
    assert not device.faults.on(name)


def test_13_unknown_key_47_other_round_31_stuck_key() -> None:
    said = {}
    for name in ("console-other-key", "console-other-round", "console-key-stuck"):
        device = console()
        device.faults.set(name)
        said[name] = listen(device, 3)
    assert keys(said["console-other-key"]) == [("HELP", "2")]
    assert keys(said["console-other-round"]) == [("NMB", "9")]
    assert keys(said["console-key-stuck"]) == [("NMB", "2")] * 5
    assert len({one.seq for one in of(said["console-key-stuck"], "EVT")}) == 5
