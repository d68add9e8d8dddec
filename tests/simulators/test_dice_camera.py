"""The simulated dice camera: throws, two cameras at one table, and every fault switch."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.simulators.test_ball_detector import together
from tests.simulators.tlp_devices import Heard, camera, listen, of, path, states_of

from dollyd.simulators.dice_camera import DiceCamera, DiceCameraOptions, DiceTable
from dollyd.simulators.faults import names
from dollyd.wire.stamp import NS_PER_S


def spoilt(name: str, until_s: float = 60) -> tuple[DiceCamera, list[Heard]]:
    device = camera()
    device.faults.set(name)
    return device, listen(device, until_s)


def result(heard: list[Heard], game: str = "0001") -> tuple[list[str], list[str], str, str]:
    """Faces, confidences, flags and picture."""
    n, *rest = of(heard, "RES", game=game)[0].fields[1:]
    dice = (len(rest) - 2) // 2
    assert int(n) in {dice, dice + 1}
    return rest[:dice], rest[dice:-2], rest[-2], rest[-1]


def two_cameras(seed: int = 3) -> tuple[DiceCamera, DiceCamera]:
    table = DiceTable(2, Random(seed))
    first = DiceCamera(DiceCameraOptions(), Random(seed + 1), 0, table)
    second = DiceCamera(DiceCameraOptions(serial="DC000003"), Random(seed + 2), 0, table)
    return first, second


def test_states_and_results_of_faultless_throws() -> None:
    device = camera()
    heard = listen(device, 600)
    assert path(heard).startswith("61235235")
    assert len(device.played) > 25
    for seen in device.played:
        faces, confidences, flags, _ = result(heard, seen.game)
        assert faces == [str(face) for face in seen.faces] == list(seen.read)
        assert all(float(confidence) > 0.9 for confidence in confidences)
        assert flags == "00"


def test_a_result_only_when_all_dice_lie_still() -> None:
    device = camera()
    heard = listen(device, 100)
    for throw, seen in zip(device.table.throws, device.played, strict=False):
        at_rest_ns = throw.start_ns + max(throw.rests_s) * NS_PER_S
        assert of(heard, "RES", game=seen.game)[0].ms * 1_000_000 > at_rest_ns


def test_every_picture_has_its_own_id() -> None:
    heard = listen(camera(), 600)
    images = [one.fields[-1] for one in of(heard, "RES")]
    assert len(set(images)) == len(images)


def test_every_face_is_about_as_likely() -> None:
    device = camera()
    device.advance(20_000 * NS_PER_S)
    counts = Counter(face for seen in device.played for face in seen.faces)
    expected = counts.total() / 6
    assert counts.total() > 2000
    assert sum((counts[face] - expected) ** 2 / expected for face in range(1, 7)) < 25.7


def test_three_dice_can_be_scripted() -> None:
    table = DiceTable(3, Random(3), script=[(1, 1, 1), (6, 5, 4)])
    heard = listen(DiceCamera(DiceCameraOptions(), Random(4), 0, table), 60)
    assert result(heard)[0] == ["1", "1", "1"]
    assert result(heard, "0002")[0] == ["6", "5", "4"]
    with pytest.raises(ValueError, match="3 dice cannot show"):
        table.will_show((1, 2))
    with pytest.raises(ValueError, match="3 dice cannot show"):
        table.will_show((1, 2, 7))


def test_unattended_dice_wait_for_the_start_key() -> None:
    device = DiceCamera(DiceCameraOptions(attended=False), Random(3), 0)
    assert path(listen(device, 300)) == "612"
    device.press_start()
    assert path(listen(device, 330)).endswith("352")


def test_two_cameras_see_the_same_throws_each_with_its_own_eyes() -> None:
    first, second = two_cameras()
    together(first, second, until_s=300)
    assert len(first.played) > 12
    assert [seen.faces for seen in first.played] == [seen.faces for seen in second.played]
    assert all(one.start_ns == other.start_ns for one, other in zip(first.played, second.played, strict=True))


def test_a_throw_fault_on_either_camera_is_seen_by_both_a_misreading_by_one() -> None:
    first, second = two_cameras()
    second.faults.set("dice-outside")
    together(first, second, until_s=20)
    assert [camera.played[0].flags for camera in (first, second)] == [0x100, 0x100]
    second.faults.set("dice-misread")
    together(first, second, until_s=40)
    assert first.played[1].read == tuple(str(face) for face in first.played[1].faces)
    assert first.played[1].read != second.played[1].read


def test_a_camera_that_was_off_sees_the_next_throw() -> None:
    first, second = two_cameras()
    together(first, second, until_s=20)
    second.power_off(20 * NS_PER_S)
    together(first, until_s=60)
    second.power_on(60 * NS_PER_S)
    together(first, second, until_s=100)
    assert len(second.played) < len(first.played)
    assert second.played[-1].start_ns == first.played[-1].start_ns


# --- faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("dice-camera"))
def test_every_fault_changes_the_bytes_and_strikes_once(name: str) -> None:
    device, heard = spoilt(name)
    sound = listen(camera(), 60)
    if name.startswith("dice-frozen"):  # needs a picture before it
        device, heard = camera(), []
        listen(device, 20)
        device.faults.set(name)
        heard = listen(device, 60)
        sound = [one for one in sound if one.ms > 20_000]
    assert [one.raw for one in heard] != [one.raw for one in sound]
    assert not device.faults.on(name)


@pytest.mark.parametrize(
    ("name", "mask", "unread"),
    [
        ("dice-cocked", "01", 1),
        ("dice-stacked", "02", 1),
        ("dice-one-missing", "04", 1),
        ("dice-covered", "10", 1),
        ("dice-foreign", "40", 0),
        ("dice-not-shaken", "80", 0),
        ("dice-outside", "100", 0),
        ("dice-apart", "200", 0),
        ("dice-empty", "00", 2),
    ],
)
def test_51_flags_and_faces(name: str, mask: str, unread: int) -> None:
    device, heard = spoilt(name)
    faces, _, flags, _ = result(heard)
    assert flags == mask
    assert faces.count("") == unread
    truth = device.played[0].faces
    assert all(face in {"", str(true)} for face, true in zip(faces, truth, strict=True))
    told = [one.fields[1] for one in of(heard, "FLT", game="0001")]
    assert told == ([] if mask == "00" else [mask, "00"])


def test_51_not_released_together_takes_longer() -> None:
    device, _ = spoilt("dice-apart")
    throw = device.table.throws[0]
    assert throw.rests_s[throw.odd_die] > 2.0


def test_51_little_confidence() -> None:
    _, confidences, flags, _ = result(spoilt("dice-unread")[1])
    assert sum(float(confidence) < 0.6 for confidence in confidences) == 1
    assert flags == "00"


def test_12_a_wrong_face_with_full_confidence() -> None:
    device, heard = spoilt("dice-misread")
    faces, confidences, flags, _ = result(heard)
    wrong = [face != str(true) for face, true in zip(faces, device.played[0].faces, strict=True)]
    assert sum(wrong) == 1
    assert min(float(confidence) for confidence in confidences) > 0.9
    assert flags == "00"


def test_39_a_face_that_no_die_has() -> None:
    assert "7" in result(spoilt("dice-off-die")[1])[0]


@pytest.mark.parametrize(("name", "mask"), [("dice-frozen", "20"), ("dice-frozen-unseen", "00")])
def test_51_frozen_picture(name: str, mask: str) -> None:
    device = camera()
    before = result(listen(device, 20))
    device.faults.set(name)
    frozen = result(listen(device, 60), "0002")
    assert (frozen[0], frozen[1], frozen[3]) == (before[0], before[1], before[3])
    assert frozen[2] == mask


def test_51_a_result_while_the_dice_roll() -> None:
    device, heard = spoilt("dice-still-moving")
    assert result(heard)[2] == "08"
    throw = device.table.throws[0]
    assert of(heard, "RES")[0].ms * 1_000_000 < throw.start_ns + max(throw.rests_s) * NS_PER_S
    assert states_of(heard, "0001") == "235"


def test_51_another_number_of_dice() -> None:
    assert of(spoilt("dice-other-number")[1], "RES")[0].fields[1] == "3"


def test_43_stuck_moving() -> None:
    assert path(spoilt("dice-stuck-moving", 900)[1]) == "6123"
