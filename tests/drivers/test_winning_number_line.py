"""`winning-number-line`: each line is one draw, and proves a number only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import rule_text
from tests.support.tlp_lines import Host, readings, ref

from dollyd.daemon.core.events import (
    Defect,
    DeviceReady,
    DeviceTrouble,
    DrawFacts,
    DrawUpdate,
    GameStarted,
    Reading,
    ReadingContradicted,
)
from dollyd.daemon.settings.load import load
from dollyd.drivers.spec import NOTHING, DeviceSetup, DrawOdds, Status
from dollyd.wire.errors import ConfigError

ENDS = [b"\r\n", b"\n\r", b"\r", b"\n", b"\r\n\r\n"]


def host(**options: Any) -> Host:
    setup = DeviceSetup("wheel", "wheel", readings=readings("roulette"), options=options, game="roulette")
    return Host(setup, "winning-number-line").open()


@pytest.mark.parametrize("end", ENDS)
def test_7_each_line_is_a_draw_whatever_ends_it(end: bytes) -> None:
    told = host().bytes(b"17" + end).quiet(60_000).bytes(b" 0" + end)
    first, second = ref("wheel", "0001"), ref("wheel", "0002")
    assert told.events == [
        DeviceReady("wheel"),
        GameStarted(first, told_at_end=True),
        Reading(first, ("17",), DrawFacts()),
        GameStarted(second, told_at_end=True),
        Reading(second, ("0",), DrawFacts()),
    ]
    assert told.sent == []


@pytest.mark.parametrize("number", [b"37", b"00", b"38"])
def test_39_a_number_that_is_not_on_the_wheel_is_a_draw_without_one(number: bytes) -> None:
    told = host().bytes(number + b"\r\n")
    assert told.values == []
    assert told.of(DrawUpdate)[0].facts.defects == (Defect.NOT_ON_WHEEL,)


@pytest.mark.parametrize(
    "line",
    [b"", b"  ", b"7", b"007", b"07", b"1 7", b"-1", b"17 ", b"*X;5", b"40", b"\xb1\xb7", b"AT", b"17,"],
)
def test_9_13_anything_else_is_counted_only(line: bytes) -> None:
    told = host().bytes(line + b"\r\n")
    assert told.events == []
    assert told.protocol.status is Status.INIT


@pytest.mark.parametrize(("ms", "draws"), [(0, 1), (1_999, 1), (2_001, 2)])
def test_31_a_number_repeated_soon_is_the_same_draw(ms: int, draws: int) -> None:
    told = host().bytes(b"17\r\n").quiet(ms).bytes(b"17\r\n")
    assert len(told.values) == draws


def test_31_a_number_repeated_for_long_is_one_draw() -> None:
    told = host(repeat_ms=1_000)
    for _ in range(20):
        told.bytes(b"17\r\n").quiet(900)
    assert told.values == [("17",)]
    assert told.protocol.counters["repeated"] == 19


def test_48_another_number_soon_contradicts_the_draw_once() -> None:
    told = host().bytes(b"17\r\n18\r\n19\r\n")
    assert told.values == [("17",)]
    assert told.of(ReadingContradicted) == [ReadingContradicted(ref("wheel", "0001"), ("18",))]
    assert told.quiet(5_000).bytes(b"20\r\n").values == [("17",), ("20",)]


def test_a_display_is_never_stale_and_is_ready_after_its_first_number() -> None:
    told = host().bytes(b"17\r\n").quiet(86_400_000)
    assert told.protocol.status is Status.READY
    assert told.protocol.deadline_ns() is None
    assert told.protocol.tick(told.at) == told.protocol.order(DrawOdds(1, ""), told.at) == NOTHING
    assert told.protocol.identity == ()


def test_23_a_lost_display_is_told_and_begins_a_new_session() -> None:
    told = host().bytes(b"17\r\n").lose()
    assert told.of(DeviceTrouble) == [DeviceTrouble("wheel", "lost", "unplugged")]
    told.quiet(1_000).open().bytes(b"17\r\n")
    assert told.of(GameStarted)[-1].game == ref("wheel", "0001", session="1001000")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"17", b" 3", b"x", b"1"]), max_size=9),
    st.lists(st.integers(1, 5), max_size=40),
)
def test_2_3_20_any_chunking_and_a_state_through_json_give_the_same(
    lines: list[bytes], sizes: list[int]
) -> None:
    data, told = b"".join(line + b"\r\n" for line in lines), host()
    at_once = host().bytes(data)
    for size in sizes:
        told.through_json().bytes(data[:size])
        data = data[size:]
    assert told.bytes(data).events == at_once.events


# --- where it may be used ----------------------------------------------------------------------------

CONFIG = """
site = "s"
node = "n"
[journal]
path = "j"
[signing]
key = "k"
[tables.t]
game = "roulette"
variant = "A"
rulebook = "fi-ray-2013-roulette"
profile = "{profile}"
confirm = "{confirm}"
zero_rule = "half"
stakes = {{ minimum = 1, maximum = 2, currency = "EUR" }}
[tables.t.devices.display]
driver = "winning-number-line"
role = "wheel"
port = "/dev/null"
"""
BALL = """
[tables.t.devices.ball]
driver = "tlp"
role = "ball"
port = "/dev/zero"
"""


def configured(folder: Path, profile: str, confirm: str = "auto", more: str = "") -> Path:
    path = folder / "dollyd.toml"
    text = CONFIG.format(profile=profile, confirm=confirm) + more
    path.write_text(text.replace('zero_rule = "half"\n', ""))
    return path


def test_a_profile_that_demands_no_turns_takes_a_number_alone(tmp_path: Path) -> None:
    assert load(configured(tmp_path, "fi-ray-2013")).tables["t"].setup.witnesses == ("display",)


def test_a_profile_that_demands_turns_refuses_a_number_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'no device proves ball-turns.*confirm = "dealer"'):
        load(configured(tmp_path, "us-sd"))


def test_the_dealer_s_confirmation_supplies_what_is_missing(tmp_path: Path) -> None:
    assert load(configured(tmp_path, "us-sd", "dealer")).tables["t"].setup.confirm == "dealer"


def test_a_ball_detector_supplies_the_turns_but_not_the_direction_of_the_wheel(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no device proves direction"):
        load(configured(tmp_path, "us-sd", "auto", BALL))
    house = rule_text("profiles", "us-sd").decode().replace("required = true", "required = false")
    (tmp_path / "house.toml").write_text(house)
    assert load(configured(tmp_path, "house.toml", "auto", BALL)).tables["t"].setup.supporters == ("ball",)
