"""What the core asks its caller to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dollyd.daemon.core.state import Table
from dollyd.wire.record import Body, IncidentBody, Kind


@dataclass(frozen=True, slots=True)
class Emit:
    """Write this record. `captured`: its evidence carries the digest of the raw capture."""

    kind: Kind
    round: int
    body: Body
    captured: bool = False


@dataclass(frozen=True, slots=True)
class AskOdds:
    """Have the odds table of this round drawn."""

    round: int


@dataclass(frozen=True, slots=True)
class Untold:
    """A person was refused, which is only counted: it came too often to be a record each time."""

    body: IncidentBody


Effect: TypeAlias = Emit | AskOdds | Untold
Stepped: TypeAlias = tuple[Table, tuple[Effect, ...]]
