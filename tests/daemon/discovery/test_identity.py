"""Who is behind a port, on real pseudo-terminals: listened to first, asked only in its own language."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.pty_pair import PtyPair
from tests.support.simulated_table import SimulatedTable

from dollyd.daemon.discovery import identity
from dollyd.daemon.discovery.identity import Identity, who_is_there
from dollyd.daemon.host.machine import Host
from dollyd.drivers.transports.serial import SerialSettings, SerialTransport


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "LISTEN_S", 0.4)
    monkeypatch.setattr(identity, "ANSWER_S", 0.2)


async def test_a_closed_wheel_says_who_it_is_and_an_odds_box_too(tmp_path: Path) -> None:
    async with SimulatedTable(tmp_path) as table:
        table.play()
        wheel, odds = await asyncio.gather(
            *(who_is_there(Host(), str(tmp_path / name)) for name in ("r1-wheel", "r1-odds"))
        )
    assert (wheel.driver, wheel.role, wheel.said["pockets"]) == ("cammegh-ss2", "wheel", "37")
    assert wheel.said["firmware"].startswith("V2.")
    assert (odds.driver, odds.role) == ("tlp", "odds")
    assert odds.said["serial"]


class Recorder:
    """A device that says the same line again and again, and keeps what it is told."""

    def __init__(self, pty: PtyPair, line: bytes) -> None:
        self._pty = pty
        self._line = line
        self.told = b""

    async def speak(self) -> None:
        while True:
            self._pty.send(self._line)
            await asyncio.sleep(0.05)
            self.told += self._pty.received()


@contextmanager
def plugged(tmp_path: Path) -> Iterator[PtyPair]:
    """A port that does not end with its last user, as none on a real adapter does."""
    with PtyPair(tmp_path / "port") as pty:
        also = os.open(pty.port, os.O_RDWR | os.O_NOCTTY)
        try:
            yield pty
        finally:
            os.close(also)


async def heard(tmp_path: Path, line: bytes) -> tuple[Identity, bytes]:
    with plugged(tmp_path) as pty:
        recorder = Recorder(pty, line)
        speaking = asyncio.create_task(recorder.speak())
        who = await who_is_there(Host(), str(pty.port))
        speaking.cancel()
        await asyncio.wait({speaking})
        return who, recorder.told + pty.received()


async def test_a_wheel_in_play_is_known_and_not_asked(tmp_path: Path) -> None:
    who, told = await heard(tmp_path, b"*X;3;017;12;0;170;0\r\n")
    assert (who.driver, who.role, told) == ("cammegh-ss2", "wheel", b"")
    assert "in play" in who.note


async def test_a_closed_wheel_is_asked_two_questions_that_disturb_nothing(tmp_path: Path) -> None:
    _, told = await heard(tmp_path, b"*X;6;017;12;0;000;0\r\n")
    assert told == b"*V\r\n*T Z\r\n"


@pytest.mark.parametrize("line", [b"AT+CGMI\r\n", b"*Q what\r\n", b"\xff\x00\x80garbage\r\n"])
async def test_who_speaks_another_language_is_told_nothing(tmp_path: Path, line: bytes) -> None:
    who, told = await heard(tmp_path, line)
    assert (who.driver, told) == ("", b"")
    assert "no language" in who.note


async def test_who_is_silent_is_told_nothing(tmp_path: Path) -> None:
    with plugged(tmp_path) as pty:
        assert await who_is_there(Host(), str(pty.port)) == Identity(note="silent")
        assert pty.received() == b""


async def test_b11_a_port_that_is_locked_is_left_alone(tmp_path: Path) -> None:
    with PtyPair(tmp_path / "port") as pty:
        other = SerialTransport(SerialSettings(str(pty.port), 9600))
        await other.open(lambda _: None, lambda _: None)
        assert await who_is_there(Host(), str(pty.port)) == Identity(note="busy")
        other.close()
