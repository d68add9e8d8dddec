"""What a check of a broker has found, as one line for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is."""

    GOOD = "good"
    UNKNOWN = "unknown"
    """It cannot be seen from outside."""
    WARNING = "warning"
    WRONG = "wrong"
    """A guarantee does not hold with this broker."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    level: Level
    what: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        """For people."""
        tail = f"; {self.remedy}" if self.remedy else ""
        return f"{self.level:8} {self.what}: {self.text}{tail}"
