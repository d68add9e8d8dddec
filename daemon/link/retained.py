"""What the broker keeps of a node: the latest payload of each retained topic, and which it has not got."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dollyd.daemon.journal.stream_source import Entry
from dollyd.wire.record import Kind
from dollyd.wire.topics import Topics


class Retained:
    """Lives in the event loop. A payload that changes before it was published is published once."""

    def __init__(self, topics: Topics) -> None:
        self.changed = asyncio.Event()
        self.coalesced = 0
        self._topics = topics
        self._payloads: dict[str, bytes] = {}
        self._waiting: dict[str, None] = {}  # an ordered set: first changed, first published
        self._last_rounds: dict[str, int] = {}
        self._last_ids: dict[str, int] = {}  # `last` or `checkpoint` of a table -> entry that it came from

    @property
    def waiting(self) -> tuple[str, ...]:
        """The topics whose payload the broker has not got, first changed first."""
        return tuple(self._waiting)

    def ready(self, *, repeating: bool) -> tuple[str, ...]:
        """Those that may go now: while old records are repeated, none that is made of records."""
        return tuple(topic for topic in self._waiting if not (repeating and topic in self._last_ids))

    def put(self, topic: str, payload: bytes) -> None:
        """The latest payload of a topic."""
        if self._payloads.get(topic) != payload:
            self.coalesced += topic in self._waiting
            self._payloads[topic] = payload
            self.again((topic,))

    def payload(self, topic: str) -> bytes:
        """The latest payload of a topic that was put."""
        return self._payloads[topic]

    def published(self, topic: str, payload: bytes) -> None:
        """The broker has it; a newer payload of the topic goes on waiting."""
        if self._payloads[topic] is payload:
            self._waiting.pop(topic, None)

    def again(self, topics: Iterable[str]) -> None:
        """Publish these topics, whether they have changed or not."""
        self._waiting.update(dict.fromkeys(topics))
        self.changed.set()

    def all_again(self) -> None:
        """Publish everything again: the broker may have lost it."""
        self.again(self._payloads)

    def follow(self, entry: Entry) -> None:
        """A record was acknowledged: what displays and witnesses are shown of it."""
        if entry.final or self._corrects_last(entry):
            self.show_last(entry)
        elif entry.kind == Kind.CHECKPOINT:
            self._show(self._topics.checkpoint(entry.table), entry)

    def show_last(self, entry: Entry) -> None:
        """Show the final record of a round, or its correction, as the table's `last`; never an older one."""
        self._last_rounds[entry.table] = entry.round
        self._show(self._topics.last(entry.table), entry)

    def _corrects_last(self, entry: Entry) -> bool:
        """Whether a correction is of the round that `last` shows."""
        return entry.kind == Kind.CORRECTION and self._last_rounds.get(entry.table) == entry.round

    def _show(self, topic: str, entry: Entry) -> None:
        if entry.id > self._last_ids.get(topic, 0):
            self._last_ids[topic] = entry.id
            self.put(topic, entry.envelope)
