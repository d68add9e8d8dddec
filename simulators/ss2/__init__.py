"""A simulated Cammegh SlingShot 2 roulette wheel (part 1 of the device notes)."""

from dollyd.simulators.ss2.options import (
    COMPACT,
    PARAMETERS,
    SHORT,
    Lengths,
    PlayedGame,
    Ss2Options,
    pocket_texts,
)
from dollyd.simulators.ss2.wheel import Ss2Wheel

__all__ = [
    "COMPACT",
    "PARAMETERS",
    "SHORT",
    "Lengths",
    "PlayedGame",
    "Ss2Options",
    "Ss2Wheel",
    "pocket_texts",
]
