"""How the publisher fares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublisherStats:
    """For the health topic. `queue` counts the entries past the cursor that the publisher knows of."""

    connected: bool
    broker: str
    session_present: bool
    cursor: int
    queue: int
    waiting_ms: int
    """How long the next acknowledgement has been waited for; 0 while nothing is in the queue."""
    links: int
    """Connections made since the start."""
    publishes: int
    repeats: int
    """Of `publishes`, those that had been sent before."""
    last_error: str
    lost: Mapping[str, int]
    """Links that ended or could not be made, by cause."""
    retained_coalesced: int
    """States that a newer one overtook before they were published."""
    denied: Sequence[str]
    """Topics that the broker does not let this node publish to, 20 at most."""
    denied_why: Mapping[str, str]
    """Of each of them the size of what was denied, and why."""
    denials: int
    """Topics that were denied since the start, each as often as it began."""
