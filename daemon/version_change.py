"""A change of the game's version between two starts, which stakes of the version before may forbid.

After a zero of roulette D stakes may be imprisoned: they take part in the next round by the rules under which
they were placed (rulebook 2.9). So another version is refused until an operator has made sure that there are
none, and says so in the configuration for this very round.
"""

from __future__ import annotations

import msgspec

from dollyd.daemon.core import decision
from dollyd.daemon.core.record import Setting
from dollyd.daemon.errors import ConfigError
from dollyd.daemon.journal import Tail
from dollyd.daemon.settings import TableSettings


def check_version_change(file: str, table: TableSettings, tail: Tail | None) -> None:
    """Refuse a change while stakes may be imprisoned. Raises `ConfigError`."""
    if tail is None or tail.session is None or not tail.results:
        return
    before = msgspec.convert(tail.session["body"]["setting"], Setting)
    after = decision.setting(table.setup)
    zeros = tail.results[-1]["body"]["outcome"].get("zeros_in_a_row", 0)
    if before == after or not zeros or table.no_stakes_imprisoned_after_round == tail.last_round:
        return
    key = f"tables.{table.setup.table}.variant"
    problem = f"variant {before.variant} changes to {after.variant} after a zero: stakes may be imprisoned"
    remedy = f"make sure that there are none and set no_stakes_imprisoned_after_round = {tail.last_round}"
    raise ConfigError(file, key, problem, remedy)
