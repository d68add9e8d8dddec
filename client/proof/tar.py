"""Tar files in one form only: plain files in ustar headers with fixed metadata (POSIX.1-1988, "ustar").

Owner 0, mode 0644, time 0: the same members give the same bytes. A header in any other form is refused, so
there is no link, no long name and no second reading of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK = 512
END = bytes(2 * BLOCK)
"""Two blocks of zeros end the file."""
_NAME_BYTES, _SIZE_AT = 100, 124
_SIZE_END = 8**11
_MODE_AND_OWNER = b"0000644\0" + 2 * b"0000000\0"
_AFTER_CHECKSUM = b"0".ljust(101, b"\0") + b"ustar\0" + b"00" + bytes(BLOCK - 265)
"""A plain file, no link, the magic and its version, no names of owners, no device, no prefix."""
_SUM_AFTER = sum(_AFTER_CHECKSUM)


class TarError(ValueError):
    """The file is not such a tar; the text says where."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member, and where its bytes begin."""

    name: str
    size: int
    offset: int

    @property
    def next(self) -> int:
        """Where the next header begins."""
        return self.offset + self.size + len(padding(self.size))


def header(name: str, size: int) -> bytes:
    """The header of a member. Raises `TarError` where ustar cannot hold it (8 GiB, 100 characters)."""
    if not name.isascii() or not 0 < len(name) <= _NAME_BYTES or size >= _SIZE_END:
        raise TarError(f"{name}: {size} bytes do not fit into a ustar tar")
    before = name.encode("ascii").ljust(_NAME_BYTES, b"\0") + _MODE_AND_OWNER + b"%011o\0%011o\0" % (size, 0)
    checksum = sum(before) + 8 * ord(" ") + _SUM_AFTER
    return before + b"%06o\0 " % checksum + _AFTER_CHECKSUM


def padding(size: int) -> bytes:
    """What follows a member's bytes, up to a whole block."""
    return bytes(-size % BLOCK)


def member_at(file: BinaryIO, at: int, length: int) -> Member | None:
    """The member whose header is at `at` of a file of `length` bytes; None at the end. Raises `TarError`."""
    file.seek(at)
    block = file.read(BLOCK)
    if block == bytes(BLOCK):
        if at + len(END) > length:
            raise TarError(f"byte {length}: it is cut off at its end")
        if at + len(END) < length or file.read(BLOCK) != bytes(BLOCK):
            raise TarError(f"byte {at}: the end is not two blocks of zeros, and nothing after them")
        return None
    if len(block) < BLOCK:
        raise TarError(f"byte {length}: it is cut off there")
    member = member_of(block, at)
    if member.next > length:
        raise TarError(f"byte {length}: it is cut off in {member.name!r}")
    return member


def member_of(block: bytes, at: int) -> Member:
    """The member whose header is this block at `at`. Raises `TarError`."""
    try:
        name = block[:_NAME_BYTES].rstrip(b"\0").decode("ascii")
        size = int(block[_SIZE_AT : _SIZE_AT + 11], 8)
        canonical = header(name, size) == block
    except ValueError as error:
        raise TarError(f"byte {at}: no header of a member: {error}") from error
    if not canonical:
        raise TarError(f"byte {at}: the header of {name!r} is not in its one form")
    return Member(name, size, at + BLOCK)


def members(file: BinaryIO, length: int, at: int = 0) -> Iterator[Member]:
    """The members from `at` on. Raises `TarError`."""
    while member := member_at(file, at, length):
        yield member
        at = member.next
