"""Every kind of device that is fuzzed, by name."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tools.fuzz import (
    ball_detector,
    console,
    dice_camera,
    generators,
    money_wheel,
    number_line,
    odds_box,
    ss2_wheel,
    tlp_wheel,
)
from tools.fuzz.judge import Outcome

Play: TypeAlias = Callable[[int, Random], Outcome]
"""Plays one damaged stream; the seed of the run names its pool of well-made ones."""

KINDS: dict[str, Play] = {
    "ss2-wheel": ss2_wheel.play,
    "ss2-twice": ss2_wheel.play_twice,
    "odds-box": odds_box.play,
    "tlp-roulette": tlp_wheel.play_roulette,
    "tlp-boule": tlp_wheel.play_boule,
    "ball-detector": ball_detector.play,
    "money-wheel": money_wheel.play,
    "dice-camera": dice_camera.play,
    "console": console.play,
    "number-line": number_line.play,
    "generators": generators.play,
}
