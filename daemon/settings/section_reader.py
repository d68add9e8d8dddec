"""From a tree of TOML to the sections that it should be; every fault of it is found."""

from __future__ import annotations

from typing import Any, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from dollyd.daemon.settings.faults import Faults, unknown_key

S = TypeVar("S", bound=Struct)


def read_section(tree: Any, kind: type[S], key: str, faults: Faults) -> S:
    """A section. What is wrong is kept in `faults`, and has its default here, or an empty value."""
    if not isinstance(tree, dict):
        faults.add(key, f"{_named(tree)} where a section should be", f"write it as [{key}]")
        return _empty(kind)
    known = {field.encode_name: field for field in fields(kind)}
    for name in tree:
        if name not in known:
            faults.add(_below(key, name), "unknown key", unknown_key(name, known))
    values: dict[str, Any] = {}
    for name, field in known.items():
        place = _below(key, name)
        if name in tree:
            values[field.name] = _value(tree[name], field, place, faults)
        else:
            if field.required:
                faults.add(place, "missing", "add it")
            values[field.name] = _default(field)
    return kind(**values)


def section_in(kind: Any) -> tuple[type[Struct] | None, bool]:
    """The section that a key of this type holds, None for a value; and whether it holds several, by name."""
    by_name = get_origin(kind) is dict
    inner = get_args(kind)[1] if by_name else kind
    is_section = isinstance(inner, type) and issubclass(inner, Struct)
    return (inner if is_section else None), by_name


def _value(value: Any, field: FieldInfo, place: str, faults: Faults) -> Any:
    inner, by_name = section_in(field.type)
    if inner is not None and not by_name:
        return read_section(value, inner, place, faults)
    if inner is not None:
        if not isinstance(value, dict):
            faults.add(place, f"{_named(value)} where sections should be", f"write them as [{place}.NAME]")
            return {}
        return {name: read_section(one, inner, _below(place, name), faults) for name, one in value.items()}
    try:
        return msgspec.convert(value, field.type)
    except msgspec.ValidationError as error:
        what, _, inside = str(error).partition(" - at `$")
        faults.add(place + inside.rstrip("`").replace("[...]", ""), what, "correct the value")
        return _default(field)


def _default(field: FieldInfo) -> Any:
    if not field.required:
        no_factory = field.default_factory is msgspec.NODEFAULT
        return field.default if no_factory else cast("Any", field.default_factory)()
    inner, by_name = section_in(field.type)
    if inner is not None and not by_name:
        return _empty(inner)
    empty: dict[Any, Any] = {dict: {}, str: "", int: 0}
    return empty[getattr(field.type, "__origin__", field.type)]  # of `Annotated` too


def _empty(kind: type[S]) -> S:
    """A section in the place of one that is not there: nobody uses it, for its fault is told."""
    return kind(**{field.name: _default(field) for field in fields(kind)})


def _below(key: str, name: str) -> str:
    return f"{key}.{name}".strip(".")


def _named(value: Any) -> str:
    words: dict[type, str] = {bool: "true or false", str: "a text", list: "a list"}
    return words.get(type(value), "a number or a time")
