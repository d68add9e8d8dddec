"""Schemas, AsyncAPI document and vectors are what the code says, and what the code says fits what is sent."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator
from tests.support.chains import ChainMaker
from tools.agree.__main__ import played_night
from tools.schemas.__main__ import FOLDERS, WIRE_FORMAT, generated
from tools.schemas.asyncapi import CHANNELS, NO_CHANNELS, address
from tools.schemas.evening import example_outcome, whole_evening
from tools.schemas.payloads import record_name, schemas

from dollyd.daemon.core.games import GAMES
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import BODIES, FINAL_KINDS, Kind
from dollyd.wire.topics import Topics

SCHEMAS = schemas()
ASYNCAPI = Path(__file__).resolve().parents[2] / "docs" / "asyncapi.yaml"


def strict(schema: Any) -> Any:
    """The schema, with members that it does not name forbidden."""
    if isinstance(schema, dict):
        closed = {key: strict(value) for key, value in schema.items()}
        if "properties" in schema and isinstance(schema.get("type"), str):
            closed.setdefault("additionalProperties", False)
        return closed
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


def problems(name: str, payload: bytes) -> list[str]:
    validator = Draft202012Validator(strict(SCHEMAS[name]))
    return [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(json.loads(payload))]


def test_nothing_has_drifted() -> None:
    files = generated()
    changed = [path.name for path, data in files.items() if not path.exists() or path.read_bytes() != data]
    assert changed == [], "run `make schemas`"
    assert [path.name for folder in FOLDERS for path in folder.iterdir() if path not in files] == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])


def test_every_kind_of_record_fits_its_schema() -> None:
    told = set()
    for envelope in [*whole_evening().envelopes, *played_night()]:
        assert problems("envelope", envelope) == []
        payload = parse_envelope(envelope).payload
        kind = json.loads(payload)["kind"]
        assert problems(f"record-{kind}", payload) == [], kind
        told.add(kind)
    assert told == {kind.value for kind in BODIES}


def test_a_record_that_lacks_something_does_not_fit() -> None:
    payload = json.loads(parse_envelope(whole_evening().envelopes[4]).payload)
    assert payload["kind"] == Kind.RESULT
    name = record_name(Kind.RESULT)
    for path in (["seq"], ["time", "utc"], ["body", "outcome"], ["body", "evidence", "capture", "digest"]):
        damaged = copy.deepcopy(payload)
        inner = damaged
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]
        assert problems(name, msgspec.json.encode(damaged)) != [], path
    assert problems(name, msgspec.json.encode(payload | {"kind": "void"})) != []
    assert problems(name, msgspec.json.encode(payload | {"surplus": 1})) != []
    assert problems("envelope", ChainMaker().begin().envelopes[0].replace(b'"}', b'="}')) != []


def record_of(kind: Kind) -> dict[str, Any]:
    """The first record of a kind in the evening."""
    read = (json.loads(parse_envelope(envelope).payload) for envelope in whole_evening().envelopes)
    return next(record for record in read if record["kind"] == kind)


def changed(record: dict[str, Any], path: str, value: Any) -> bytes:
    damaged = copy.deepcopy(record)
    inner = damaged
    *steps, last = path.split(".")
    for step in steps:
        inner = inner[step]
    inner[last] = value
    return msgspec.json.encode(damaged)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        (Kind.RESULT, "surplus", 1),
        (Kind.RESULT, "body.surplus", 1),
        (Kind.RESULT, "body.outcome.surplus", 1),
        (Kind.RESULT, "body.outcome.colour", "blue"),
        (Kind.RESULT, "body.outcome.pocket", "37"),
        (Kind.RESULT, "body.outcome", {"number": "5", "cup": 1}),
        (Kind.RESULT, "body.setting.game", "ludo"),
        (Kind.RESULT, "body.mode", "guessed"),
        (Kind.CORRECTION, "body.before.outcome.colour", "blue"),
        (Kind.CORRECTION, "body.after.outcome", {"die_1": 1}),
        (Kind.VOID, "body.rule", "because"),
        (Kind.VOID, "body.stake_policy", "kept"),
        (Kind.UNRESOLVED, "body.rule", "declared"),
        (Kind.THROW_REJECTED, "body.rule", "data-gap"),
    ],
)
def test_schemas_of_records_are_closed_and_typed_by_game(kind: Kind, path: str, value: Any) -> None:
    record = record_of(kind)
    validator = Draft202012Validator(SCHEMAS[record_name(kind)])
    assert list(validator.iter_errors(record)) == []
    assert list(validator.iter_errors(json.loads(changed(record, path, value)))) != []


@pytest.mark.parametrize("game", GAMES)
def test_an_outcome_of_every_game_fits_where_its_game_is_played(game: str) -> None:
    record = record_of(Kind.RESULT)
    record["body"]["setting"]["game"] = game
    record["body"]["outcome"] = example_outcome(game)
    name = record_name(Kind.RESULT)
    assert problems(name, msgspec.json.encode(record)) == []
    for other in GAMES.keys() - {game}:
        assert problems(name, changed(record, "body.setting.game", other)) != [], other


def test_the_page_has_an_example_of_every_kind_of_record() -> None:
    blocks = re.findall(r"```json\n(.*?)\n```", WIRE_FORMAT.read_text("utf-8"), re.DOTALL)
    shown = [json.loads(block) for block in blocks]
    records = {one["kind"]: one for one in shown if "kind" in one}
    assert records.keys() == {kind.value for kind in BODIES}
    for kind, record in records.items():
        assert problems(f"record-{kind}", msgspec.json.encode(record)) == []
    assert [one for one in shown if "kind" not in one] == [example_outcome(game) for game in GAMES]


def test_every_topic_is_a_channel() -> None:
    built = {name for name in vars(Topics) if not name.startswith(("_", "every_"))} - {"site"}
    assert built == CHANNELS.keys() | NO_CHANNELS


def test_the_page_names_everything() -> None:
    """Kinds, topics, and the members of all payloads; most of it stands in generated tables."""
    page = WIRE_FORMAT.read_text("utf-8")
    wanted = {f"`{kind.value}`" for kind in Kind} | {f"`{address(name)}`" for name in CHANNELS}
    for schema in SCHEMAS.values():
        for part in (schema, *schema.get("$defs", {}).values()):
            wanted |= {f"`{member}`" for member in part.get("properties", {})}
    assert sorted(text for text in wanted if text not in page) == []


def test_references_lead_somewhere() -> None:
    text = ASYNCAPI.read_text("ascii")
    document = yaml.safe_load(text)
    references = set(re.findall(r"\$ref: (\S+)", text))
    assert references
    for reference in references:
        file, _, path = reference.strip("'").partition("#/")
        if file:
            assert (ASYNCAPI.parent / file).is_file(), reference
            continue
        value = document
        for step in path.split("/"):
            value = value[step]


def test_last_is_a_final_record_or_the_correction_of_one() -> None:
    document = yaml.safe_load(ASYNCAPI.read_text("ascii"))
    kinds = FINAL_KINDS | {Kind.CORRECTION}
    assert set(document["channels"]["last"]["messages"]) == set(map(record_name, kinds))


def test_parameters_are_those_of_the_address() -> None:
    for name, channel in yaml.safe_load(ASYNCAPI.read_text("ascii"))["channels"].items():
        assert re.findall(r"\{([a-z]+)\}", channel["address"]) == list(channel["parameters"]), name


@pytest.mark.long
def test_the_document_is_asyncapi_3(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: AsyncAPI's own schema comes from there")
    install = ["npm", "install", "--prefix", str(tmp_path), "--no-audit", "--no-fund", "@asyncapi/specs@6"]
    run = subprocess.run(install, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"npm cannot get AsyncAPI's own schema: {run.stderr[-200:]}")
    official = tmp_path / "node_modules" / "@asyncapi" / "specs" / "schemas" / "3.0.0.json"
    validator = Draft7Validator(json.loads(official.read_text("utf-8")))
    document = yaml.safe_load(ASYNCAPI.read_text("ascii"))
    assert [error.message for error in validator.iter_errors(document)] == []
    del document["channels"]["record"]["messages"]["record-key"]["$ref"]
    document["operations"]["record"]["action"] = "shout"
    assert list(validator.iter_errors(document)) != []
