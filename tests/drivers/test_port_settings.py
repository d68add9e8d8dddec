"""Another program sets an open serial port otherwise; on real pseudo-terminals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest
from tests.support.pty_pair import PtyPair, until
from tests.support.scripted import GOOD, Script, Table, running

from dollyd.daemon.table.session import DeviceSession
from dollyd.drivers.framing import LineDecoder
from dollyd.drivers.transports.serial import SerialSettings, SerialTransport
from dollyd.simulators.clock import settle
from dollyd.wire.stamp import NS_PER_S

SETTER = """
import os, sys, termios
port = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
settings = termios.tcgetattr(port)
settings[4] = settings[5] = termios.B115200
termios.tcsetattr(port, termios.TCSANOW, settings)
print("set", flush=True)
sys.stdin.read()
"""
SETTINGS = {
    "speed": ["115200"],
    "cooked-with-echo": ["cooked", "echo"],
    "flow-control": ["ixon"],
    "carriage-return": ["icrnl"],
    "format": ["cstopb"],
}


@pytest.fixture
def pty(tmp_path: Path) -> Iterator[PtyPair]:
    with PtyPair(tmp_path / "wheel") as pair:
        yield pair


@pytest.fixture
async def line(pty: PtyPair) -> AsyncIterator[SerialTransport]:
    transport = SerialTransport(SerialSettings(str(pty.port), baud=9600))
    yield transport
    transport.close()


@pytest.mark.parametrize("what", SETTINGS)
@pytest.mark.parametrize("speaks", [True, False])
async def test_n7_a_port_that_another_program_sets_otherwise_is_opened_anew(
    pty: PtyPair, line: SerialTransport, what: str, speaks: bool
) -> None:
    script, table = Script(None), Table()  # for its clock
    session = DeviceSession("wheel", line, LineDecoder(), table, clock=script.clock, random=Random(1))
    async with running(session):
        await until(lambda: table.told == ["opened"], "opened")
        subprocess.run(["stty", "-F", str(pty.port), *SETTINGS[what]], check=True)  # noqa: ASYNC221  short
        assert line.altered()
        if speaks:
            pty.send(GOOD)
        else:
            await script.clock.run_for(2 * NS_PER_S)
        await until(lambda: len(table.told) > 1, "lost")
        assert table.told[1] == "lost settings-changed"
        assert table.frames == [], "what came by other settings is not believed"
        await settle()
        await script.clock.run_for(NS_PER_S)
        await until(lambda: table.told[2:] == ["opened"], "opened anew")
        assert not line.altered()
        pty.send(GOOD)
        await until(lambda: len(table.frames) == 1, "heard")
        assert session.cause == ""
        assert session.counters["lost.settings-changed"] == 1


async def test_n7_who_has_the_port_open_and_what_differs_is_said(pty: PtyPair, line: SerialTransport) -> None:
    await line.open(lambda _: None, lambda _: None)
    with subprocess.Popen(  # noqa: ASYNC220  the test waits for it anyway
        [sys.executable, "-SEc", SETTER, str(pty.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as setter:
        assert setter.stdout is not None
        assert setter.stdin is not None
        assert setter.stdout.readline() == b"set\n"
        assert line.altered()
        text = line.explain("settings-changed")
        assert text.startswith("control modes, input speed, output speed changed by ")
        assert f"(pid {setter.pid})" in text
        assert f"(pid {os.getpid()})" not in text
        setter.stdin.close()
