"""Hardware random generators as raw byte streams: TrueRNG, OneRNG, ChaosKey (device notes, part 2 section 5).

The dice are a seeded `Random`: the same seed gives the same stream. TrueRNG and ChaosKey run as
soon as they have power; a OneRNG runs after `cmdO` and knows the commands below. The texts of its answers
are made up.

    cmdO run   cmdo stop   cmd0..cmd4 source (4: silent)   cmdw flush   cmdv version   cmdI identity
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from dollyd.simulators.faults import Switchboard
from dollyd.simulators.line import LineCutter
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

_TICK_MS = 10
_BLOCK_BYTES = 64
_STUCK_BYTE = b"\xa5"
_SHORT_BYTES = 3
_SILENT_SOURCE = 4


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """How fast it is. Real ones give 45,000 bytes a second (TrueRNG 3) and more."""

    bytes_per_s: int = 20_000
    version: str = "3.0"
    identity: str = "OneRNG-000053"


class Generator:
    """A stream that runs while there is power; `sent_bytes` counts what left it."""

    def __init__(self, options: GeneratorOptions, rng: Random, now_ns: int) -> None:
        self.options = options
        self.faults = Switchboard("generator")
        self.sent_bytes = 0
        self.running = True
        self._rng = rng
        self._tick_ns: int | None = now_ns
        self._chunk_bytes = max(1, options.bytes_per_s * _TICK_MS * NS_PER_MS // NS_PER_S)
        self._block = rng.randbytes(_BLOCK_BYTES)

    def power_on(self, now_ns: int) -> None:
        """The stream begins; nothing happens where it runs."""
        if self._tick_ns is None:
            self._tick_ns = now_ns

    def power_off(self, now_ns: int) -> None:  # noqa: ARG002 - every model has the same face
        """No stream, no answers."""
        self._tick_ns = None

    def due_ns(self) -> int | None:
        """When the next bytes come, or None without power."""
        return self._tick_ns

    def advance(self, now_ns: int) -> bytes:
        """The bytes up to `now_ns`."""
        sent = bytearray()
        while self._tick_ns is not None and self._tick_ns <= now_ns:
            self._tick_ns += _TICK_MS * NS_PER_MS
            if self.running:
                sent += self._chunk()
        self.sent_bytes += len(sent)
        return bytes(sent)

    def command(self, data: bytes, now_ns: int) -> bytes:  # noqa: ARG002 - every model has the same face
        """These generators do not listen."""
        return b""

    def _chunk(self) -> bytes:
        size = (
            min(_SHORT_BYTES, self._chunk_bytes) if self.faults.on("rng-short-reads") else self._chunk_bytes
        )
        if self.faults.on("rng-stalls"):
            return b""
        if self.faults.on("rng-stuck"):
            return _STUCK_BYTE * size
        if self.faults.on("rng-repeats"):
            return (self._block * (size // _BLOCK_BYTES + 1))[:size]
        data = self._rng.randbytes(size)
        if self.faults.on("rng-knocked"):
            return b"".join(b"0x%02X\r\n" % byte for byte in data)[:size]
        if self.faults.on("rng-biased"):
            return bytes(one | other for one, other in zip(data, self._rng.randbytes(size), strict=True))
        return data


class TrueRng(Generator):
    """A TrueRNG: a stream, and nothing else. Its modes follow the port's speed, which a pty does not have."""


class ChaosKey(Generator):
    """A ChaosKey's whitened stream (endpoint 0x85)."""


class OneRng(Generator):
    """A OneRNG: stopped until `cmdO`."""

    def __init__(self, options: GeneratorOptions, rng: Random, now_ns: int) -> None:
        super().__init__(options, rng, now_ns)
        self.running = False
        self.source = 0
        self._cutter = LineCutter()
        self._commands: dict[str, Callable[[], bytes]] = {
            "O": lambda: self._run(running=True),
            "o": lambda: self._run(running=False),
            "w": lambda: b"",
            "v": lambda: f"Version {options.version}\r\n".encode("ascii"),
            "I": lambda: f"{options.identity}\r\n".encode("ascii"),
        }

    def power_on(self, now_ns: int) -> None:
        """Stopped, source 0: nothing is remembered."""
        if self.due_ns() is None:
            self.running, self.source = False, 0
        super().power_on(now_ns)

    def command(self, data: bytes, now_ns: int) -> bytes:  # noqa: ARG002 - every model has the same face
        """`cmdX` lines; anything else is passed over."""
        lines = self._cutter.feed(data)
        if self.due_ns() is None:
            return b""
        return b"".join(self._obey(line.decode("latin-1").strip()) for line in lines)

    def _obey(self, line: str) -> bytes:
        letter = line.removeprefix("cmd")
        if line in {f"cmd{source}" for source in range(_SILENT_SOURCE + 1)}:
            self.source = int(letter)
            return b""
        if line.startswith("cmd") and letter in self._commands:
            return self._commands[letter]()
        return b""

    def _run(self, *, running: bool) -> bytes:
        self.running = running
        return b""

    def _chunk(self) -> bytes:
        return b"" if self.source == _SILENT_SOURCE else super()._chunk()
