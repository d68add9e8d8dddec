"""The generated parts of docs/wire-format.md: topics, and the members of every payload with their meaning."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from tools.schemas import values
from tools.schemas.asyncapi import CHANNELS, address
from tools.schemas.evening import example_outcome, whole_evening
from tools.schemas.payloads import PLAIN, SIGNED, record_name

from dollyd.daemon.core.games import GAMES
from dollyd.daemon.settings.reference import members_told
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import BODIES, Kind, Record
from dollyd.wire.topics import Topics

_KNOWN: dict[str, dict[str, tuple[str, ...]]] = {}
"""Values of members by class; those of `rule` have tables of their own."""
for _kind in Kind:
    for _struct, _allowed in values.values(_kind).items():
        _KNOWN.setdefault(_struct, {}).update({name: one for name, one in _allowed.items() if name != "rule"})
_WORDS = {"string": "text", "integer": "integer", "boolean": "true or false", "null": "null"}


def rendered(page: str) -> str:
    """The page with its generated parts made anew. Raises `ValueError` where a marker is missing."""
    others = {f"`{name}`": struct for name, struct in (PLAIN | SIGNED).items()}
    parts = {
        "topics": _topics(),
        "header": _members("", Record),
        "records": _records(),
        "outcomes": "\n\n".join(_outcome(game) for game in GAMES),
        "values": values.told(),
        "parts": _sections(_inner([Record, *BODIES.values()])),
        "payloads": _sections(others),
        "payload parts": _sections(_inner(others.values())),
    }
    return put(page, parts)


def put(page: str, parts: dict[str, str]) -> str:
    """The page with its parts between their markers. Raises `ValueError` where one is missing."""
    for name, part in parts.items():
        begin, end = f"<!-- begin {name} -->\n", f"\n<!-- end {name} -->"
        before, rest = page[: page.index(begin) + len(begin)], page[page.index(end) :]
        page = f"{before}{part}{rest}"
    return page


def _records() -> str:
    """Every kind of body with an example of a whole record, as it is signed."""
    shown: dict[str, str] = {}
    for envelope in whole_evening().envelopes:
        record = json.loads(parse_envelope(envelope).payload)
        shown.setdefault(record["kind"], _example(record))
    return "\n\n".join(
        f"{_members(f'`{kind.value}`', body)}\n\n{shown[kind.value]}" for kind, body in BODIES.items()
    )


def _example(record: dict[str, Any]) -> str:
    """A record in JSON, a member of it or of its body a line; the commands of persons are cut."""
    body, time = record.pop("body"), record.pop("time")
    lines = [f" {_json(name)}: {_cut(_json(value))}" for name, value in body.items()]
    head = f"{_json(record)[:-1]},"
    return "\n".join(
        ["```json", head, f'"time": {_json(time)},', '"body": {', ",\n".join(lines), "}}", "```"]
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return re.sub(r"[A-Za-z0-9_-]{100,}", lambda long: f"{long[0][:20]}...", text)


def _outcome(game: str) -> str:
    """The members of an outcome, and an example that may come."""
    came = _json(example_outcome(game))
    return f"{_members(f'Outcome of `{game}`', GAMES[game].shape)}\n\n```json\n{came}\n```"


def _topics() -> str:
    lines = ["| topic | node | retained | payload | what |", "|---|---|---|---|---|"]
    for name, channel in CHANNELS.items():
        records = {record_name(kind) for kind in BODIES} <= set(channel.payloads)
        names = ["every record", *channel.payloads[len(BODIES) :]] if records else channel.payloads
        payloads = ", ".join(f"`{one}`" if " " not in one else one for one in names)
        what = (inspect.getdoc(getattr(Topics, name)) or "").removeprefix("Retained: ")
        action, retained = channel.action + "s", "yes" if channel.retained else "no"
        lines.append(f"| `{address(name)}` | {action} | {retained} | {payloads} | {what} |")
    return "\n".join(lines)


def _sections(structs: dict[str, type]) -> str:
    return "\n\n".join(_members(title, struct) for title, struct in structs.items())


def _members(title: str, struct: type) -> str:
    """One struct: what it is, and a table of its members."""
    schema = _schema_of(struct)
    told = members_told(struct)
    fields = {field.encode_name: field.name for field in _info(struct).fields}
    lines = [f"#### {title}", "", inspect.cleandoc(struct.__doc__ or ""), ""] if title else []
    lines += ["| member | type | meaning |", "|---|---|---|"]
    known = _KNOWN.get(struct.__name__, {})
    for name, declared in schema["properties"].items():
        member = {"enum": list(known[name])} if name in known else declared
        optional = "" if name in schema["required"] else ", may be missing"
        meaning = told.get(fields[name], "")
        lines.append(f"| `{name}` | {_type(member)}{optional} | {meaning} |")
    return "\n".join(lines)


def _schema_of(struct: type) -> dict[str, Any]:
    schema: dict[str, Any] = msgspec.json.schema(struct)["$defs"][struct.__name__]
    return schema


def _type(schema: dict[str, Any]) -> str:
    """A type in words."""
    match schema:
        case {"$ref": reference}:
            return f"`{reference.rsplit('/', 1)[1]}`"
        case {"enum": values}:
            return ", ".join(f"`{value}`" for value in values)
        case {"const": value}:
            return f"`{value}`"
        case {"anyOf": choices}:
            return " or ".join(map(_type, choices))
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"{_type(values) if values else 'anything'} by name"
        case {"type": word}:
            return _WORDS.get(str(word), str(word))
    return "its body" if not schema else "anything"


def _inner(structs: Iterable[type]) -> dict[str, type]:
    """The structs inside of these, by name, each once, in the order in which they are met."""
    found: dict[str, type] = {}
    waiting = list(structs)
    known = {struct.__name__ for struct in waiting}
    for struct in waiting:
        for part in _structs_in(_info(struct)):
            if part.__name__ not in known:
                known.add(part.__name__)
                found[f"`{part.__name__}`"] = part
                waiting.append(part)
    return found


def _info(struct: type) -> Any:
    return msgspec.inspect.type_info(struct)


def _structs_in(info: Any) -> Iterator[type]:
    """Structs one level below: as members, in lists, by name, or as one of several."""
    inner = [field.type for field in info.fields]
    while inner:
        match inner.pop(0):
            case msgspec.inspect.StructType(cls=cls) | msgspec.inspect.DataclassType(cls=cls):
                yield cls
            case msgspec.inspect.UnionType(types=types):
                inner += types
            case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
                inner.append(item)
            case msgspec.inspect.DictType(value_type=value):
                inner.append(value)
