"""Dice camera: the faces are those that the camera saw in that very throw."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tests.support.tables import game_setup
from tests.support.tlp_lines import setup_of
from tools.fuzz.judge import Outcome
from tools.fuzz.recording import Recording, record, recorded
from tools.fuzz.table import HearingTable
from tools.fuzz.tlp import COMMON_FAULTS, hear_damaged, prepare

from dollyd.daemon.core.events import BetsClosed, HouseEvent, Permitted
from dollyd.daemon.core.state import Betting, Draw
from dollyd.drivers.protocols.tlp.dice import DiceProtocol
from dollyd.simulators.dice_camera import DiceCamera, DiceCameraOptions

FAULTS = (
    *COMMON_FAULTS,
    "dice-cocked", "dice-stacked", "dice-one-missing", "dice-outside", "dice-apart", "dice-not-shaken",
    "dice-foreign", "dice-unread", "dice-off-die", "dice-covered", "dice-empty", "dice-frozen",
    "dice-frozen-unseen", "dice-still-moving", "dice-other-number",
)  # fmt: skip
_THROWS = 3
_SETUP = game_setup("tuplanoppa")


class DiceTable(HearingTable):
    """The dealer closes the bets and permits each throw at once."""

    def people(self) -> Iterable[HouseEvent]:
        """Whatever is asked of the dealer."""
        yield from super().people()
        current = self.engine.table.round
        if current is None or current.unresolved:
            return
        if current.betting is Betting.OPEN:
            yield BetsClosed("fuzz")
        if current.throw.permitted is None and current.draw is Draw.NOT_STARTED:
            yield Permitted("fuzz")


def throws(rng: Random) -> Recording:
    """A few throws; a picture of the throw before shows nothing of this one."""
    model = DiceCamera(DiceCameraOptions(), rng, 0)
    prepare(model, rng, FAULTS)
    packets = record({"dice": model}, rng, lambda: len(model.played) >= _THROWS)
    seen = [throw for throw in model.played if throw.outcome == "completed"]
    truth = {
        throw.game: {f"die_{place}": face for place, face in enumerate(throw.faces, 1)} for throw in seen
    }
    return Recording(packets, truth)


def play(seed: int, rng: Random) -> Outcome:
    """One stream."""
    table = DiceTable(_SETUP, {"dice": DiceProtocol(setup_of("DC", "tuplanoppa"))})
    return hear_damaged(recorded(throws, seed, rng), table, "dice", rng)
