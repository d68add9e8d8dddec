"""Scenario files: checked before anything starts, played in virtual time and by the command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dollyd.simulators.clock import VirtualClock
from dollyd.simulators.evening import Evening, check
from dollyd.simulators.faults import Switchboard
from dollyd.simulators.scenario import load
from dollyd.wire.errors import ConfigError
from dollyd.wire.stamp import NS_PER_S

SHIPPED = sorted((Path(__file__).parents[2] / "config" / "examples" / "scenarios").glob("*.toml"))
SMALL = """
name = "a short one"
games = 3
games_of = "wheel"
seed = 5
[devices.wheel]
kind = "tlp-wheel"
[devices.ball]
kind = "ball-detector"
options = { watches = "wheel" }
[devices.console]
kind = "console"
[[orders]]
at_game = 1
device = "wheel"
order = "number 17"
[[orders]]
at_game = 2
device = "wheel"
order = "fault wheel-few-laps"
[[orders]]
every_game = true
state = 3
after_s = 1
device = "console"
order = "key NMB"
[[orders]]
at_s = 20
device = "ball"
order = "unplug"
"""


class Port:
    """A link that keeps what was sent and says when its cable was moved."""

    def __init__(self) -> None:
        self.faults = Switchboard("port")
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.host_came: Callable[[], None] = lambda: None
        self.sent = b""
        self.moves: list[str] = []

    def write(self, data: bytes) -> None:
        if self.moves[-1] == "plug":
            self.sent += data

    def plug(self) -> None:
        self.moves.append("plug")

    def unplug(self) -> None:
        self.moves.append("unplug")


def written(tmp_path: Path, text: str = SMALL) -> Path:
    file = tmp_path / "evening.toml"
    file.write_text(text, "utf-8")
    return file


async def play(file: Path, longest_s: int = 40_000) -> tuple[list[dict[str, Any]], dict[str, Port]]:
    """The truth and the ports of a scenario in virtual time."""
    clock, truth, ports = VirtualClock(), list[dict[str, Any]](), dict[str, Port]()
    evening = Evening(load(file), clock, lambda name: ports.setdefault(name, Port()), truth.append)
    run = asyncio.create_task(evening.run())
    for _ in range(longest_s):
        await clock.run_for(NS_PER_S)
        if run.done():
            break
    await asyncio.wait_for(run, 30)
    return truth, ports


def scenario(name: str) -> Path:
    return next(file for file in SHIPPED if file.stem == name)


def of(truth: list[dict[str, Any]], device: str) -> list[dict[str, Any]]:
    return [one for one in truth if one.get("device") == device and "kind" in one]


async def test_a_short_evening(tmp_path: Path) -> None:
    truth, ports = await play(written(tmp_path))
    assert truth[0] == {"scenario": "a short one", "seed": 5, "games": 3}
    assert truth[-1] == {"end": "games"}
    games = of(truth, "wheel")
    assert [game["outcome"] for game in games] == ["completed"] * 3
    assert games[0]["number"] == "17"
    assert games[1]["laps"] <= 3 < games[2]["laps"]
    assert [key["key"] for key in of(truth, "console")] == ["NMB"] * 3
    assert [run["laps"] for run in of(truth, "ball")] == [game["laps"] for game in games]
    assert set(ports) == {"wheel", "ball", "console"}
    assert ports["ball"].moves == ["plug", "unplug", "unplug"]
    assert ports["wheel"].sent.count(b"$WHRES") > 20
    assert [one["game"] for one in truth if "order" in one and one["device"] == "console"] == [1, 2, 3]


async def test_the_same_evening_twice_is_the_same(tmp_path: Path) -> None:
    file = written(tmp_path)
    (truth, ports), (truth_again, ports_again) = await play(file), await play(file)
    assert truth == truth_again
    assert {name: port.sent for name, port in ports.items()} == {
        name: port.sent for name, port in ports_again.items()
    }


async def test_an_evening_ends_by_itself_where_a_device_hangs(tmp_path: Path) -> None:
    text = SMALL.replace("games = 3", "games = 3\nlongest_s = 60").replace("few-laps", "stuck-in-4")
    truth, _ = await play(written(tmp_path, text), 100)
    assert truth[-1] == {"end": "time"}
    assert len(of(truth, "wheel")) == 1


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_scenarios_are_sound(file: Path) -> None:
    check(load(file))


async def test_money_wheel_evening() -> None:
    truth, _ = await play(scenario("money-wheel-evening"))
    games = dict(enumerate(of(truth, "wheel"), start=1))
    assert (games[3]["sector"], games[4]["sector"]) == (1, 32)
    assert [games[place]["passes"] for place in (6, 8)] == [215, 216]
    assert (games[11]["outcome"], games[14]["touched_at"], games[25]["outcome"]) == ("on-pin", 230, "aborted")
    assert len(games) == 30
    assert sum(key["key"] == "NMB" for key in of(truth, "console")) == 30


async def test_dice_night() -> None:
    truth, _ = await play(scenario("dice-night"))
    first, second = of(truth, "camera-1"), of(truth, "camera-2")
    assert (first[2]["faces"], first[36]["faces"]) == ((3, 4), (6, 6))
    assert [first[place]["flags"] for place in (5, 8, 11, 14)] == [0x01, 0x100, 0x200, 0x02]
    assert first[20]["read"] != second[20]["read"]
    assert len(first) == 40
    assert len(second) in {38, 39}


async def test_roulette_b_evening() -> None:
    truth, ports = await play(scenario("roulette-b-evening"))
    games = of(truth, "wheel")
    assert [game["outcome"] for game in games].count("aborted") == 2
    assert [games[place]["pocket"] for place in (24, 25)] == [" 0", " 0"]
    assert games[3]["relaunched"]
    assert ports["wheel"].moves == ["plug", "unplug", "plug", "unplug"]


def test_three_are_shipped() -> None:
    assert [file.stem for file in SHIPPED] == ["dice-night", "money-wheel-evening", "roulette-b-evening"]


@pytest.mark.parametrize(
    ("old", "new", "key", "says"),
    [
        ("games = 3", "games = 0", "games", "Expected `int` >= 1"),
        ("games = 3", "gaems = 3", "", "unknown field `gaems`"),
        ('games_of = "wheel"', 'games_of = "console"', "games_of", "give one of wheel, ball"),
        ('kind = "console"', 'kind = "konsole"', "devices.console.kind", "no kind 'konsole'"),
        (
            'kind = "console"',
            'kind = "console"\nlink = "wheel"',
            "devices.console.link",
            "is the port of wheel",
        ),
        ('kind = "console"', 'kind = "console"\nlink = "../wheel"', "devices[...].link", "Expected `str`"),
        ('watches = "wheel"', 'watches = "whee"', "devices.ball.options", "named 'whee'"),
        ('watches = "wheel"', "colour = 1", "devices.ball.options", "no option 'colour'"),
        ('watches = "wheel"', "serial = 1", "devices.ball.options", "Expected `str`"),
        ("number 17", "number 37", "orders[0].order", "no pocket '37'"),
        ("wheel-few-laps", "dice-cocked", "orders[1].order", "has no fault 'dice-cocked'"),
        ("key NMB", "key HELP", "orders[2].order", "no key 'HELP'"),
        ('"unplug"', '"pull"', "orders[3].order", "unknown order 'pull'"),
        ('"unplug"', '"quit"', "orders[3].order", "unknown order 'quit'"),
        ("at_s = 20", "at_s = 20\nat_game = 1", "orders[3]", "give one of at_s, at_game"),
        ("at_game = 2", "at_game = 9", "orders[1].at_game", "there are only 3 games"),
        ('device = "ball"', 'device = "bell"', "orders[3].device", "no device 'bell'"),
        ("[[orders]]", "[[orders", "", "is not TOML"),
    ],
)
def test_mistakes_are_one_line_with_file_key_and_remedy(
    tmp_path: Path, old: str, new: str, key: str, says: str
) -> None:
    file = written(tmp_path, SMALL.replace(old, new))
    with pytest.raises(ConfigError) as raised:
        check(load(file))
    assert (raised.value.file, raised.value.key) == (str(file), key)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.toml")


# --- the command line -------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dollyd.simulators", "scenario", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_by_command_line(tmp_path: Path) -> None:
    directory = tmp_path / "evening"
    ended = run(str(written(tmp_path)), "--dir", str(directory), "--period-ms", "5")
    assert (ended.returncode, ended.stderr) == (0, "")
    truth = [json.loads(line) for line in (directory / "truth.jsonl").read_text().splitlines()]
    assert truth[-1] == {"end": "games"}
    assert len(of(truth, "wheel")) == 3
    assert sorted(path.name for path in directory.iterdir()) == ["truth.jsonl"], "ports are gone"


def test_a_mistake_by_command_line(tmp_path: Path) -> None:
    file = written(tmp_path, SMALL.replace("number 17", "number 99"))
    ended = run(str(file), "--dir", str(tmp_path / "evening"))
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert f"{file}: orders[0].order: no pocket '99'" in ended.stderr
    assert not (tmp_path / "evening").exists()
