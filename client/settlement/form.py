"""The members of a record that settlement goes by, and what each of them may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from dollyd.client.settlement.spec import MONEY_MAX, SettlementError
from dollyd.wire.record import VERSION, Kind


class Named(msgspec.Struct, frozen=True):
    """A rulebook, by name and by the SHA-256 of its bytes."""

    id: str
    digest: str


class Setting(msgspec.Struct, frozen=True):
    """By what the round was played."""

    game: str
    variant: str
    rulebook: Named
    zero_rule: str = ""


class Stakes(msgspec.Struct, frozen=True):
    """Limits of the table in minor units; 0: not known."""

    minimum: int = 0
    maximum: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for limits that no table has; the reader reports it with its place."""
        if not 0 <= self.minimum <= self.maximum <= MONEY_MAX:
            raise ValueError(f"a minimum of {self.minimum} and a maximum of {self.maximum} are no limits")


class OddsTable(msgspec.Struct, frozen=True):
    """The odds table that was drawn."""

    table: Literal[1, 2]


class Result(msgspec.Struct, frozen=True):
    """Body of a result. A corrected void has the stakes of its session, which may be unknown."""

    setting: Setting
    outcome: dict[str, str | int | bool | list[str]]
    stakes: Stakes = Stakes()
    odds: OddsTable | None = None


class Void(msgspec.Struct, frozen=True):
    """Body of a void. Nothing of a stake is invalid where nobody can win: its limits are not asked."""

    setting: Setting
    stake_policy: Literal["player_choice", "returned", "carried", "unstated"]


def read_body(payload: Mapping[str, Any]) -> Result | Void:
    """The body of a final record. Raises `SettlementError` for whatever is not one."""
    kind = payload.get("kind")
    if kind == Kind.CORRECTION:
        raise SettlementError("a correction has two rounds, before and after: use `settle_correction`")
    if kind not in (Kind.RESULT, Kind.VOID):
        raise SettlementError(f"a record of kind {kind!r} settles nothing; only result and void do")
    version = payload.get("v")
    if type(version) is not int or version != VERSION:
        raise SettlementError(f"version {version!r} of records is not known")
    try:
        body = payload.get("body")
        return msgspec.convert(body, Void) if kind == Kind.VOID else msgspec.convert(body, Result)
    except msgspec.ValidationError as error:
        raise SettlementError(f"the record has not the form of a {kind}: {error}") from error
