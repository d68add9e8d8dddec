"""Sic Bo: three dice (rulebook section 6)."""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from dollyd.daemon.core.games.dice import FACES, Face, Variant, three_dice
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


Count: TypeAlias = Annotated[int, Meta(ge=0, le=3)]


class Shape(Struct, frozen=True, forbid_unknown_fields=True):
    """What `outcome` says of Sic Bo."""

    die_1: Face
    die_2: Face
    die_3: Face
    total: Annotated[int, Meta(ge=3, le=18)]
    size: Literal["small", "big", "none"]
    """`small`: 4 to 10, `big`: 11 to 17, `none` on every triple."""
    triple: bool
    doubles: list[str]
    """The faces that two or three dice show, as text; at most one."""
    two_dice: list[str]
    """Every pair of different faces that is there, the lower one first: `1-4`."""
    count_1: Count
    """How many dice show it; and so of the other faces."""
    count_2: Count
    count_3: Count
    count_4: Count
    count_5: Count
    count_6: Count


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
    shape=Shape,
    after=nothing_remembered,
    began=as_left,
    needs_odds_table=no_odds_table,
    zero_rules=no_zero_rules,
    seated=no_seats,
    declined=no_shooter,
    throws=True,
)
