"""The test vectors that device makers are given, read by us and by the simulators' own reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from dollyd.drivers.protocols.tlp.sentence import build, parse
from dollyd.simulators import tlp as simulated

VECTORS = Path(__file__).resolve().parents[2] / "docs" / "protocols" / "tlp-1-vectors.txt"
LINES = [line for line in VECTORS.read_text("ascii").splitlines() if line and not line.startswith("#")]
GOOD = [line for line in LINES if not line.startswith("!")]
BAD = [line[1:] for line in LINES if line.startswith("!")]


@pytest.mark.parametrize("line", GOOD)
def test_a_vector_is_a_sentence_byte_for_byte(line: str) -> None:
    sentence, other = parse(line.encode()), simulated.parse(line.encode())
    assert sentence is not None
    assert build(sentence) == line.encode() + b"\r\n"
    assert other is not None
    assert (sentence.talker, sentence.message, sentence.seq, sentence.fields) == (
        other.talker,
        other.command,
        other.seq,
        other.fields,
    )


@pytest.mark.parametrize("line", BAD)
def test_what_is_marked_so_is_no_sentence(line: str) -> None:
    assert parse(line.encode()) is None


def test_the_vectors_show_every_talker_and_message() -> None:
    assert {line[1:3] for line in GOOD} == {"WH", "BD", "MW", "DC", "OD", "CN", "HC"}
    assert {line[3:6] for line in GOOD} == {"HEL", "STA", "EVT", "RES", "FLT", "QRY", "ACK", "DRW"}
    assert max(len(line) for line in GOOD) == 120
    assert len(BAD) > 10
