"""The reference of a configuration, made of the types that read it: no key can be missing, no word be old."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from dollyd.daemon.settings.section_reader import section_in
from dollyd.daemon.settings.sections import Configuration
from dollyd.drivers import DRIVERS
from dollyd.drivers.spec import DriverSpec, Option

NAME = "NAME"
"""Stands in the title of a section for a name that the operator chooses."""
_EXAMPLES = {"tables": "roulette-1", "devices": "wheel"}
_WIDTH = 110
_WORDS = {"string": "text", "integer": "integer", "boolean": "true or false", "null": "nothing"}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section. `default`: as TOML, empty where there is none."""

    name: str
    kind: str
    required: bool
    default: str
    example: str
    meaning: str


@dataclass(frozen=True, slots=True)
class SectionReference:
    """One section: its title with `NAME` where names are chosen, what it is, and its keys in order."""

    title: str
    meaning: str
    keys: tuple[Key, ...]


def sections() -> list[SectionReference]:
    """Every section of a configuration, what is outside of any first."""
    return list(_sections("", Configuration))


def members_told(struct: type) -> dict[str, str]:
    """What is written under the members of a class and of those that it is made of, in one line each."""
    told: dict[str, str] = {}
    for one in reversed(struct.__mro__):
        if not one.__module__.startswith("dollyd"):
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        for member, text in pairwise(node.body if isinstance(node, ast.ClassDef) else []):
            match member, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    told[name] = " ".join(said.split())
    return told


def option_words(option: Option) -> str:
    """What an option may be, and what it is where it is not given."""
    if option.kind is bool:
        return f"true or false, {json.dumps(option.default)} unless set"
    most = "the status period" if option.most is None else str(option.most)
    default = "the status period" if option.default is None else str(option.default)
    return f"{option.least} to {most}, {default} unless set"


def driver_lines(driver: DriverSpec) -> Iterator[str]:
    """What a driver is, where it can be, what it can be told, and by what it is bound, in lines."""
    for role, place in driver.roles.items():
        yield f"role {role} of {', '.join(sorted(place.games))}"
    for name, option in driver.options.items():
        yield f"options.{name}: {option.meaning} ({option_words(option)})"
    if driver.expects:
        yield f"expect: {', '.join(driver.expects)}"


def example() -> str:
    """A configuration with every key: those that are needed with an example, all others as they are unset."""
    lines = ["# Every key of dollyd.toml. What has a # before it is as it is where it is not given."]
    for section in sections():
        lines += ["", *_comment("# ", section.meaning)]
        if section.title:
            needed = "" if any(key.required for key in section.keys) else "# "
            lines.append(f"{needed}[{_filled(section.title)}]")
        for key in section.keys:
            unit = f" ({key.kind})" if key.kind not in {"text", "true or false"} else ""
            lines += _comment("#   ", key.meaning + unit)
            value = key.example if key.required else key.default or key.example
            lines.append(f"{'' if key.required else '# '}{key.name} = {value}")
    lines += ["", "# Drivers, and what each can be told:"]
    for driver in DRIVERS.values():
        lines += _comment("#   ", f"{driver.name}: {driver.summary}")
        for line in driver_lines(driver):
            lines += _comment("#     ", line)
    return "\n".join(lines) + "\n"


def _sections(title: str, struct: type[Struct]) -> Iterator[SectionReference]:
    told, below, keys = members_told(struct), list[tuple[str, type[Struct]]](), list[Key]()
    schema = msgspec.json.schema(struct)["$defs"][struct.__name__]["properties"]
    for field in fields(struct):
        inner, by_name = section_in(field.type)
        if inner is not None:
            place = f"{title}.{field.name}".strip(".")
            below.append((f"{place}.{NAME}" if by_name else place, inner))
        else:
            keys.append(_key(field, schema[field.name], told.get(field.name, "")))
    yield SectionReference(title, " ".join((inspect.getdoc(struct) or "").split()), tuple(keys))
    for place, inner in below:
        yield from _sections(place, inner)


def _key(field: FieldInfo, schema: dict[str, Any], meaning: str) -> Key:
    default = ""
    if not field.required:
        made = field.default_factory is not msgspec.NODEFAULT
        value = field.default_factory() if callable(field.default_factory) and made else field.default
        default = "" if value is None else json.dumps(value)
    shown = next((json.dumps(one) for one in schema.get("examples", ())), default)
    return Key(field.name, _kind(schema), field.required, default, shown, meaning)


def _kind(schema: dict[str, Any]) -> str:
    """What a value may be, in words."""
    match schema:
        case {"enum": values}:
            return " or ".join(json.dumps(value) for value in values)
        case {"anyOf": choices}:
            return " or ".join(_kind(one) for one in choices if one.get("type") != "null")
        case {"type": "integer"}:
            low = f" above {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else ""
            low = f" from {schema['minimum']}" if "minimum" in schema else low
            return f"integer{low}" + (f" to {schema['maximum']}" if "maximum" in schema else "")
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}s"
        case {"type": "object"}:
            values = schema.get("additionalProperties")
            return f"{_kind(values) if values else 'a value'} by name"
    return _WORDS.get(schema.get("type", ""), "anything")


def _filled(title: str) -> str:
    """A section's title with names in it."""
    parts: list[str] = []
    for part in title.split("."):
        parts.append(_EXAMPLES[parts[-1]] if part == NAME else part)
    return ".".join(parts)


def _comment(begin: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=begin, subsequent_indent=begin)
