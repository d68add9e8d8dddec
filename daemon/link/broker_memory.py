"""What a broker still knows, judged by what it keeps of the node's own retained status. Pure.

* Our will: the broker saw the end of our last link, and has everything that it acknowledged on it.
* One of our heartbeats: it has what it acknowledged before that one, if not more.
* The status of another life of this node: somebody else uses our name.

Brokers keep retained topics and queues in one memory. One that loses them apart has lost the session too, and
that is told at the connect.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from dollyd.daemon.link.node_status import NodeStatus
from dollyd.wire.decoding import from_json

STATUSES_KEPT = 256
"""Own statuses that are remembered: 40 minutes of heartbeats."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`known`: position up to which the broker has everything, None: nobody knows. `rival`: another life."""

    known: int | None = None
    rival: int = 0


class BrokerMemory:
    """What one life of a node has said of itself, and how far its records were then."""

    def __init__(self, session: int) -> None:
        self._session = session
        self._positions: OrderedDict[bytes, int] = OrderedDict()

    def said(self, status: bytes, position: int) -> None:
        """A status goes to the broker, or is its will; all up to `position` was acknowledged before."""
        self._positions[status] = position
        self._positions.move_to_end(status)
        while len(self._positions) > STATUSES_KEPT:
            self._positions.popitem(last=False)

    def judge(self, status: bytes | None) -> Verdict:
        """What follows from the status that the broker keeps, None where it keeps none."""
        if status is None or status in self._positions:
            return Verdict(self._positions.get(status) if status is not None else None)
        try:
            told = from_json(status, NodeStatus)
        except msgspec.DecodeError:  # not ours, and nothing that a node says
            return Verdict()
        # The will of an earlier life may come late; only one that lives says `online`, or is younger than we.
        alive = told.session > self._session or (told.session < self._session and told.state == "online")
        return Verdict(rival=told.session if alive else 0)
