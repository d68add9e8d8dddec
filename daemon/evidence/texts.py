"""What an evidence file tells of the rules: the texts, and how the tables were configured.

`config.toml` in an evidence file is a configuration that can be loaded where the file is unpacked. Of ours it
has what decides: the tables, without keys shared with devices; nothing of brokers, signing or paths.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from dollyd.client.proof.evidence import TEXT_FOLDERS
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.evidence.export import Texts
from dollyd.daemon.keys.trust_file import read_trust
from dollyd.daemon.settings.load import Settings
from dollyd.wire.errors import ConfigError

NOT_HERE = "not in an evidence file"


def texts_of(config: Path, settings: Settings) -> Texts:
    """Everything that a configuration tells of its rules. Raises `ConfigError`."""
    tree = tomllib.loads(config.read_text("utf-8"))
    rules = {folder: _shipped(folder) for folder in TEXT_FOLDERS}
    for name, section in tree["tables"].items():
        setup = settings.tables[name].setup
        layout = section.get("layout") or GAMES[section["game"]].shipped_layout(setup.variant)
        named = {"rulebook": section["rulebook"], "profile": section["profile"], "layout": layout}
        for what, text_name in named.items():
            if text_name:
                data = _text(config, f"tables.{name}.{what}", f"{what}s", text_name)
                digest = sha256(data).hexdigest()
                rules[f"{what}s"][digest] = data
                section[what] = f"{what}s/{digest}.toml"
        for device in section["devices"].values():
            device.pop("secret_file", None)
    kept: dict[str, Any] = {
        "site": settings.site,
        "node": settings.node,
        "journal": {"path": NOT_HERE},
        "signing": {"key": NOT_HERE},
    }
    kept |= {key: tree[key] for key in ("gaming_day", "tables") if key in tree}
    trust = None
    if settings.signing.trust:
        path = config.parent / settings.signing.trust
        trust = read_trust(path, settings.signing.root, settings.file, "signing.trust").envelope
    return Texts(settings.site, rules, to_toml(kept).encode(), trust)


def to_toml(tree: Mapping[str, Any]) -> str:
    """A tree of text, integers, booleans, lists and tables as TOML, keys in their order."""
    plain = [f"{key} = {_inline(value)}\n" for key, value in tree.items() if not isinstance(value, Mapping)]
    return "".join(plain) + "".join(_sections("", tree))


def _sections(prefix: str, tree: Mapping[str, Any]) -> Iterable[str]:
    """One section a table, and one for each table in `tables`."""
    for key, value in tree.items():
        if not isinstance(value, Mapping):
            continue
        if key == "tables":
            yield from _sections("tables.", value)
        else:
            lines = (f"{name} = {_inline(part)}\n" for name, part in value.items())
            yield f"\n[{prefix}{key}]\n" + "".join(lines)


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        parts = (f"{json.dumps(key)} = {_inline(part)}" for key, part in value.items())
        return "{ " + ", ".join(parts) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    # A JSON string in ASCII is a TOML string, but for characters beyond the first plane.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _shipped(folder: str) -> dict[str, bytes]:
    texts = (entry.read_bytes() for entry in files("dollyd").joinpath("config", folder).iterdir())
    return {sha256(data).hexdigest(): data for data in texts}


def _text(config: Path, key: str, folder: str, name: str) -> bytes:
    try:
        if name.endswith(".toml"):
            return (config.parent / name).read_bytes()
        return files("dollyd").joinpath("config", folder, f"{name}.toml").read_bytes()
    except OSError as error:
        raise ConfigError(str(config), key, f"{name!r}: {error.strerror}", "give a readable file") from error
