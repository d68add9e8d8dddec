"""Why a throw of the dice does not count (rulebook sections 5, 6).

The round goes on, the dice are thrown again. What a profile leaves to the dealer's eye is not in here: a
cocked die that may be read waits for the dealer.
"""

from __future__ import annotations

from dollyd.daemon.core.events import Flag
from dollyd.daemon.core.rules import Case, Rule
from dollyd.daemon.core.state import Draw


def _before_permission(case: Case) -> bool:
    """A permission is taken only before the throw: where there is none by now, the throw came first."""
    thrown = case.round.draw is not Draw.NOT_STARTED or case.round.first_reading is not None
    asked = case.setup.rules.dice_permission_required
    return asked and thrown and case.round.throw.permitted is None


def _cocked(case: Case) -> bool:
    return case.setup.rules.dice_cocked == "void" and case.flagged(Flag.COCKED)


def _stacked(case: Case) -> bool:
    return case.setup.rules.dice_stacked == "void" and case.flagged(Flag.STACKED)


THROW_RULES: tuple[Rule, ...] = (
    Rule(
        "rejected-by-person",
        "tuplanoppa 1: the dealer decides whether the throw is accepted",
        "not accepted by an entitled person",
        lambda case: case.round.throw.rejected is not None,
    ),
    Rule(
        "thrown-before-permission",
        "tuplanoppa 1: throw only after the dealer's permission",
        "thrown before the dealer's permission",
        _before_permission,
    ),
    Rule(
        "not-together",
        "tuplanoppa 1: both dice are thrown at the same time",
        "the dice were not released together",
        lambda case: case.flagged(Flag.NOT_TOGETHER),
    ),
    Rule(
        "not-shaken",
        "profile: dice_shakes_min; fr art. 55-23 shaker fault",
        "the dice were not shaken as the rules ask",
        lambda case: case.flagged(Flag.NOT_SHAKEN),
    ),
    Rule(
        "outside-area",
        "tuplanoppa 1: both dice must stop inside the drawing area",
        "a die came to rest outside the drawing area",
        lambda case: case.flagged(Flag.OUTSIDE_AREA),
    ),
    Rule(
        "stacked", "tuplanoppa 1: not on each other; profile: dice_stacked", "a die lies on another", _stacked
    ),
    Rule("cocked", "tuplanoppa 1: not on an edge; profile: dice_cocked", "a die lies on an edge", _cocked),
    Rule(
        "wrong-count",
        "the number of dice of the game",
        "not all dice, or too many, were in the picture",
        lambda case: case.flagged(Flag.WRONG_COUNT),
    ),
    Rule(
        "foreign-object",
        "fr art. 55-23: a fault of the draw",
        "a foreign object lay among the dice",
        lambda case: case.flagged(Flag.FOREIGN_OBJECT),
    ),
)
"""In order; the first that applies names the rejection."""
