"""The reference of the configuration: every key with its default and meaning, in all four forms."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import Struct, structs
from tools.schemas.configuration import man_page, schema
from typer.testing import CliRunner

from dollyd.daemon.cli import application
from dollyd.daemon.settings.faults import Faults
from dollyd.daemon.settings.load import load
from dollyd.daemon.settings.reference import Key, example, sections
from dollyd.daemon.settings.section_reader import read_section, section_in
from dollyd.daemon.settings.sections import Configuration
from dollyd.drivers import DRIVERS

EXAMPLES = sorted(Path(str(files("dollyd").joinpath("config", "examples"))).glob("*.toml"))


def keys() -> list[Key]:
    return [key for section in sections() for key in section.keys]


def all_unset() -> Configuration:
    """What is printed, with everything that it leaves out."""
    text = re.sub(r"^# (\w+ = .*|\[.*\])$", r"\1", example(), flags=re.MULTILINE)
    faults = Faults("printed")
    found = read_section(tomllib.loads(text), Configuration, "", faults)
    faults.refuse()
    return found


def test_every_key_says_what_it_means() -> None:
    assert {key.name for key in keys()} >= {
        "site",
        "keepalive_s",
        "secret_file",
        "boundary",
        "witness_timeout_ms",
    }
    assert not [key.name for key in keys() if not key.meaning or key.kind == "anything"]
    assert not [key.name for key in keys() if key.required and not key.example]


def test_a_unit_is_told_where_the_name_has_one() -> None:
    units = {"_ms": "illisecond", "_s": "econd", "_mb": "megabyte", "_days": "days", "_h": "ours"}
    for key in keys():
        for ending, word in units.items():
            assert not key.name.endswith(ending) or word in key.meaning or key.name == "silence_ms", key.name


def test_what_is_printed_can_be_used_as_it_is(tmp_path: Path) -> None:
    printed = CliRunner().invoke(application, ["config", "print"]).stdout
    assert printed == example()
    path = tmp_path / "dollyd.toml"
    path.write_text(printed)
    assert load(path).site == "helsinki-1"


def test_what_is_printed_has_every_key_with_its_default() -> None:
    def same(struct: Struct) -> None:
        for field in structs.fields(struct):
            value = getattr(struct, field.name)
            inner, by_name = section_in(field.type)
            if inner is not None:
                parts = value.values() if by_name else (value,)
                assert parts, field.name
                for part in parts:
                    same(part)
            elif not field.required and field.default is not None:
                factory = field.default_factory
                default = factory() if callable(factory) else field.default
                assert value == default, field.name

    same(all_unset())


def test_the_schema_takes_every_example_and_nothing_unknown() -> None:
    validator = Draft202012Validator(schema())
    validator.check_schema(schema())
    for path in EXAMPLES:
        tree = tomllib.loads(path.read_text("utf-8"))
        assert [error.message for error in validator.iter_errors(tree)] == [], path.name
        for section in (tree, tree["journal"], next(iter(tree["tables"].values()))):
            section["odds_timout_ms"] = 3
            assert list(validator.iter_errors(tree)) != [], path.name
            del section["odds_timout_ms"]


@pytest.mark.parametrize("name", ["driver", "role"])
def test_the_schema_knows_the_names_that_can_be_chosen(name: str) -> None:
    member: dict[str, Any] = schema()["$defs"]["DeviceSection"]["properties"][name]
    assert member["description"]
    assert set(member["enum"]) == (
        set(DRIVERS) if name == "driver" else {role for driver in DRIVERS.values() for role in driver.roles}
    )


def test_the_shipped_schema_can_be_printed() -> None:
    printed = CliRunner().invoke(application, ["config", "schema"])
    assert printed.exit_code == 0
    assert '"title": "dollyd.toml"' in printed.stdout


def test_the_manual_page_has_every_key() -> None:
    page = man_page()
    assert [line for line in page.splitlines() if line.startswith("'")] == []
    tags = set(re.findall(r"^\.B (\w+) = ", page, re.MULTILINE))
    assert {key.name for key in keys()} == tags
