"""Signed commands of people at the table: what they say, their one form, and the clear text of them.

A flattened JWS (`wire.jws`) of type `dolly-command/1`, signed with the operator's key. It is meant for one
table, one running chain and one round, and lives for seconds: whoever finds it later can do nothing with it.
Two of them, of two persons, stand in the record of a result by hand or a correction (`client.approvals`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from dollyd.wire.jws import EnvelopeError, parse_envelope
from dollyd.wire.topics import check_name

COMMAND_TYP = "dolly-command/1"
COMMAND_VERSION: Final = 1
LIFETIME_MAX_S = 60
"""Longest time from `issued` to `expires`."""
COMMAND_MAX_BYTES = 16_384
"""Of an envelope. A command with everything that it may hold is shorter."""

_US_PER_S = 1_000_000


class Order(StrEnum):
    """What can be asked."""

    OPEN = "open"
    CLOSE = "close"
    NO_MORE_BETS = "no-more-bets"
    VOID = "void"
    CONFIRM = "confirm"
    PERMIT = "permit"
    REJECT_THROW = "reject-throw"
    SEAT = "seat"
    DECLINE = "decline"
    INSPECTED = "inspected"
    NONE_IMPRISONED = "none-imprisoned"
    ENTER = "enter"
    CORRECT = "correct"
    APPROVE = "approve"


MEMBERS: dict[Order, tuple[frozenset[str], frozenset[str]]] = {
    order: (frozenset(needed.split()), frozenset(optional.split()))
    for order, needed, optional in (
        (Order.OPEN, "", "chain checks"),
        (Order.CLOSE, "chain", ""),
        (Order.NO_MORE_BETS, "chain round", ""),
        (Order.VOID, "chain round reason", "judged_by judged_role"),
        (Order.CONFIRM, "chain round", ""),
        (Order.PERMIT, "chain round", ""),
        (Order.REJECT_THROW, "chain round reason", ""),
        (Order.SEAT, "chain seats", ""),
        (Order.DECLINE, "chain", ""),
        (Order.INSPECTED, "chain", ""),
        (Order.NONE_IMPRISONED, "chain", ""),
        (Order.ENTER, "chain round value reason", ""),
        (Order.CORRECT, "chain round reason", "value"),
        (Order.APPROVE, "chain round proposal", "value"),
    )
}
"""By order what it must say and what it may say besides; a correction or approval without a value: void."""

_Name = Annotated[str, Meta(pattern="^[a-z0-9-]{1,40}$")]
_Text = Annotated[str, Meta(max_length=200)]
_Short = Annotated[str, Meta(min_length=1, max_length=20)]
_Hex = Annotated[str, Meta(pattern="^([0-9a-f]{32})?$")]
_Digest = Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")]
_Utc = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{9}Z$")]
_Role: TypeAlias = Literal["dealer", "inspector", "pit-boss", "technician"]


class Command(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The payload. What an order does not need is left out."""

    v: Literal[1]
    site: _Name
    table: _Name
    chain: _Hex = ""
    """The table's running chain; may be left out to open a table."""
    round: Annotated[int, Meta(ge=0, lt=2**53)] = 0
    """The round that is meant, 0 for none."""
    order: Order
    role: _Role
    """In which of their roles the person asks it."""
    nonce: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    issued: _Utc
    expires: _Utc
    value: Annotated[tuple[_Short, ...], Meta(max_length=8)] = ()
    """What came, as the game reads it: a pocket, a number and its cup, a sector, or each die."""
    reason: _Text = ""
    seats: Annotated[tuple[_Short, ...], Meta(max_length=20)] = ()
    """Seats in play, clockwise."""
    checks: dict[Annotated[str, Meta(pattern="^[a-z0-9-]{1,40}$")], _Text] = {}
    """What was checked before the table was opened, by name, and how it was found; at most 20."""
    judged_by: Annotated[str, Meta(max_length=40)] = ""
    judged_role: Literal["", "dealer", "inspector", "pit-boss"] = ""
    proposal: _Digest = ""
    """Digest of the command that is approved."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A command whose form is right. Whose it is and whether it is in time, others check."""

    command: Command
    kid: str
    """Of the key that is said to have signed."""
    envelope: bytes

    @property
    def digest(self) -> str:
        """By this it is approved."""
        return digest(self.envelope)


_DECODER = msgspec.json.Decoder(Command)
_ENCODER = msgspec.json.Encoder()


