"""The connection to a SlingShot 2: who it is, whether it speaks, and what it is asked."""

from __future__ import annotations

import itertools

import pytest
from tests.support.wheel_lines import AMERICAN, PERIOD_MS, Ear, Game, device_setup, status

from dollyd.daemon.core.events import Defect, DeviceReady, DeviceTrouble, GameEnded
from dollyd.drivers.spec import NOTHING, DrawOdds, Status

GAME = Game()
IDLE = status(6, 17, "8")
BANNER = "*V V2.50 Cammegh / Syoptic - SlingShot 2 Roulette Wheel (c) 03/12/18"
REPLIES = (BANNER, "*T z 37", "*T g 0", "*O 6 1 161 1158")


def asked(ear: Ear) -> list[str]:
    return [text for _, text in ear.sent]


def troubles(ear: Ear) -> list[str]:
    return [str(event.status) for event in ear.of(DeviceTrouble)]


# --- who it is -------------------------------------------------------------------------------------


def test_questions_are_asked_one_at_a_time_while_the_wheel_is_closed() -> None:
    ear = Ear().open().hear(IDLE)
    for count, reply in enumerate(REPLIES, start=1):
        assert len(ear.sent) == count
        ear.hear(IDLE, IDLE, reply)
    assert asked(ear) == ["*V", "*T Z", "*T G", "*O"]
    assert ear.hear(IDLE, IDLE).quiet(60_000).sent == ear.sent[:4]
    assert dict(ear.protocol.identity) == {
        "banner": BANNER[3:],
        "firmware": "V2.50",
        "game_modes": "0",
        "mode": "1158",
        "pockets": "37",
        "status_output": "on",
    }


def test_an_unanswered_question_is_given_up_and_the_next_one_asked() -> None:
    ear = Ear().open().hear(*[IDLE] * 30)
    assert asked(ear) == ["*V", "*T Z", "*T G", "*O"]
    assert ear.protocol.counters["unanswered"] == 4
    assert ear.protocol.status is Status.READY


def test_an_answer_to_another_question_does_not_count() -> None:
    assert asked(Ear().open().hear(IDLE, "*T g 0", "*T OK", "*) NO")) == ["*V"]


@pytest.mark.parametrize("state", [1, 2, 3, 4, 5, 7])
def test_nothing_is_asked_in_play(state: int) -> None:
    ear = Ear().open().hear(*[GAME.line(state)] * 20)
    assert ear.sent == []


def test_a_question_under_way_when_play_begins_is_not_followed_by_another() -> None:
    ear = Ear().open().hear(IDLE, GAME.line(1), BANNER, *GAME.lines()).quiet(10_000)
    assert asked(ear) == ["*V"]
    assert asked(ear.hear(status(6, 17, "23"))) == ["*V"]  # one line in state 6 may be a flipped bit
    assert asked(ear.hear(status(6, 17, "23"))) == ["*V", "*T Z"]


def test_questions_are_asked_again_on_every_connection() -> None:
    ear = Ear().open().hear(IDLE, *REPLIES).lose().open().hear(IDLE, *REPLIES)
    assert asked(ear) == ["*V", "*T Z", "*T G", "*O"] * 2


def test_a_question_without_an_answer_is_asked_again_when_the_wheel_has_played() -> None:
    ear = Ear().open().hear(*[IDLE] * 6, *REPLIES[1:])
    game, rounds = GAME, []
    for _ in range(4):
        before = len(ear.sent)
        ear.hear(*game.lines(), *[status(6, game.counter, game.pocket)] * 30)
        rounds.append(asked(ear)[before:])
        game = game.next("5")
    assert asked(ear)[:4] == ["*V", "*T Z", "*T G", "*O"]
    assert rounds == [["*V"], ["*V"], [], []]


def test_an_answer_that_makes_no_sense_is_asked_for_again() -> None:
    ear = Ear().open().hear(IDLE, BANNER, "*T z 77")
    assert asked(ear) == ["*V", "*T Z", "*T Z"]
    assert ear.protocol.status is Status.READY
    assert asked(ear.hear("*T z 37", *["*T g 0", "*O 6"] * 9, *[IDLE] * 30))[3:] == ["*T G", "*O", "*O"]
    assert dict(ear.protocol.identity)["pockets"] == "37"


