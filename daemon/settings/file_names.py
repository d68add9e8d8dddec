"""The names of files in a configuration: which they are, and which can be none."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, structs

from dollyd.daemon.settings.sections import Configuration
from dollyd.wire.errors import ConfigError

TO_READ = {
    "signing": ("key", "next_key", "trust"),
    "mqtt": ("password_file", "ca_file", "cert_file", "key_file"),
}
"""The keys of a section that name a file."""
_SECRETS = frozenset({"signing.key", "signing.next_key", "mqtt.password_file", "mqtt.key_file"})
S = TypeVar("S", bound=Struct)

_TEXTS = ("rulebook", "profile", "layout")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PART_MAX_BYTES, _PATH_MAX_BYTES = 200, 4000
"""What Linux takes, less what is put behind the name of a journal, e.g. `.damaged-<time>-wal`."""


def named_files(config: Path, head: Configuration) -> dict[str, Path]:
    """What has to be read of a configuration, itself included, by the key that names it.

    Texts of the rules that are shipped are left out.
    """
    named = {
        f"{section}.{key}": config.parent / name
        for section, keys in TO_READ.items()
        for key in keys
        if (name := getattr(getattr(head, section), key))
    }
    for table, section in head.tables.items():
        for what in _TEXTS:
            if (name := getattr(section, what)).endswith(".toml"):
                named[f"tables.{table}.{what}"] = config.parent / name
        for device, one in section.devices.items():
            if name := one.secret_file:
                named[f"tables.{table}.devices.{device}.secret_file"] = config.parent / name
    return {"configuration": config, **named}


def is_secret(key: str) -> bool:
    """Whether a key names a secret file, which its owner alone may read (`secret_files`)."""
    return key in _SECRETS or key.endswith(".secret_file")


def beside(config: Path, section: S, *keys: str) -> S:
    """A section with its files as seen from anywhere: a relative name is relative to the configuration."""
    names = {key: getattr(section, key) for key in keys}
    found = {key: str(config.parent / name) for key, name in names.items() if name}
    return structs.replace(section, **found)


def check_texts(file: str, tree: Any, key: str = "") -> None:
    """Refuse a NUL, a line's end and the like in any text: no path, port or name has one.

    Raises `ConfigError`.
    """
    if isinstance(tree, str) and _CONTROL.search(tree):
        remedy = "write a text without control characters"
        raise ConfigError(file, _CONTROL.sub("?", key), f"{tree[:80]!a} is no text for one line", remedy)
    if isinstance(tree, dict):
        for name, inner in tree.items():
            below = f"{key}.{name}".strip(".")
            check_texts(file, name, below)
            check_texts(file, inner, below)
    elif isinstance(tree, list):
        for inner in tree:
            check_texts(file, inner, key)


def check_own_file(file: str, key: str, name: str) -> None:
    """Refuse what can never be the name of a file that we make. Raises `ConfigError`."""
    try:
        parts = os.fsencode(name).split(b"/")
    except ValueError:  # letters that this system cannot write
        parts = [b""]
    too_long = len(name) > _PATH_MAX_BYTES or max(map(len, parts)) > _PART_MAX_BYTES
    if too_long or parts[-1] in {b"", b".", b".."}:
        problem = f"{name[:80]!r} is no name of a file"
        raise ConfigError(file, key, problem, "name a file in a folder on a local disk")
