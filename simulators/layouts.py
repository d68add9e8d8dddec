"""The order of pockets and sectors, from the layouts that the project ships or a file of the same form."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path


def layout(name: str, key: str) -> tuple[str, ...]:
    """The list `key` (`clockwise` or `sectors`) of a shipped layout, or of a file whose path ends in `.toml`.

    Raises ValueError where there is no such layout, or it has no such list.
    """
    try:
        if name.endswith(".toml"):
            data = Path(name).read_bytes()
        else:
            data = files("dollyd").joinpath("config", "layouts", f"{name}.toml").read_bytes()
        return tuple(str(text) for text in tomllib.loads(data.decode("utf-8"))[key])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"no layout {name!r}: {error}") from error
    except KeyError as error:
        raise ValueError(f"layout {name!r} has no list {key!r}") from error


def european() -> tuple[str, ...]:
    """37 pockets, clockwise."""
    return layout("roulette-european", "clockwise")


def american() -> tuple[str, ...]:
    """38 pockets, clockwise."""
    return layout("roulette-american", "clockwise")


def boule() -> tuple[str, ...]:
    """36 cups, clockwise; 1 to 9 four times."""
    return layout("boule-synthetic", "clockwise")
