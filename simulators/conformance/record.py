"""Everything that was heard and said in a test, with its times: what the clauses are judged by.

bytes --> Line (at, raw, sentence | what is wrong with it)      Said (at, what, sentence)
          '-- same boot, same opening of the port: one stretch --'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from dollyd.simulators.tlp import SEQ_MODULUS, Sentence, crc16_kermit
from dollyd.wire.stamp import NS_PER_MS

LINES_MAX = 50_000
"""A device that sends more is not recorded further; the test ends."""
SENTENCE_MAX_BYTES = 120
_ENDLESS_BYTES = 1024
_PARTS = re.compile(rb"\$([^$*]*)\*([^$*]*)")
_HEAD = re.compile(r"([A-Z]{2})([A-Z]{3})")
_SEQ = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it came. `clause` and `trouble` say what is wrong with it, empty where nothing is."""

    at_ns: int
    raw: bytes
    sentence: Sentence | None
    clause: str = ""
    trouble: str = ""
    opening: int = 1
    """Which opening of the port, from 1."""
    boot: int = 0
    """Boots that were noticed before this line."""

    @property
    def message(self) -> str:
        """`HEL`, `STA`, ...; empty where it is no sentence."""
        return "" if self.sentence is None else self.sentence.command

    @property
    def seq(self) -> int:
        """Its sequence number, -1 where it is no sentence."""
        return -1 if self.sentence is None else self.sentence.seq

    def field(self, index: int) -> str:
        """A field behind the sequence number, empty where it was not sent."""
        fields = () if self.sentence is None else self.sentence.fields
        return fields[index] if index < len(fields) else ""

    @property
    def stretch(self) -> tuple[int, int]:
        """Within one stretch nothing may be missing."""
        return self.opening, self.boot


@dataclass(frozen=True, slots=True)
class Said:
    """What the host said: `QRY`, `ACK`, `DRW`, or a probe: `wrong-ack`, `wrong-crc`, `rubbish`."""

    at_ns: int
    what: str
    sentence: Sentence | None = None


@dataclass(slots=True)
class Record:
    """One test of a device with this talker. `key` is shared with an odds box."""

    talker: str
    key: bytes = b""
    lines: list[Line] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    opened_ns: list[int] = field(default_factory=list)
    steps: list[tuple[str, int]] = field(default_factory=list)
    """Names of the steps that a person was asked for, and when."""
    end_ns: int = 0
    _buffer: bytes = b""
    _boot_id: str = ""
    _boots: int = 0

    @property
    def full(self) -> bool:
        """Nothing more is recorded."""
        return len(self.lines) >= LINES_MAX

    def opened(self, now_ns: int) -> None:
        """The port is open; what comes first may be the rest of a sentence."""
        self.opened_ns.append(now_ns)
        self._buffer = b""
        self.end_ns = now_ns

    def heard(self, data: bytes, now_ns: int) -> list[Line]:
        """Take bytes; the lines that they complete."""
        self.end_ns = now_ns
        self._buffer += data
        new: list[Line] = []
        while (cut := _cut(self._buffer)) is not None and not self.full:
            raw, end, self._buffer = cut
            if raw:
                new.append(self._line(raw, end, now_ns))
                self.lines.append(new[-1])
        return new

    def of(self, *messages: str) -> list[Line]:
        """All sentences of these messages."""
        return [line for line in self.lines if line.message in messages]

    def stretches(self) -> Iterator[list[Line]]:
        """The lines between one opening or boot and the next."""
        stretch: list[Line] = []
        for line in self.lines:
            if stretch and stretch[-1].stretch != line.stretch:
                yield stretch
                stretch = []
            stretch.append(line)
        if stretch:
            yield stretch

    def told(self, what: str, after_ns: int = 0, before_ns: int | None = None) -> list[Said]:
        """What was said of this kind within a time."""
        return [
            said
            for said in self.said
            if said.what == what and said.at_ns >= after_ns and (before_ns is None or said.at_ns < before_ns)
        ]

    def clock(self, at_ns: int) -> str:
        """A time as seconds since the port was first opened."""
        start_ns = self.opened_ns[0] if self.opened_ns else 0
        return f"{(at_ns - start_ns) / NS_PER_MS / 1000:.3f} s"

    def _line(self, raw: bytes, end: bytes, now_ns: int) -> Line:
        sentence, clause, trouble = read(raw, end)
        first = not self.lines or self.lines[-1].opening < len(self.opened_ns)
        if first and sentence is None:
            clause = trouble = ""  # the port was opened in the middle of it
        if sentence is not None and sentence.command == "HEL" and len(sentence.fields) >= 7:
            boot_id = sentence.fields[6]
            self._boots += self._boot_id not in {"", boot_id}
            self._boot_id = boot_id
        return Line(now_ns, raw, sentence, clause, trouble, len(self.opened_ns), self._boots)


def read(raw: bytes, end: bytes) -> tuple[Sentence | None, str, str]:
    """The sentence in a line, or None; the clause that is broken and how, both empty where none is."""
    if any(not 0x20 <= byte <= 0x7E for byte in raw):
        return None, "2.2", "a character outside 0x20 to 0x7E"
    parts = _PARTS.fullmatch(raw)
    if parts is None:
        return None, "2.2", "not of the form $...*HHHH"
    if len(raw) > SENTENCE_MAX_BYTES:
        return None, "2.2", f"{len(raw)} bytes, {SENTENCE_MAX_BYTES} are allowed"
    if (right := b"%04X" % crc16_kermit(parts[1])) != parts[2]:
        return None, "2.3", f"checksum {parts[2].decode()}, {right.decode()} is right"
    name, *rest = parts[1].decode("ascii").split(",")
    head = _HEAD.fullmatch(name)
    if head is None:
        return None, "2.1", f"{name!r} is no talker with a message"
    if not rest or not _SEQ.fullmatch(rest[0]) or int(rest[0]) >= SEQ_MODULUS:
        return None, "2.4", "no sequence number of 0 to 65535"
    sentence = Sentence(head[1], head[2], int(rest[0]), tuple(rest[1:]))
    return sentence, *(("", "") if end == b"\r\n" else ("2.2", "does not end with CR LF"))


def _cut(buffer: bytes) -> tuple[bytes, bytes, bytes] | None:
    """The first line, how it ends, and the rest; None where no line is complete yet."""
    match = re.search(rb"\r\n|\n|\r(?=[^\n])", buffer)
    if match is not None:
        return buffer[: match.start()], match[0], buffer[match.end() :]
    if len(buffer) > _ENDLESS_BYTES:
        return buffer, b"", b""
    return None
