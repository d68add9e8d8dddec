"""The serial line between a model and the link: where bytes are split, lost, garbled and delayed.

    model --bytes--> send() ... advance() --chunks--> link
    model <--------------------- heard() <--bytes--- link

Without a fault, every `send` is one chunk at once. Faults: the `line-` names of `simulators.faults`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random

from dollyd.simulators.faults import Switchboard
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

_ENDS = {
    "line-cr": b"\r",
    "line-lf": b"\n",
    "line-lfcr": b"\n\r",
    "line-doubled": b"\r\n\r\n",
    "line-no-end": b"",
}
_SOMETIMES = 0.2
"""Share of lines that a line fault strikes."""
_SELDOM = 0.02
_HELD_LINES = 60
_FLOOD_LINES = 200
_STALL_NS = 5 * NS_PER_S
_BACKLOG_MAX_NS = NS_PER_S
"""A line this far behind its device goes back to whole lines at once."""
_NOISE_PERIOD_NS = 10 * NS_PER_MS
_NOISE_BYTES = 9  # in 10 ms at 9600 baud
_STRAY_REPLIES = (
    b"* NO\r\n",
    b"*P OK\r\n",
    b"*u OK\r\n",
    b"*O 2 1 161 1158\r\n",
    b"*T g 0\r\n",
    b"*o BUSY\r\n",
    b"*V V2.50 Cammegh / Syoptic - SlingShot 2 Roulette Wheel (c) 03/12/18\r\n",
)
_MODEM_PROBE = (b"AT\r", b"AT+CGMI\r", b"ATZ\r", b"\r\nOK\r\n", b"AT+GCAP\r")


class Line:
    """One direction of a line, device to host, plus the echo of the other one.

    `binary`: the bytes are no lines, and every `send` is spoilt as a whole.
    """

    def __init__(self, rng: Random, *, binary: bool = False) -> None:
        self._cut: Callable[[bytes], list[bytes]] = (lambda data: [data]) if binary else _lines
        self.faults = Switchboard("line")
        self._rng = rng
        self._order = itertools.count()
        self._chunks: list[tuple[int, int, bytes]] = []
        self._free_ns = 0
        self._noise_ns: int | None = None
        self._held: list[bytes] = []

    def due_ns(self) -> int | None:
        """When the next chunk leaves, or None."""
        times = [self._chunks[0][0]] if self._chunks else []
        if self._noise_ns is not None:
            times.append(self._noise_ns)
        return min(times, default=None)

    def send(self, data: bytes, now_ns: int) -> None:
        """Bytes of the device, whole lines."""
        self._held.append(b"".join(self._carry(line) for line in self._cut(data)))
        if self.faults.on("line-old-frames") and len(self._held) <= _HELD_LINES:
            return
        self.faults.clear("line-old-frames")
        spoilt = b"".join(self._held)
        self._held.clear()
        if spoilt:
            self._schedule(spoilt, now_ns)

    def heard(self, data: bytes, now_ns: int) -> None:
        """Bytes of the host, on their way to the device."""
        if self.faults.on("line-echo"):
            self._schedule(data, now_ns)

    def advance(self, now_ns: int) -> list[bytes]:
        """The chunks that reach the host up to now, each one write."""
        chunks = self._noise(now_ns)
        while self._chunks and self._chunks[0][0] <= now_ns:
            chunks.append(heapq.heappop(self._chunks)[2])
        return [] if self.faults.on("line-silence") else chunks

    def _carry(self, line: bytes) -> bytes:
        for name, spoil in _SPOILERS.items():
            if self.faults.on(name):
                line = spoil(line, self._rng)
        for name, end in _ENDS.items():
            if self.faults.on(name):
                line = line.removesuffix(b"\r\n") + end
        if self.faults.on("line-flood") and self._rng.random() < _SELDOM:
            return line * _FLOOD_LINES
        return line

    def _schedule(self, data: bytes, now_ns: int) -> None:
        # A chunk never overtakes the one before, whatever fault was set in between.
        self._free_ns = max(self._free_ns, now_ns)
        if self.faults.on("line-stall"):
            self._free_ns = max(self._free_ns, -(-now_ns // _STALL_NS) * _STALL_NS)
        if self._free_ns - now_ns > _BACKLOG_MAX_NS:
            pieces, gap_ns = [data], 0
        elif self.faults.on("line-bytes"):
            pieces, gap_ns = [data[i : i + 1] for i in range(len(data))], NS_PER_MS
        elif self.faults.on("line-chunks"):
            pieces, gap_ns = self._random_pieces(data), 16 * NS_PER_MS
        else:
            pieces, gap_ns = [data], 0
        for piece in pieces:
            self._free_ns += gap_ns
            heapq.heappush(self._chunks, (self._free_ns, next(self._order), piece))

    def _random_pieces(self, data: bytes) -> list[bytes]:
        pieces = []
        while data:
            size = self._rng.randint(1, 8)
            pieces.append(data[:size])
            data = data[size:]
        return pieces

    def _noise(self, now_ns: int) -> list[bytes]:
        if not self.faults.on("line-noise"):
            self._noise_ns = None
            return []
        if self._noise_ns is not None and now_ns < self._noise_ns:
            return []
        self._noise_ns = now_ns + _NOISE_PERIOD_NS
        return [self._rng.randbytes(_NOISE_BYTES)]


def _lines(data: bytes) -> list[bytes]:
    return [line + b"\r\n" for line in data.split(b"\r\n") if line]


def _sometimes(spoil: Callable[[bytes, Random], bytes]) -> Callable[[bytes, Random], bytes]:
    return lambda line, rng: spoil(line, rng) if rng.random() < _SOMETIMES else line


def _inside(line: bytes, rng: Random) -> int:
    """A place before the line's end; other faults may have left little of the line."""
    return rng.randrange(1, max(2, len(line) - 2))


