"""Reads JSON and TOML that others have written: whatever is wrong with it is one kind of error.

The libraries tell some of it otherwise: nesting deeper than the interpreter's stack, bytes that are no UTF-8,
integers of thousands of digits. A daemon must not end because somebody forgot one of them.
"""

from __future__ import annotations

import tomllib
from typing import Any, TypeVar

import msgspec

TOML_LEVELS_MAX = 32
"""Of tables and lists in each other; a configuration has 6."""

T = TypeVar("T")


def from_json(data: bytes | str | msgspec.Raw, kind: type[T]) -> T:
    """JSON as what it should be. Raises `msgspec.DecodeError`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (RecursionError, UnicodeError) as error:
        raise msgspec.DecodeError(str(error)) from error


def from_toml(data: bytes) -> dict[str, Any]:
    """TOML as a tree that anybody can walk through; integers of 64 bits. Raises `tomllib.TOMLDecodeError`."""
    try:
        tree = tomllib.loads(data.decode("utf-8"))
    except (RecursionError, ValueError) as error:  # a TOMLDecodeError is a ValueError too
        raise tomllib.TOMLDecodeError(str(error)) from error
    _check(tree, TOML_LEVELS_MAX)
    return tree


def _check(value: Any, levels: int) -> None:
    if isinstance(value, dict | list):
        if levels == 0:  # dotted keys get there without any recursion
            raise tomllib.TOMLDecodeError(f"more than {TOML_LEVELS_MAX} levels")
        for part in value.values() if isinstance(value, dict) else value:
            _check(part, levels - 1)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise tomllib.TOMLDecodeError("an integer of more than 64 bits")
