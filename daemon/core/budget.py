"""How many records a device, a person or a table may cause: some at once, and a few a second.

Whoever spends has an account: the time at which all that was spent has come back. An account that is even is
no account at all, so only those are kept that have spent within the last seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dollyd.wire.stamp import NS_PER_S, Stamp

RECORDS_AT_ONCE = 20
"""Records that a device may cause at once; a round of the liveliest game has fewer than ten."""
RECORDS_PER_S = 2
"""Records a second that it may cause for ever."""
TABLE_SHARE = 2
"""A table may cause so many times what one of its devices may."""
PAUSE_MS = 10_000
"""How long a device that was too fast is not read, for the first time: at least half its budget has come back
then, for pauses are shortened by chance by up to a half."""
PAUSE_MAX_MS = 300_000
"""Each further pause is twice as long, up to this."""
FORGIVEN_MS = 600_000
"""A device that kept within its budget for so long begins with the first pause again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A budget: so many records at once, and so many a second from then on."""

    at_once: int = RECORDS_AT_ONCE
    per_s: int = RECORDS_PER_S

    def times(self, share: int) -> Limits:
        """A budget several times as large."""
        return Limits(self.at_once * share, self.per_s * share)


@dataclass(frozen=True, slots=True)
class Account:
    """Who has spent; at `even_ns`, monotonic, nothing of it is left."""

    holder: str
    even_ns: int


Accounts: TypeAlias = tuple[Account, ...]


def overdrawn(accounts: Accounts, holder: str, limits: Limits, at: Stamp) -> bool:
    """Whether a holder has spent all that may be spent at once."""
    return _even_ns(accounts, holder, at) - at.mono_ns >= limits.at_once * NS_PER_S // limits.per_s


def spend(accounts: Accounts, holder: str, records: int, limits: Limits, at: Stamp) -> Accounts:
    """Put records down to a holder, and forget accounts that are even."""
    spent_ns = records * NS_PER_S // limits.per_s
    changed = Account(holder, _even_ns(accounts, holder, at) + spent_ns)
    others = (one for one in accounts if one.holder != holder and one.even_ns > at.mono_ns)
    return (*others, changed) if spent_ns else accounts


def _even_ns(accounts: Accounts, holder: str, at: Stamp) -> int:
    spent = next((one.even_ns for one in accounts if one.holder == holder), at.mono_ns)
    return max(spent, at.mono_ns)
