"""The simulated SlingShot 2 against the maker's paper and the captures (part 1 of the device notes)."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tests.simulators.wheels import ask, listen, states, wheel_with

from dollyd.simulators.ss2 import COMPACT, Ss2Options, Ss2Wheel, pocket_texts
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

STATUS = re.compile(r"\*X;[1-7];(?!000)\d{3};(?:  | \d|\d\d);[0-9A-F];\d{3};[01]")
BARE = re.compile(r" \d|\d\d")
BONUS = re.compile(r"\*Y;[1-6];\d{3}(;\d\d)?")
HOUR_MS = 3_600_000


def test_every_line_has_its_form() -> None:
    for one in listen(wheel_with(options=Ss2Options()), HOUR_MS):
        assert STATUS.fullmatch(one.text) or BARE.fullmatch(one.text), one


def test_a_status_packet_is_21_bytes() -> None:
    packet = Ss2Wheel(Ss2Options(), Random(1), 0).advance(7 * NS_PER_S)[:21]
    assert packet == b"*X;6;001;  ;0;000;0\r\n"


def test_status_comes_twice_a_second() -> None:
    ticks = [one.ms for one in listen(wheel_with(options=Ss2Options()), HOUR_MS) if one.state]
    assert {later - earlier for earlier, later in itertools.pairwise(ticks)} == {500.0}


def test_silent_for_seconds_after_power_on_then_idle() -> None:
    first = listen(wheel_with(options=Ss2Options()), 20_000)[0]
    assert 3_000 <= first.ms <= 7_000
    assert first.text == "*X;6;001;  ;0;000;0"


def test_captured_order_of_states() -> None:
    path = states(listen(wheel_with(options=Ss2Options()), HOUR_MS))
    assert re.fullmatch(r"61(2345)+(2|23|234|2345)?", path), path


def test_bare_number_just_before_the_first_result_line() -> None:
    heard = listen(wheel_with(options=Ss2Options()), HOUR_MS)
    places = [place for place, one in enumerate(heard) if BARE.fullmatch(one.text)]
    assert len(places) > 70
    for place in places:
        before, bare, after = heard[place - 1 : place + 2]
        assert (before.state, after.state) == ("4", "5")
        assert after.fields[3] == bare.text
        assert before.fields[3] == heard[0].fields[3] or before.fields[3] in pocket_texts(37)
        assert 15 <= after.ms - bare.ms <= 500


def test_old_number_until_state_5_then_kept_and_counter_plus_one() -> None:
    wheel = wheel_with(options=Ss2Options())
    heard = [one for one in listen(wheel, HOUR_MS) if one.state]
    for before, now in itertools.pairwise(heard):
        if now.fields[3] != before.fields[3]:
            assert (before.state, now.state) == ("4", "5")
        counted = int(now.fields[2]) - int(before.fields[2])
        assert counted == (1 if (before.state, now.state) == ("5", "2") else 0)


def test_result_is_repeated_as_often_as_in_the_captures() -> None:
    heard = listen(wheel_with(options=Ss2Options()), HOUR_MS)
    lines = Counter(one.fields[2] for one in heard if one.state == "5")
    assert all(6 <= count <= 18 for count in list(lines.values())[:-1])


def test_rotor_brakes_to_standstill_and_turns_round_in_state_2() -> None:
    heard = listen(wheel_with(options=Ss2Options()), HOUR_MS)
    directions = []
    for game in range(1, 40):
        lines = [one for one in heard if one.state == "2" and int(one.fields[2]) == game]
        assert "000" in {one.fields[5] for one in lines}
        directions.append(lines[-1].fields[6])
        assert lines[0].fields[6] != lines[-1].fields[6]
    assert set(itertools.pairwise(directions)) == {("0", "1"), ("1", "0")}


def test_all_games_one_way_without_mode_bit_1() -> None:
    heard = listen(wheel_with(options=replace(COMPACT, mode=1158)), 20_000)
    assert {one.fields[6] for one in heard if one.state} == {"0"}


def test_counter_wraps_from_256_to_1() -> None:
    heard = listen(wheel_with(options=replace(COMPACT, first_counter=255)), 10_000)
    counters = list(dict.fromkeys(one.fields[2] for one in heard if one.state))
    assert counters[:4] == ["255", "256", "001", "002"]


def test_power_on_resets_counter_and_number() -> None:
    wheel = wheel_with(options=replace(COMPACT, first_counter=77))
    listen(wheel, 6_000)
    wheel.power_off(6_000 * NS_PER_MS)
    assert wheel.due_ns() is None
    wheel.power_on(9_000 * NS_PER_MS)
    first = listen(wheel, 10_000)[0]
    assert first.text == "*X;6;001;  ;0;000;0"
    assert {game.session for game in wheel.played} == {1}
    listen(wheel, 15_000)
    assert wheel.played[-1].session == 2


@pytest.mark.parametrize("pockets", [37, 38, 39, 40])
def test_pockets_as_the_wheel_writes_them(pockets: int) -> None:
    texts = pocket_texts(pockets)
    assert len(set(texts)) == pockets
    assert all(BARE.fullmatch(text) for text in texts)
    wheel = Ss2Wheel(replace(COMPACT, pockets=pockets), Random(1), 0, script=texts)
    listen(wheel, 80_000)
    assert [game.pocket for game in wheel.played[:pockets]] == list(texts)
    assert ask(wheel, "*T Z", 80_000) == f"*T z {pockets}"


def test_script_refuses_a_pocket_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="no pocket '00'"):
        Ss2Wheel(COMPACT, Random(1), 0, script=["00"])


def test_truth_is_what_was_shown() -> None:
    wheel = wheel_with(options=Ss2Options())
    shown = {one.fields[2]: one for one in reversed(listen(wheel, HOUR_MS)) if one.state == "5"}
    assert len(wheel.played) == len(shown)
    for game in wheel.played:
        first = shown[f"{game.counter:03}"]
        assert (game.pocket, game.end_ns) == (first.fields[3], first.ms * NS_PER_MS)


@pytest.mark.parametrize(("mode", "port"), [(1159 | 16, 1), (1159, 2), (1159, 3)])
def test_no_bare_number(mode: int, port: int) -> None:
    wheel = wheel_with(options=replace(COMPACT, mode=mode, port=port))
    heard = listen(wheel, 5_000)
    assert all(one.state for one in heard)
    assert "5" in states(heard)
    assert ask(wheel, "*I 4", 5_000) == ("*I 4" if port == 1 else "*I NO")


def test_poll_only_without_bit_128() -> None:
    wheel = wheel_with(options=replace(COMPACT, mode=1159 - 128))
    assert all(BARE.fullmatch(one.text) for one in listen(wheel, 5_000))
    assert STATUS.fullmatch(ask(wheel, "*X", 5_000))


def test_few_games_an_hour_put_state_1_between_games() -> None:
    wheel = wheel_with(options=Ss2Options(games_per_hour=60))
    heard = listen(wheel, HOUR_MS)
    assert re.fullmatch(r"61(23451)+(2|23|234|2345)?", states(heard))
    assert 58 <= len(wheel.played) <= 60


def test_without_bit_1024_few_games_an_hour_make_state_5_longer() -> None:
    wheel = wheel_with(options=Ss2Options(games_per_hour=60, mode=1159 - 1024))
    heard = listen(wheel, HOUR_MS)
    assert re.fullmatch(r"61(2345)+(2|23|234|2345)?", states(heard))
    assert 58 <= len(wheel.played) <= 60


def test_state_7_between_4_and_5() -> None:
    heard = listen(wheel_with(options=replace(COMPACT, extra_modes=32)), 5_000)
    assert "23475" in states(heard)


@pytest.mark.parametrize(("days", "tail"), [(999, ""), (30, ";30"), (0, ";00")])
def test_bonus_numbers(days: int, tail: str) -> None:
    heard = listen(wheel_with(options=replace(COMPACT, mode=1159 | 32_768, bonus_days=days)), 4_000)
    bonus = [(place, one) for place, one in enumerate(heard) if one.text.startswith("*Y")]
    assert [one.fields[1] for _, one in bonus[:6]] == ["1", "2", "3", "6", "4", "5"]
    for place, one in bonus:
        assert BONUS.fullmatch(one.text)
        assert one.text.endswith(tail)
        assert (one.fields[2] == "999") == (days == 0)
        state = next(line.state for line in reversed(heard[:place]) if line.state)
        assert state == {"1": "3", "2": "3", "3": "4", "6": "4"}.get(one.fields[1], "5")


def test_unattended_waits_for_the_host() -> None:
    wheel = wheel_with(options=replace(COMPACT, attended=False))
    assert states(listen(wheel, 10_000)) == "6"
    assert ask(wheel, "*P 1", 10_000) == "*P OK"
    assert states(listen(wheel, 20_000)) == "12"
    assert ask(wheel, "*P 1", 20_000) == "*P NO"
    assert ask(wheel, "*u 1", 20_000) == "*u OK"
    assert states(listen(wheel, 30_000)) == "23452"


def test_u_in_state_1_says_ok_and_starts_nothing() -> None:
    wheel = wheel_with(options=replace(COMPACT, attended=False))
    listen(wheel, 1_000)
    ask(wheel, "*P 1", 1_000)
    listen(wheel, 1_060)
    assert wheel.state == 1
    assert ask(wheel, "*u 1", 1_060) == "*u OK"
    assert states(listen(wheel, 10_000)) == "12"


def test_host_close_brakes_in_its_state_and_reuses_the_counter() -> None:
    wheel = wheel_with(options=Ss2Options())
    listen(wheel, 40_000)
    assert wheel.state == 4
    assert ask(wheel, "*P 0", 40_000) == "*P OK"
    heard = listen(wheel, 80_000)
    assert states(heard) == "46"
    speeds = [int(one.fields[5]) for one in heard if one.state == "4"]
    assert speeds == sorted(speeds, reverse=True)
    assert heard[-1].text == "*X;6;001;  ;0;000;0"
    assert [(game.counter, game.outcome) for game in wheel.played] == [(1, "aborted")]
    assert ask(wheel, "*P 0", 80_000) == "*P NO"
    ask(wheel, "*P 1", 80_000)
    heard = listen(wheel, 160_000)
    assert states(heard).startswith("12345")
    assert [(game.counter, game.outcome) for game in wheel.played[1:]] == [(1, "completed")]


def test_restart_goes_back_to_state_1() -> None:
    wheel = wheel_with()
    listen(wheel, 900)
    assert ask(wheel, "*R", 900) == "*R OK"
    assert states(listen(wheel, 1_500)).startswith("12")
    assert wheel.played[0].outcome == "aborted"


IDLE = replace(COMPACT, attended=False)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("*S", "*S V2.50"),
        ("*V", "*V V2.50 Cammegh / Syoptic - SlingShot 2 Roulette Wheel (c) 03/12/18"),
        ("*o", "*o 1159"),
        ("*o 1158", "*o 1158"),
        ("*T D", "*T d 15"),
        ("*T J", "*T j 6705 3386 26 1"),
        ("*T S", "*T s 16.0 18.0"),
        ("*T G", "*T g 0"),
        ("*T m 2", "*T OK"),
        ("*T f", "*T OK"),
        ("*Tr 23000 23000", "*T OK"),
        ("*K", "*K CAM"),
        ("*q 1", "*q OK"),
        ("*F", "*F 0"),
        ("*A", "*A 0"),
        ("*d g", "*d g 12:00:00 - 03/12/18"),
        ("*y", "*y 999"),
        ("*y R", "*y R 48151623"),
        ("*s t", "*s t 0"),
        ("*w", "*w 0.0 50.0"),
        ("*W", "*W 0"),
        ("*M", "*M 0"),
        ("* u1", "*  NO"),
        ("*) ", "*) NO"),
        ("*j 1 2 3 4", "*j NO"),
        ("hello", ""),
    ],
)
def test_answers_in_idle(command: str, answer: str) -> None:
    wheel = wheel_with(options=IDLE)
    listen(wheel, 1_000)
    assert ask(wheel, command, 1_000) == answer


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("*O", "*O 4 1 161 1159"),
        ("*o 1158", "*o BUSY"),
        ("*F", "*F BUSY"),
        ("*C", "*C BUSY"),
        ("*W", "*W BUSY"),
        ("*K", "*K OK"),
        ("*P 1", "*P NO"),
    ],
)
def test_answers_in_play(command: str, answer: str) -> None:
    wheel = wheel_with(options=Ss2Options())
    listen(wheel, 40_000)
    assert ask(wheel, command, 40_000) == answer


def test_parameters_live_in_ram_until_stored() -> None:
    wheel = wheel_with(options=IDLE)
    listen(wheel, 1_000)
    ask(wheel, "*T m 3", 1_000)
    ask(wheel, "*T f", 1_000)
    ask(wheel, "*T n 2000", 1_000)
    ask(wheel, "*Tr 1 2", 1_000)
    assert ask(wheel, "*T N", 1_000) == "*T n 2000"
    wheel.power_off(NS_PER_S)
    wheel.power_on(NS_PER_S)
    listen(wheel, 2_000)
    assert [ask(wheel, f"*T {letter}", 2_000) for letter in "MNR"] == [
        "*T m 3.0",
        "*T n 2920",
        "*T r 23000 23000",
    ]


def test_q_0_silences_all_status() -> None:
    wheel = wheel_with(options=IDLE)
    listen(wheel, 1_000)
    ask(wheel, "*q 0", 1_000)
    assert ask(wheel, "*X", 1_000) == ""
    assert listen(wheel, 3_000) == []
    assert ask(wheel, "*O", 3_000) == "*O 6 0 100000 1159"


def test_commands_may_come_in_pieces_and_end_in_cr_or_lf() -> None:
    wheel = wheel_with(options=IDLE)
    listen(wheel, 1_000)
    now_ns = NS_PER_S
    assert wheel.command(b"*T", now_ns) == b""
    assert wheel.command(b" Z\r*S", now_ns) == b"*T z 37\r\n"
    assert wheel.command(b"\n", now_ns) == b"*S V2.50\r\n"


def test_deaf_while_booting() -> None:
    wheel = Ss2Wheel(Ss2Options(), Random(1), 0)
    assert wheel.command(b"*V\r\n", NS_PER_S) == b""


def test_sensor_events() -> None:
    wheel = wheel_with()
    listen(wheel, 300)
    ask(wheel, "*I 4", 300)
    heard = [one.text for one in listen(wheel, 3_000) if one.text.startswith("*b")]
    assert heard[:4] == ["*bs 1", "*bs 2", "*bs 3", f"*bn {wheel.played[0].pocket}"]


def test_log_page_carries_its_sum() -> None:
    wheel = wheel_with()
    listen(wheel, 20_000)
    ask(wheel, "*P 0", 20_000)
    listen(wheel, 25_000)
    assert ask(wheel, "*s t", 25_000) == "*s t 1"
    page = ask(wheel, "*s r 0", 25_000)
    assert len(page) == 258
    assert int(page[256:], 16) == sum(page[:256].encode("ascii")) % 256


def test_same_seed_same_bytes() -> None:
    def bytes_of(seed: int) -> bytes:
        return Ss2Wheel(COMPACT, Random(seed), 0).advance(60 * NS_PER_S)

    assert bytes_of(5) == bytes_of(5)
    assert bytes_of(5) != bytes_of(6)


def test_one_long_step_gives_the_bytes_of_many_short_ones() -> None:
    short = Ss2Wheel(COMPACT, Random(5), 0)
    pieces = b"".join(short.advance(ms * NS_PER_MS) for ms in range(0, 20_000, 7))
    pieces += short.advance(20 * NS_PER_S)
    assert pieces == Ss2Wheel(COMPACT, Random(5), 0).advance(20 * NS_PER_S)
