"""What happens when: the same seed and number of games give the same plan.

A plan goes by games played. What exactly a strike meets (which record is on its way, which line is half sent)
is a matter of real time, and is not the same in two runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    """What may happen, in the words of the report."""

    DAEMON_KILLED = "daemon killed"
    BROKER_KILLED = "broker killed, its memory up to 5 s old"
    ACKS_SWALLOWED = "acknowledgements swallowed"
    NODE_CUT = "node's line cut"
    NODE_DEAF = "node's line half open"
    CONSUMER_CUT = "consumer's line cut"
    CONSUMER_DEAF = "consumer's line half open"
    CONSUMER_KILLED = "consumer killed"
    CONSUMER_AWAY = "consumer away beyond the broker's queue"
    DISK_LOW = "disk nearly full"
    DISK_FULL = "disk full to the last byte"
    CLOCK_STEPPED = "clock stepped"
    UNPLUGGED = "device unplugged"
    KEY_ROTATED = "key rotated"


@dataclass(frozen=True, slots=True)
class Often:
    """One in so many games, but `at_least` so often; each lasts between `least_s` and `most_s` seconds."""

    games: int
    least_s: float = 0.0
    most_s: float = 0.0
    at_least: int = 1


MATRIX = {
    Fault.DAEMON_KILLED: Often(1000, 0.0, 0.5, at_least=2),
    Fault.BROKER_KILLED: Often(2000, 0.0, 1.0, at_least=2),
    Fault.ACKS_SWALLOWED: Often(5000, 5.5, 8.0),
    Fault.NODE_CUT: Often(3000),
    Fault.NODE_DEAF: Often(5000, 0.5, 10.0),
    Fault.CONSUMER_CUT: Often(3000),
    Fault.CONSUMER_DEAF: Often(5000, 0.5, 10.0),
    Fault.CONSUMER_KILLED: Often(1000, 0.0, 0.5, at_least=2),
    Fault.CONSUMER_AWAY: Often(10_000),
    Fault.DISK_LOW: Often(10_000, 2.5, 4.0),
    Fault.DISK_FULL: Often(10_000, 2.5, 4.0),
    Fault.CLOCK_STEPPED: Often(2000),
    Fault.UNPLUGGED: Often(300, 0.0, 2.0, at_least=2),
    Fault.KEY_ROTATED: Often(25_000),
}
"""At some 40 games a second one of them strikes node, broker or consumer every seven seconds: any denser, and
the consumer would hardly ever be at work."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One thing that happens: when `at_game` games were played, for `for_s` seconds.

    `seed` decides what else there is to decide: which device, how far the clock steps.
    """

    at_game: int
    fault: Fault
    for_s: float
    seed: int


def plan(seed: int, games: int) -> list[Strike]:
    """Everything that happens in a soak, in order."""
    rng = Random(f"soak {seed}")
    strikes = [
        Strike(rng.randrange(games), fault, rng.uniform(often.least_s, often.most_s), rng.getrandbits(32))
        for fault, often in MATRIX.items()
        for _ in range(max(often.at_least, games // often.games))
    ]
    return sorted(strikes, key=lambda strike: strike.at_game)
