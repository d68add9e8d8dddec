"""A tar that was packed by gzip, unpacked into a file without a name, within bounds.

It is looked at while it grows: a header that is none, or anything behind the tar's end, stops it at once, so
what is no evidence file costs no more than its beginning. What is one may still be made to be huge; for that
there are a bound by ratio and one in bytes.
"""

from __future__ import annotations

import tempfile
import zlib
from contextlib import ExitStack
from typing import BinaryIO, cast

from dollyd.client.proof.tar import BLOCK, END, TarError, member_of

GZIP_MAGIC = b"\x1f\x8b"
UNPACKED_MAX_BYTES = (4 << 30) - 1
"""Of a compressed file, where nobody asks for more (`--max-bytes`)."""
RATIO_MAX = 100
"""A file may grow to so many times its size; records shrink to a half, captures to a twentieth."""
SMALL_BYTES = 64 << 20
"""Or to this, whatever its size."""

_ONE_HEADER = GZIP_MAGIC + b"\x08\x00\x00\x00\x00\x00"
"""Deflate, no name, no time: as `dollyd export` writes it (RFC 1952)."""
_COPY_BYTES = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS


def limit_of(packed_bytes: int, max_bytes: int) -> int:
    """How many bytes a file of `packed_bytes` may become."""
    return min(max_bytes, max(SMALL_BYTES, RATIO_MAX * packed_bytes))


def unpack(packed: BinaryIO, max_bytes: int = UNPACKED_MAX_BYTES) -> BinaryIO:
    """The tar in a gzip file: one gzip member and nothing behind it. Raises `TarError` and `OSError`."""
    limit = limit_of(packed.seek(0, 2), max_bytes)
    packed.seek(0)
    if not packed.read(len(_ONE_HEADER)) == _ONE_HEADER:
        raise TarError("its gzip header is not in its one form")
    packed.seek(0)
    with ExitStack() as files:
        plain = cast("BinaryIO", files.enter_context(tempfile.TemporaryFile()))
        _copy(packed, plain, limit)
        files.pop_all()
        return plain


def _copy(packed: BinaryIO, plain: BinaryIO, limit: int) -> None:
    decoder, length, headers = zlib.decompressobj(_GZIP), 0, _Headers(plain)
    while not decoder.eof:
        chunk = decoder.unconsumed_tail or packed.read(_COPY_BYTES)
        try:
            data = decoder.decompress(chunk, _COPY_BYTES)
        except zlib.error as error:
            raise TarError(f"gzip: {error}") from error
        if not (chunk or data or decoder.eof):
            raise TarError("gzip: it is cut off at its end")
        plain.write(data)
        length += len(data)
        if length > limit:
            raise TarError(
                f"it unpacks to more than {limit} bytes; --max-bytes and {RATIO_MAX} times its size bound it"
            )
        headers.follow(length)
    if decoder.unused_data or packed.read(1):
        raise TarError("gzip: something is behind its end")


class _Headers:
    """The headers of a tar that grows."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._next = 0
        self._ended = False

    def follow(self, length: int) -> None:
        """Look at those that are there; leaves the file at its end. Raises `TarError`."""
        while not self._ended and self._next + BLOCK <= length:
            self._file.seek(self._next)
            block = self._file.read(BLOCK)
            self._ended = block == bytes(BLOCK)
            if not self._ended:
                self._next = member_of(block, self._next).next
        if self._ended and length > self._next + len(END):
            raise TarError(f"byte {self._next}: the end is not two blocks of zeros, and nothing after them")
        self._file.seek(length)
