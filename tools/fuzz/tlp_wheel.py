"""TLP/1 wheels: a number is the one that fell in that game; of a boule bowl, number and cup."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.tables import game_setup
from tests.support.tlp_lines import setup_of
from tools.fuzz.judge import Outcome
from tools.fuzz.recording import Recording, record, recorded
from tools.fuzz.table import HearingTable
from tools.fuzz.tlp import COMMON_FAULTS, GAMES, hear_damaged, prepare

from dollyd.drivers.protocols.tlp.wheel import WheelProtocol
from dollyd.simulators.tlp_wheel import PlayedSpin, TlpWheel, WheelOptions, boule_bowl

FAULTS = (
    *COMMON_FAULTS,
    "wheel-launch-fails", "wheel-launch-given-up", "wheel-few-laps", "wheel-same-direction",
    "wheel-second-ball", "wheel-ball-out", "wheel-rotor-stops", "wheel-direction-flips", "wheel-quiet-stop",
    "wheel-flag-blinks", "wheel-jump-2-5", "wheel-jump-3-2", "wheel-number-early", "wheel-number-blank",
    "wheel-number-off-wheel", "wheel-number-changes", "wheel-counts-differ", "tlp-lost-events",
)  # fmt: skip
_FIRST_GAMES = (1, 412, 9999)
_ROULETTE, _BOULE = game_setup("roulette"), game_setup("boule")


def _recording(
    options: WheelOptions, rng: Random, truth: Callable[[PlayedSpin], dict[str, str | int]]
) -> Recording:
    model = TlpWheel(options, rng, 0)
    prepare(model, rng, FAULTS)
    packets = record({"wheel": model}, rng, lambda: len(model.played) >= GAMES)
    return Recording(packets, {spin.game: truth(spin) for spin in model.played if spin.number is not None})


def roulette(rng: Random) -> Recording:
    """A few games of roulette."""
    options = WheelOptions(first_game=rng.choice(_FIRST_GAMES))
    return _recording(options, rng, lambda spin: {"pocket": str(spin.number)})


def boule(rng: Random) -> Recording:
    """A few games of boule."""
    return _recording(
        boule_bowl(), rng, lambda spin: {"number": str(spin.number), "cup": int(spin.pocket or 0)}
    )


def play_roulette(seed: int, rng: Random) -> Outcome:
    """One stream of a roulette wheel."""
    table = HearingTable(_ROULETTE, {"wheel": WheelProtocol(setup_of("WH", "roulette"))})
    return hear_damaged(recorded(roulette, seed, rng), table, "wheel", rng)


def play_boule(seed: int, rng: Random) -> Outcome:
    """One stream of a boule bowl."""
    table = HearingTable(_BOULE, {"wheel": WheelProtocol(setup_of("WH", "boule"))})
    return hear_damaged(recorded(boule, seed, rng), table, "wheel", rng)
