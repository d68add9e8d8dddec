"""Health tests and blocks of a random stream: broken generators are found, good ones are left alone."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from math import comb
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dollyd.drivers.framing import AnyFrame, Frame
from dollyd.drivers.protocols.random_health import (
    PROPORTION,
    REFERENCE_BYTES,
    REFERENCE_WINDOWS,
    REPETITIONS,
    WINDOW_BYTES,
    HealthTests,
)
from dollyd.drivers.random_blocks import BLOCK_BYTES, GIVEN_BYTES, RandomBlockDecoder

SEED = 20261130
START_UP_BYTES = 4096
REFERENCES = 1 + len(REFERENCE_WINDOWS)
NOISE_BYTES = 16_384
"""What a session takes of a device without a frame (`daemon.session`)."""


def good(count: int, seed: int = SEED) -> bytes:
    return Random(seed).randbytes(count)


def decoded(data: bytes, *, cut: int | None = None) -> list[AnyFrame]:
    decoder = RandomBlockDecoder()
    size = cut or len(data)
    return [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]


def texts(frames: list[AnyFrame]) -> list[str]:
    assert all(isinstance(frame, Frame) for frame in frames)
    return [frame.raw.decode("ascii") for frame in frames]


# --- blocks --------------------------------------------------------------------------------------------


def test_a_frame_is_the_end_of_each_block_in_hex() -> None:
    stream = good(3 * BLOCK_BYTES + 100)
    ends = [stream[at - GIVEN_BYTES : at].hex() for at in (BLOCK_BYTES, 2 * BLOCK_BYTES, 3 * BLOCK_BYTES)]
    assert texts(decoded(stream)) == ends


def test_nothing_is_given_out_before_the_start_of_the_stream_was_tested() -> None:
    assert BLOCK_BYTES >= START_UP_BYTES
    assert decoded(good(BLOCK_BYTES - 1)) == []


def test_a_good_stream_is_not_taken_for_noise_by_the_session() -> None:
    assert BLOCK_BYTES < NOISE_BYTES


@settings(deadline=None, max_examples=40)
@given(
    cuts=st.lists(st.integers(1, 5000), max_size=12),
    stuck_at=st.none() | st.integers(0, 2 * BLOCK_BYTES),
    seed=st.integers(0, 2**32),
)
def test_any_cutting_gives_the_same_frames(cuts: list[int], stuck_at: int | None, seed: int) -> None:
    stream = bytearray(good(2 * BLOCK_BYTES + 700, seed))
    if stuck_at is not None:
        stream[stuck_at : stuck_at + 40] = b"\xa5" * 40
    decoder, frames, at = RandomBlockDecoder(), list[AnyFrame](), 0
    for cut in [*cuts, len(stream)]:
        frames += decoder.feed(bytes(stream[at : at + cut]))
        at += cut
    assert frames == decoded(bytes(stream))


def test_byte_by_byte_and_at_once_are_the_same() -> None:
    stream = good(BLOCK_BYTES) + b"\x00" * 20 + good(BLOCK_BYTES, 2)
    assert decoded(stream, cut=1) == decoded(stream)


def test_a_half_read_block_does_not_outlive_a_reset() -> None:
    decoder = RandomBlockDecoder()
    decoder.feed(b"\x00" * 5000)
    decoder.feed(good(BLOCK_BYTES - 100))
    decoder.reset()
    assert texts(decoder.feed(good(BLOCK_BYTES, 7))) == [good(BLOCK_BYTES, 7)[-GIVEN_BYTES:].hex()]


def test_the_memory_of_a_decoder_is_bounded() -> None:
    decoder = RandomBlockDecoder()
    for number in range(50):
        decoder.feed(good(4096 + number, number))
        assert len(decoder._buffer) < WINDOW_BYTES
    for _ in range(50):
        decoder.feed(b"\xff" * 5000)
        assert len(decoder._buffer) < WINDOW_BYTES


# --- failures ------------------------------------------------------------------------------------------


def test_a_failure_is_told_within_a_window_and_no_bytes_after_it() -> None:
    decoder = RandomBlockDecoder()
    decoder.feed(good(BLOCK_BYTES + 10))
    assert texts(decoder.feed(b"\xa5" * 2 * WINDOW_BYTES)) == ["health:repetition"]
    again = [text for number in range(4) for text in texts(decoder.feed(good(BLOCK_BYTES, number)))]
    assert again == ["health:repetition"] * 4, "once a block: the device lives, and stays out of order"


def test_a_reset_begins_with_an_untested_stream() -> None:
    decoder = RandomBlockDecoder()
    decoder.feed(b"\x00" * 5000)
    decoder.reset()
    assert decoder.feed(good(BLOCK_BYTES - 1)) == []
    assert len(decoder.feed(good(1))) == 1


def biased(rng: Random, count: int) -> bytes:
    """Three ones to one zero."""
    return bytes(rng.getrandbits(8) | rng.getrandbits(8) for _ in range(count))


BROKEN: dict[str, tuple[str, Callable[[Random, int], bytes]]] = {
    "zeros": ("repetition", lambda _, count: bytes(count)),
    "stuck": ("repetition", lambda rng, count: bytes([rng.randrange(256)]) * count),
    "biased bits": ("proportion", biased),
    "digits": ("proportion", lambda rng, count: bytes(rng.choices(b"0123456789", k=count))),
    "two bytes": ("proportion", lambda rng, count: (rng.randbytes(2) * count)[:count]),
    "same 64 bytes": ("cycle", lambda rng, count: (rng.randbytes(64) * count)[:count]),
    "same 500 bytes": ("cycle", lambda rng, count: (rng.randbytes(500) * count)[:count]),
    "same 4 KiB": ("cycle", lambda rng, count: (rng.randbytes(4096) * 8)[:count]),
    "all bytes in order": ("cycle", lambda _, count: (bytes(range(256)) * count)[:count]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_generator_never_gives_a_block(name: str) -> None:
    expected, stream = BROKEN[name]
    for seed in range(20):
        found = texts(decoded(stream(Random(seed), BLOCK_BYTES)))
        assert found[0] == f"health:{expected}"
        assert all(text.startswith("health:") for text in found)


@pytest.mark.parametrize("cycle_bytes", [8_000, 8_192, 40_000, 65_536])
@pytest.mark.parametrize("before", [0, 300, 50_000])
def test_a_long_cycle_is_found_when_it_comes_round(cycle_bytes: int, before: int) -> None:
    turns = 3 * max(REFERENCE_WINDOWS) * WINDOW_BYTES // cycle_bytes
    stream = good(before, 1) + good(cycle_bytes, 2) * turns
    assert "health:cycle" in texts(decoded(stream))


@pytest.mark.parametrize("name", BROKEN)
def test_a_generator_that_breaks_later_is_found(name: str) -> None:
    _, stream = BROKEN[name]
    for seed in range(5):
        sound, broken = good(BLOCK_BYTES + 300, seed), stream(Random(100 + seed), 2 * BLOCK_BYTES)
        found = texts(decoded(sound + broken))
        assert not found[0].startswith("health:")
        late = name == "same 4 KiB"  # more than a window: it has to come round first
        assert found[1 + late].startswith("health:")


@pytest.mark.parametrize(("run", "fails"), [(REPETITIONS - 1, False), (REPETITIONS, True)])
@pytest.mark.parametrize("at", [0, 100, WINDOW_BYTES - 3, 3 * WINDOW_BYTES - REPETITIONS])
def test_equal_bytes_in_a_row_also_across_windows(run: int, fails: bool, at: int) -> None:
    stream = bytearray(good(4 * WINDOW_BYTES, 3))
    stream[at : at + run] = b"\n" * run  # a line end is a byte like any other
    stream[at + run] = 0x55
    tests = HealthTests()
    found = [
        tests.failure(bytes(stream[start : start + WINDOW_BYTES]))
        for start in range(0, len(stream), WINDOW_BYTES)
    ]
    assert ("repetition" in found) == fails


@pytest.mark.parametrize(("count", "failure"), [(PROPORTION - 1, ""), (PROPORTION, "proportion")])
def test_one_value_too_often_in_a_window(count: int, failure: str) -> None:
    rng = Random(5)
    others = [rng.choice([value for value in range(256) if value != 0x41]) for _ in range(WINDOW_BYTES)]
    for place in rng.sample(range(0, WINDOW_BYTES, 2), count):
        others[place] = 0x41
    assert HealthTests().failure(bytes(others)) == failure


# --- cut-offs ------------------------------------------------------------------------------------------


def at_least(count: int, draws: int, odds: int) -> Fraction:
    """P(a value of probability 1/odds comes `count` times or more), exactly."""
    ways = sum(comb(draws, k) * (odds - 1) ** (draws - k) for k in range(count, draws + 1))
    return Fraction(ways, odds**draws)


def test_the_cut_offs_are_those_of_the_stated_entropy() -> None:
    values = 2**6  # 6 bits a byte
    assert REPETITIONS == 1 + -(-40 // 6)
    assert at_least(PROPORTION, WINDOW_BYTES, values) <= Fraction(1, 2**40)
    assert at_least(PROPORTION - 1, WINDOW_BYTES, values) > Fraction(1, 2**40)
    false_alarm = (
        WINDOW_BYTES * Fraction(1, values ** (REPETITIONS - 1))
        + values * at_least(PROPORTION, WINDOW_BYTES, values)
        + REFERENCES * WINDOW_BYTES * Fraction(1, values**REFERENCE_BYTES)
    )
    assert false_alarm < Fraction(1, 2**32)


def test_a_generator_as_good_as_promised_is_not_stopped_in_a_life_time() -> None:
    a_window = (
        WINDOW_BYTES * Fraction(1, 256 ** (REPETITIONS - 1))
        + 256 * at_least(PROPORTION, WINDOW_BYTES, 256)
        + REFERENCES * WINDOW_BYTES * Fraction(1, 256**REFERENCE_BYTES)
    )
    windows_a_year = Fraction(45_000 * 365 * 86_400, WINDOW_BYTES)
    assert 1 / (a_window * windows_a_year) > 49_000


@pytest.mark.parametrize("seed", range(4))
def test_a_good_stream_of_two_megabytes_passes(seed: int) -> None:
    found = texts(decoded(good(2_000_000, seed), cut=4096))
    assert len(found) == 2_000_000 // BLOCK_BYTES
    assert not any(text.startswith("health:") for text in found)
    assert all(one != other for one, other in pairwise(found))
