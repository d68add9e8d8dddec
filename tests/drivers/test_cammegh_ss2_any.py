"""Whatever comes: no number but the true one, no exception, no busy loop, and a state that survives JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.wheel_lines import SILENCE_MS, Ear, Game, device_setup, pocket_text, status

from dollyd.daemon.core.events import Reading
from dollyd.drivers.protocols.cammegh_ss2.driver import Ss2Protocol
from dollyd.drivers.protocols.cammegh_ss2.lines import parse

few = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

STATUS = st.builds(
    status,
    st.integers(1, 7),
    st.sampled_from([16, 17, 17, 17, 18, 256]),
    st.sampled_from(["", "8", "23", "23", "00"]),
    st.sampled_from([0, 0, 0, 0, 1, 2, 4, 8, 9, 15]),
    st.sampled_from([0, 170, 170, 170, 999]),
    st.integers(0, 1),
)
OTHER = st.sampled_from(
    [
        "23",
        " 8",
        "00",
        "37",
        "*Y;1;123;30",
        "*F 22",
        "*T z 37",
        "*T z 38",
        "*V V2.50 x",
        "*V  ",
        "*O 6 1 1 1",
        "*u OK",
        "",
    ]
)
GARBAGE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)
GAPS_MS = st.sampled_from([0, 1, 400, 500, 500, 500, SILENCE_MS, SILENCE_MS + 1, 6000])
WHOLE_GAME = st.integers(1, 256).map(lambda counter: Game(counter).lines())
STEP = st.one_of(
    st.tuples(st.just("hear"), st.one_of(STATUS, STATUS, OTHER, GARBAGE), GAPS_MS),
    st.tuples(st.sampled_from(["noise", "quiet", "lose", "open"]), st.just(""), GAPS_MS),
)
HISTORY = st.lists(
    st.one_of(STEP.map(lambda step: [step]), WHOLE_GAME.map(lambda ls: [("hear", line, 500) for line in ls])),
    max_size=25,
).map(lambda parts: [step for part in parts for step in part])


def perform(ear: Ear, history: list[tuple[str, str, int]]) -> None:
    """`Ear` itself checks that no deadline is left in the past after a tick."""
    for what, line, gap_ms in history:
        ear.quiet(gap_ms)
        match what:
            case "hear":
                ear.hear(line, every_ms=0)
            case "noise":
                ear.noise()
            case "lose":
                ear.lose()
            case "open":
                ear.open()


@few
@given(HISTORY, st.booleans())
def test_anything_may_come(history: list[tuple[str, str, int]], polled: bool) -> None:
    ear = Ear(device_setup(options={"polled": polled}))
    perform(ear.open(), history)
    ear.quiet(600_000)


@few
@given(HISTORY, HISTORY, st.booleans())
def test_a_state_through_json_has_the_same_future(
    before: list[tuple[str, str, int]], later: list[tuple[str, str, int]], polled: bool
) -> None:
    setup = device_setup(options={"polled": polled}, expect={"pockets": "37"})
    ear = Ear(setup)
    perform(ear.open(), before)
    snapshot: Any = msgspec.json.decode(msgspec.json.encode(ear.protocol.snapshot()))
    twin = Ear(setup, now_ms=ear.now_ms)
    twin.protocol.restore(snapshot)
    assert twin.protocol.snapshot() == ear.protocol.snapshot()
    ear.events.clear()
    ear.sent.clear()
    perform(ear, later)
    perform(twin, later)
    assert (twin.events, twin.sent) == (ear.events, ear.sent)
    assert twin.protocol.snapshot() == ear.protocol.snapshot()
    assert twin.protocol.deadline_ns() == ear.protocol.deadline_ns()


def test_a_state_is_taken_back_as_it_is_too() -> None:
    ear = Ear().open_idle().hear(*Game().lines("234"))
    twin = Ss2Protocol(ear.setup)
    twin.restore(ear.protocol.snapshot())
    assert twin.snapshot() == ear.protocol.snapshot()


NOISE = st.one_of(
    st.binary(max_size=40).filter(lambda raw: parse(raw) is None),
    st.sampled_from(
        [b"*X;5;017;2", b"5;017;24;0;170;0", b"X;5;017;24;0;170;0", b"2", b"4", b"*X;*X;", b"\xff\x00"]
    ),
    st.sampled_from([pocket_text(str(n)).encode() for n in (1, 8, 23, 36)]),
)


@few
@given(st.lists(st.lists(NOISE, max_size=3), min_size=40, max_size=40), st.booleans(), st.integers(2, 6))
def test_noise_between_the_lines_makes_no_other_number(
    noise: list[list[bytes]], bare: bool, fives: int
) -> None:
    games = [Game(17, "23", "8", bare=bare, fives=fives)]
    games.append(games[0].next("5"))
    ear = Ear().open_idle()
    for line, junk in zip([line for game in games for line in game.lines()], noise, strict=False):
        for raw in junk:
            if all(0x20 <= byte <= 0x7E for byte in raw):
                ear.hear(raw.decode("ascii"), every_ms=0)
            else:
                ear.noise(raw)
        ear.hear(line)
    truth = {f"{game.counter:03}": game.pocket for game in games}
    read = dict(_read(ear))
    assert read.items() <= truth.items()


@few
@given(st.data())
def test_bytes_lost_or_changed_in_transit_make_no_other_number(draw: st.DataObject) -> None:
    """Up to six damaged characters anywhere in two games."""
    games = [Game(17, "23", "8", bare=draw.draw(st.booleans()))]
    games.append(games[0].next("5"))
    lines = [bytearray(line.encode()) for game in games for line in game.lines()]
    for _ in range(draw.draw(st.integers(1, 6))):
        line = lines[draw.draw(st.integers(0, len(lines) - 1))]
        if line:
            place = draw.draw(st.integers(0, len(line) - 1))
            line[place : place + 1] = draw.draw(
                st.sampled_from([b"", bytes([line[place] ^ 1 << draw.draw(st.integers(0, 6))])])
            )
    ear = Ear().open_idle()
    for line in lines:
        ear.quiet(500 if line.startswith(b"*X") else 0)
        ear.hear(line.decode("ascii"), every_ms=0)
    truth = {f"{game.counter:03}": game.pocket for game in games}
    assert all(truth.get(reading_game) == value for reading_game, value in _read(ear))


def _read(ear: Ear) -> list[tuple[str, str]]:
    return [(reading.game.game, reading.value[0]) for reading in ear.of(Reading)]