def test_one_wrong_answer_is_not_yet_a_wrong_device() -> None:
    ear = Ear().open().hear(IDLE, BANNER, "*T z 38")
    assert asked(ear) == ["*V", "*T Z", "*T Z"]
    assert troubles(ear) == []
    ear.hear("*T z 37", *GAME.lines())
    assert ear.numbers == ["23"]


def test_a_wrong_answer_after_which_none_comes_stands() -> None:
    ear = Ear().open().hear(IDLE, BANNER, "*T z 38", *[IDLE] * 6)
    assert ear.protocol.status is Status.WRONG_DEVICE
    assert ear.hear(*GAME.lines()).numbers == []
    ear.hear(*[status(6, 17, "23")] * 30, "*T z 37")
    assert isinstance(ear.events[-1], DeviceReady)


def test_a_wheel_found_wrong_in_play_is_asked_when_it_is_closed() -> None:
    ear = Ear().open().hear(IDLE, *REPLIES, *GAME.lines("23"), "*T z 38", *GAME.lines("45"))
    assert ear.protocol.status is Status.WRONG_DEVICE
    ear.hear(*[status(6, 17, "23")] * 2)
    assert asked(ear)[4:] == ["*T Z"]
    assert ear.hear("*T z 37", *GAME.next("5").lines()).numbers == ["5"]


def test_an_american_wheel_on_a_european_table_is_the_wrong_device() -> None:
    ear = Ear().open().hear(IDLE, BANNER, "*T z 38", "*T z 38")
    assert ear.protocol.status is Status.WRONG_DEVICE
    assert troubles(ear) == ["wrong-device"]
    assert "'38'" in ear.of(DeviceTrouble)[0].cause


def test_the_number_of_pockets_is_that_of_the_game() -> None:
    ear = Ear(device_setup(AMERICAN)).open().hear(IDLE, BANNER, "*T z 38")
    assert ear.protocol.status is Status.READY


@pytest.mark.parametrize("key", ["firmware", "mode", "pockets", "game_modes"])
def test_what_the_configuration_expects_must_be_there(key: str) -> None:
    twice = [reply for reply in REPLIES for _ in range(2)]
    ear = Ear(device_setup(expect={key: "something else"})).open().hear(IDLE, *twice)
    assert ear.protocol.status is Status.WRONG_DEVICE


def test_a_wrong_wheel_plays_no_round() -> None:
    ear = Ear().open().hear(IDLE, BANNER, "*T z 38", "*T z 38", *GAME.lines(), *GAME.next("5").lines())
    assert ear.numbers == []
    assert ear.joined == ["017", "018"]


def test_a_wheel_found_wrong_in_mid_game_spoils_it() -> None:
    ear = Ear().open().hear(IDLE, *GAME.lines("23"), "*T z 38", *GAME.lines("45"), status(2, 18, "23"))
    assert ear.numbers == []
    assert Defect.WRONG_DEVICE in ear.of(GameEnded)[0].facts.defects


def test_a_reconnect_does_not_make_a_wrong_wheel_right() -> None:
    ear = Ear().open().hear(IDLE, BANNER, "*T z 38", "*T z 38").lose().open().hear(*GAME.lines())
    assert ear.protocol.status is Status.WRONG_DEVICE
    assert troubles(ear) == ["wrong-device", "lost", "wrong-device"]
    assert ear.numbers == []


def test_the_right_wheel_again_is_ready() -> None:
    ear = Ear().open().hear(IDLE, BANNER, "*T z 38", "*T z 38").lose().open().hear(IDLE, BANNER, "*T z 37")
    assert ear.protocol.status is Status.READY
    assert isinstance(ear.events[-1], DeviceReady)
    assert ear.hear(*GAME.lines()).numbers == ["23"]


def test_b16_a_reply_of_blanks_is_no_reply() -> None:
    ear = Ear().open().hear(IDLE, "*V   ", "*O 6 1", "*T z")
    assert ear.protocol.identity == ()


# --- whether it speaks ------------------------------------------------------------------------------


