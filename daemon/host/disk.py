"""How much room the journal's disk has, as three levels; below the last one no new round is begun."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

RETURNED_PERCENT = 125
"""So much of a limit must be free again before the level rises: free space at a limit goes up and down."""


class Level(StrEnum):
    """What the room on the disk allows."""

    PLENTY = "plenty"
    LOW = "low"
    """Records only: raw captures are no longer kept."""
    FULL = "disk-full"
    """What is left is for the rounds in progress."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Free bytes below which the disk is low, and full."""

    low_bytes: int
    floor_bytes: int


def level(free_bytes: int, before: Level, limits: Limits) -> Level:
    """The level now. It falls at a limit, and rises when `RETURNED_PERCENT` of that limit is free."""

    def below(limit_bytes: int, *, was_below: bool) -> bool:
        return free_bytes * 100 < limit_bytes * (RETURNED_PERCENT if was_below else 100)

    if below(limits.floor_bytes, was_below=before is Level.FULL):
        return Level.FULL
    if below(limits.low_bytes, was_below=before is not Level.PLENTY):
        return Level.LOW
    return Level.PLENTY
