"""The AsyncAPI 3.0 document: every topic as a channel, seen from the node."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

from tools.schemas.payloads import SIGNED, record_name

from dollyd.wire.record import BODIES, FINAL_KINDS, Kind
from dollyd.wire.topics import Topics

_FOLDER = "../config/schemas"
_MARK = "any-"
"""Begins a name that stands for any name, so that `Topics` builds the address."""
_SITE = f"{_MARK}site"

PARAMETERS = {
    "site": "The site, as in every payload.",
    "table": "The table.",
    "kind": "The kind of record.",
    "name": "The device, as the table's configuration calls it.",
    "node": "The node: one daemon.",
    "consumer": "A consumer; it chooses its name.",
    "witness": "A witness; it chooses its name.",
}


@dataclass(frozen=True)
class Channel:
    """What is on a topic. Records, and what else is `SIGNED`, travel in an envelope."""

    action: str
    """What a node does: `send` or `receive`."""
    payloads: tuple[str, ...]
    retained: bool = False


_RECORDS = tuple(map(record_name, BODIES))
_FINALS = tuple(record_name(kind) for kind in BODIES if kind in FINAL_KINDS)

CHANNELS: dict[str, Channel] = {
    "record": Channel("send", _RECORDS),
    "last": Channel("send", (*_FINALS, record_name(Kind.CORRECTION)), retained=True),
    "checkpoint": Channel("send", (record_name(Kind.CHECKPOINT),), retained=True),
    "state": Channel("send", ("state",), retained=True),
    "device": Channel("send", ("device",), retained=True),
    "command": Channel("receive", ("command",)),
    "command_reply": Channel("send", ("command-reply",)),
    "replay_ask": Channel("receive", ("replay-request",)),
    "replay_answer": Channel("send", (*_RECORDS, "replay-end")),
    "ack": Channel("receive", ("ack",), retained=True),
    "witness": Channel("receive", ("witness",), retained=True),
    "trust": Channel("send", ("trust",), retained=True),
    "node_status": Channel("send", ("node-status",), retained=True),
    "node_health": Channel("send", ("node-health",), retained=True),
    "node_keys": Channel("send", ("keys",), retained=True),
}
"""By the method of `Topics` that builds the topic."""
NO_CHANNELS = frozenset({"node_check", "forbidden", "shared", "below_site", "of_every_table"})
"""Topics on which nobody else speaks or listens, and what only reads or writes a topic in another way."""


def document() -> dict[str, Any]:
    """The whole document."""
    payloads = dict.fromkeys(name for channel in CHANNELS.values() for name in channel.payloads)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "dollyd",
            "version": "1.0.0",
            "description": "Physical results of gaming tables, signed, on MQTT: see docs/wire-format.md.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {name: _channel(name, channel) for name, channel in CHANNELS.items()},
        "operations": {name: _operation(name, channel) for name, channel in CHANNELS.items()},
        "components": {"messages": {name: _message(name) for name in payloads}},
    }


def address(name: str) -> str:
    """The topic that a method of `Topics` builds, with `{table}` and the like for names."""
    build = getattr(Topics(_SITE), name)
    named = inspect.signature(build).parameters.values()
    levels = [level.name for level in named if level.default is level.empty]
    return re.sub(f"{_MARK}([a-z]+)", r"{\1}", build(*(f"{_MARK}{level}" for level in levels)))


def _channel(name: str, channel: Channel) -> dict[str, Any]:
    return {
        "address": address(name),
        "description": inspect.getdoc(getattr(Topics, name)),
        "parameters": {level: _parameter(level) for level in re.findall(r"\{([a-z]+)\}", address(name))},
        "messages": {payload: {"$ref": f"#/components/messages/{payload}"} for payload in channel.payloads},
    }


def _parameter(level: str) -> dict[str, Any]:
    kinds = {"enum": [kind.value for kind in BODIES]} if level == "kind" else {}
    return {"description": PARAMETERS[level], **kinds}


def _operation(name: str, channel: Channel) -> dict[str, Any]:
    return {
        "action": channel.action,
        "channel": {"$ref": f"#/channels/{name}"},
        "bindings": {"mqtt": {"qos": 1, "retain": channel.retained, "bindingVersion": "0.2.0"}},
    }


def _message(payload: str) -> dict[str, Any]:
    if not payload.startswith("record-") and payload not in SIGNED:
        return {"payload": {"$ref": f"{_FOLDER}/{payload}.json"}}
    return {
        "summary": f"An envelope around `{payload}`.",
        "payload": {"$ref": f"{_FOLDER}/envelope.json"},
        "x-signed": {"$ref": f"{_FOLDER}/{payload}.json"},
    }
