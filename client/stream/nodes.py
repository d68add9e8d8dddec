"""Which nodes are there, by what their status topics say, and for how long that may be believed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from dollyd.wire.decoding import from_json

NODES_MAX = 1000
"""Nodes remembered: more than any site has."""

_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class NodeState(StrEnum):
    """What is believed of a node."""

    ONLINE = "online"
    OFFLINE = "offline"
    """It said so itself, or its will did."""
    EXPIRED = "expired"
    """It said `online`, and has not said it again in time: dead, or cut off with its broker."""
    UNKNOWN = "unknown"
    """Nothing was heard of it."""


class _Status(msgspec.Struct, frozen=True):
    """What concerns us in the payload of `node/<node>/status`."""

    state: str
    node: str
    session: _Number
    version: str = ""
    valid_until: str = ""
    valid_for_s: _Number = 0


@dataclass(frozen=True, slots=True)
class _Heard:
    status: _Status
    expires_s: float


class Nodes:
    """Takes the status messages of nodes and says what is true of a node now.

    `now_s` is a monotonic time in seconds, `utc_s` UTC in seconds since 1970.
    """

    def __init__(self) -> None:
        self.ignored = 0
        """Messages that were no status, or were wills of older sessions."""
        self._heard: dict[str, _Heard] = {}

    def take(self, node: str, payload: bytes, now_s: float, utc_s: float, *, retained: bool) -> None:
        """Take one message from a node's status topic.

        One that is heard fresh counts for `valid_for_s`, whatever the two clocks think of each other. A
        retained one may be old: it counts no longer than its `valid_until` either.
        """
        try:
            status = from_json(payload, _Status)
            valid_s = float(status.valid_for_s)
            if retained and status.valid_until:
                valid_s = min(valid_s, datetime.fromisoformat(status.valid_until).timestamp() - utc_s)
        except (msgspec.DecodeError, ValueError):
            self.ignored += 1
            return
        if status.node != node or self._is_of_the_past(status, now_s) or self._is_one_too_many(node):
            self.ignored += 1
            return
        self._heard[node] = _Heard(status, now_s + valid_s)

    def state(self, node: str, now_s: float) -> NodeState:
        """What is believed of a node now."""
        heard = self._heard.get(node)
        if heard is None:
            return NodeState.UNKNOWN
        if heard.status.state != "online":
            return NodeState.OFFLINE
        return NodeState.ONLINE if now_s < heard.expires_s else NodeState.EXPIRED

    def states(self, now_s: float) -> dict[str, NodeState]:
        """What is believed of every node that was heard."""
        return {node: self.state(node, now_s) for node in sorted(self._heard)}

    def version(self, node: str) -> str:
        """The version that a node last told, empty where it told none."""
        heard = self._heard.get(node)
        return heard.status.version if heard else ""

    def _is_of_the_past(self, status: _Status, now_s: float) -> bool:
        """A broker may speak an old session's will after the new one's birth; a living node outweighs it.

        Once the newer one is gone its number protects nothing: a node set up anew counts from 1 again.
        """
        heard = self._heard.get(status.node)
        if heard is None or status.session >= heard.status.session:
            return False
        return self.state(status.node, now_s) is NodeState.ONLINE

    def _is_one_too_many(self, node: str) -> bool:
        return node not in self._heard and len(self._heard) >= NODES_MAX


def utc_now_s() -> float:
    """UTC in seconds since 1970."""
    return datetime.now(UTC).timestamp()
