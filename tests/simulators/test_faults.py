"""Every fault switch shows its bytes. Numbers in test names are those of part 4 of the device notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from tests.simulators.wheels import Heard, listen, states, wheel_with

from dollyd.simulators.faults import FAULTS, Switchboard, names
from dollyd.simulators.kinds import KINDS
from dollyd.simulators.line import Line, LineCutter
from dollyd.simulators.ss2 import COMPACT, Ss2Options, Ss2Wheel
from dollyd.simulators.ss2.strikes import IN_NO_MORE_BETS
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

MINUTE_MS = 60_000


def first_game(heard: list[Heard]) -> list[Heard]:
    """Everything up to the first line of another game, or of the reopened table."""
    for place, one in enumerate(heard):
        if place and one.state in {"1", "2"} and heard[place - 1].state not in {"1", "2", "6", ""}:
            return heard[:place]
        if place and one.state == "1" and heard[place - 1].state == "6" and "2" in states(heard[:place]):
            return heard[:place]
    return heard


def play(
    *faults: str, options: Ss2Options = COMPACT, until_ms: float = MINUTE_MS
) -> tuple[Ss2Wheel, list[Heard]]:
    wheel = wheel_with(*faults, options=options)
    return wheel, listen(wheel, until_ms)


def flags_by_state(heard: list[Heard]) -> dict[str, set[str]]:
    shown: dict[str, set[str]] = {}
    for one in heard:
        if one.state:
            shown.setdefault(one.state, set()).add(one.fields[4])
    return shown


def test_table_names_a_device_and_an_entry_of_the_list() -> None:
    shared = {"line", "port", "clock", "tlp", "tlp-game", "tlp-count", "generator"}
    for name, fault in FAULTS.items():
        assert fault.device in {*KINDS, *shared}, name
        assert fault.entries, name
        assert all(1 <= entry <= 53 for entry in fault.entries), name
        assert fault.summary, name
    assert set(IN_NO_MORE_BETS) <= set(names("ss2"))


def test_unknown_fault_is_refused() -> None:
    board = Switchboard("ss2")
    with pytest.raises(ValueError, match="no fault 'line-cr'"):
        board.set("line-cr")


@pytest.mark.parametrize("name", names("ss2"))
def test_every_wheel_fault_changes_the_bytes(name: str) -> None:
    ends_ns = 90 * NS_PER_S
    spoilt = wheel_with(name)
    assert spoilt.advance(ends_ns) != wheel_with().advance(ends_ns)
    assert not spoilt.faults.on(name)


def test_37_failed_launch_is_relaunched_under_the_same_counter() -> None:
    wheel, heard = play("launch-failed", options=Ss2Options(), until_ms=5 * MINUTE_MS)
    game = first_game(heard)
    assert flags_by_state(game) == {
        "6": {"0"},
        "1": {"0"},
        "2": {"0", "8"},
        "3": {"0"},
        "4": {"0"},
        "5": {"0"},
    }
    assert 36 <= sum(one.text[11:14] == ";8;" or one.text[10:13] == ";8;" for one in game) <= 60
    assert (wheel.played[0].relaunched, wheel.played[0].flags, wheel.played[0].counter) == (True, 8, 1)


def test_37_launch_given_up_closes_and_reuses_the_counter() -> None:
    wheel, heard = play("launch-given-up")
    assert states(heard).startswith("6126123452")
    assert [(game.counter, game.outcome) for game in wheel.played[:2]] == [(1, "aborted"), (1, "completed")]


def test_37_no_retry_with_extra_mode_8() -> None:
    _, heard = play("launch-failed", options=replace(COMPACT, extra_modes=8))
    assert states(heard).startswith("612612345")


def test_34_ball_with_rotor_shows_2_then_8_then_a_good_spin() -> None:
    _, heard = play("ball-with-rotor")
    shown = [one.fields[4] for one in first_game(heard) if one.state == "2"]
    assert re.fullmatch(r"0+2{12}8+", "".join(shown))


def test_34_ball_lost_flag_1_one_line_then_4_kept_in_6() -> None:
    wheel, heard = play("ball-lost")
    shown = "".join(one.fields[4] for one in first_game(heard) if one.state == "4")
    assert re.fullmatch(r"0+10{14}4{60}", shown)
    idle = [one for one in first_game(heard)[10:] if one.state == "6"]
    assert {one.fields[4] for one in idle} == {"4"}
    assert wheel.played[0].flags == 5
    assert flags_by_state(heard)["1"] == {"0"}


def test_34_flag_1_blinks_and_the_wheel_stops_without_a_flag() -> None:
    _, heard = play("ball-blinks")
    shown = "".join(one.fields[4] for one in first_game(heard) if one.state == "4")
    assert len(re.findall(r"(?<!1)1(?!1)", shown)) == 7
    assert flags_by_state(first_game(heard))["6"] == {"0"}


def test_34_flag_1_for_one_line_before_a_result() -> None:
    wheel, heard = play("ball-blink-result")
    assert Counter(one.fields[4] for one in first_game(heard) if one.state == "4")["1"] == 1
    assert (wheel.played[0].outcome, wheel.played[0].flags) == ("completed", 1)


def test_34_ball_gone_stops_after_75_s() -> None:
    _, heard = play("ball-gone")
    assert Counter(one.fields[4] for one in first_game(heard) if one.state == "4")["1"] == 150


@pytest.mark.parametrize(("fault", "state"), [("sensor-in-1", "1"), ("sensor-in-4", "4")])
def test_34_sensor_fault_without_flag_1(fault: str, state: str) -> None:
    wheel, heard = play(fault)
    assert flags_by_state(heard)[state] == {"0", "4"}
    assert wheel.played[0].outcome == "aborted"
    assert wheel.played[0].flags == 4


def test_44_runaway_overflows_to_000() -> None:
    _, heard = play("runaway")
    speeds = [int(one.fields[5]) for one in first_game(heard) if one.state == "4"]
    top = max(speeds)
    assert top > 850
    assert set(speeds[speeds.index(top) + 1 :]) == {0}


def test_44_rotor_stands_in_4() -> None:
    _, heard = play("rotor-stops")
    assert sum(one.state == "4" and one.fields[5] == "000" for one in first_game(heard)) == 6


def test_36_4_to_6_without_a_flag() -> None:
    wheel, heard = play("quiet-stop")
    assert states(heard).startswith("612346")
    assert wheel.played[0].flags == 0


@pytest.mark.parametrize(("fault", "path"), [("host-close-in-2", "6126"), ("host-close-in-4", "612346")])
def test_37_closed_by_another_console(fault: str, path: str) -> None:
    wheel, heard = play(fault)
    assert states(heard).startswith(path)
    assert wheel.played[0].outcome == "aborted"
    last = next(one for one in reversed(first_game(heard)) if one.state == path[-2])
    assert int(last.fields[5]) < 100


def test_43_stuck_in_2_for_ten_minutes() -> None:
    _, heard = play("stuck-in-2", options=Ss2Options(), until_ms=20 * MINUTE_MS)
    lines = [one for one in first_game(heard) if one.state == "2"]
    assert lines[-1].ms - lines[0].ms >= 10 * MINUTE_MS
    assert states(heard).startswith("612345")


def test_43_stuck_in_4_until_closed() -> None:
    wheel, heard = play("stuck-in-4", until_ms=10 * MINUTE_MS)
    assert states(heard) == "61234"
    assert wheel.played == []


@pytest.mark.parametrize(("fault", "lines"), [("flag-8-in-3", 2), ("flag-8-stays", 9)])
def test_34_flag_8_in_3(fault: str, lines: int) -> None:
    _, heard = play(fault)
    shown = [one.fields[4] for one in first_game(heard) if one.state == "3"]
    assert shown[:lines] == ["8"] * lines
    assert ("0" in shown) == (fault == "flag-8-in-3")


def test_35_result_with_a_flag() -> None:
    wheel, heard = play("flag-in-result")
    assert flags_by_state(first_game(heard))["5"] == {"4"}
    assert wheel.played[0].flags == 4


def result_of(heard: list[Heard]) -> tuple[list[str], list[str]]:
    """Bare numbers and the numbers of the state-5 lines of the first game."""
    game = first_game(heard)
    return [one.text for one in game if not one.state], [one.fields[3] for one in game if one.state == "5"]


def test_40_bare_number_differs() -> None:
    wheel, heard = play("bare-differs")
    bare, shown = result_of(heard)
    assert set(shown) == {wheel.played[0].pocket}
    assert bare[0] != shown[0]


def test_41_no_bare_number() -> None:
    bare, shown = result_of(play("bare-missing")[1])
    assert bare == []
    assert shown


def test_41_bare_number_without_state_5() -> None:
    wheel, heard = play("result-missing")
    assert states(heard).startswith("61234234")
    assert next(one.text for one in heard if not one.state) == wheel.played[0].pocket


def test_12_one_result_line_shows_another_number() -> None:
    wheel, heard = play("number-flips")
    _, shown = result_of(heard)
    assert shown[0] == wheel.played[0].pocket
    assert min(Counter(shown).values()) == 1
    assert len(set(shown)) == 2


def test_48_number_changes_within_state_5() -> None:
    wheel, heard = play("number-changes")
    _, shown = result_of(heard)
    assert shown[0] == wheel.played[0].pocket
    assert shown[-1] != shown[0]


def test_33_blank_number() -> None:
    bare, shown = result_of(play("number-blank")[1])
    assert bare == []
    assert set(shown) == {"  "}


def test_39_number_that_is_on_no_wheel() -> None:
    bare, shown = result_of(play("number-off-wheel", options=replace(COMPACT, pockets=40))[1])
    assert set(bare) | set(shown) == {"37"}


@pytest.mark.parametrize(
    ("fault", "counters"), [("counter-jump", ["001", "006"]), ("counter-repeat", ["001", "001"])]
)
def test_38_counter(fault: str, counters: list[str]) -> None:
    heard = play(fault)[1]
    results = [one for one, before in zip(heard[1:], heard, strict=False) if one.state == "5" != before.state]
    assert [one.fields[2] for one in results[:2]] == counters


@pytest.mark.parametrize(
    ("fault", "path"), [("jump-2-5", "6125"), ("jump-3-2", "6123234"), ("jump-4-2", "61234234")]
)
def test_36_illegal_transitions(fault: str, path: str) -> None:
    heard = play(fault)[1]
    assert states(heard).startswith(path)
    if fault != "jump-2-5":
        first_bare = next(place for place, one in enumerate(heard) if not one.state)
        assert "002" in {one.fields[2] for one in heard[:first_bare]}


def test_45_direction_flips_for_one_line() -> None:
    shown = "".join(one.fields[6] for one in first_game(play("direction-flip")[1]) if one.state == "4")
    assert re.fullmatch(r"0+10+|1+01+", shown)


def test_15_silent_death_until_a_power_cycle() -> None:
    wheel, heard = play("silent-death")
    assert states(heard) == "61234"
    assert heard[-1].ms < 3_000
    assert wheel.command(b"*V\r\n", int(MINUTE_MS * NS_PER_MS)) == b""
    wheel.power_off(MINUTE_MS * NS_PER_MS)
    wheel.power_on(MINUTE_MS * NS_PER_MS)
    assert states(listen(wheel, 2 * MINUTE_MS)).startswith("612345")
    assert [game.outcome for game in wheel.played[:2]] == ["aborted", "completed"]


def test_38_power_cut_in_mid_spin() -> None:
    wheel, heard = play("power-cut", options=replace(COMPACT, first_counter=50))
    assert states(heard).startswith("612346123452")
    counters = list(dict.fromkeys(one.fields[2] for one in heard if one.state))
    assert counters[:3] == ["050", "001", "002"]
    assert [(game.counter, game.session) for game in wheel.played[:2]] == [(50, 1), (1, 2)]


LINES = [b"*X;4;%03d;31;0;172;0\r\n" % number for number in range(1, 201)]


def through(*faults: str, lines: list[bytes] = LINES) -> bytes:
    return b"".join(chunk for _, chunk in chunks(*faults, lines=lines))


def chunks(*faults: str, lines: list[bytes] = LINES) -> list[tuple[int, bytes]]:
    """Everything that arrives when a line is sent every half second, with its time in ms."""
    line = Line(Random(2))
    for name in faults:
        line.faults.set(name)
    arrived: list[tuple[int, bytes]] = []
    for place, data in enumerate(lines):
        now_ns = place * 500 * NS_PER_MS
        line.send(data, now_ns)
        while True:
            arrived += [(now_ns // NS_PER_MS, chunk) for chunk in line.advance(now_ns)]
            due_ns = line.due_ns()
            if due_ns is None or due_ns >= (place + 1) * 500 * NS_PER_MS:
                break
            now_ns = due_ns
    return arrived


def test_a_sound_line_changes_nothing() -> None:
    assert [chunk for _, chunk in chunks()] == LINES


@pytest.mark.parametrize("name", [name for name in names("line") if name != "line-echo"])
def test_every_line_fault_shows(name: str) -> None:
    assert chunks(name) != chunks()
    assert chunks(name) == chunks(name)


SPOILT: dict[str, Callable[[bytes], bool]] = {
    "line-head-lost": lambda line: not line.startswith(b"*X;4;"),
    "line-tail-lost": lambda line: 0 < len(line) < 19 and line.startswith(b"*"),
    "line-restart": lambda line: line.count(b"*") == 2,
    "line-splice": lambda line: line.count(b"*") > 1 and len(line) != 19,
    "line-drop": lambda line: len(line) == 18,
    "line-flip": lambda line: len(line) == 19 and line not in {sound[:-2] for sound in LINES},
    "line-insert": lambda line: len(line) == 20,
    "line-break": lambda line: b"\x00" in line,
    "line-garbage": lambda line: any(byte in {0, 255} for byte in line),
    "line-wrong-baud": lambda line: any(byte >= 0x80 for byte in line),
    "line-noise": lambda line: any(byte >= 0x80 for byte in line),
    "line-replies": lambda line: line == b"* NO",
    "line-modem": lambda line: line.startswith(b"AT"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_lines_look_as_the_table_says(name: str) -> None:
    arrived = through(name)
    assert any(SPOILT[name](line) for line in arrived.split(b"\r\n"))
    if name != "line-wrong-baud":
        assert any(sound in arrived for sound in LINES), "some lines stay sound"


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("line-cr", b"\r"),
        ("line-lf", b"\n"),
        ("line-lfcr", b"\n\r"),
        ("line-doubled", b"\r\n\r\n"),
        ("line-no-end", b""),
    ],
)
def test_7_8_line_ends(name: str, end: bytes) -> None:
    assert through(name) == b"".join(line.removesuffix(b"\r\n") + end for line in LINES)


def test_2_byte_by_byte() -> None:
    arrived = chunks("line-bytes")
    assert {len(chunk) for _, chunk in arrived} == {1}
    assert arrived[1][0] - arrived[0][0] == 1
    assert through("line-bytes") == through()


def test_20_latency_chunks() -> None:
    arrived = chunks("line-chunks")
    assert {len(chunk) for _, chunk in arrived} == set(range(1, 9))
    assert arrived[1][0] - arrived[0][0] == 16
    assert through("line-chunks") == through()


def test_3_stall_then_burst() -> None:
    times = Counter(ms for ms, _ in chunks("line-stall"))
    assert all(ms % 5000 == 0 for ms in times)
    assert times[5000] == 10


def test_15_silence() -> None:
    assert chunks("line-silence") == []


def test_16_flood_of_200_equal_lines() -> None:
    assert max(chunk.count(b"\r\n") for _, chunk in chunks("line-flood")) == 200


def test_16_old_frames_come_in_one_burst_once() -> None:
    arrived = chunks("line-old-frames")
    assert arrived[0] == (30_000, b"".join(LINES[:61]))
    assert arrived[1:] == chunks()[61:]


def test_20_a_slow_line_does_not_fall_behind_for_ever() -> None:
    line = Line(Random(2))
    line.faults.set("line-bytes")
    for ms in range(60_000):
        line.send(LINES[0], ms * NS_PER_MS)
        line.advance(ms * NS_PER_MS)
    assert len(b"".join(line.advance(62 * NS_PER_S))) < 3000 * len(LINES[0])


def test_14_echo() -> None:
    line = Line(Random(2))
    line.heard(b"*V\r\n", 0)
    assert line.advance(0) == []
    line.faults.set("line-echo")
    line.heard(b"*V\r\n", 0)
    assert line.advance(0) == [b"*V\r\n"]


def test_cleared_faults_are_gone() -> None:
    line = Line(Random(2))
    line.faults.set("line-silence")
    line.faults.clear("line-silence")
    line.send(LINES[0], 0)
    assert line.advance(0) == [LINES[0]]


def test_chunks_never_overtake_each_other() -> None:
    line = Line(Random(2))
    line.faults.set("line-chunks")
    line.send(LINES[0], 0)
    line.faults.clear("line-chunks")
    line.send(LINES[1], 1)
    assert b"".join(line.advance(NS_PER_S)) == LINES[0] + LINES[1]


def test_all_spoilers_at_once_stay_bounded() -> None:
    every = [name for name in names("line") if name not in {"line-silence", "line-flood"}]
    assert len(through(*every)) < 100 * len(b"".join(LINES))


def test_line_cutter_throws_an_endless_line_away() -> None:
    cutter = LineCutter()
    for _ in range(100):
        assert cutter.feed(b"x" * 100) == []
    assert cutter.feed(b"\r\n*V\r\n")[-1] == b"*V"
