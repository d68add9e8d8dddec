"""TLP/1 frames against the printed examples of the protocol."""

from __future__ import annotations

import pytest

from dollyd.simulators.tlp import SEQ_MODULUS, Sentence, SequenceNumbers, crc16_kermit, frame, parse

PRINTED = (
    b"$WHHEL,0,1,WHEEL,ACME,W37,SN000123,1.4.2,7F3A*FB47",
    b"$WHRES,88,0412,00,171,0,14,00*FD2F",
    b"$HCACK,88,0412*0C54",
    b"$ODDRW,9,0412,9C0D4E7A11B2F00D*5FC7",
    b"$ODRES,9,0412,1,000018231,9C0D4E7A11B2F00D,5D2C9A70E1B3448F*2A0E",
    b"$DCRES,14,0992,2,4,4,,0.99,0.98,,00,A1B2C3D6*F7A2",
)


def test_check_value_of_the_crc() -> None:
    assert crc16_kermit(b"123456789") == 0x2189


@pytest.mark.parametrize("printed", PRINTED)
def test_printed_examples_are_read_and_written_alike(printed: bytes) -> None:
    sentence = parse(printed)
    assert sentence is not None
    assert frame(sentence.talker, sentence.command, sentence.seq, *sentence.fields) == printed + b"\r\n"


def test_fields_of_a_sentence() -> None:
    assert parse(PRINTED[2]) == Sentence("HC", "ACK", 88, ("0412",))


@pytest.mark.parametrize(
    "line",
    [
        b"$HCACK,88,0412*0C55",
        b"$HCACK,88,0412*0c54",
        b"$HCACK,89,0412*0C54",
        b"HCACK,88,0412*0C54",
        b"$HCACK,88,0412",
        b"",
        b"$*0000",
    ],
)
def test_damaged_frames_are_nothing(line: bytes) -> None:
    assert parse(line) is None


def test_sequence_numbers_wrap() -> None:
    numbers = SequenceNumbers()
    taken = [numbers.take() for _ in range(SEQ_MODULUS + 1)]
    assert taken[:2] == [0, 1]
    assert taken[-2:] == [65_535, 0]
