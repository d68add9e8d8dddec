"""JSON Schemas (2020-12) of every payload, from the structs that are encoded.

Those of records are closed and typed by game: they are of this version. The others say what is there and do
not forbid what a later version adds, but where the reader does.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from tools.schemas.values import values

from dollyd.client.proof.evidence import Manifest
from dollyd.client.witness.witness import Statement
from dollyd.daemon.consumers.replay import End, Request
from dollyd.daemon.consumers.watermarks import Ack
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.health.health import NodeHealth
from dollyd.daemon.link.node_status import NodeStatus
from dollyd.daemon.table.state_topics import DeviceState, TableState
from dollyd.wire.answer import Answer
from dollyd.wire.command import Command
from dollyd.wire.record import BODIES, VERSION, Kind, Record
from dollyd.wire.trust import RootRoll, TrustFile

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFINED = "#/$defs/{name}"
_BASE64URL = "^[A-Za-z0-9_-]+$"

PLAIN: dict[str, type[Struct]] = {
    "state": TableState,
    "device": DeviceState,
    "node-status": NodeStatus,
    "node-health": NodeHealth,
    "ack": Ack,
    "replay-request": Request,
    "replay-end": End,
    "manifest": Manifest,
}
"""JSON that is sent, or kept in an evidence file, as it is, by the name of its schema."""
SIGNED: dict[str, type[Struct]] = {
    "command": Command,
    "command-reply": Answer,
    "trust": TrustFile,
    "root": RootRoll,
    "witness": Statement,
}
"""What is in the `payload` of envelopes that are no records."""


def schemas() -> dict[str, Schema]:
    """Every schema by name: `NAME.json` in `config/schemas`."""
    found = {"envelope": _envelope(), "keys": _keys()}
    found |= {record_name(kind): _record(kind, body) for kind, body in BODIES.items()}
    found |= {name: _plain(struct) for name, struct in (PLAIN | SIGNED).items()}
    return {name: {"$schema": DIALECT, **schema} for name, schema in found.items()}


def record_name(kind: Kind) -> str:
    """The name of the schema of a record's payload."""
    return f"record-{kind.value}"


def _record(kind: Kind, body: type[Struct]) -> Schema:
    """Header and body of one kind: what is in the envelope's `payload`."""
    (header, content), defined = msgspec.json.schema_components([Record, body], ref_template=_DEFINED)
    record = defined.pop(header["$ref"].rsplit("/", 1)[1])
    properties = record["properties"] | {
        "v": {"const": VERSION},
        "kind": {"const": kind.value},
        "body": content,
    }
    for part in defined.values():
        part["additionalProperties"] = False
    for struct, members in values(kind).items():
        for member, allowed in members.items():
            if struct in defined:
                defined[struct]["properties"][member]["enum"] = list(allowed)
    if kind in _OUTCOMES:
        defined |= {_shape_name(game): _shape(game) for game in GAMES}
        defined[body.__name__]["allOf"] = [_by_game(game, _OUTCOMES[kind]) for game in GAMES]
    return {
        "title": f"Record `{kind.value}`",
        "description": body.__doc__.splitlines()[0] if body.__doc__ else "",
        "type": "object",
        "properties": properties,
        "required": record["required"],
        "additionalProperties": False,
        "$defs": defined,
    }


_OUTCOMES: dict[Kind, tuple[str, ...]] = {Kind.RESULT: (), Kind.CORRECTION: ("before", "after")}
"""Kinds whose body has an outcome, and the members in which it is, where it is not the body's own."""


def _shape_name(game: str) -> str:
    return f"outcome-{game}"


def _shape(game: str) -> Schema:
    """What an outcome of a game is."""
    (reference,), defined = msgspec.json.schema_components([GAMES[game].shape], ref_template=_DEFINED)
    schema: Schema = defined[reference["$ref"].rsplit("/", 1)[1]]
    return schema | {"title": f"Outcome of {game}"}


def _by_game(game: str, members: tuple[str, ...]) -> Schema:
    """Where this game is played, the outcomes are of this game."""
    outcome: Schema = {"properties": {"outcome": {"$ref": _DEFINED.format(name=_shape_name(game))}}}
    if members:
        outcome = {"properties": dict.fromkeys(members, outcome)}
    setting = {"properties": {"setting": {"properties": {"game": {"const": game}}}}}
    return {"if": setting, "then": outcome}


def _plain(struct: type[Struct]) -> Schema:
    (reference,), defined = msgspec.json.schema_components([struct], ref_template=_DEFINED)
    schema = defined.pop(reference["$ref"].rsplit("/", 1)[1])
    return {**schema, "$defs": defined} if defined else schema


def _envelope() -> Schema:
    """The flattened JWS (`wire/jws.py`), which no struct stands for: it is read as bytes."""
    parts = ("payload", "protected", "signature")
    return {
        "title": "Envelope",
        "description": "JWS (RFC 7515, flattened JSON, EdDSA with Ed25519), in its one form.",
        "type": "object",
        "properties": {part: {"type": "string", "pattern": _BASE64URL} for part in parts},
        "required": list(parts),
        "additionalProperties": False,
    }


def _keys() -> Schema:
    """A JWK set as `jws.public_jwk` makes its members."""
    key = {
        "type": "object",
        "properties": {
            "kty": {"const": "OKP"},
            "crv": {"const": "Ed25519"},
            "x": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
            "kid": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
            "alg": {"const": "EdDSA"},
            "use": {"const": "sig"},
        },
        "required": ["kty", "crv", "x"],
    }
    return {
        "title": "Keys",
        "description": "Public keys as a JWK set (RFC 7517, RFC 8037); `kid` is the RFC 7638 thumbprint.",
        "type": "object",
        "properties": {"keys": {"type": "array", "items": key}},
        "required": ["keys"],
    }
