"""What a site shows of itself, in lines for people; the words are those of `site_status`."""

from __future__ import annotations

from collections.abc import Iterator

from dollyd.daemon.site.status import NodeWord, SiteStatus, TableWord


def in_lines(status: SiteStatus) -> Iterator[str]:
    """The same for people, a line a word."""
    yield f"site {status.site}, as broker {status.broker} has it at {status.asked}"
    for node in status.nodes:
        yield from _node_lines(node)
    for table in status.tables:
        yield from _table_lines(table)
    for missing in status.missing:
        yield f"NOT HEARD: {missing}"


def _node_lines(node: NodeWord) -> Iterator[str]:
    yield f"node {node.node}: {node.state}, version {node.version}, said {_ago(node.age_s)}"
    if node.stale:
        yield f"  STALE: {node.stale}"
    if not node.health_time:
        yield "  broker, journal, clock: nothing is heard of them"
        return
    yield f"  broker: {node.broker}; {node.queue} records wait, said {_ago(node.health_age_s)}"
    verified = f"verified: {node.verified}" if node.verified else "not verified as a whole yet"
    yield f"  journal: {node.records} records, {verified}; {node.disk_free_mib} MiB free"
    yield f"  clock: {node.clock}"


def _table_lines(table: TableWord) -> Iterator[str]:
    mode = ", decided by hand" if table.mode == "manual" else ""
    what = f"{table.game} {table.variant}, {table.phase}, round {table.round}{mode}"
    yield f"table {table.table}: {what}, {_since(table.age_s)}"
    if table.stale:
        yield f"  STALE: {table.stale}"
    if table.blocked:
        yield f"  BLOCKED by {table.blocked}{f': {table.why}' if table.why else ''}"
        yield f"    -> {table.next}"
    if (last := table.last) is None:
        yield "  last: no round has ended, or none is known"
    elif last.kind:
        what = f"{last.kind} of round {last.round}: {last.outcome}"
        yield f"  last: {what}, {_ago(last.age_s)} ({last.checked})"
    else:
        yield f"  last: {last.checked}"
    for device in table.devices:
        cause = f" ({device.cause})" if device.cause else ""
        yield f"  {device.name}: {device.status}{cause}, {_since(device.age_s)}"


def _ago(age_s: int) -> str:
    return f"{_span(age_s)} ago" if age_s >= 0 else "nobody knows when"


def _since(age_s: int) -> str:
    return f"for {_span(age_s)}" if age_s >= 0 else "nobody knows since when"


def _span(seconds: int) -> str:
    """A span of time in the largest unit that it has twice."""
    for unit, length_s in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds // length_s} {unit}"
    return f"{seconds} s"
