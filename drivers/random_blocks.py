"""Framing of hardware random generators: a raw byte stream to few, short frames, every byte tested.

    bytes ... [512 tested][512 tested] ... [512 tested]  --> Frame: the last 32 bytes of the block, in hex
              '------------- block, 12 KiB -----------'
    a test fails                                         --> Frame `health:<test>`, at once and every block

Bytes are given out for a block that passed every test, so the first one is also the test at start-up (for
which SP 800-90B 4.3 asks 1,024 samples; this is 12 times as much). After a failure none are given out until
the stream begins anew. Survives: any cutting of the stream, text among the bytes, endless bytes.
"""

from __future__ import annotations

from dollyd.drivers.framing import AnyFrame, Frame
from dollyd.drivers.protocols.random_health import WINDOW_BYTES, HealthTests

BLOCK_BYTES = 24 * WINDOW_BYTES
"""Four frames a second of a TrueRNG: few lines in a capture, and a draw waits half a second. A session takes
16 KiB without a frame for noise and drops the device, so a block must stay below that."""
GIVEN_BYTES = 32
HEALTH = b"health:"


class RandomBlockDecoder:
    """Cuts a random stream into blocks and tests it on the way."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """A new stream begins; nothing is known of it."""
        self._buffer = bytearray()
        self._health = HealthTests()
        self._failure = ""
        self._block_bytes = 0

    def feed(self, data: bytes) -> list[AnyFrame]:
        """Take bytes, give the frames that they complete."""
        frames: list[AnyFrame] = []
        self._buffer += data
        whole = len(self._buffer) // WINDOW_BYTES * WINDOW_BYTES
        for start in range(0, whole, WINDOW_BYTES):
            frames += self._window(bytes(self._buffer[start : start + WINDOW_BYTES]))
        del self._buffer[:whole]
        return frames

    def _window(self, window: bytes) -> list[AnyFrame]:
        known = self._failure
        self._failure = known or self._health.failure(window)
        self._block_bytes = (self._block_bytes + WINDOW_BYTES) % BLOCK_BYTES
        complete = self._block_bytes == 0
        if self._failure:
            return [Frame(HEALTH + self._failure.encode("ascii"))] if complete or not known else []
        return [Frame(window[-GIVEN_BYTES:].hex().encode("ascii"))] if complete else []
