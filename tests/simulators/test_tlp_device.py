"""What all simulated TLP/1 devices do alike; numbers in names are clauses of docs/protocols/tlp-1.md."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from random import Random

import pytest
from tests.simulators.tlp_devices import (
    DEVICES,
    Heard,
    acknowledgement,
    console,
    listen,
    money,
    of,
    wheel,
)

from dollyd.simulators.faults import names
from dollyd.simulators.tlp import frame, parse
from dollyd.simulators.tlp_device import TlpDevice
from dollyd.simulators.tlp_wheel import TlpWheel, WheelOptions
from dollyd.wire.stamp import NS_PER_S

PROTOCOL = (Path(__file__).parents[2] / "docs" / "protocols" / "tlp-1.md").read_text("utf-8")
GAME, FLAGS, MS = r"\d{4}", r"[0-9A-F]{2,3}", r"[1-9]\d*"
FORMS = {
    "WHSTA,seq,state,game,,rpm_x10,dir,laps,flags": rf"[1-6],{GAME},,\d+,[01],\d+,{FLAGS}",
    "WHEVT,seq,game,LAP,n,ms": rf"{GAME},LAP,{MS},{MS}",
    "WHEVT,seq,game,REV,n,ms": rf"{GAME},REV,{MS},{MS}",
    "WHRES,seq,game,number,rpm_x10,dir,laps,flags[,pocket]": rf"{GAME},\d\d?,\d+,[01],\d+,{FLAGS},\d\d?",
    "BDSTA,seq,state,game,laps,dir,flags": rf"[235],{GAME},\d+,[01],{FLAGS}",
    "BDEVT,seq,game,LAP,n,ms": rf"{GAME},LAP,{MS},{MS}",
    "BDEVT,seq,game,DROP,laps,dir": rf"{GAME},DROP,\d+,[01]",
    "BDRES,seq,game,laps,dir,flags": rf"{GAME},\d+,[01],{FLAGS}",
    "MWSTA,seq,state,game,sector,rpm_x10,dir,turns_x100,flags": rf"[12356],{GAME},\d\d?,\d+,[01],\d+,{FLAGS}",
    "MWEVT,seq,game,PASS,sector,ms": rf"{GAME},PASS,\d\d?,{MS}",
    "MWRES,seq,game,sector,dir,turns_x100,flags": rf"{GAME},\d\d?,[01],\d+,{FLAGS}",
    "DCSTA,seq,state,game,n,flags": rf"[12356],{GAME},2,{FLAGS}",
    "DCRES,seq,game,n,face,...,confidence,...,flags,image": (
        rf"{GAME},2,[1-6],[1-6],0\.\d\d,0\.\d\d,{FLAGS},[0-9A-F]{{8}}"
    ),
    "CNSTA,seq,badge,flags": rf"\w*,{FLAGS}",
    "CNEVT,seq,KEY,round": r"[A-Z]+,\d*",
    "CNEVT,seq,BADGE,id": r"BADGE,\w*",
}
"""The sentences as the protocol prints them, and the fields after `seq` of a faultless device."""
LENGTH_S = 150


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> TlpDevice:
    return DEVICES[request.param](3)


def results(heard: list[Heard]) -> list[Heard]:
    return of(heard, "RES")


def test_every_sentence_has_a_printed_form_and_every_form_is_spoken() -> None:
    spoken: set[str] = set()
    for make in DEVICES.values():
        for one in listen(make(3), LENGTH_S):
            if one.message == "HEL":
                continue
            assert one.sentence is not None
            body = ",".join(one.fields)
            head = one.sentence.talker + one.message
            fitting = {form for form in FORMS if form.startswith(head) and re.fullmatch(FORMS[form], body)}
            assert fitting, one.raw
            spoken |= fitting
    assert spoken == set(FORMS)
    for form in FORMS:
        assert f"`${form}`" in PROTOCOL, form


def test_2_2_printable_and_at_most_120_bytes(device: TlpDevice) -> None:
    for one in listen(device, LENGTH_S):
        assert len(one.raw) <= 120
        assert all(0x20 <= byte <= 0x7E for byte in one.raw)
        assert one.sentence is not None


def test_2_4_every_new_sentence_has_the_next_number(device: TlpDevice) -> None:
    seqs = [one.seq for one in listen(device, LENGTH_S)]
    news = [seq for place, seq in enumerate(seqs) if seq not in seqs[:place]]
    assert news == list(range(len(news)))


def test_3_1_hello_first_and_again_when_asked(device: TlpDevice) -> None:
    first = listen(device, 0)[0]
    assert (first.message, first.seq, first.fields[0]) == ("HEL", 0, "1")
    (again,) = [parse(line) for line in device.command(frame("HC", "QRY", 5), 1).split(b"\r\n") if line]
    assert again is not None
    assert (again.command, again.fields) == ("HEL", first.fields)


def test_3_1_another_boot_id_after_each_boot(device: TlpDevice) -> None:
    boots = {listen(device, 0)[0].fields[-1]}
    for second in (1, 2):
        device.power_off(second * NS_PER_S)
        assert device.due_ns() is None
        assert device.command(frame("HC", "QRY", 5), second * NS_PER_S) == b""
        device.power_on(second * NS_PER_S)
        boots |= {one.fields[-1] for one in of(listen(device, second), "HEL")}
    assert len(boots) == 3


def test_3_2_heartbeat_twice_a_second(device: TlpDevice) -> None:
    ticks = [one.ms for one in of(listen(device, LENGTH_S), "STA")]
    assert {later - earlier for earlier, later in itertools.pairwise(ticks)} == {500.0}


@pytest.mark.parametrize("name", DEVICES)
def test_same_seed_same_bytes_other_seed_other_bytes(name: str) -> None:
    first, again, other = (DEVICES[name](seed).advance(60 * NS_PER_S) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_shorter_period_makes_everything_faster() -> None:
    quick = TlpWheel(WheelOptions(period_ms=50), Random(3), 0)
    slow_ms = [int(one.fields[3]) for one in of(listen(wheel(), 40), "EVT", event="LAP")]
    quick_ms = [int(one.fields[3]) for one in of(listen(quick, 4), "EVT", event="LAP")]
    assert len(slow_ms) == len(quick_ms) > 8
    assert all(abs(slow / 10 - fast) <= 1 for slow, fast in zip(slow_ms, quick_ms, strict=True))


@pytest.mark.parametrize("name", ["tlp-wheel", "boule", "ball-detector", "money-wheel", "dice-camera"])
def test_3_3_result_every_half_second_unchanged_until_the_right_acknowledgement(name: str) -> None:
    device = DEVICES[name](3)
    heard: list[Heard] = []
    while not results(heard):
        due_ns = device.due_ns()
        assert due_ns is not None
        heard = listen(device, due_ns / NS_PER_S, acknowledge=False)
    result = results(heard)[0]
    assert result.sentence is not None
    game, now_s = result.fields[0], result.ms / 1000
    device.command(frame("HC", "ACK", result.seq + 1, game), round(now_s * NS_PER_S))
    device.command(frame("HC", "ACK", result.seq, "9999"), round(now_s * NS_PER_S))
    device.command(acknowledgement(result.sentence).replace(b"*", b"*0"), round(now_s * NS_PER_S))
    again = results(listen(device, now_s + 2.2, acknowledge=False))
    assert [one.raw for one in again] == [result.raw] * 4
    assert [round(one.ms - result.ms) for one in again] == [500, 1000, 1500, 2000]
    device.command(acknowledgement(result.sentence), int((now_s + 2.2) * NS_PER_S))
    assert results(listen(device, now_s + 5, acknowledge=False)) == []


@pytest.mark.parametrize("name", ["tlp-wheel", "ball-detector", "money-wheel", "dice-camera"])
def test_3_3_result_survives_a_loss_of_power_and_the_game_number_too(name: str) -> None:
    device = DEVICES[name](3)
    heard = listen(device, 75, acknowledge=False)
    result = results(heard)[-1]
    device.power_off(75 * NS_PER_S)
    device.power_on(80 * NS_PER_S)
    after = listen(device, 200)
    assert after[0].message == "HEL"
    assert [one.raw for one in results(after)].count(result.raw) == 1, "until it is acknowledged"
    games = [one.fields[1] for one in of(after, "STA") if one.fields[0] == "2"]
    assert min(games) > result.fields[0]


def test_4_1_query_brings_the_unacknowledged_result() -> None:
    device = wheel()
    result = results(listen(device, 50, acknowledge=False))[-1]
    assert result.raw in device.command(frame("HC", "QRY", 1), 50 * NS_PER_S)
    assert result.sentence is not None
    device.command(acknowledgement(result.sentence), 50 * NS_PER_S)
    assert result.raw not in device.command(frame("HC", "QRY", 2), 50 * NS_PER_S)


def test_only_the_host_is_obeyed(device: TlpDevice) -> None:
    listen(device, 1)
    assert device.command(frame("WH", "QRY", 1), NS_PER_S) == b""
    assert device.command(frame("HC", "QRY", 1)[:-4] + b"0\r\n", NS_PER_S) == b""


def test_3_6_game_numbers_begin_again_after_9999() -> None:
    device = TlpWheel(WheelOptions(first_game=9999), Random(3), 0)
    games = [one.fields[0] for one in results(listen(device, 100))]
    assert games == ["9999", "0000"]


# --- faults that all of them have ------------------------------------------------------------------


def spoilt(
    name: str, device: TlpDevice, until_s: float = LENGTH_S, *, acknowledge: bool = True
) -> list[Heard]:
    device.faults.set(name)
    return listen(device, until_s, acknowledge=acknowledge)


@pytest.mark.parametrize("name", names("tlp"))
@pytest.mark.parametrize("kind", DEVICES)
def test_every_common_fault_changes_the_bytes_of_every_device(name: str, kind: str) -> None:
    sound = [one.raw for one in listen(DEVICES[kind](3), LENGTH_S)]
    assert [one.raw for one in spoilt(name, DEVICES[kind](3))] != sound


@pytest.mark.parametrize("name", names("tlp-game"))
@pytest.mark.parametrize("kind", ["tlp-wheel", "ball-detector", "money-wheel", "dice-camera"])
def test_every_game_fault_changes_the_bytes(name: str, kind: str) -> None:
    device = DEVICES[kind](3)
    sound = DEVICES[kind](3)
    listen(device, 20)
    listen(sound, 20)
    assert [one.raw for one in spoilt(name, device, 300)] != [one.raw for one in listen(sound, 300)]
    assert not device.faults.on(name)


def test_11_three_results_with_a_wrong_crc_then_the_right_one() -> None:
    heard = spoilt("tlp-bad-crc", wheel(), 60)
    bad = [one for one in heard if one.sentence is None]
    (good, *_) = results(heard)
    assert len(bad) == 3
    assert {one.raw[:-4] for one in bad} == {good.raw[:-4]}
    assert good.ms > bad[-1].ms


def test_49_three_acknowledgements_are_not_heard() -> None:
    heard = spoilt("tlp-ack-lost", wheel(), 60)
    first = results(heard)[0]
    assert [one.raw for one in results(heard)].count(first.raw) == 4


def test_15_silent_and_deaf_until_a_power_cycle(device: TlpDevice) -> None:
    heard = spoilt("tlp-silent", device, 60)
    assert {one.ms for one in heard} == {0.0}
    assert device.command(frame("HC", "QRY", 1), 60 * NS_PER_S) == b""
    device.power_off(60 * NS_PER_S)
    device.power_on(60 * NS_PER_S)
    assert listen(device, 60)[0].message == "HEL"


def test_15_five_heartbeats_are_missing(device: TlpDevice) -> None:
    heard = spoilt("tlp-heartbeat-gap", device, 10)
    assert of(heard, "STA")[0].ms == 2500.0


def test_42_power_cut_in_mid_game_leaves_no_result_of_it() -> None:
    device = wheel()
    listen(device, 20)
    heard = spoilt("tlp-power-cut", device, 120)
    assert (device.played[0].outcome, device.played[0].game) == ("aborted", "0001")
    assert results(heard)[0].fields[0] == "0002"
    boot = next(one for one in heard if one.message == "HEL")
    assert boot.seq == 0
    assert boot.ms - heard[0].ms == pytest.approx(10_000, abs=1000)


def test_25_another_serial_number_on_the_same_port(device: TlpDevice) -> None:
    serials = [one.fields[4] for one in of(spoilt("tlp-other-device", device, 10), "HEL")]
    assert serials == [serials[0], f"{serials[0]}X"]


def test_47_result_for_another_game() -> None:
    device = wheel()
    (result, *_) = results(spoilt("tlp-wrong-game", device, 60))
    assert result.fields[0] != device.played[0].game == "0001"


def test_31_the_same_result_as_a_new_sentence() -> None:
    first, second, *_ = results(spoilt("tlp-result-again", wheel(), 60))
    assert second.seq == first.seq + 1
    assert second.fields == first.fields


def test_41_state_5_without_a_result() -> None:
    heard = spoilt("tlp-result-missing", wheel(), 90)
    assert results(heard)[0].fields[0] == "0002"
    assert any(one.fields[0] == "5" for one in of(heard, "STA", game="0001"))


@pytest.mark.parametrize(
    ("name", "games"),
    [
        ("tlp-counter-jump", ["0001", "0007"]),
        ("tlp-counter-repeat", ["0001", "0001"]),
        ("tlp-counter-reset", ["0001", "0001"]),
    ],
)
def test_38_game_number(name: str, games: list[str]) -> None:
    device = money()
    listen(device, 30)
    heard = spoilt(name, device, 160)
    assert [one.fields[0] for one in results(heard)[:2]] == games


def test_2_4_a_lost_event_leaves_a_gap_in_the_numbers() -> None:
    heard = spoilt("tlp-lost-events", wheel(), 60)
    seqs = sorted({one.seq for one in heard})
    assert len(set(range(seqs[-1])) - set(seqs)) == 2
    laps = [int(one.fields[2]) for one in of(heard, "EVT", event="LAP", game="0001")]
    assert 1 not in laps


def test_keys_that_were_not_acknowledged_are_gone_with_the_power() -> None:
    device = console()
    listen(device, 3, acknowledge=False)
    device.power_off(3 * NS_PER_S)
    device.power_on(4 * NS_PER_S)
    assert of(listen(device, 5, acknowledge=False), "EVT") == []
