"""Who is behind a serial port, by listening first: nobody is asked who has not spoken in his own language.

    9600 Bd:   a SlingShot's status line?   yes, and closed: *V and *T Z      its games are not disturbed
    115200 Bd: a sentence of TLP/1?         yes: QRY, it answers HEL

A port is opened as the daemon opens it and only at the speeds of these two drivers: there is no search for a
speed. A generator is never opened, a port that somebody holds neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dollyd.daemon.host.machine import Host
from dollyd.drivers import DRIVERS
from dollyd.drivers.framing import Frame, LineDecoder
from dollyd.drivers.protocols.cammegh_ss2 import lines as ss2
from dollyd.drivers.protocols.tlp import sentence as tlp
from dollyd.drivers.transports.serial import SerialSettings, SerialTransport
from dollyd.wire.errors import TransportError

LISTEN_S = 1.6
"""Both languages have a line every 0.5 s."""
ANSWER_S = 0.6
_TLP_ROLES = {"WH": "wheel", "MW": "wheel", "BD": "ball", "OD": "odds", "DC": "dice", "CN": "console"}
_TLP_HELLO = ("protocol", "kind", "vendor", "model", "serial", "firmware", "boot")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answered. `driver` is empty where nobody did; `note` says why not."""

    driver: str = ""
    role: str = ""
    said: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Language:
    """How a driver's devices are known. `role_of`: empty for a line of another language."""

    driver: str
    role_of: Callable[[bytes], str]
    questions: Callable[[bytes], tuple[bytes, ...]]
    said: Callable[[bytes], Mapping[str, str]]


async def who_is_there(host: Host, node: str) -> Identity:
    """Listen at a port that nobody holds, for some seconds. Never raises for what is there."""
    bytes_heard = 0
    for language in _LANGUAGES:
        ear = _Ear(host, node, language)
        try:
            identity = await ear.listen()
        except TransportError as error:
            return Identity(note=str(error))
        if identity is not None:
            return identity
        bytes_heard += ear.bytes
    if bytes_heard:
        return Identity(note="something speaks, and no language that is known by listening")
    return Identity(note="silent")


class _Ear:
    """One port at one speed."""

    def __init__(self, host: Host, node: str, language: _Language) -> None:
        defaults = DRIVERS[language.driver].serial
        baud = defaults.baud if defaults is not None else 0
        self.bytes = 0
        self._transport = SerialTransport(SerialSettings(str(host.path(node)), baud))
        self._language = language
        self._framing = LineDecoder()
        self._lines: list[bytes] = []
        self._news = asyncio.Event()

    async def listen(self) -> Identity | None:
        """Raises `TransportError`."""
        await self._transport.open(self._on_data, lambda _: self._news.set())
        try:
            return await self._know()
        finally:
            self._transport.close()
            await self._transport.closed()  # the next language opens the same port

    async def _know(self) -> Identity | None:
        line = await self._first_of(self._language.role_of)
        if line is None:
            return None
        questions = self._language.questions(line)
        for question in questions:
            self._transport.write(question)
        if questions:
            await asyncio.sleep(ANSWER_S)
        said: dict[str, str] = {}
        for one in self._lines:
            said |= self._language.said(one)
        note = "" if said else "in play, so it was not asked who it is"
        return Identity(self._language.driver, self._language.role_of(line), said, note)

    async def _first_of(self, known: Callable[[bytes], str]) -> bytes | None:
        """The first line of the language."""
        try:
            async with asyncio.timeout(LISTEN_S):
                while not (mine := [line for line in self._lines if known(line)]):
                    self._news.clear()
                    await self._news.wait()
                return mine[0]
        except TimeoutError:
            return None

    def _on_data(self, data: bytes) -> None:
        self.bytes += len(data)
        self._lines += [frame.raw for frame in self._framing.feed(data) if isinstance(frame, Frame)]
        del self._lines[:-50]
        self._news.set()


# --- the languages -------------------------------------------------------------------------------


def _ss2_role(raw: bytes) -> str:
    return "wheel" if isinstance(ss2.parse(raw), ss2.StatusLine) else ""


def _ss2_questions(raw: bytes) -> tuple[bytes, ...]:
    line = ss2.parse(raw)
    closed = isinstance(line, ss2.StatusLine) and line.state is ss2.State.CLOSED
    return (b"*V\r\n", b"*T Z\r\n") if closed else ()


def _ss2_said(raw: bytes) -> Mapping[str, str]:
    line = ss2.parse(raw)
    return ss2.said_of_itself(line) if line is not None else {}


def _tlp_role(raw: bytes) -> str:
    sentence = tlp.parse(raw)
    return _TLP_ROLES.get(sentence.talker, "") if sentence is not None else ""


def _tlp_questions(_raw: bytes) -> tuple[bytes, ...]:
    return (tlp.build(tlp.Sentence("HC", "QRY", 0, ())),)


def _tlp_said(raw: bytes) -> Mapping[str, str]:
    sentence = tlp.parse(raw)
    if sentence is None or sentence.message != "HEL":
        return {}
    return {name: sentence.field(index) for index, name in enumerate(_TLP_HELLO)}


_LANGUAGES = (
    _Language("cammegh-ss2", _ss2_role, _ss2_questions, _ss2_said),
    _Language("tlp", _tlp_role, _tlp_questions, _tlp_said),
)
