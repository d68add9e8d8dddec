"""Signed commands as what the core is told."""

from __future__ import annotations

from dollyd.daemon.core.events import (
    Approved,
    BetsClosed,
    Confirmed,
    CorrectionProposed,
    HouseEvent,
    Inspected,
    NoneImprisoned,
    Original,
    Permitted,
    ResultProposed,
    Seated,
    ShooterDeclined,
    TableClosed,
    TableOpened,
    ThrowRejected,
    VoidDeclared,
)
from dollyd.daemon.core.round import ORDERS
from dollyd.wire.command import Order, Signed
from dollyd.wire.errors import InvariantError

REFUSED_AS: dict[Order, str] = {
    order: f"{ORDERS[kind]}-refused"
    for order, kind in (
        (Order.OPEN, TableOpened),
        (Order.CLOSE, TableClosed),
        (Order.NO_MORE_BETS, BetsClosed),
        (Order.VOID, VoidDeclared),
        (Order.CONFIRM, Confirmed),
        (Order.PERMIT, Permitted),
        (Order.REJECT_THROW, ThrowRejected),
        (Order.SEAT, Seated),
        (Order.DECLINE, ShooterDeclined),
        (Order.INSPECTED, Inspected),
        (Order.NONE_IMPRISONED, NoneImprisoned),
        (Order.ENTER, ResultProposed),
        (Order.CORRECT, CorrectionProposed),
        (Order.APPROVE, Approved),
    )
}
"""By order the incident by which the core refuses it."""


def event_of(signed: Signed, by: str, original: Original | None) -> HouseEvent:
    """The order of operator `by`; `original` is the round that a correction, or its approval, is about."""
    command = signed.command
    role, number, reason = command.role, command.round, command.reason
    text = signed.envelope.decode("ascii")
    match command.order:
        case Order.OPEN:
            return TableOpened(by, role, dict(command.checks))
        case Order.CLOSE:
            return TableClosed(by, role)
        case Order.NO_MORE_BETS:
            return BetsClosed(by, None, number, role)
        case Order.VOID:
            return VoidDeclared(by, role, reason, number, command.judged_by, command.judged_role)
        case Order.CONFIRM:
            return Confirmed(by, number, role)
        case Order.PERMIT:
            return Permitted(by, number, role)
        case Order.REJECT_THROW:
            return ThrowRejected(by, role, reason, number)
        case Order.SEAT:
            return Seated(by, command.seats, role)
        case Order.DECLINE:
            return ShooterDeclined(by, role)
        case Order.INSPECTED:
            return Inspected(by, role)
        case Order.NONE_IMPRISONED:
            return NoneImprisoned(by, role)
        case Order.ENTER:
            return ResultProposed(by, role, text, signed.digest, number, command.value, reason)
        case Order.CORRECT if original is not None:
            value = command.value
            return CorrectionProposed(by, role, text, signed.digest, number, value, reason, original)
        case Order.APPROVE:
            return Approved(by, role, text, command.proposal, original)
    raise InvariantError("a correction comes with the round that it corrects")
