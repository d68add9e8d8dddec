"""What people ask of records that were verified: when, by what clock, and who decided by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from dollyd.client.proof.reading import Read


class _Approval(msgspec.Struct):
    operator: str
    role: str


class _Approvals(msgspec.Struct):
    approvals: list[_Approval] = []


_APPROVALS = msgspec.json.Decoder(_Approvals)


@dataclass(slots=True)
class Facts:
    """Of all records that were taken."""

    since: str = ""
    """UTC of the earliest record, as it says itself; empty before there is one ..."""
    until: str = ""
    """... and of the latest."""
    unsynchronised: int = 0
    """Records made while nothing set the clock."""
    error_bound_us: int = 0
    """The largest error of UTC that the time service vouched for."""
    persons: Counter[str] = field(default_factory=Counter)
    """Who entered, corrected or approved, with the role that they signed for, and how often."""

    def take(self, found: Read) -> None:
        """Count a record."""
        self.since = min(self.since or found.utc, found.utc)
        self.until = max(self.until, found.utc)
        self.unsynchronised += not found.synchronised
        self.error_bound_us = max(self.error_bound_us, found.error_bound_us)
        if found.by_people:
            try:
                approvals = _APPROVALS.decode(found.by_people).approvals
            except msgspec.DecodeError:
                return  # which is a problem, and told as one
            self.persons.update(f"{one.operator} ({one.role})" for one in approvals)
