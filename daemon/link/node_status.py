"""What a node says of its own life: `online`, `offline`, and until when to believe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from dollyd.wire.stamp import NS_PER_S, iso_utc

VALID_BEATS = 3
"""Heartbeats that may be missing before a node's `online` is worth nothing."""


@dataclass(frozen=True, slots=True)
class Node:
    """Who publishes. `session` grows with each start, so that an old will is told from a new birth."""

    name: str
    version: str
    session: int

    def status(
        self, state: Literal["online", "offline"], utc_ns: int, beat_s: int, taken_over: int = 0
    ) -> bytes:
        """What goes to `node/<node>/status` now."""
        if state == "online":
            status = online(self.name, self.session, self.version, utc_ns, beat_s)
            return msgspec.json.encode(msgspec.structs.replace(status, taken_over=taken_over))
        return msgspec.json.encode(offline(self.name, self.session, self.version, utc_ns))


class NodeStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """Payload of `node/<node>/status`. `online` is worth nothing past `valid_until`.

    `session` grows with each start: an `offline` of an older session is the will of a life that is over.
    `valid_for_s` is the same span for a listener that heard it fresh and does not trust two clocks to agree.
    """

    state: Literal["online", "offline"]
    node: str
    session: int
    version: str
    time: str
    valid_until: str = ""
    valid_for_s: int = 0
    taken_over: int = 0
    """How often since its start another client of its name threw this node off the broker."""


def online(node: str, session: int, version: str, utc_ns: int, beat_s: int) -> NodeStatus:
    """Birth or heartbeat of a node that speaks every `beat_s` seconds."""
    valid_for_s = VALID_BEATS * beat_s
    until = iso_utc(utc_ns + valid_for_s * NS_PER_S)
    return NodeStatus("online", node, session, version, iso_utc(utc_ns), until, valid_for_s)


def offline(node: str, session: int, version: str, utc_ns: int) -> NodeStatus:
    """A goodbye; as a will it carries the time of the birth."""
    return NodeStatus("offline", node, session, version, iso_utc(utc_ns))
