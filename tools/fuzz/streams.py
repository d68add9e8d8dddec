"""A stream as packets in time, and what can happen to it on its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

_LINE_ENDS = (b"\r\n", b"\r", b"\n", b"\n\r", b"\r\n\r\n", b"")
_LEVELS = ((1, 3), (1, 3), (1, 3), (4, 12), (4, 12), (15, 60))
"""How many mutations a stream gets, at least and at most; half of the streams are damaged lightly."""
_STALLS_MS = (600, 1900, 2500, 8000)


@dataclass(frozen=True, slots=True)
class Packet:
    """Bytes that come together, and the time since those before; a line as its device sent it."""

    gap_ms: int
    data: bytes
    device: str = "wheel"


Mutation: TypeAlias = Callable[[list[Packet], int, Random], None]


def _change(packets: list[Packet], at: int, data: bytes) -> None:
    packets[at] = replace(packets[at], data=data)


def flip(packets: list[Packet], at: int, rng: Random) -> None:
    """A bit of noise."""
    data = bytearray(packets[at].data)
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        _change(packets, at, bytes(data))


def digit(packets: list[Packet], at: int, rng: Random) -> None:
    """One character becomes another digit: damage that the form of a line does not show."""
    data = bytearray(packets[at].data)
    digits = [place for place, byte in enumerate(data) if chr(byte).isdigit()]
    if digits:
        data[rng.choice(digits)] = rng.choice(b"0123456789")
        _change(packets, at, bytes(data))


def drop(packets: list[Packet], at: int, rng: Random) -> None:
    """Lines lost, as if the device had never sent them: no silence tells of it."""
    del packets[at : at + rng.choice((1, 1, 1, 2, 5))]


def drop_with_its_time(packets: list[Packet], at: int, _rng: Random) -> None:
    """A line lost, and the time that it took."""
    _change(packets, at, b"")


def insert(packets: list[Packet], at: int, rng: Random) -> None:
    """Noise, a stray number, a reply to another console."""
    number = f"{rng.randrange(37):>2}\r\n".encode("ascii")
    junk = rng.choice((rng.randbytes(rng.randint(1, 20)), number, b"*u OK\r\n"))
    packets.insert(at, Packet(0, junk, packets[at].device))


def double(packets: list[Packet], at: int, _rng: Random) -> None:
    """A line that comes twice."""
    packets.insert(at, replace(packets[at], gap_ms=0))


def swap(packets: list[Packet], at: int, rng: Random) -> None:
    """Lines out of order."""
    other = min(len(packets) - 1, at + rng.choice((1, 1, 2, 7)))
    packets[at], packets[other] = packets[other], packets[at]


def splice(packets: list[Packet], at: int, rng: Random) -> None:
    """A piece of another place of the stream: in its stead, or between."""
    start, length = rng.randrange(len(packets)), rng.randint(1, 12)
    packets[at : at + rng.choice((0, length))] = packets[start : start + length]


def lose_head(packets: list[Packet], at: int, rng: Random) -> None:
    """A line that begins in its middle."""
    _change(packets, at, packets[at].data[rng.randint(1, 12) :])


def lose_tail(packets: list[Packet], at: int, rng: Random) -> None:
    """A line that was cut short; the next one follows in it."""
    _change(packets, at, packets[at].data[: -rng.randint(1, 12)])


def end_otherwise(packets: list[Packet], at: int, rng: Random) -> None:
    """Another line end, or none."""
    _change(packets, at, packets[at].data.rstrip(b"\r\n") + rng.choice(_LINE_ENDS))


def stall(packets: list[Packet], at: int, rng: Random) -> None:
    """Silence, then the lines that waited in a burst."""
    packets[at] = replace(packets[at], gap_ms=rng.choice(_STALLS_MS))
    for place in range(at + 1, min(len(packets), at + rng.randint(1, 5))):
        packets[place] = replace(packets[place], gap_ms=0)


MUTATIONS: tuple[Mutation, ...] = (
    flip, flip, flip, digit, digit, drop, drop, drop_with_its_time, insert, double, swap, splice, lose_head,
    lose_tail, end_otherwise, stall,
)  # fmt: skip


def damage(packets: list[Packet], rng: Random) -> None:
    """A few mutations, or many."""
    for _ in range(rng.randint(*rng.choice(_LEVELS))):
        if packets:
            rng.choice(MUTATIONS)(packets, rng.randrange(len(packets)), rng)
