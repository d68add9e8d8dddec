"""The commands of the TLP/1 devices and of the generators, each at a real pseudo-terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.simulators.test_cli import order, read_until, simulator, truths
from typer.testing import CliRunner

from dollyd.simulators.__main__ import app


@pytest.mark.parametrize(
    ("arguments", "hello"),
    [
        (("tlp-wheel", "--layout", "roulette-american", "--serial", "X1"), b"HEL,0,1,WHEEL,ACME,W37,X1,"),
        (("tlp-wheel", "--boule"), b"HEL,0,1,BOULE,"),
        (("ball-detector",), b"HEL,0,1,BALL,"),
        (("money-wheel", "--sectors", "52"), b"HEL,0,1,MONEY,"),
        (("dice-camera", "--dice", "3"), b"HEL,0,1,DICE,"),
    ],
)
def test_device_says_hello_plays_and_tells_the_truth(
    tmp_path: Path, arguments: tuple[str, ...], hello: bytes
) -> None:
    link = tmp_path / "device"
    with simulator(
        link, *arguments, "--period-ms", "5", "--json", "--games", "3", "--first-game", "40"
    ) as process:
        port = os.open(link, os.O_RDWR | os.O_NOCTTY)
        order(process, "power-off")
        order(process, "power-on")
        read_until(port, hello)
        read_until(port, b"RES,")
        games = truths(process, 3)
        os.close(port)
        assert process.wait(10) == 0
    numbers = [int(str(game["game"])) for game in games]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    assert numbers[0] >= 40
    assert list(tmp_path.iterdir()) == []


def test_console_obeys(tmp_path: Path) -> None:
    link = tmp_path / "console"
    with simulator(link, "console", "--badge", "B3", "--period-ms", "5", "--json") as process:
        port = os.open(link, os.O_RDWR | os.O_NOCTTY)
        order(process, "key VOID 12")
        order(process, "badge B4")
        order(process, "key HELP")
        assert [(one["key"], one["value"]) for one in truths(process, 2)] == [("VOID", "12"), ("BADGE", "B4")]
        read_until(port, b"EVT,")
        os.close(port)
        order(process, "quit")
        assert process.wait(10) == 0


def test_generators_stream(tmp_path: Path) -> None:
    link = tmp_path / "rng"
    with simulator(link, "truerng", "--fault", "rng-stuck") as process:
        port = os.open(link, os.O_RDWR | os.O_NOCTTY)
        read_until(port, b"\xa5" * 200)
        os.close(port)
        process.terminate()
        assert process.wait(10) == 0
    with simulator(link, "onerng") as process:
        port = os.open(link, os.O_RDWR | os.O_NOCTTY)
        os.write(port, b"cmdv\n")
        assert read_until(port, b"\n") == b"Version 3.0\r\n"
        os.write(port, b"cmdO\n")
        assert read_until(port, b"\x00")
        os.close(port)
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["tlp-wheel", "--layout", "roulette-martian"], "roulette-martian"),
        (["money-wheel", "--fault", "wheel-few-laps"], "wheel-few-laps"),
        (["dice-camera", "--dice", "4"], "--dice"),
    ],
)
def test_mistakes_are_named(arguments: list[str], what: str) -> None:
    command = [*arguments, "--link", "/tmp/never-made"]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 2
    assert what in result.output
    assert not Path("/tmp/never-made").is_symlink()