def _drop(line: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(line))
    return line[:at] + line[at + 1 :]


def _flip(line: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(line))
    return line[:at] + bytes([line[at] ^ 1 << rng.randrange(8)]) + line[at + 1 :]


def _insert(line: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(line))
    return line[:at] + rng.randbytes(1) + line[at:]


def _lose_head(line: bytes, rng: Random) -> bytes:
    return line[_inside(line, rng) :]


def _lose_tail(line: bytes, rng: Random) -> bytes:
    return line[: _inside(line, rng)] + b"\r\n"


def _splice(line: bytes, rng: Random) -> bytes:
    # The line's tail and end are lost, so that the next line follows on the same one.
    return line[: _inside(line, rng)]


def _restart(line: bytes, rng: Random) -> bytes:
    return line[: _inside(line, rng)] + line


def _break(line: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(line))
    return line[:at] + b"\x00" + line[at:]


def _garbage(line: bytes, rng: Random) -> bytes:
    return (
        bytes(rng.choice((0x00, 0xFF, 0x80 | rng.randrange(128))) for _ in range(rng.randint(1, 12))) + line
    )


def _wrong_baud(line: bytes, rng: Random) -> bytes:
    return bytes(rng.choice((0x00, 0xFE, 0xF8, 0xE0, 0x80, rng.randrange(256))) for _ in line)


_SPOILERS: dict[str, Callable[[bytes, Random], bytes]] = {
    "line-drop": _sometimes(_drop),
    "line-flip": _sometimes(_flip),
    "line-insert": _sometimes(_insert),
    "line-head-lost": _sometimes(_lose_head),
    "line-tail-lost": _sometimes(_lose_tail),
    "line-splice": _sometimes(_splice),
    "line-restart": _sometimes(_restart),
    "line-break": _sometimes(_break),
    "line-garbage": _sometimes(_garbage),
    "line-replies": _sometimes(lambda line, rng: rng.choice(_STRAY_REPLIES) + line),
    "line-modem": _sometimes(lambda line, rng: rng.choice(_MODEM_PROBE) + line),
    "line-wrong-baud": _wrong_baud,
}
"""What each fault makes of one line (with its end)."""


class LineCutter:
    """Host bytes, possibly partial, to lines; CR, LF or both end one. An endless line is thrown away."""

    MAX_BYTES = 256

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes, give the lines that they complete, without empty ones."""
        *lines, self._buffer = (self._buffer + data).replace(b"\r", b"\n").split(b"\n")
        if len(self._buffer) > self.MAX_BYTES:
            self._buffer = b""
        return [line for line in lines if line]
