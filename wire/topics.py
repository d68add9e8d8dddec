"""The only place that builds a topic (design section 7). Root: `dolly/v1/<site>/`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dollyd.wire.errors import ensure

ANY = "+"
"""MQTT's wildcard for one level; only filters may hold it."""
NODE = "node"
"""The level under which nodes speak."""
TRUST = "trust"
NO_TABLES = frozenset({NODE, TRUST})
"""Levels that stand where a table's name stands; no table may be called so."""

_NAME = re.compile(r"[a-z0-9-]{1,40}")


def check_name(text: str) -> bool:
    """Whether `text` can be one level of a topic: 1-40 of `a-z`, `0-9` and `-`; so never a wildcard.

    Names from outside (configuration, consumers) are checked with this before a topic is built.
    """
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of one site. A name that `check_name` refuses raises `InvariantError`."""

    site: str

    def __post_init__(self) -> None:
        ensure(check_name(self.site), f"site name {self.site!r} fits a topic")

    def record(self, table: str, kind: str) -> str:
        """The signed records of a table, in order: the stream that settlement reads."""
        return self._table(table, "record", kind)

    def last(self, table: str) -> str:
        """Retained: the last final record of a table, or the correction of it."""
        return self._table(table, "last")

    def state(self, table: str) -> str:
        """Retained: plain JSON for people and displays."""
        return self._table(table, "state")

    def device(self, table: str, name: str) -> str:
        """Retained: state, identity and counters of one device."""
        return self._table(table, "device", name)

    def command(self, table: str) -> str:
        """Signed commands of operators."""
        return self._table(table, "command")

    def command_reply(self, table: str, to: str = "") -> str:
        """Answers to commands: where no response topic is named, or to one who asks."""
        return self._table(table, "command", "reply", *([to] if to else []))

    def replay_ask(self, table: str, consumer: str) -> str:
        """Requests of one consumer for records by sequence number; who may publish here is that consumer."""
        return self._table(table, "replay", consumer, "ask")

    def replay_answer(self, table: str, consumer: str) -> str:
        """Records sent again to one consumer."""
        return self._table(table, "replay", consumer)

    def ack(self, table: str, consumer: str) -> str:
        """Retained: how far a consumer has come."""
        return self._table(table, "ack", consumer)

    def checkpoint(self, table: str) -> str:
        """Retained: the last checkpoint of a table's chain, a signed record."""
        return self._table(table, "checkpoint")

    def witness(self, table: str, witness: str) -> str:
        """Retained: what a witness says of a table's last checkpoint."""
        return self._table(table, "witness", witness)

    def trust(self) -> str:
        """Retained: the site's trust file, signed by its root."""
        return self._join(TRUST)

    def node_status(self, node: str) -> str:
        """Retained: birth, heartbeat and death of a node; also its will."""
        return self._node(node, "status")

    def node_health(self, node: str) -> str:
        """Retained: queues, journal, disk, clock, memory of a node."""
        return self._node(node, "health")

    def node_keys(self, node: str) -> str:
        """Retained: the node's public keys (JWKS)."""
        return self._node(node, "keys")

    def node_check(self, node: str, what: str) -> str:
        """Scratch paper of a node's own check of the broker; nobody else listens there."""
        _check(node, what)
        return self._join(NODE, node, "check", what)

    def forbidden(self) -> str:
        """Belongs to nobody: a broker with an access list lets no client publish it."""
        return self._join("nobody", "check")

    def below_site(self, topic: str) -> list[str]:
        """The levels of a topic below the site's own, as a receiver sorts messages by them."""
        return topic.split("/")[self._join().count("/") + 1 :]

    def shared(self, group: str, topic_filter: str) -> str:
        """Filter: the same, each message for one member of the group only (MQTT 5, 4.8.2)."""
        _check(group)
        return f"$share/{group}/{topic_filter}"

    def every_record(self, table: str = ANY) -> str:
        """Filter: records of all kinds, of one table or of all."""
        return self._filter(table, "record", ANY)

    def every_last(self) -> str:
        """Filter: the last final record of every table."""
        return self._filter(ANY, "last")

    def every_state(self) -> str:
        """Filter: the state of every table."""
        return self._filter(ANY, "state")

    def every_device(self, table: str = ANY) -> str:
        """Filter: the devices of one table or of all."""
        return self._filter(table, "device", ANY)

    def every_replay_ask(self, table: str) -> str:
        """Filter: the requests of all consumers for records of one table."""
        return f"{self._table(table, 'replay')}/{ANY}/ask"

    def every_replay_answer(self, table: str) -> str:
        """Filter: records of one table sent again to any consumer."""
        return f"{self._table(table, 'replay')}/{ANY}"

    def every_ack(self, table: str = ANY) -> str:
        """Filter: the watermarks of all consumers, of one table or of all."""
        return self._filter(table, "ack", ANY)

    def every_checkpoint(self) -> str:
        """Filter: the last checkpoint of every table."""
        return self._filter(ANY, "checkpoint")

    def of_every_table(self, *levels: str) -> str:
        """Filter: one topic of every table, such as the answers to one consumer."""
        _check(*levels)
        return self._join(ANY, *levels)

    def every_witness(self, table: str = ANY) -> str:
        """Filter: the statements of all witnesses, of one table or of all."""
        return self._filter(table, "witness", ANY)

    def every_node_status(self) -> str:
        """Filter: birth and death of every node."""
        return self._join(NODE, ANY, "status")

    def every_node_health(self) -> str:
        """Filter: the health of every node."""
        return self._join(NODE, ANY, "health")

    def every_node_keys(self) -> str:
        """Filter: the keys of every node."""
        return self._join(NODE, ANY, "keys")

    def _table(self, table: str, *rest: str) -> str:
        ensure(table not in NO_TABLES, f"no table is called {table!r}")
        _check(table, *rest)
        return self._join(table, *rest)

    def _node(self, node: str, what: str) -> str:
        _check(node)
        return self._join(NODE, node, what)

    def _filter(self, table: str, *rest: str) -> str:
        return self._join(ANY, *rest) if table == ANY else f"{self._table(table, rest[0])}/{ANY}"

    def _join(self, *levels: str) -> str:
        return "/".join(("dolly", "v1", self.site, *levels))


def _check(*names: str) -> None:
    for name in names:
        ensure(check_name(name), f"name {name!r} fits a topic")
