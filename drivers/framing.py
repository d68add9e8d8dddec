"""Bytes to frames, sans-IO and bounded: device garbage is a value, never an exception.

    bytes  ... 2A 58 3B ... 0D 0A | 0D | 0A | 0A 0D ...
               '---- frame -----' '--- ends a line ---'

Assumptions: text lines; any run of CR and LF ends a line, so CR, LF, CRLF, LFCR and doubled ends all work.
Survives: lines split over reads, many lines in one read, a start in mid-line, no line end for ever, NUL and
8-bit noise. What a line means is the protocol's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

FRAME_MAX_BYTES = 256
"""Longest line kept. The longest known reply (`*V`) has 66 bytes, TLP/1 allows 120."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole line, without its end."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class BadFrame:
    """Bytes that cannot be a line: too long (the tail is kept), or not printable ASCII."""

    raw: bytes
    why: str


AnyFrame: TypeAlias = Frame | BadFrame


class FrameDecoder(Protocol):
    """Cuts a byte stream into frames; any chunking of the same bytes gives the same frames."""

    def feed(self, data: bytes) -> list[AnyFrame]:
        """Take bytes, give the frames that they complete."""
        ...

    def reset(self) -> None:
        """Forget a half-read frame: the port was reopened."""
        ...


class LineDecoder:
    """Lines of printable ASCII that end in any run of CR and LF."""

    def __init__(self, max_bytes: int = FRAME_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._overlong = False

    def reset(self) -> None:
        """Forget a half-read line."""
        self._buffer.clear()
        self._overlong = False

    def feed(self, data: bytes) -> list[AnyFrame]:
        """Take bytes, give the lines that they complete."""
        frames: list[AnyFrame] = []
        for piece in data.replace(b"\r", b"\n").splitlines(keepends=True) if data else ():
            # bytes.splitlines splits at CR and LF only.
            body, ended = (piece[:-1], True) if piece.endswith(b"\n") else (piece, False)
            self._buffer += body
            self._overlong |= len(self._buffer) > self._max_bytes
            del self._buffer[: -self._max_bytes]
            if ended:
                frames.extend(self._take())
        return frames

    def _take(self) -> list[AnyFrame]:
        raw, overlong = bytes(self._buffer), self._overlong
        self.reset()
        if overlong:
            return [BadFrame(raw, "too-long")]
        if not raw:
            return []
        if not all(0x20 <= byte <= 0x7E for byte in raw):
            return [BadFrame(raw, "not-printable")]
        return [Frame(raw)]
