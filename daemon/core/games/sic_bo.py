"""Sic Bo: three dice (rulebook section 6)."""

from __future__ import annotations

from itertools import combinations

from dollyd.daemon.core.games.dice import FACES, Variant, three_dice
from dollyd.daemon.core.games.spec import (
    Drawn,
    Game,
    Outcome,
    as_left,
    fits,
    no_odds_table,
    no_seats,
    no_shipped_layout,
    no_shooter,
    no_zero_rules,
    nothing_remembered,
)

SMALL, BIG = range(4, 11), range(11, 18)


def outcome(drawn: Drawn) -> Outcome:
    """All attributes of a throw. SMALL and BIG lose on every triple; totals and doubles do not."""
    faces = sorted(drawn.value)
    total = sum(int(face) for face in faces)
    triple = faces[0] == faces[2]
    size = "none" if triple else "small" if total in SMALL else "big"
    fields: Outcome = {f"die_{n}": int(face) for n, face in enumerate(drawn.value, 1)}
    fields |= {
        "total": total,
        "size": size,
        "triple": triple,
        "doubles": [face for face in FACES if faces.count(face) >= 2],
        "two_dice": [f"{low}-{high}" for low, high in combinations(sorted(set(faces)), 2)],
    }
    return fields | {f"count_{face}": faces.count(face) for face in FACES}


SIC_BO = Game(
    name="sic-bo",
    roles=frozenset({"dice"}),
    variant=Variant,
    layout=None,
    shipped_layout=no_shipped_layout,
    check=fits,
    values=three_dice,
    outcome=outcome,
    after=nothing_remembered,
    began=as_left,
    needs_odds_table=no_odds_table,
    zero_rules=no_zero_rules,
    seated=no_seats,
    declined=no_shooter,
    throws=True,
)
