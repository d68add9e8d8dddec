"""The two persons behind a result by hand or a correction, checked again from what the record holds.

The record carries both signed commands. So whoever has the node's key alone, or the broker, or the machine,
can make no such record that a verifier would take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dollyd.client.proof.derived import reading_of
from dollyd.daemon.core.authority import entitled, two_persons
from dollyd.daemon.core.events import Approved, CorrectionProposed, ResultProposed
from dollyd.daemon.core.rulebook import GameProfile
from dollyd.wire.command import COMMAND_TYP, Order, Signed, microseconds, read_command
from dollyd.wire.judgement import Verdict
from dollyd.wire.jws import EnvelopeError, key_of_jwk, parse_envelope, verify_envelope
from dollyd.wire.record import Approval, CorrectionBody, Kind, ResultBody
from dollyd.wire.trust import OperatorKey, Trust

MANUAL = "manual"
"""`mode` of a result that two persons entered."""
WINDOW_MAX_S = 3600
"""No proposal waits longer for its second person, whatever a profile says."""
AHEAD_MAX_S = 5
"""How far the clock of a person's machine may be ahead of the node's."""
_ANY_PROFILE = GameProfile(source="")
"""It entitles as many to enter results as any profile may."""
_US_PER_S = 1_000_000


class ApprovalError(Exception):
    """The two persons do not stand behind it; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands, by its header."""

    kind: str
    site: str
    table: str
    chain: str
    round: int
    utc: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What two persons decided."""

    proposal: str
    """Digest of what the first one signed."""
    body: ResultBody | CorrectionBody


def check_decision(place: Place, body_bytes: bytes, trust: Trust | None) -> Decided:
    """Check what two persons decided, the body of a result by hand or a correction.

    Gives the digest of the proposal, which decides once in a chain, and the body.

    Without `trust` nobody's signature can be checked, only that both commands fit each other and the record.
    Raises `ApprovalError`.
    """
    body = _body(place.kind, body_bytes)
    approvals = body.approvals if isinstance(body.approvals, list) else []
    if len(approvals) != 2:
        raise ApprovalError(f"{len(approvals)} persons stand behind it, not two")
    first, second = (_read(approval) for approval in approvals)
    check_two(first, second, [approval.operator for approval in approvals], trust)
    said = first.command
    stands = (place.site, place.table, place.chain, place.round)
    if (said.site, said.table, said.chain, said.round) != stands:
        raise ApprovalError("the commands are of another site, table, chain or round")
    order = Order.CORRECT if place.kind == Kind.CORRECTION else Order.ENTER
    if said.order is not order:
        raise ApprovalError(f"the first command says {said.order}, not {order}")
    if said.reason != body.reason:
        raise ApprovalError("the reason is not the one that was signed")
    if said.value != _decided(body):
        raise ApprovalError("the outcome is not the one that was signed")
    if isinstance(body, CorrectionBody) and body.id != first.digest:
        raise ApprovalError("its id is not the digest of the proposal")
    _check_time(place.utc, second)
    return Decided(first.digest, body)


def check_two(first: Signed, second: Signed, operators: Sequence[str], trust: Trust | None) -> None:
    """Whether `second` approves `first`, both by entitled persons, and in time. Raises `ApprovalError`."""
    one, other = first.command, second.command
    if other.order is not Order.APPROVE or other.proposal != first.digest:
        raise ApprovalError("the second command does not approve the first one")
    if (one.site, one.table, one.chain, one.round) != (other.site, other.table, other.chain, other.round):
        raise ApprovalError("the approval is of another site, table, chain or round")
    if one.value != other.value:
        raise ApprovalError("the approval is of another outcome")
    if first.kid == second.kid:
        raise ApprovalError("the same person twice: one key has signed both")
    if why := two_persons(operators[0], one.role, operators[1], other.role):
        raise ApprovalError(why)
    orders = ((CorrectionProposed if one.order is Order.CORRECT else ResultProposed, one), (Approved, other))
    for order, command in orders:
        if not entitled(order, command.role, _ANY_PROFILE):
            raise ApprovalError(f"role {command.role} may not do this")
    waited_us = microseconds(other.issued) - microseconds(one.issued)
    if not -AHEAD_MAX_S * _US_PER_S <= waited_us <= WINDOW_MAX_S * _US_PER_S:
        raise ApprovalError("the approval was not given within the time after the proposal")
    if trust is not None:
        for signed, operator in zip((first, second), operators, strict=True):
            check_person(signed, trust, operator)


def check_person(signed: Signed, trust: Trust, operator: str = "") -> OperatorKey:
    """Whose command it is, by the trust file at the time when it was issued. Raises `ApprovalError`."""
    person, command = trust.operator(signed.kid), signed.command
    if person is None or operator not in ("", person.id):
        raise ApprovalError(f"key {signed.kid} is not that of {operator or 'an operator'}")
    try:
        check_signature(signed, person)
    except EnvelopeError as error:
        raise ApprovalError(f"the command of {person.id}: {error}") from error
    verdict = person.verdict(command.issued)
    if verdict is not Verdict.VALID:
        raise ApprovalError(f"the key of {person.id} was {verdict} at {command.issued}")
    if command.role not in person.roles:
        raise ApprovalError(f"{person.id} has no role {command.role}")
    return person


def check_signature(signed: Signed, person: OperatorKey) -> None:
    """Whether the person's key has signed the command. Raises `EnvelopeError`."""
    key = key_of_jwk(person.jwk)
    verify_envelope(parse_envelope(signed.envelope, COMMAND_TYP), {signed.kid: key})


def _body(kind: str, body_bytes: bytes) -> ResultBody | CorrectionBody:
    try:
        if kind == Kind.CORRECTION:
            return msgspec.json.decode(body_bytes, type=CorrectionBody)
        body = msgspec.json.decode(body_bytes, type=ResultBody)
    except msgspec.ValidationError as error:
        raise ApprovalError(f"its body is not that of a {kind}: {error}") from error
    if body.mode != MANUAL:
        raise ApprovalError(f"mode {body.mode!r} is not known")
    return body


def _read(approval: Approval) -> Signed:
    try:
        signed = read_command(approval.command.encode())
    except EnvelopeError as error:
        raise ApprovalError(f"the command of {approval.operator}: {error}") from error
    if signed.command.role != approval.role:
        raise ApprovalError(f"{approval.operator} signed as {signed.command.role}, not as {approval.role}")
    return signed


def _check_time(utc: str, second: Signed) -> None:
    """The record was made while the second command was good."""
    approval = second.command
    try:
        at_us = microseconds(utc)
    except ValueError as error:
        raise ApprovalError(f"{utc!r} is no time") from error
    earliest_us = microseconds(approval.issued) - AHEAD_MAX_S * _US_PER_S
    if not earliest_us <= at_us < microseconds(approval.expires):
        raise ApprovalError("the record was not made while the approval was good")


def _decided(body: ResultBody | CorrectionBody) -> tuple[str, ...]:
    """What the record says that came, as a person reads it; empty where the round is void."""
    outcome: Mapping[str, Any] | msgspec.UnsetType
    outcome = body.after.outcome if isinstance(body, CorrectionBody) else body.outcome
    if isinstance(outcome, msgspec.UnsetType):
        return ()
    value = reading_of(body.setting.game, outcome)
    if value is None:
        raise ApprovalError(f"the outcome is none of {body.setting.game}")
    return value
