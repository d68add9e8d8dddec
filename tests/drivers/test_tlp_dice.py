"""A TLP/1 dice camera: every die read with confidence, or no reading (tlp-1.md 9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tlp_lines import SILENCE_MS, Host, ref, setup_of
from tests.support.tlp_speakers import DICE_GAME, Camera

from dollyd.daemon.core.events import (
    Defect,
    DeviceReady,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Flag,
    GameEnded,
    GameStarted,
    Reading,
    ReadingContradicted,
)
from dollyd.drivers.spec import Status


def heard(*lines: bytes, game: str = "tuplanoppa", **changes: Any) -> Host:
    return Host(setup_of("DC", game, **changes)).open().hear(*lines, ms=100)


def thrown(*faces: str, **how: Any) -> Host:
    camera = Camera()
    return heard(camera.hello(), camera.sta(1), *camera.throw(), camera.res(*faces, **how))


def test_a_throw_from_the_cup_to_the_faces() -> None:
    told, game = thrown("5", "2", image="A1B2C3D4"), ref("dice", DICE_GAME)
    assert told.events == [
        DeviceReady("dice", told.protocol.identity),
        GameStarted(game),
        DrawStarted(game),
        Reading(game, ("5", "2"), DrawFacts(details=(("image", "A1B2C3D4"),))),
    ]
    assert told.acks == [(5, DICE_GAME)]


@pytest.mark.parametrize(("game", "faces"), [("sic-bo", ("3", "2", "6")), ("craps", ("6", "6"))])
def test_the_game_says_how_many_dice_there_are(game: str, faces: tuple[str, ...]) -> None:
    camera = Camera(len(faces))
    told = heard(camera.hello(), camera.sta(1), *camera.throw(), camera.res(*faces), game=game)
    assert told.values == [faces]


@pytest.mark.parametrize(
    ("faces", "how"),
    [
        (("5", ""), {}),
        (("", ""), {}),
        (("5", "7"), {}),
        (("5", "0"), {}),
        (("5", "x"), {}),
        (("5", "2"), {"sure": "0.89"}),
        (("5", "2"), {"sure": ""}),
        (("5", "2"), {"sure": "98"}),
        (("5", "2"), {"sure": "1.01"}),
        (("5", "2"), {"flags": "10"}),
        (("5", "2"), {"flags": "20"}),
        (("5", "2"), {"flags": ""}),
        (("5", "2"), {"flags": "zz"}),
        (("5", ""), {"flags": "21"}),
    ],
)
def test_51_a_throw_that_cannot_be_read(faces: tuple[str, ...], how: dict[str, str]) -> None:
    told = thrown(*faces, **how)
    assert (told.values, told.defects) == ([], (Defect.UNREAD,))
    assert told.of(DrawUpdate)[-1].facts.flags == ()


@pytest.mark.parametrize(
    "fields", [(), ("2",), ("2", "5", "2"), ("2", "5", "2", "0.98", "0.98"), ("x", "5"), ("99",)]
)
def test_51_a_result_that_is_too_short_is_unread(fields: tuple[str, ...]) -> None:
    camera = Camera()
    told = heard(camera.hello(), camera.sta(1), *camera.throw(), camera.say("RES", DICE_GAME, *fields))
    assert (told.values, told.defects) == ([], (Defect.UNREAD,))


@pytest.mark.parametrize(
    ("least", "sure", "reads"), [(95, "0.94", False), (95, "0.95", True), (50, "0.51", True)]
)
def test_how_sure_it_must_be_is_an_option(least: int, sure: str, reads: bool) -> None:
    camera = Camera()
    lines = [camera.hello(), camera.sta(1), *camera.throw(), camera.res("5", "2", sure=sure)]
    assert bool(heard(*lines, options={"confidence_min_x100": least}).values) is reads


REJECTING = [
    ("01", Flag.COCKED),
    ("02", Flag.STACKED),
    ("04", Flag.WRONG_COUNT),
    ("40", Flag.FOREIGN_OBJECT),
    ("80", Flag.NOT_SHAKEN),
    ("100", Flag.OUTSIDE_AREA),
    ("200", Flag.NOT_TOGETHER),
]


@pytest.mark.parametrize(("mask", "flag"), REJECTING)
def test_51_a_flag_against_the_throw_is_told_without_faces_and_is_no_doubt(mask: str, flag: Flag) -> None:
    told = thrown("5", "", flags=mask)
    (update,) = told.of(DrawUpdate)
    assert (update.facts.flags, update.facts.defects) == ((flag,), ())
    assert told.values == []


@pytest.mark.parametrize(("mask", "flag"), REJECTING)
def test_a_flag_against_the_throw_stands_beside_its_faces(mask: str, flag: Flag) -> None:
    (reading,) = thrown("5", "2", flags=mask).of(Reading)
    assert (reading.value, reading.facts.flags) == (("5", "2"), (flag,))


@pytest.mark.parametrize("faces", [("5",), ("5", "2", "6")])
def test_51_another_number_of_dice_is_a_wrong_count(faces: tuple[str, ...]) -> None:
    told = thrown(*faces)
    assert told.values == []
    assert told.of(DrawUpdate)[0].facts.flags == (Flag.WRONG_COUNT,)


@pytest.mark.parametrize(("mask", "flag"), [("80", Flag.NOT_SHAKEN), ("200", Flag.NOT_TOGETHER)])
@pytest.mark.parametrize("message", ["STA", "FLT"])
def test_t44_how_the_dice_were_thrown_is_told_while_they_move(mask: str, flag: Flag, message: str) -> None:
    camera = Camera()
    told = heard(camera.hello(), camera.sta(1), camera.sta(2), camera.sta(3))
    told.hear(camera.sta(3, flags=mask) if message == "STA" else camera.say("FLT", DICE_GAME, mask, "THROW"))
    assert told.of(DrawUpdate)[0].facts.flags == (flag,)


@pytest.mark.parametrize("mask", ["01", "02", "04", "40", "100"])
def test_how_the_dice_lie_counts_only_at_rest(mask: str) -> None:
    camera = Camera()
    lines = [
        camera.hello(),
        camera.sta(1),
        camera.sta(2),
        camera.sta(3, flags=mask),
        camera.sta(5, flags=mask),
    ]
    told = heard(*lines, camera.res("5", "2"))
    assert told.of(Reading)[0].facts.flags == ()


@pytest.mark.parametrize(("image", "reads"), [("A1B2C3D4", False), ("A1B2C3D5", True), ("", True)])
def test_51_the_picture_of_the_throw_before_is_a_frozen_one(image: str, reads: bool) -> None:
    camera = Camera()
    lines = [camera.hello(), camera.sta(1), *camera.throw(), camera.res("5", "2", image="A1B2C3D4")]
    told = heard(*lines, lines[-1]).lose().open()
    told.hear(camera.hello(), camera.sta(1), *camera.throw("0991"))
    told.hear(camera.res("5", "2", game="0991", image=image))
    assert bool(told.values[1:]) is reads
    assert told.defects == (() if reads else (Defect.UNREAD,))


def test_dice_that_still_move_are_waited_for() -> None:
    camera = Camera()
    told = heard(camera.hello(), camera.sta(1), *camera.throw(), camera.res("5", "1", flags="08"))
    assert (told.values, len(told.acks), told.defects) == ([], 1, ())
    assert told.hear(camera.res("5", "2")).values == [("5", "2")]


def test_dice_that_never_come_to_rest_are_unconfirmed() -> None:
    camera = Camera()
    lines = [
        camera.hello(),
        camera.sta(1),
        *camera.throw(),
        camera.res("5", "1", flags="08"),
        camera.sta(2, "0991"),
    ]
    assert heard(*lines).of(GameEnded)[0].facts.defects == (Defect.UNCONFIRMED,)


def test_a_frozen_picture_is_a_fault_of_the_device() -> None:
    camera = Camera()
    told = heard(camera.hello(), camera.sta(1, flags="20"))
    assert told.protocol.status is Status.FAULT
    assert told.hear(camera.sta(1)).protocol.status is Status.READY


@pytest.mark.parametrize("state", [2, 3, 5])
def test_42_a_throw_that_was_under_way_gives_no_faces(state: int) -> None:
    camera = Camera()
    told = heard(camera.hello(), camera.sta(state), camera.sta(3), camera.sta(5), camera.res("5", "2"))
    assert (told.values, len(told.acks)) == ([], 1)
    assert told.of(GameStarted) == [GameStarted(ref("dice", DICE_GAME), joined=True)]


@pytest.mark.parametrize("way", [(2, 5), (2, 4), (2, 3, 4)])
def test_36_a_step_that_was_not_seen_spoils_the_throw(way: tuple[int, ...]) -> None:
    camera = Camera()
    told = heard(camera.hello(), camera.sta(1), *(camera.sta(state) for state in way), camera.res("5", "2"))
    assert told.values == []
    assert Defect.ILLEGAL_TRANSITION in told.defects


def test_15_silence_while_the_dice_move_is_a_gap() -> None:
    camera = Camera()
    told = heard(camera.hello(), camera.sta(1), camera.sta(2), camera.sta(3)).quiet(SILENCE_MS + 2)
    assert (told.hear(camera.res("5", "2")).values, told.defects) == ([], (Defect.DATA_GAP,))


def test_31_46_48_a_result_counts_once_and_is_held_to() -> None:
    camera = Camera()
    lines = [camera.hello(), camera.sta(1), *camera.throw(), camera.res("5", "2")]
    told = (
        heard(*lines, lines[-1])
        .hear(camera.reboot(), lines[-1])
        .lose()
        .open()
        .hear(camera.hello(), lines[-1])
    )
    assert (told.values, len(told.acks)) == ([("5", "2")], 4)
    assert told.hear(camera.res("5", "3")).of(ReadingContradicted) == [
        ReadingContradicted(ref("dice", DICE_GAME), ("5", "3"))
    ]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=30), min_size=6, max_size=6), st.integers(0, 200), st.integers(0x20, 0x7E))
def test_9_12_noise_and_flipped_bytes_make_no_other_faces(noise: list[bytes], place: int, byte: int) -> None:
    camera, told = Camera(), heard()
    lines = [camera.hello(), camera.sta(1), *camera.throw(), camera.res("5", "2")]
    for garbage, line in zip(noise, lines, strict=True):
        hit = bytearray(line)
        hit[place % len(hit)] = byte
        told.bytes(garbage).bytes(bytes(hit)).bytes(line)
        told.through_json()
    assert told.values in ([], [("5", "2")])
