"""The generated parts of docs/wire-format.md: topics, and the members of every payload with their meaning."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
from tools.schemas.asyncapi import CHANNELS, address
from tools.schemas.payloads import PLAIN, SIGNED, record_name

from dollyd.wire.record import BODIES, Record
from dollyd.wire.topics import Topics

_WORDS = {"string": "text", "integer": "integer", "boolean": "true or false", "null": "null"}


def rendered(page: str) -> str:
    """The page with its generated parts made anew. Raises `ValueError` where a marker is missing."""
    bodies = {f"`{kind.value}`": body for kind, body in BODIES.items()}
    others = {f"`{name}`": struct for name, struct in (PLAIN | SIGNED).items()}
    parts = {
        "topics": _topics(),
        "header": _members("", Record),
        "records": _sections(bodies),
        "parts": _sections(_inner([Record, *BODIES.values()])),
        "payloads": _sections(others),
        "payload parts": _sections(_inner(others.values())),
    }
    for name, part in parts.items():
        begin, end = f"<!-- begin {name} -->\n", f"\n<!-- end {name} -->"
        before, rest = page[: page.index(begin) + len(begin)], page[page.index(end) :]
        page = f"{before}{part}{rest}"
    return page


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
    told = dict(_told(struct))
    fields = {field.encode_name: field.name for field in _info(struct).fields}
    lines = [f"#### {title}", "", inspect.cleandoc(struct.__doc__ or ""), ""] if title else []
    lines += ["| member | type | meaning |", "|---|---|---|"]
    for name, member in schema["properties"].items():
        optional = "" if name in schema["required"] else ", may be missing"
        meaning = " ".join(told.get(fields[name], "").split())
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


def _told(struct: type) -> Iterator[tuple[str, str]]:
    """What is written under the members of a class, and of those that it is made of."""
    for one in reversed(struct.__mro__):
        if not one.__module__.startswith("dollyd"):
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        body = node.body if isinstance(node, ast.ClassDef) else []
        for member, text in pairwise(body):
            match member, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    yield name, said


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
