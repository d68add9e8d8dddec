"""A change of the game's version between two starts, which stakes of the version before may forbid.

After a zero of roulette D stakes may be imprisoned: they take part in the next round by the rules under which
they were placed (rulebook 2.9). So another version is refused until a supervisor has made sure that there are
none, by a command under the old version, which is a record of the chain.
"""

from __future__ import annotations

import msgspec

from dollyd.daemon.core import decision
from dollyd.daemon.journal.entry import payload_of
from dollyd.daemon.journal.store import Journal, Tail
from dollyd.daemon.settings.load import TableSettings
from dollyd.wire.errors import ConfigError
from dollyd.wire.record import Kind, Setting

CONFIRMED = "none-imprisoned"
"""The incident that says so."""


def check_version_change(file: str, table: TableSettings, tail: Tail | None, journal: Journal) -> None:
    """Refuse a change while stakes may be imprisoned. Raises `ConfigError`."""
    if tail is None or tail.session is None or not tail.results:
        return
    before = msgspec.convert(tail.session["body"]["setting"], Setting)
    after = decision.setting(table.setup)
    last = tail.results[-1]
    if before == after or not last["body"]["outcome"].get("zeros_in_a_row", 0):
        return
    if _confirmed(journal, tail.chain, last["seq"]):
        return
    key = f"tables.{table.setup.table}.variant"
    problem = f"variant {before.variant} changes to {after.variant} after a zero: stakes may be imprisoned"
    remedy = (
        f"make sure that there are none and, with variant {before.variant} running, have an inspector or"
        " pit boss say so by `dollyd table none-imprisoned`"
    )
    raise ConfigError(file, key, problem, remedy)


def _confirmed(journal: Journal, chain: str, seq: int) -> bool:
    """Whether a person has said so after the record `seq`."""
    return any(
        entry.kind == Kind.INCIDENT and payload_of(entry.envelope)["body"]["what"] == CONFIRMED
        for entry in journal.entries(chain, seq + 1)
    )