def digest(envelope: bytes) -> str:
    """SHA-256 of the exact bytes of an envelope, hex."""
    return sha256(envelope).hexdigest()


def encode_command(command: Command) -> bytes:
    """The payload's only form. Raises `EnvelopeError` (`payload`) for what nobody would take."""
    payload = _ENCODER.encode(command)
    _decode(payload)
    return payload


def make_command(members: Mapping[str, Any]) -> Command:
    """A command of these members, and what is left out as it is unless given. Raises `EnvelopeError`."""
    try:
        return msgspec.convert(members, Command)
    except msgspec.ValidationError as error:
        raise EnvelopeError("payload", str(error)) from error


def read_command(envelope: bytes) -> Signed:
    """Take a signed command apart; its signature is not checked here.

    Raises `EnvelopeError`: what `wire.jws` refuses, `too-long`, `payload` (unknown, missing, wrong or idle
    members, texts that do not show what they say), `form` (other bytes than the one form), `lifetime`.
    """
    if len(envelope) > COMMAND_MAX_BYTES:
        raise EnvelopeError("too-long", f"a command has at most {COMMAND_MAX_BYTES} bytes")
    parsed = parse_envelope(envelope, COMMAND_TYP)
    return Signed(_decode(parsed.payload), parsed.kid, envelope)


def microseconds(utc: str) -> int:
    """A time of a command or record since 1970; what is finer is cut off. Raises ValueError."""
    second, _, fraction = utc.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{second}+00:00").timestamp()) * _US_PER_S + int(fraction[:6])


def text_of(command: Command) -> str:
    """What is signed, for the person who signs it."""
    said = [f"{command.order} at table {command.table} of site {command.site}, as {command.role}"]
    if command.round:
        said.append(f"round:     {command.round}")
    if command.value or command.order in {Order.CORRECT, Order.APPROVE}:
        said.append(f"outcome:   {' '.join(command.value) or 'VOID, no outcome counts'}")
    if command.reason:
        said.append(f"reason:    {command.reason}")
    if command.judged_by:
        said.append(f"judged by: {command.judged_by}, {command.judged_role}")
    if command.seats:
        said.append(f"seats:     {' '.join(command.seats)}")
    said += [f"checked:   {name}: {found}" for name, found in command.checks.items()]
    if command.proposal:
        said.append(f"approves:  proposal {command.proposal}")
    if command.chain:
        said.append(f"chain:     {command.chain}")
    said.append(f"valid:     {command.issued} to {command.expires}")
    return "\n".join(said)


def _decode(payload: bytes) -> Command:
    try:
        command = _DECODER.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EnvelopeError("payload", str(error)) from error
    if _ENCODER.encode(command) != payload:
        raise EnvelopeError("form", "other bytes than the one form of this command")
    _check_members(command)
    _check_texts(command)
    try:
        lifetime_us = microseconds(command.expires) - microseconds(command.issued)
    except ValueError as error:
        raise EnvelopeError("payload", f"issued or expires is no time: {error}") from error
    if not 0 < lifetime_us <= LIFETIME_MAX_S * _US_PER_S:
        raise EnvelopeError("lifetime", f"a command lives for up to {LIFETIME_MAX_S} s")
    return command


def _check_members(command: Command) -> None:
    """What an order needs is there, and nothing that it would not use."""
    needed, optional = MEMBERS[command.order]
    given = {name for name in _OF_ORDERS if getattr(command, name)}
    if missing := sorted(needed - given):
        raise EnvelopeError("payload", f"{command.order} without {missing[0]}")
    if idle := sorted(given - needed - optional):
        raise EnvelopeError("payload", f"{command.order} has no use for {idle[0]}")
    if bool(command.judged_by) != bool(command.judged_role):
        raise EnvelopeError("payload", "judged_by and judged_role go together")
    if len(command.checks) > 20:
        raise EnvelopeError("payload", "more than 20 checks")
    if command.judged_by and not check_name(command.judged_by):
        raise EnvelopeError("payload", f"{command.judged_by!r} is no operator's name")


_OF_ORDERS = frozenset(name for members in MEMBERS.values() for part in members for name in part)


def _check_texts(command: Command) -> None:
    texts = (command.reason, *command.value, *command.seats, *command.checks.values())
    if not all(map(str.isprintable, texts)):  # line ends, escapes, and what turns the direction of writing
        raise EnvelopeError("payload", "a text has characters that do not show")
