r"""Sentences of TLP/1, the open table line protocol (devices part 3).

    $ TT CCC , seq , fields * HHHH CR LF       e.g.  $ODSTA,52,ready*1A2B

`TT` talker, `CCC` message, `HHHH` upper-case hex CRC-16/KERMIT over the bytes between `$` and `*`. Printable
ASCII, at most 120 bytes. A sentence with a wrong CRC is no sentence: the receiver stays silent.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass

SENTENCE_MAX_BYTES = 120
SEQUENCES = 65_536

_SENTENCE = re.compile(rb"\$([A-Z]{2})([A-Z]{3}),([0-9]{1,5})((?:,[ -#%-)+-~]*)?)\*([0-9A-F]{4})")
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
"""Each byte with its bits in reverse order."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One message. An empty field means not known; unknown trailing fields are the reader's to ignore."""

    talker: str
    message: str
    seq: int
    fields: tuple[str, ...]

    def field(self, index: int) -> str:
        """A field by position, empty where it was not sent."""
        return self.fields[index] if index < len(self.fields) else ""


def crc16(data: bytes) -> int:
    """CRC-16/KERMIT: reflected polynomial 0x8408, start 0. `crc16(b"123456789") == 0x2189`."""
    # `crc_hqx` is the same sum over the same bits, the other way round.
    high, low = divmod(binascii.crc_hqx(data.translate(_MIRRORED), 0), 256)
    return _MIRRORED[low] << 8 | _MIRRORED[high]


def parse(raw: bytes) -> Sentence | None:
    """The sentence in a line, or None where frame or CRC are not right. The last `$` begins it."""
    start = raw.rfind(b"$")
    if start < 0 or len(raw) - start > SENTENCE_MAX_BYTES:
        return None
    match = _SENTENCE.fullmatch(raw, start)
    if match is None or crc16(raw[start + 1 : -5]) != int(match[5], 16) or int(match[3]) >= SEQUENCES:
        return None
    fields = tuple(match[4].decode("ascii").split(",")[1:])
    return Sentence(match[1].decode("ascii"), match[2].decode("ascii"), int(match[3]), fields)


def build(sentence: Sentence) -> bytes:
    """The bytes of a sentence with CRC and line end."""
    body = ",".join((sentence.talker + sentence.message, str(sentence.seq), *sentence.fields)).encode("ascii")
    return b"$%s*%04X\r\n" % (body, crc16(body))
