"""The game of `docs/adding-a-game.md` is added from the page itself and played to its records."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from tests.support.tables import Play, game

from dollyd.daemon.core.events import DrawFacts, Flag, GameStarted, Permitted
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.spec import Drawn, Game
from dollyd.daemon.core.state import Setup
from dollyd.daemon.settings.load import load
from dollyd.drivers import DRIVERS
from dollyd.drivers.spec import Place
from dollyd.wire.errors import ConfigError
from dollyd.wire.record import Kind, encode

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding-a-game.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
MODULE, LINE = (text for language, text in BLOCKS if language == "python")
RULEBOOK, PROFILE, TABLE = (text for language, text in BLOCKS if language == "toml")
HEAD = """
site = "s"
node = "n"
journal = { path = "journal.db" }
signing = { key = "signing.pem" }
"""


@pytest.fixture
def two_up(monkeypatch: pytest.MonkeyPatch) -> Game:
    """The page's module and its line in the table; the dice camera is said to read coins too."""
    module = ModuleType("two_up")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # where msgspec looks for its names
    exec(compile(MODULE, module.__name__, "exec"), module.__dict__)
    added = eval("{" + LINE + "}", module.__dict__)
    assert len(LINE.splitlines()) == len(added) == 1
    for name, one in added.items():
        monkeypatch.setitem(GAMES, name, one)
    camera = DRIVERS["tlp"]
    place = camera.roles["dice"]
    roles = {**camera.roles, "dice": Place(place.games | added.keys(), place.proves)}
    monkeypatch.setitem(DRIVERS, "tlp", replace(camera, roles=roles))
    return GAMES["two-up"]


def written(folder: Path, table: str = TABLE) -> Path:
    """The page's files, as a technician would lay them down."""
    (folder / "house-two-up.toml").write_text(RULEBOOK)
    (folder / "house.toml").write_text(PROFILE)
    path = folder / "dollyd.toml"
    path.write_text(HEAD + table)
    return path


@pytest.fixture
def setup(two_up: Game, tmp_path: Path) -> Setup:
    return load(written(tmp_path)).tables["two-up-1"].setup


def toss(play: Play, faces: str, number: int) -> Any:
    play.dice_ready(number).thrown(faces, number)
    return play.bodies(Kind.RESULT)[-1].outcome


def test_the_game_is_not_shipped() -> None:
    assert "two-up" not in GAMES


def test_every_toss_has_its_attributes(two_up: Game) -> None:
    known = {"HH": "heads", "HT": "odds", "TH": "odds", "TT": "tails"}
    assert ["".join(value) for value in two_up.values(None)] == list(known)
    for value in two_up.values(None):
        told = two_up.outcome(Drawn(value, None, None, ()))
        assert told["toss"] == known["".join(value)]
        assert told["odds_in_a_row"] == (1 if told["toss"] == "odds" else 0)


def test_the_configuration_of_the_page_makes_a_table(setup: Setup) -> None:
    assert (setup.game.name, setup.variant.odds["five_odds"]) == ("two-up", 25)
    assert setup.rulebook.id == "house/two-up"
    assert setup.rules.void_declarers == {"dealer", "inspector"}
    assert setup.witnesses == ("camera",)


def test_a_round_is_played_to_its_record(setup: Setup) -> None:
    play = Play(setup).dice_round("H-T")
    assert play.kinds == [Kind.SESSION, Kind.ROUND, Kind.BETS_CLOSED, Kind.RESULT]
    record = msgspec.json.decode(encode(play.body(Kind.RESULT)))
    assert record["setting"]["game"] == "two-up"
    assert record["setting"]["rulebook"]["id"] == "house/two-up"
    assert record["outcome"] == {"coin_1": "H", "coin_2": "T", "toss": "odds", "odds_in_a_row": 1}


def test_the_game_remembers_from_round_to_round(setup: Setup) -> None:
    play = Play(setup)
    tossed = ["H-T", "T-H", "T-T", "H-T"]
    assert [toss(play, faces, n)["odds_in_a_row"] for n, faces in enumerate(tossed, 1)] == [1, 2, 0, 1]


def test_a_toss_is_rejected_as_a_throw_of_dice_is(setup: Setup) -> None:
    play = Play(setup).dice_ready()
    play.thrown("H-H", facts=DrawFacts(flags=(Flag.OUTSIDE_AREA,)))
    assert play.body(Kind.THROW_REJECTED).rule == "outside-area"
    play.tell(GameStarted(game(2, "camera")), Permitted("d1"))
    assert play.thrown("H-H", 2).body(Kind.RESULT).outcome["toss"] == "heads"


def test_a_coin_on_its_edge_is_no_result(setup: Setup) -> None:
    play = Play(setup).dice_round("H-E")
    assert play.body(Kind.UNRESOLVED).rule == "not-on-wheel"


def test_what_does_not_fit_is_said_with_its_key(two_up: Game, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, TABLE.replace('variant = "standard"', 'variant = "best"')))
    assert caught.value.key == "tables.two-up-1.variant"
