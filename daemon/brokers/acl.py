"""What a node must be allowed to do at the broker, as lines of Mosquitto's access list, and nothing more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dollyd.daemon.topics import ANY, Topics


def node_acl(topics: Topics, node: str, tables: Iterable[str], *, publishes_trust: bool) -> str:
    """The block of one node. Its user name (the common name of its certificate) is the node's name.

    `publishes_trust`: it is the one of the site that may publish the trust file; a second one could put an
    older version back.
    """
    lines = [f"user {node}", *_own(topics, node, publishes_trust=publishes_trust)]
    for table in tables:
        lines += _table(topics, table)
    return "\n".join(lines) + "\n"


def _own(topics: Topics, node: str, *, publishes_trust: bool) -> Iterator[str]:
    yield f"topic write {topics.node_status(node)}"
    yield f"topic write {topics.node_health(node)}"
    yield f"topic write {topics.node_keys(node)}"
    for scratch in ("scratch", "marker"):
        yield f"topic readwrite {topics.node_check(node, scratch)}"
    if publishes_trust:
        yield f"topic write {topics.trust()}"
    yield f"topic read {topics.every_node_status()}"
    yield "topic read $SYS/broker/#"


def _table(topics: Topics, table: str) -> Iterator[str]:
    for mine in (
        topics.every_record(table),
        topics.last(table),
        topics.state(table),
        topics.checkpoint(table),
        topics.command_reply(table),
        f"{topics.command_reply(table)}/{ANY}",
        topics.every_replay_answer(table),
    ):
        yield f"topic write {mine}"
    yield f"topic readwrite {topics.every_device(table)}"  # `dollyd doctor` hears there what the daemon says
    for others in (topics.command(table), topics.every_replay_ask(table), topics.every_ack(table)):
        yield f"topic read {others}"
    yield f"topic read {topics.every_witness(table)}"
