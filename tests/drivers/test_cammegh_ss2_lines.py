"""Every kind of line of the SlingShot 2 interface, and what is almost one (device document, part 1 and 4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wheel_lines import status

from dollyd.drivers.protocols.cammegh_ss2.lines import (
    BareNumber,
    BonusNumber,
    FaultCode,
    Line,
    Reply,
    State,
    StatusLine,
    Warn,
    is_damage,
    parse,
)

LINE = StatusLine(State.NO_MORE_BETS, 2, "31", Warn(0), 172, counter_clockwise=False)


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"*X;4;002;31;0;172;0", LINE),
        (b"*X;1;001;  ;4;000;0", StatusLine(State.BEFORE_GAME, 1, "", Warn.FAULT, 0, False)),
        (b"*X;2;256; 0;8;035;1", StatusLine(State.PLACE_BETS, 256, "0", Warn.LAUNCH_FAILED, 35, True)),
        (b"*X;3;000;00;2;170;0", StatusLine(State.BALL_IN_RIM, 0, "00", Warn.BALL_WITH_ROTOR, 170, False)),
        (b"*X;5;128;38;0;999;0", StatusLine(State.NUMBER, 128, "000", Warn(0), 999, False)),
        (b"*X;5;128;39;0;170;0", StatusLine(State.NUMBER, 128, "0000", Warn(0), 170, False)),
        (b"*X;6;178;20;0;000;0", StatusLine(State.CLOSED, 178, "20", Warn(0), 0, False)),
        (b"*X;7;010; 9;A;170;1", StatusLine(State.BALL_NOT_IN_TRACK, 10, "9", Warn(10), 170, True)),
        (b"*X;4;010; 9;F;170;1", StatusLine(State.NO_MORE_BETS, 10, "9", Warn(15), 170, True)),
    ],
)
def test_status(raw: bytes, line: Line) -> None:
    assert parse(raw) == line


@pytest.mark.parametrize(
    "raw",
    [
        b"*X;4;14*X;*X;4;002;31;0;172;0",
        b"00;0*X;4;002;31;0;172;0",
        b"28*X;4;002;31;0;172;0",
        b"*P OK*X;4;002;31;0;172;0",
    ],
)
def test_of_a_line_begun_again_the_last_beginning_counts(raw: bytes) -> None:
    assert parse(raw) == LINE


@pytest.mark.parametrize(
    "raw",
    [
        b"6; 9;0;158;0",  # head lost
        b"00;0",
        b"X;4;002;31;0;172;0",
        b";4;002;31;0;172;0",
        b"*X;2;094",  # tail lost
        b"*X;4;002;31;0;172;",
        b"*X;4;002;31;0;172",
        b"*X;4;002;31;0;172;0*X;4;002;31",
        b"*X;4;002;31;0;172;0 ",
        b" *X;4;002;31;0;172;0;",
        b"*X;0;002;31;0;172;0",  # no such state
        b"*X;8;002;31;0;172;0",
        b"*X;4;02;31;0;172;0",  # field widths
        b"*X;4;0002;31;0;172;0",
        b"*X;4;002;3;0;172;0",
        b"*X;4;002;1 ;0;172;0",
        b"*X;4;002;031;0;172;0",
        b"*X;4;002;31;00;172;0",
        b"*X;4;002;31;a;172;0",
        b"*X;4;002;31;G;172;0",
        b"*X;4;002;31;0;72;0",
        b"*X;4;002;31;0;172;2",
        b"*X;4;257;31;0;172;0",  # counter above 256
        b"*X;4;002;40;0;172;0",  # no such pocket
        b"*X;4;002;01;0;172;0",
        b"*X;4;002;-1;0;172;0",
        b"*X:4:002:31:0:172:0",  # a simulation that uses colons
        b"*x;4;002;31;0;172;0",
    ],
)
def test_almost_a_status_line_is_none(raw: bytes) -> None:
    assert parse(raw) is None


@pytest.mark.parametrize(
    ("raw", "pocket"),
    [
        (b" 0", "0"),
        (b"00", "00"),
        (b" 7", "7"),
        (b"10", "10"),
        (b"36", "36"),
        (b"38", "000"),
        (b"39", "0000"),
    ],
)
def test_bare_number(raw: bytes, pocket: str) -> None:
    assert parse(raw) == BareNumber(pocket)


@pytest.mark.parametrize("raw", [b"1", b"01", b"40", b"7 ", b"  ", b" 17", b"170", b"1a", b"-1", b"0"])
def test_almost_a_bare_number_is_none(raw: bytes) -> None:
    assert parse(raw) is None


def test_single_and_double_zero_are_different() -> None:
    assert parse(b"00") != parse(b" 0")
    assert parse(b"*X;5;002;00;0;172;0") != parse(b"*X;5;002; 0;0;172;0")


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"*Y;1;000", BonusNumber(1, 0, None)),
        (b"*Y;6;255", BonusNumber(6, 255, None)),
        (b"*Y;1;123;30", BonusNumber(1, 123, 30)),
        (b"*Y;1;999;00", BonusNumber(1, None, 0)),
        (b"*Y;4;256", BonusNumber(4, None, None)),
    ],
)
def test_bonus_number_above_255_is_no_number(raw: bytes, line: Line) -> None:
    assert parse(raw) == line


@pytest.mark.parametrize(
    "raw", [b"*Y;0;123", b"*Y;7;123", b"*Y;1;12", b"*Y;1;1234", b"*Y;1;123;", b"*Y;1;123;300"]
)
def test_almost_a_bonus_number_is_none(raw: bytes) -> None:
    assert parse(raw) is None


@pytest.mark.parametrize("code", [0, 1, 8, 23, 100])
def test_fault_code(code: int) -> None:
    assert parse(b"*F %d" % code) == FaultCode(code)


@pytest.mark.parametrize(
    ("raw", "key", "text"),
    [
        (b"*P OK", "P", "OK"),
        (b"*P NO", "P", "NO"),
        (b"*u OK", "u", "OK"),
        (b"*R OK", "R", "OK"),
        (b"*K CAM", "K", "CAM"),
        (b"*S V2.50", "S", "V2.50"),
        (
            b"*V V2.50 Cammegh / Syoptic - SlingShot 2 Roulette Wheel (c) 03/12/18",
            "V",
            "V2.50 Cammegh / Syoptic - SlingShot 2 Roulette Wheel (c) 03/12/18",
        ),
        (b"*o 1159", "o", "1159"),
        (b"*o BUSY", "o", "BUSY"),
        (b"*O 6 1 161 1158", "O", "6 1 161 1158"),
        (b"*q OK", "q", "OK"),
        (b"*A 17", "A", "17"),
        (b"*F BUSY", "F", "BUSY"),
        (b"*C OK : Completed (1, 2, 3)", "C", "OK : Completed (1, 2, 3)"),
        (b"*w 36.1 50", "w", "36.1 50"),
        (b"*W 1234", "W", "1234"),
        (b"*d 12:30:00 - 01/02/22", "d", "12:30:00 - 01/02/22"),
        (b"*y A OK(30)", "y", "A OK(30)"),
        (b"*T OK", "T", "OK"),
        (b"*Z OK", "Z", "OK"),
        (b"*T z 37", "T z", "37"),
        (b"*T g 16", "T g", "16"),
        (b"*T s 14.0 17.50000", "T s", "14.0 17.50000"),
        (b"*T j 6705 3386 26 1", "T j", "6705 3386 26 1"),
        (b"*T m 20000.0", "T m", "20000.0"),
        (b"*) NO", ")", "NO"),
        (b"*  NO", " ", "NO"),
        (b"*bs 2", "bs", "2"),
        (b"*bn 17", "bn", "17"),
    ],
)
def test_replies(raw: bytes, key: str, text: str) -> None:
    assert parse(raw) == Reply(key, text)


@pytest.mark.parametrize(("raw", "line"), [(b"T OK", Reply("T", "OK")), (b"bn 17", Reply("bn", "17"))])
def test_what_the_document_prints_without_its_star_is_understood(raw: bytes, line: Line) -> None:
    assert parse(raw) == line


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"*",
        b"**",
        b"*V",
        b"*X",
        b"*V   ",
        b"*V \xff",
        b"AT+GCAP",
        b"OK",
        b"NO",
        b"*) OK",
        b"$WHSTA",
    ],
)
def test_echoes_and_modem_talk_are_no_lines(raw: bytes) -> None:
    assert parse(raw) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"6; 9;0;158;0",
        b"*X;2;094",
        b"X;4;002",
        b"*X:4:002",
        b"*",
        b"2",
        b" ",
        b"r8",
        b"1234",
        b"23*P",
        b"*u OK\x00",
        b"\xff",
    ],
)
def test_pieces_of_lines_and_noise_are_damage(raw: bytes) -> None:
    assert parse(raw) is None
    assert is_damage(raw)


@pytest.mark.parametrize(
    "raw", [b"", b"*X", b"*V", b"*T", b"AT", b"AT+GCAP", b"OK", b"NO CARRIER", b"*bn  7", b"$WHSTA"]
)
def test_foreign_text_and_echoes_are_no_damage(raw: bytes) -> None:
    assert parse(raw) is None
    assert not is_damage(raw)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_line_or_none(raw: bytes) -> None:
    parse(raw)


@given(
    st.integers(1, 7),
    st.integers(0, 256),
    st.sampled_from(["", "0", "00", "7", "36", "000", "0000"]),
    st.integers(0, 15),
    st.integers(0, 999),
    st.integers(0, 1),
)
def test_every_status_line_is_understood(
    state: int, counter: int, pocket: str, flags: int, rpm_x10: int, direction: int
) -> None:
    line = parse(status(state, counter, pocket, flags, rpm_x10, direction).encode())
    assert line == StatusLine(State(state), counter, pocket, Warn(flags), rpm_x10, bool(direction))
