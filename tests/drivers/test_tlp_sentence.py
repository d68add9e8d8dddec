"""Sentences of TLP/1: the examples of the device document, part 3, and what is almost one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dollyd.drivers.protocols.tlp.sentence import SENTENCE_MAX_BYTES, Sentence, build, crc16, parse

EXAMPLES = (
    "$WHHEL,0,1,WHEEL,ACME,W37,SN000123,1.4.2,7F3A*FB47",
    "$WHSTA,17,2,0412,,172,0,0,00*BDD9",
    "$WHSTA,25,3,0412,,171,0,1,00*3C5C",
    "$WHSTA,52,4,0412,,171,0,14,00*8D71",
    "$WHRES,88,0412,28,171,0,14,00*2D93",
    "$WHRES,88,0412,00,171,0,14,00*FD2F",
    "$WHFLT,91,0413,08,RELAUNCH*513E",
    "$HCACK,88,0412*0C54",
    "$BDEVT,40,0412,LAP,3,812*D168",
    "$BDEVT,47,0412,DROP,14,0*A04B",
    "$BDFLT,48,0412,02,SAMEDIR*30FC",
    "$ODDRW,9,0412,9C0D4E7A11B2F00D*5FC7",
    "$ODRES,9,0412,1,000018231,9C0D4E7A11B2F00D,5D2C9A70E1B3448F*2A0E",
    "$MWSTA,31,3,0077,12,210,0,430,00*9C44",
    "$MWRES,45,0077,31,0,612,00*DCCC",
    "$MWRES,45,0077,31,0,340,01*C6E0",
    "$MWRES,46,0078,,0,512,04*D693",
    "$DCRES,12,0990,3,2,5,6,0.98,0.97,0.99,00,A1B2C3D4*E8D3",
    "$DCRES,13,0991,3,2,,6,0.98,0.00,0.99,01,A1B2C3D5*FAA3",
    "$DCRES,14,0992,2,4,4,,0.99,0.98,,00,A1B2C3D6*F7A2",
)
GOOD = b"$ODSTA,52,1,0412,00"
FIELD = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="$*,"), max_size=12)


def with_crc(body: bytes) -> bytes:
    return body + b"*%04X" % crc16(body[1:])


def test_the_crc_is_kermit() -> None:
    assert crc16(b"123456789") == 0x2189
    assert crc16(b"") == 0


@pytest.mark.parametrize("line", EXAMPLES)
def test_the_examples_of_the_document(line: str) -> None:
    one = parse(line.encode("ascii"))
    assert one is not None
    assert line.startswith(f"${one.talker}{one.message},{one.seq},{','.join(one.fields)}*")
    assert build(one) == line.encode("ascii") + b"\r\n"


def test_double_zero_and_empty_fields_are_kept() -> None:
    one = parse(b"$WHRES,88,0412,00,171,0,14,00*FD2F")
    assert one is not None
    assert one.fields[1] == "00"
    empty = parse(b"$WHSTA,17,2,0412,,172,0,0,00*BDD9")
    assert empty is not None
    assert (empty.field(2), empty.field(3), empty.field(99)) == ("", "172", "")


def test_the_last_dollar_begins_the_sentence() -> None:
    one = parse(b"$ODSTA,5$ODS" + with_crc(GOOD))
    assert one is not None
    assert one == parse(with_crc(GOOD))


@pytest.mark.parametrize("line", EXAMPLES)
def test_any_changed_character_is_refused(line: str) -> None:
    raw = line.encode("ascii")
    for place in range(len(raw)):
        for bit in range(7):
            changed = raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :]
            assert parse(changed) is None, changed


def test_120_bytes_pass_and_one_more_does_not() -> None:
    room = SENTENCE_MAX_BYTES - len(with_crc(GOOD + b","))
    assert len(with_crc(GOOD + b"," + b"x" * room)) == SENTENCE_MAX_BYTES
    assert parse(with_crc(GOOD + b"," + b"x" * room)) is not None
    assert parse(with_crc(GOOD + b"," + b"x" * (room + 1))) is None


@pytest.mark.parametrize(
    "body",
    [
        b"$ODSTA",
        b"$ODSTA,",
        b"$ODSTA,x,1",
        b"$ODSTA,-1,1",
        b"$ODSTA,65536,1",
        b"$ODSTA,123456,1",
        b"$odsta,1,1",
        b"$ODSTAT,1,1",
        b"$ODST,1,1",
        b"$ODSTA,1,a*b",
        b"$ODSTA,1,\xff",
        b"$ODSTA,1,\x00",
        b"ODSTA,1,1",
    ],
)
def test_a_right_crc_alone_makes_no_sentence(body: bytes) -> None:
    assert parse(with_crc(body)) is None


@pytest.mark.parametrize("end", [b"", b"*", b"*2a0e", b"*2A0", b"*2A0E ", b"*2A0E0"])
def test_the_crc_has_four_upper_case_digits_and_ends_the_line(end: bytes) -> None:
    whole = EXAMPLES[12].encode("ascii")
    assert whole.endswith(b"*2A0E")
    assert parse(whole[:-5] + end) is None


@given(st.integers(0, 65_535), st.lists(FIELD, max_size=6))
def test_what_is_built_is_understood(seq: int, fields: list[str]) -> None:
    one = Sentence("OD", "STA", seq, tuple(fields))
    assert parse(build(one).rstrip(b"\r\n")) == one


@given(st.binary(max_size=150))
def test_any_bytes_are_a_sentence_or_none(raw: bytes) -> None:
    parse(raw)
    parse(b"$" + raw)
