"""Who may do what at the broker, as lines of Mosquitto's access list, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from dollyd.wire.topics import ANY, Topics

ARCHIVE_GROUP = "archive"
"""Instances of an archive acknowledge under this name."""


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


# --- everybody else --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Role:
    """What a kind of user other than a node does at the broker."""

    example: str
    """The user of this role where a site names none."""
    about: str
    """What it is for, in one line."""
    rights: Callable[[Topics, str], Iterator[str]]
    """Lines of the access list for a user of that name."""


def user_acl(topics: Topics, name: str, role: str) -> str:
    """The block of one user in a role of `ROLES`."""
    return "\n".join([f"user {name}", *ROLES[role].rights(topics, name)]) + "\n"


def _settlement(topics: Topics, name: str) -> Iterator[str]:
    yield from _kept(topics)
    yield from _reads(topics.every_state(), topics.every_witness())
    yield from _follows(topics, name, ack=name)


def _archive(topics: Topics, name: str) -> Iterator[str]:
    yield from _kept(topics)
    yield from _follows(topics, name, ack=ARCHIVE_GROUP)


def _witness(topics: Topics, name: str) -> Iterator[str]:
    yield from _kept(topics)
    yield f"topic readwrite {topics.of_every_table('witness', name)}"
    yield from _follows(topics, name, ack=name)


def _kept(topics: Topics) -> Iterator[str]:
    yield from _reads(topics.every_record(), topics.every_last(), topics.every_checkpoint())


def _follows(topics: Topics, name: str, ack: str) -> Iterator[str]:
    """What `Stream` needs beyond the records: who is there, whose keys count, replays in its own name."""
    yield from _reads(topics.every_node_status(), topics.every_node_keys(), topics.trust())
    yield f"topic read {topics.of_every_table('replay', name)}"
    yield f"topic readwrite {topics.of_every_table('ack', ack)}"
    yield f"topic write {topics.of_every_table('replay', name, 'ask')}"


def _auditor(topics: Topics, _name: str) -> Iterator[str]:
    yield from _kept(topics)
    yield from _reads(topics.every_witness(), topics.every_node_keys(), topics.trust())


def _display(topics: Topics, _name: str) -> Iterator[str]:
    yield from _reads(topics.every_last(), topics.every_state())


def _monitor(topics: Topics, _name: str) -> Iterator[str]:
    yield from _reads(topics.every_state(), topics.every_device())
    yield from _reads(topics.every_node_status(), topics.every_node_health(), "$SYS/broker/#")


def _desk(topics: Topics, _name: str) -> Iterator[str]:
    yield from _reads(topics.every_state(), topics.every_last(), topics.every_device())
    yield from _reads(topics.every_node_status(), topics.every_node_health())
    reply = topics.of_every_table("command", "reply")
    yield from _reads(reply, f"{reply}/{ANY}")
    yield f"topic write {topics.of_every_table('command')}"


def _reads(*filters: str) -> Iterator[str]:
    return (f"topic read {one}" for one in filters)


ROLES: Mapping[str, Role] = {
    "settlement": Role("settlement", "pays by the records, says how far it has come", _settlement),
    "archive": Role("archive1", "`dollyd archive`, an instance of the group `archive`", _archive),
    "witness": Role("witness1", "`dollyd witness`, which also says what it saw", _witness),
    "auditor": Role("auditor", "reads records and keys, and says nothing", _auditor),
    "display": Role("display", "shows the last results and the state of tables", _display),
    "monitor": Role("monitor", "watches nodes, devices and the broker itself", _monitor),
    "desk": Role("desk", "`dollyd table`: carries commands, which persons sign with their own keys", _desk),
}
"""Kinds of users beside the nodes."""
