"""Bytes to lines: any chunking, any line end, any garbage, bounded memory (device document, part 4)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dollyd.drivers.framing import FRAME_MAX_BYTES, AnyFrame, BadFrame, Frame, LineDecoder

PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=40).map(
    lambda text: text.encode("ascii")
)
LINE_END = st.sampled_from([b"\r", b"\n", b"\r\n", b"\n\r", b"\r\n\r\n", b"\r\r\n"])
STREAM = st.lists(
    st.one_of(st.binary(max_size=30), LINE_END, PRINTABLE, st.just(b"x" * (FRAME_MAX_BYTES + 1))), max_size=20
).map(b"".join)


def decoded(data: bytes, *cuts: int) -> list[AnyFrame]:
    """The frames of `data` when it arrives cut at these places."""
    decoder, frames = LineDecoder(), []
    places = [0, *sorted(cuts), len(data)]
    for start, end in itertools.pairwise(places):
        frames += decoder.feed(data[start:end])
    return frames


@given(STREAM, st.data())
def test_any_chunking_gives_the_same_frames(data: bytes, draw: st.DataObject) -> None:
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=12))
    assert decoded(data, *cuts) == decoded(data)


@given(STREAM)
def test_single_bytes_give_the_same_frames(data: bytes) -> None:
    assert decoded(data, *range(len(data))) == decoded(data)


@given(st.lists(st.tuples(PRINTABLE, LINE_END), max_size=10))
def test_every_kind_of_line_end_ends_a_line_once(lines: list[tuple[bytes, bytes]]) -> None:
    data = b"".join(line + end for line, end in lines)
    assert decoded(data) == [Frame(line) for line, _ in lines]


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n", b"\n\r", b"\r\n\r\n"])
def test_spaces_belong_to_the_line(end: bytes) -> None:
    assert decoded(b" 7" + end + b"  " + end) == [Frame(b" 7"), Frame(b"  ")]


def test_a_line_without_end_is_not_yet_a_frame() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"*X;5;100;1") == []
    assert decoder.feed(b"7;0;170;0") == []
    assert decoder.feed(b"\r") == [Frame(b"*X;5;100;17;0;170;0")]


def test_many_lines_in_one_read() -> None:
    assert decoded(b"28\r\n" * 200) == [Frame(b"28")] * 200


def test_the_longest_line_passes_and_one_byte_more_does_not() -> None:
    longest = b"x" * FRAME_MAX_BYTES
    assert decoded(longest + b"\r\n") == [Frame(longest)]
    assert decoded(longest + b"y\r\n") == [BadFrame(longest[1:] + b"y", "too-long")]


@pytest.mark.parametrize("cuts", [(), (FRAME_MAX_BYTES,), tuple(range(0, 2000, 7))])
def test_b16_after_an_overlong_line_the_next_one_is_good(cuts: tuple[int, ...]) -> None:
    frames = decoded(b"x" * 2000 + b"\r\n28\r\n", *cuts)
    assert frames == [BadFrame(b"x" * FRAME_MAX_BYTES, "too-long"), Frame(b"28")]


@pytest.mark.parametrize("junk", [b"\x00", b"\xff", b"\x80", b"\x1b", b"\t", b"\x7f"])
def test_b15_a_byte_that_is_no_text_spoils_its_line_only(junk: bytes) -> None:
    assert decoded(b"28\r\n2" + junk + b"8\r\n28\r\n") == [
        Frame(b"28"),
        BadFrame(b"2" + junk + b"8", "not-printable"),
        Frame(b"28"),
    ]


@given(st.lists(st.binary(min_size=1, max_size=4096), max_size=8))
def test_the_buffer_is_bounded(chunks: list[bytes]) -> None:
    decoder = LineDecoder()
    for chunk in chunks:
        for frame in decoder.feed(chunk):
            assert len(frame.raw) <= FRAME_MAX_BYTES
        assert len(decoder._buffer) <= FRAME_MAX_BYTES


def test_no_line_end_for_ever_keeps_the_buffer_small() -> None:
    decoder = LineDecoder()
    for _ in range(1000):
        assert decoder.feed(b"\x00" * 1024) == []
    assert len(decoder._buffer) == FRAME_MAX_BYTES
    assert decoder.feed(b"\r\n28\r\n")[1:] == [Frame(b"28")]


def test_reset_forgets_the_half_read_line() -> None:
    decoder = LineDecoder()
    decoder.feed(b"*X;5;100;1")
    decoder.reset()
    assert decoder.feed(b"28\r\n") == [Frame(b"28")]
    decoder.feed(b"x" * 1000)
    decoder.reset()
    assert decoder.feed(b"28\r\n") == [Frame(b"28")]


def test_no_bytes_give_no_frames() -> None:
    assert LineDecoder().feed(b"") == []
