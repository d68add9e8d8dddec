"""What `dollyd demo --all` counts as seen, and that its tables are the shipped examples."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.chains import ChainMaker, signer

from dollyd.daemon.settings.load import load
from dollyd.simulators.demo.evidence import Seen, judge
from dollyd.simulators.demo.pit import Truth, lay_out
from dollyd.simulators.demo.pit_checks import EXPECTATIONS, came
from dollyd.simulators.demo.tables import TABLES
from dollyd.simulators.evening import check
from dollyd.wire.record import Kind

EXAMPLES = files("dollyd").joinpath("config", "examples")
HEAD = 'site = "s"\nnode = "n"\n[journal]\npath = "j"\n[signing]\nkey = "k"\n'


@pytest.mark.parametrize("table", TABLES)
def test_every_evening_can_be_played(table: str) -> None:
    check(TABLES[table].evening)


def test_every_shipped_example_is_a_table_of_the_demo() -> None:
    shipped = {
        entry.name.removesuffix(".toml") for entry in EXAMPLES.iterdir() if entry.name.endswith(".toml")
    }
    assert shipped == {table.example for table in TABLES.values()}
    for name, table in TABLES.items():
        tree = tomllib.loads(EXAMPLES.joinpath(f"{table.example}.toml").read_text("utf-8"))
        assert list(tree["tables"]) == [name]


def test_the_demo_changes_nothing_of_an_example_but_what_belongs_to_a_laptop(tmp_path: Path) -> None:
    (tmp_path / "dollyd.toml").write_text(HEAD + lay_out(tmp_path))
    demonstrated = tomllib.loads((tmp_path / "dollyd.toml").read_text())["tables"]
    for name, table in TABLES.items():
        (shipped,) = tomllib.loads(EXAMPLES.joinpath(f"{table.example}.toml").read_text("utf-8"))[
            "tables"
        ].values()
        assert demonstrated[name]["profile"] == f"{shipped['profile']}.toml"
        for device, told in shipped["devices"].items():
            there = demonstrated[name]["devices"][device]
            assert there["port"] == str(tmp_path / f"{name}-{device}")
            kept = told.keys() - {"port"}
            assert {key: there[key] for key in kept} == {key: told[key] for key in kept}
        kept = shipped.keys() - {"devices", "profile"}
        assert {key: demonstrated[name][key] for key in kept} == {key: shipped[key] for key in kept}
    settings = load(tmp_path / "dollyd.toml")
    assert {table.setup.unresolved_void_ms for table in settings.tables.values()} == {2_000}


DICE = {"device": "camera-1", "outcome": "completed"}
GAMES: Truth = {name: [] for name in TABLES} | {
    "craps-1": [
        {"order": "faces 3 1", "device": "camera-1"},
        *(DICE | {"faces": faces, "end_ns": 10 * n} for n, faces in enumerate([(3, 1), (2, 3), (2, 2)], 1)),
    ]
}


def roll(faces: tuple[int, int], at_ns: int, phase: str, **point: int) -> dict[str, Any]:
    outcome = {"die_1": faces[0], "die_2": faces[1], "sum": sum(faces), "pair": faces[0] == faces[1]}
    witness = {"device": "camera-1", "game": f"camera-1/1/{at_ns}", "value": list(map(str, faces))}
    times = {"at_rest": {"monotonic_ns": at_ns}}
    return {
        "outcome": outcome | {"phase": phase} | point,
        "evidence": {"times": times, "witnesses": [witness, witness | {"device": "camera-2"}]},
    }


ROLLS = [
    roll((3, 1), 12, "come-out"),
    roll((2, 3), 22, "point", point=4),
    roll((2, 2), 32, "point", point=4),
]


def missing_of_craps(rolls: list[dict[str, Any]], games: Truth = GAMES) -> dict[str, str]:
    maker = ChainMaker("craps-1").begin()
    maker.add(Kind.ROUND, 1)
    for number, body in enumerate(rolls, 1):
        maker.add(Kind.RESULT, number, body)
    keys = msgspec.json.encode({"keys": [signer().jwk]})
    records = tuple(maker.envelopes)
    seen = Seen(games, records, 0, records, keys, 0, "good", "derived")
    of_craps = [finding for finding in judge(seen, EXPECTATIONS) if finding.expected.startswith("craps")]
    return {finding.expected.removeprefix("craps: "): finding.missing for finding in of_craps}


def test_what_lay_there_is_told_by_the_device_s_own_story() -> None:
    assert came(GAMES, "craps-1", 9) == {}
    assert came(GAMES, "craps-1", 29) == {"die_1": 2, "die_2": 3, "sum": 5, "pair": False}


def test_rolls_as_they_were_are_seen_and_what_did_not_happen_is_missing() -> None:
    missing = missing_of_craps(ROLLS)
    assert missing["results as the dice lay"] == ""
    assert missing["phase and point at the start of every roll"] == ""
    assert missing["both cameras have read every result"] == ""
    assert "outside-area" in missing["a die outside the area is thrown again"]
    assert "witnesses-disagree" in missing["cameras that disagree leave the roll unresolved"]


def test_another_face_than_the_dice_showed_is_found() -> None:
    wrong = [*ROLLS[:2], roll((3, 3), 32, "point", point=4)]
    assert "round 3 says" in missing_of_craps(wrong)["results as the dice lay"]


def test_a_wrong_phase_is_found() -> None:
    wrong = [*ROLLS[:2], roll((2, 2), 32, "come-out")]
    assert "it was ('point', 4)" in missing_of_craps(wrong)["phase and point at the start of every roll"]


def test_a_game_without_a_record_is_found() -> None:
    lost = [*GAMES["craps-1"], DICE | {"faces": (1, 1), "end_ns": 1 << 62}]
    missing = missing_of_craps(ROLLS, GAMES | {"craps-1": lost})
    assert missing["results as the dice lay"] == "4 games played, 3 in records"


def test_too_few_results_are_not_enough() -> None:
    assert missing_of_craps(ROLLS[:2])["results as the dice lay"] == "2 results"
