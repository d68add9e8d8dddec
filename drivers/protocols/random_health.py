"""Continuous health tests of a random byte stream, in the manner of NIST SP 800-90B section 4.4.

The stream is tested in windows of 512 bytes, every byte of it. The tests find a generator that has broken
down; they do not measure how good a working one is. Assumed is a min-entropy of at least 6 bits a byte (the
devices promise 8): a stream that keeps this fails in a window with a probability below 2^-32. One of full
entropy, at 45,000 bytes a second, raises a false alarm once in 49,000 years.

    repetition   8 equal bytes in a row               cut-off 1 + 40/6, rounded up, for 2^-40
    proportion   one value 35 times in a window       a value of probability 1/64 does so with 2^-40
    cycle        8 bytes come again within 64 KiB     a buffer that is sent over and over
"""

from __future__ import annotations

import re
from collections import Counter

WINDOW_BYTES = 512
REPETITIONS = 8
"""Equal bytes in a row: 2^(-6 * 7) at 6 bits a byte, 2^-56 at 8."""
PROPORTION = 35
"""Times that one value comes in a window; 8 are expected at 6 bits a byte, 2 at 8 bits. SP 800-90B counts the
window's first value only, we count all of them."""
REFERENCE_BYTES = 8
REFERENCE_WINDOWS = (16, 128)
"""Looked for again are the start of each window in the window itself, and the start of every 16th and 128th
window until the next such one. A cycle is found within two turns of the reference that is longer."""

_TAIL_BYTES = max(REPETITIONS, REFERENCE_BYTES) - 1
_REPETITION = re.compile(rb"(.)\1{%d}" % (REPETITIONS - 1), re.DOTALL)


class HealthTests:
    """The tests of one stream, which lasts until the device is connected anew."""

    def __init__(self) -> None:
        self._tail = b""
        self._references: dict[int, bytes] = {}
        self._windows = 0

    def failure(self, window: bytes) -> str:
        """Which test the next window of the stream fails, empty where it is good."""
        stream = self._tail + window
        self._tail = window[-_TAIL_BYTES:]
        cycle = self._comes_again(stream, window)
        if _REPETITION.search(stream):
            return "repetition"
        if max(Counter(window).values()) >= PROPORTION:
            return "proportion"
        return "cycle" if cycle else ""

    def _comes_again(self, stream: bytes, window: bytes) -> bool:
        start = window[:REFERENCE_BYTES]
        found = start in window[1:] or any(old in stream for old in self._references.values())
        for windows in REFERENCE_WINDOWS:
            if self._windows % windows == 0:
                self._references[windows] = start
        self._windows += 1
        return found
