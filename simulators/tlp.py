"""TLP/1 frames as a device maker would write them: `$` TT CCC `,` seq `,` fields `*` HHHH CR LF.

HHHH is the CRC-16/KERMIT of the bytes between `$` and `*`, in upper-case hex (part 3 of the device notes).
Written apart from the daemon's own TLP code, so that one mistake cannot agree with itself.
"""

from __future__ import annotations

from dataclasses import dataclass

SEQ_MODULUS = 65_536
_POLYNOMIAL = 0x8408  # 0x1021, bit-reversed


def crc16_kermit(data: bytes) -> int:
    """CRC-16/KERMIT: reflected, initial value 0; the check value of `123456789` is 0x2189."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ _POLYNOMIAL if crc & 1 else crc >> 1
    return crc


def frame(talker: str, command: str, seq: int, *fields: str) -> bytes:
    """One whole frame with its CRC and line end."""
    body = ",".join((f"{talker}{command}", str(seq), *fields)).encode("ascii")
    return b"$%b*%04X\r\n" % (body, crc16_kermit(body))


@dataclass(frozen=True, slots=True)
class Sentence:
    """A frame that was heard: talker `HC`, command `ACK`, its sequence number and the fields behind it."""

    talker: str
    command: str
    seq: int
    fields: tuple[str, ...]


def parse(line: bytes) -> Sentence | None:
    """The sentence of one line without its end, or None where form or CRC is wrong: stay silent then."""
    body, star, check = line.removeprefix(b"$").partition(b"*")
    if not line.startswith(b"$") or not star or check != b"%04X" % crc16_kermit(body) or not body.isascii():
        return None
    head, *rest = body.decode("ascii").split(",")
    if len(head) != 5 or not rest or not rest[0].isdigit():
        return None
    return Sentence(head[:2], head[2:], int(rest[0]), tuple(rest[1:]))


class SequenceNumbers:
    """0..65535, one for every new message; a repetition keeps the number it had."""

    def __init__(self) -> None:
        self._next = 0

    def take(self) -> int:
        """The next number."""
        seq, self._next = self._next, (self._next + 1) % SEQ_MODULUS
        return seq
