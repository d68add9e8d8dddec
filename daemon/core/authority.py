"""Who may do what: orders of people, the roles entitled to them, and the rule of two persons.

The game's profile names who declares a void and who enters what a device could not read; what it leaves open
is filled with what every house does. Who a person is, and in which roles, is known outside: by the trust file
or a badge.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from dollyd.daemon.core.events import (
    Approved,
    BetsClosed,
    Confirmed,
    CorrectionProposed,
    Inspected,
    NoneImprisoned,
    Permitted,
    ResultProposed,
    Seated,
    ShooterDeclined,
    TableClosed,
    TableOpened,
    ThrowRejected,
    VoidDeclared,
)
from dollyd.daemon.core.rulebook import GameProfile


class Role(StrEnum):
    """What a person is at the table."""

    DEALER = "dealer"
    INSPECTOR = "inspector"
    PIT_BOSS = "pit-boss"
    TECHNICIAN = "technician"
    HOUSE = "house"
    """The configuration, which opens a table whose house has not asked for a person to do it."""


Roles: TypeAlias = frozenset[str]

_AT_THE_TABLE = frozenset({Role.DEALER, Role.INSPECTOR, Role.PIT_BOSS})
SUPERVISORS: Roles = frozenset({Role.INSPECTOR, Role.PIT_BOSS})
"""One of the two persons behind a result by hand or a correction (rulebook 12.1: C.6.8 d; fr art. 67-5)."""


def _of_the_table(_rules: GameProfile) -> Roles:
    return _AT_THE_TABLE


ENTITLED: dict[type, Callable[[GameProfile], Roles]] = {
    TableOpened: lambda _: _AT_THE_TABLE | {Role.HOUSE},
    TableClosed: _of_the_table,
    BetsClosed: _of_the_table,
    VoidDeclared: lambda rules: rules.void_declarers,
    Confirmed: lambda _: frozenset({Role.DEALER, Role.INSPECTOR}),
    Permitted: lambda _: frozenset({Role.DEALER}),
    ThrowRejected: lambda rules: rules.void_declarers,
    Seated: _of_the_table,
    ShooterDeclined: _of_the_table,
    Inspected: lambda _: _AT_THE_TABLE | {Role.TECHNICIAN},
    NoneImprisoned: lambda _: SUPERVISORS,
    ResultProposed: lambda rules: rules.manual_by,
    CorrectionProposed: lambda rules: rules.manual_by,
    Approved: lambda rules: rules.manual_by,
}
"""By order the roles that may give it."""


def entitled(order: type, role: str, rules: GameProfile) -> bool:
    """Whether a person in this role may give the order, in a game under these rules."""
    return role in ENTITLED[order](rules)


def two_persons(first: str, first_role: str, second: str, second_role: str) -> str:
    """What is wrong with these two as the two persons of a decision, empty where nothing is."""
    if first == second:
        return "the same person twice"
    if not SUPERVISORS & {first_role, second_role}:
        return "one of the two must be an inspector or a pit boss"
    return ""
