"""Money wheel: a sector is the one at which the wheel stopped, after as many turns as the rules ask.

The wheel has few sectors, so that a game is a short stream.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.support.tables import game_setup
from tools.fuzz.judge import Outcome
from tools.fuzz.recording import Recording, record, recorded
from tools.fuzz.table import HearingTable
from tools.fuzz.tlp import COMMON_FAULTS, GAMES, hear_damaged, prepare

from dollyd.daemon.core.games.money_wheel import Layout
from dollyd.drivers.protocols.tlp.money_wheel import MoneyWheelProtocol
from dollyd.drivers.spec import DeviceSetup
from dollyd.simulators.money_wheel import REQUIRED_TURNS, MoneyWheel, MoneyWheelOptions

FAULTS = (
    *COMMON_FAULTS,
    "money-few-turns", "money-few-turns", "money-exactly-enough", "money-one-turn", "money-on-pin",
    "money-touched", "money-reversed", "money-home-mismatch", "money-motor", "money-sector-blank",
    "money-sector-off-wheel", "money-sector-changes", "money-counts-differ", "tlp-lost-events",
)  # fmt: skip
_SECTORS = ("1", "2", "5", "10", "20")
_LAYOUT = Layout(id="fuzz", sectors=_SECTORS)
_SETUP = replace(game_setup("money-wheel"), layout=_LAYOUT)
_DEVICE = DeviceSetup("wheel", "wheel", readings=_SETUP.game.values(_LAYOUT), game="money-wheel")


def games(rng: Random) -> Recording:
    """A few games; a turn that is too short, or that was touched, has no outcome."""
    model = MoneyWheel(MoneyWheelOptions(sectors=len(_SECTORS), direction=rng.randint(0, 1)), rng, 0)
    prepare(model, rng, FAULTS)
    packets = record({"wheel": model}, rng, lambda: len(model.played) >= GAMES)
    counted = [
        turn
        for turn in model.played
        if turn.outcome == "completed"
        and turn.touched_at is None
        and turn.passes >= REQUIRED_TURNS * len(_SECTORS)
    ]
    return Recording(packets, {turn.game: {"sector": turn.sector} for turn in counted})


def play(seed: int, rng: Random) -> Outcome:
    """One stream."""
    table = HearingTable(_SETUP, {"wheel": MoneyWheelProtocol(_DEVICE)})
    return hear_damaged(recorded(games, seed, rng), table, "wheel", rng)
