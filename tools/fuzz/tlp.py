"""TLP/1 devices that play games: how they are played compactly, damaged and judged."""

from __future__ import annotations

from random import Random

from tools.fuzz.judge import Outcome, judge
from tools.fuzz.recording import Recording, damaged
from tools.fuzz.table import HearingTable

from dollyd.simulators.tlp_device import TlpDevice

PACE = 6
"""How much faster than in life games are played; heartbeats are not, so that there are fewer of them."""
GAMES = 2
"""Games of a stream, so that there is another one to confuse the first with."""
COMMON_FAULTS = (
    "tlp-bad-crc", "tlp-ack-lost", "tlp-heartbeat-gap", "tlp-wrong-game", "tlp-result-missing",
    "tlp-result-again", "tlp-counter-jump", "tlp-power-cut",
)  # fmt: skip
_FAULTY = 0.4


def prepare(model: TlpDevice, rng: Random, faults: tuple[str, ...]) -> None:
    """Compact games; in some of them a fault of the device strikes at its next occasion."""
    model.second_ns //= PACE
    if rng.random() < _FAULTY:
        model.faults.set(rng.choice(faults))


def hear_damaged(recording: Recording, table: HearingTable, device: str, rng: Random) -> Outcome:
    """A stream that was damaged on its way; its truth is a `Truth` of this device."""
    packets = damaged(recording, rng)
    table.play(packets)
    outcome = judge(table, device, recording.truth)
    outcome.show(packets)
    return outcome
