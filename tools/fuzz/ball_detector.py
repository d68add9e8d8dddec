"""Ball detector: no turn that the ball did not make, no direction that it did not have.

It stands beside a wheel, under a profile that asks for turns and directions. A run is the detector's own
game: which spin of the wheel it saw, only the time tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from msgspec import UNSET
from tests.support.tables import game_setup
from tests.support.tlp_lines import setup_of
from tools.fuzz.judge import Outcome, Truth, game_of, judge, number_of, results
from tools.fuzz.recording import Recording, damaged, record, recorded
from tools.fuzz.table import HearingTable
from tools.fuzz.tlp import COMMON_FAULTS, GAMES, prepare

from dollyd.drivers.protocols.tlp.ball import BallProtocol
from dollyd.drivers.protocols.tlp.wheel import WheelProtocol
from dollyd.simulators.ball_detector import BallDetector, BallDetectorOptions, SeenRun
from dollyd.simulators.tlp_wheel import TlpWheel, WheelOptions
from dollyd.wire.record import ResultBody

FAULTS = (
    *COMMON_FAULTS,
    "detector-misses-laps", "detector-counts-differ", "detector-sees-nothing", "detector-ball-lost",
    "detector-sensor-fault", "detector-second-ball", "tlp-lost-events",
)  # fmt: skip
_WHEEL_FAULTS = ("wheel-few-laps", "wheel-same-direction", "wheel-ball-out")
_DIRECTIONS = ("clockwise", "counter-clockwise")
_SETUP = game_setup("roulette", variant="E", profile_name="us-sd", ball=True)
_ENOUGH_LAPS = _SETUP.rules.ball_min_turns


@dataclass(frozen=True, slots=True)
class Spins:
    """What fell in each game of the wheel, and how the ball ran in each game of the detector."""

    numbers: Truth
    runs: Mapping[str, SeenRun]


def spins(rng: Random) -> Recording:
    """A few games of a wheel with a detector beside it; too few laps make no game."""
    wheel = TlpWheel(WheelOptions(), rng, 0)
    ball = BallDetector(BallDetectorOptions(), rng, 0, wheel.track)
    prepare(wheel, rng, _WHEEL_FAULTS)
    prepare(ball, rng, FAULTS)
    packets = record({"wheel": wheel, "ball": ball}, rng, lambda: len(wheel.played) >= GAMES)
    numbers = {
        spin.game: {"pocket": spin.number}
        for spin in wheel.played
        if spin.number is not None and spin.laps >= _ENOUGH_LAPS
    }
    return Recording(packets, Spins(numbers, {run.game: run for run in ball.played}))


def play(seed: int, rng: Random) -> Outcome:
    """One stream of both devices, each of them damaged."""
    recording = recorded(spins, seed, rng)
    table = HearingTable(
        _SETUP,
        {
            "wheel": WheelProtocol(setup_of("WH", "roulette")),
            "ball": BallProtocol(setup_of("BD", "roulette")),
        },
    )
    truth: Spins = recording.truth
    packets = damaged(recording, rng)
    table.play(packets)
    outcome = judge(table, "wheel", truth.numbers)
    for body in results(table):
        outcome.failures += _untrue(body, truth.runs)
        outcome.counts["results with a ball"] += bool(game_of(body, "ball"))
    outcome.show(packets)
    return outcome


def _untrue(body: ResultBody, runs: Mapping[str, SeenRun]) -> Iterator[str]:
    """What the detector's part of a result claims and was not so."""
    for witness in body.evidence.witnesses:
        if witness.device != "ball":
            continue
        run = runs.get(number_of(witness.game))
        if run is None:
            yield f"no run {witness.game}"
        elif witness.ball_turns_x100 is not UNSET and witness.ball_turns_x100 > 100 * run.laps:
            yield f"run {witness.game}: {witness.ball_turns_x100} turns of {run.laps} laps"
        elif witness.ball_direction not in (UNSET, _DIRECTIONS[run.direction]):
            yield f"run {witness.game}: the ball did not run {witness.ball_direction}"
