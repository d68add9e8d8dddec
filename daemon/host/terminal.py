"""What people read on a terminal. A text of others cannot steer it, whatever it holds."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec


def shown(text: object) -> str:
    r"""A text as it may stand in one line of a terminal or log.

    Whatever does not show is written out (`\x1b`, `\u202e`): control characters, line ends, what turns the
    direction of writing, characters of no width, halves of characters.
    """
    text = str(text)
    return text if text.isprintable() else "".join(map(_shown, text))


def say(*lines: object, to_stderr: bool = False) -> None:
    """Print lines, each of them as `shown`: the one way to a terminal that commands have."""
    for line in lines:
        print(shown(line), file=sys.stderr if to_stderr else sys.stdout)


def say_json(value: Any, indent: int | None = None) -> None:
    """Print a value as JSON in ASCII: one line of it, or indented lines."""
    say(*json.dumps(msgspec.to_builtins(value), indent=indent).split("\n"))


def _shown(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
