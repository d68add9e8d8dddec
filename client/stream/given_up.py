"""Records that people have given up for lost, as they name them on a command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from dollyd.client.stream.replay import GapError

_FORM = re.compile(r"([0-9a-f]{32}):([0-9]{1,15})-([0-9]{1,15})", re.ASCII)


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Records `first` to `last` of a chain."""

    chain: str
    first: int
    last: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Out of `CHAIN:FIRST-LAST`. Raises `ValueError`."""
        found = _FORM.fullmatch(text)
        if found is None or not 0 < int(found[2]) <= int(found[3]):
            raise ValueError(f"{text!r} is not CHAIN:FIRST-LAST")
        return cls(found[1], int(found[2]), int(found[3]))

    def covers(self, gap: GapError) -> bool:
        """Whether all records of a gap are given up."""
        return self.chain == gap.chain and self.first <= gap.first and gap.last <= self.last
