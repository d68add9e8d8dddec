"""Write everything anew: `python -m tools.schemas`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from tools import mistakes
from tools.schemas import bets
from tools.schemas.asyncapi import document
from tools.schemas.configuration import page, schema
from tools.schemas.payloads import schemas
from tools.schemas.vectors import vectors
from tools.schemas.wire_format import put, rendered

from dollyd.daemon.brokers.acl import ROLES
from dollyd.daemon.brokers.site_setup import Node, Site, site_acl

ROOT = Path(__file__).resolve().parents[2]
WIRE_FORMAT = ROOT / "docs" / "wire-format.md"
SETTLEMENT = ROOT / "docs" / "settlement.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
FOLDERS = (ROOT / "config" / "schemas", ROOT / "docs" / "vectors")
"""Everything in them is generated."""
HOUSE = Site(
    "house",
    (Node("box1", ("r1",), publishes_trust=True), Node("box2", ("r2",), publishes_trust=False)),
    {role.example: name for name, role in ROLES.items()},
    ("broker-1",),
)
"""The site of the shipped access list."""


def generated() -> dict[Path, bytes]:
    """Every generated file and its bytes; of docs/wire-format.md a part is generated."""
    files = {FOLDERS[0] / f"{name}.json": _json(schema) for name, schema in schemas().items()}
    files[FOLDERS[0] / "config.json"] = _json(schema())
    files[CONFIGURATION] = page().encode()
    files[ROOT / "docs" / "mistakes.md"] = mistakes.page().encode()
    files |= {FOLDERS[1] / name: data for name, data in vectors().items()}
    files[WIRE_FORMAT] = rendered(WIRE_FORMAT.read_text("utf-8")).encode()
    files[SETTLEMENT] = put(SETTLEMENT.read_text("utf-8"), {"bets": bets.told()}).encode()
    files[ROOT / "docs" / "bets.json"] = json.dumps(bets.offered()).encode("ascii") + b"\n"
    files[ROOT / "docs" / "asyncapi.yaml"] = _yaml(document())
    files[ROOT / "config" / "mosquitto.acl"] = site_acl(HOUSE).encode()
    return files


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode("ascii") + b"\n"


def _yaml(value: Any) -> bytes:
    text: str = yaml.safe_dump(value, sort_keys=False, width=110)
    return b"# Generated from the code by `make schemas`.\n" + text.encode("ascii")


def main() -> int:
    """Write the files, and take away what is not generated any more."""
    files = generated()
    for folder in FOLDERS:
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            if path not in files:
                path.unlink()
    for path, data in files.items():
        path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
