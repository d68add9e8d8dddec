"""What displays and those who watch the tables are told: plain JSON, not signed. Nobody pays by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType, json, structs

from dollyd.daemon.core.round import Phase
from dollyd.daemon.core.state import Proposal
from dollyd.drivers.spec import Status

Outcome: TypeAlias = dict[str, str | int | bool | list[str]]
"""`round`, and what the body of a result says in `outcome`."""


class Pending(Struct, frozen=True, kw_only=True):
    """A result by hand or a correction that waits for a second person."""

    digest: str
    by: str
    role: str
    round: int
    value: list[str]
    """What came; empty where the round is to be void."""
    reason: str
    command: str = ""
    """The first person's signed command: whoever approves reads what was signed, not what is shown of it."""


class TableState(Struct, frozen=True, kw_only=True):
    """Payload of `<table>/state`: nothing that helps to predict a draw."""

    table: str
    game: str
    variant: str
    phase: Phase
    round: int
    """The last round opened, 0 before the first."""
    mode: str
    """`manual` where people decide, or decided the last round; else `auto`."""
    chain: str
    """The running chain: commands name it."""
    proposal: Pending | UnsetType = UNSET
    """What one person has proposed and a second one may approve."""
    results: int
    """Results since the node started ..."""
    manual_results: int
    """... and how many of them people entered."""
    blocked: str
    """Why no round can be opened; empty where it can."""
    reload_waits: bool
    """Another configuration is to be in force, and waits for the end of the round."""
    devices: dict[str, Status]
    last: list[Outcome]
    """Up to 20 outcomes that count, oldest first."""
    time: str = ""
    """UTC since when all this is so; whether it still is, the status of the node tells."""


class DeviceState(Struct, frozen=True, kw_only=True):
    """Payload of `<table>/device/<name>`."""

    device: str
    driver: str
    role: str
    status: Status
    cause: str
    """Why the link was lost or could not be opened; empty while it stands."""
    identity: dict[str, str]
    """What the device said it is."""
    frames: dict[str, int]
    """Counts by what the protocol made of a frame."""
    link: dict[str, int]
    """Counts of the port: `opens`, `bytes`, `lost.<cause>`, `failed.<cause>` and the like."""
    time: str = ""
    """UTC since when all this is so; counts among it."""


_Told = TypeVar("_Told", TableState, DeviceState)


class Since:
    """Since when what is told is so: what has not changed keeps its time, and is not published again."""

    def __init__(self) -> None:
        self._told: dict[str, TableState | DeviceState] = {}

    def told(self, topic: str, now: _Told, utc: str) -> bytes:
        """The payload of a topic; `topic` is any name that tells topics apart."""
        before = self._told.get(topic)
        if before is None or structs.replace(before, time="") != now:
            before = self._told[topic] = structs.replace(now, time=utc)
        return json.encode(before)


def outcome_of(round_number: int, outcome: Mapping[str, Any]) -> Outcome:
    """An outcome as displays show it."""
    return {"round": round_number, **outcome}


def pending_of(proposal: Proposal | None) -> Pending | UnsetType:
    """A proposal as it is shown."""
    if proposal is None:
        return UNSET
    return Pending(
        digest=proposal.digest,
        by=proposal.by,
        role=proposal.role,
        round=proposal.round,
        value=list(proposal.value),
        reason=proposal.reason,
        command=proposal.command,
    )