def test_b38_a_mute_wheel_is_never_ready() -> None:
    ear = Ear().open().quiet(3_600_000)
    assert ear.protocol.status is Status.INIT
    assert ear.events == []


@pytest.mark.parametrize("noise", ["1", "garbage", "28", "*Y;1;123"])
def test_only_a_line_that_proves_a_wheel_makes_it_ready(noise: str) -> None:
    assert Ear().open().hear(noise).protocol.status is Status.INIT


def test_b18_a_wheel_is_stale_after_three_silent_periods_and_ready_with_the_next_line() -> None:
    ear = Ear().open().hear(IDLE).quiet(3 * PERIOD_MS)
    assert ear.protocol.status is Status.READY
    assert ear.quiet(1).protocol.status is Status.STALE
    assert ear.quiet(3_600_000).hear(IDLE).protocol.status is Status.READY
    assert troubles(ear) == ["stale"]
    assert len(ear.of(DeviceReady)) == 2


def test_noise_keeps_no_wheel_alive() -> None:
    ear = Ear().open().hear(IDLE)
    for _ in range(8):
        ear.quiet(PERIOD_MS).noise()
    assert ear.protocol.status is Status.STALE


def test_flag_4_is_a_fault_of_the_device_as_long_as_it_shows() -> None:
    faulty = status(6, 17, "8", flags=4)
    ear = Ear().open().hear(IDLE, faulty, faulty)
    assert ear.protocol.status is Status.FAULT
    assert ear.hear(IDLE).protocol.status is Status.READY
    assert troubles(ear) == ["fault"]


def test_a_faulty_wheel_that_falls_silent_is_stale() -> None:
    ear = Ear().open().hear(status(6, 17, "8", flags=4)).quiet(10_000)
    assert ear.protocol.status is Status.STALE


def test_a_lost_wheel_is_told_once_with_its_cause() -> None:
    ear = Ear().open().hear(IDLE).lose("unplugged")
    assert ear.protocol.status is Status.LOST
    assert ear.of(DeviceTrouble)[-1].cause == "unplugged"


def test_a_fault_code_is_kept_with_the_identity() -> None:
    ear = Ear().open().hear(IDLE, "*F 22")
    assert dict(ear.protocol.identity)["fault_code"] == "22"


def test_the_days_left_of_a_bonus_licence_are_kept_with_the_identity() -> None:
    ear = Ear().open().hear(IDLE, "*Y;1;999;00")
    assert dict(ear.protocol.identity)["bonus_licence_days"] == "0"


# --- polled operation --------------------------------------------------------------------------------


def test_an_unpolled_wheel_is_sent_nothing_in_an_hour_of_silence() -> None:
    assert Ear().open().quiet(3_600_000).sent == []


@pytest.mark.parametrize(("wanted_ms", "every_ms"), [(1, 100), (100, 100), (250, 250)])
def test_polls_come_no_closer_than_the_document_allows(wanted_ms: int, every_ms: int) -> None:
    ear = Ear(device_setup(options={"polled": True, "poll_ms": wanted_ms})).open().quiet(10_000)
    times = [ms for ms, _ in ear.sent]
    assert {round(later - earlier) for earlier, later in itertools.pairwise(times)} == {every_ms}


def test_a_polled_wheel_is_sent_polls_only_while_it_plays() -> None:
    ear = Ear(device_setup(options={"polled": True})).open().hear(GAME.line(1), *GAME.lines())
    assert set(asked(ear)) == {"*X"}
    assert ear.numbers == ["23"]


def test_a_polled_wheel_is_polled_about_once_a_period() -> None:
    ear = Ear(device_setup(options={"polled": True})).open().quiet(20 * PERIOD_MS)
    assert 19 <= len(ear.sent) <= 21


def test_own_echo_on_a_polled_line_does_not_hide_the_number() -> None:
    ear = Ear(device_setup(options={"polled": True})).open()
    ear.hear("*X", IDLE, *(part for line in GAME.lines() for part in ("*X", line)))
    assert ear.numbers == ["23"]


def test_a_wheel_takes_no_orders() -> None:
    ear = Ear().open_idle()
    assert ear.protocol.order(DrawOdds(1, "0" * 16), ear.at) == NOTHING
