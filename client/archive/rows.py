"""The rows of a record: which tables it fills, and with what. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Struct

from dollyd.wire.record import (
    Approval,
    ClockBody,
    CorrectionBody,
    Finding,
    GapBody,
    IncidentBody,
    KeyBody,
    Kind,
    Record,
    ResultBody,
    RoundBody,
    SessionBody,
    Setting,
    Stakes,
    ThrowRejectedBody,
    UnresolvedBody,
    VoidBody,
)

Value: TypeAlias = str | int | bytes | None
Columns: TypeAlias = dict[str, Value]

TABLES = ("records", "chain_keys", "sessions", "rounds", "results", "voids", "corrections", "incidents")
"""Every table that a record can fill, in the order in which a transaction fills them."""
PARTITIONED = ("records", "rounds", "results", "voids", "incidents")
"""Those that PostgreSQL keeps by month."""

_UTC = re.compile(r"(?:19|2\d)\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)
_MICROSECONDS = len("2026-11-29T18:41:20.000000")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of one table."""

    table: str
    columns: Columns


def moment(utc: str) -> str:
    """A time of a record, cut to microseconds: no data base keeps more. Raises `ValueError`."""
    if not _UTC.fullmatch(utc):
        raise ValueError(f"{utc!r} is no UTC time")
    datetime.fromisoformat(utc)
    return f"{utc.removesuffix('Z')[:_MICROSECONDS]}Z"


def rows_of(record: Record, envelope: bytes) -> list[Row]:
    """The rows of a record, the raw one first. A body that is not of its kind gives the raw one alone."""
    place: Columns = {
        "chain": record.chain,
        "seq": record.seq,
        "utc": moment(record.time.utc),
        "site": record.site,
        "table_name": record.table,
    }
    played: Columns = place | {"round": record.round}
    raw = played | {"node": record.node, "kind": _text(record.kind), "envelope": envelope}
    rows = [Row("records", raw)]
    try:
        match record.kind:
            case Kind.SESSION:
                rows.append(Row("sessions", place | _session(_body(record, SessionBody))))
            case Kind.ROUND:
                body = _body(record, RoundBody)
                rows.append(Row("rounds", played | {"game_ref": _text(body.game_ref)}))
            case Kind.RESULT:
                rows.append(Row("results", played | _result(_body(record, ResultBody))))
            case Kind.VOID:
                rows.append(Row("voids", played | _void(_body(record, VoidBody))))
            case Kind.CORRECTION:
                rows.append(Row("corrections", played | _correction(_body(record, CorrectionBody))))
            case Kind.KEY:
                x = _text(_body(record, KeyBody).jwk.get("x", ""))
                rows.append(Row("chain_keys", {"chain": record.chain, "seq": record.seq, "x": x}))
            case kind if kind in _EXCEPTIONAL:
                columns = _EXCEPTIONAL[Kind(kind)](record)
                rows.append(Row("incidents", played | {"kind": record.kind, "device": None} | columns))
    except ValueError:  # msgspec's are, too: the record is kept as it is, and nothing is read into it
        return rows[:1]
    return rows


_B = TypeVar("_B", bound=Struct)


def _body(record: Record, kind: type[_B]) -> _B:
    return msgspec.json.decode(record.body, type=kind)


def _text(text: str) -> str:
    """Text as PostgreSQL can keep it, which has no NUL."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _set(text: Any) -> Value:
    """A text that may have been left out."""
    return None if text is UNSET else _text(text)


def _json(value: Any) -> Value:
    """JSON as text, None where it was left out."""
    if value is UNSET:
        return None
    return msgspec.json.encode(value).decode().replace("\\u0000", "\\ufffd")


def _day(gaming_date: str) -> str:
    return date.fromisoformat(gaming_date).isoformat()


def _setting(setting: Setting, gaming_date: str) -> Columns:
    return {
        "gaming_date": _day(gaming_date),
        "game": _text(setting.game),
        "variant": _text(setting.variant),
        "rulebook_digest": _text(setting.rulebook.digest),
    }


def _stakes(stakes: Stakes) -> Columns:
    return {"minimum": stakes.minimum, "maximum": stakes.maximum, "currency": _text(stakes.currency)}


def _session(body: SessionBody) -> Columns:
    setting = body.setting
    return {
        "event": _text(body.event),
        "by_whom": _text(body.by),
        "opened_at": moment(body.opened_at),
        "closed_at": moment(body.closed_at) if isinstance(body.closed_at, str) else None,
        "zero_rule": _set(setting.zero_rule),
        "rulebook": _text(setting.rulebook.id),
        "profile": _text(setting.profile.id),
        "profile_digest": _text(setting.profile.digest),
        "checks": _json(body.checks),
        **_setting(setting, body.gaming_date),
        **_stakes(body.stakes),
    }


def _result(body: ResultBody) -> Columns:
    return {
        "outcome": _json(body.outcome),
        "odds_table": None if body.odds is UNSET else body.odds.table,
        "mode": _text(body.mode),
        "reason": _set(body.reason),
        "approvals": None if body.approvals is UNSET else _persons(body.approvals),
        **_setting(body.setting, body.gaming_date),
        **_stakes(body.stakes),
    }


def _void(body: VoidBody) -> Columns:
    return {
        "rule": _text(body.rule),
        "clause": _text(body.clause),
        "text": _text(body.text),
        "stake_policy": _text(body.stake_policy),
        "declared_by": _set(body.declared_by),
        "role": _set(body.role),
        "judged_by": _set(body.judged_by),
        "judged_role": _set(body.judged_role),
        **_setting(body.setting, body.gaming_date),
    }


def _correction(body: CorrectionBody) -> Columns:
    return {
        "gaming_date": _day(body.gaming_date),
        "corrects": body.corrects,
        "id": _text(body.id),
        "element": _text(body.element),
        **_finding(body.before, "before"),
        **_finding(body.after, "after"),
        "stake_policy_after": _set(body.after.stake_policy),
        "reason": _text(body.reason),
        "approvals": _persons(body.approvals),
    }


def _finding(finding: Finding, when: str) -> Columns:
    return {
        f"kind_{when}": _text(finding.kind),
        f"outcome_{when}": _json(finding.outcome),
        f"rule_{when}": _set(finding.rule),
    }


def _persons(approvals: list[Approval]) -> Value:
    """Who they were; what they signed is in the envelope."""
    return _json([{"operator": approval.operator, "role": approval.role} for approval in approvals])


# --- exceptional events --------------------------------------------------------------------------


def _incident(record: Record) -> Columns:
    body = _body(record, IncidentBody)
    return {
        "what": _text(body.what),
        "device": _set(body.device),
        "text": _text(body.text),
        "details": _json(body.details),
    }


def _gap(record: Record) -> Columns:
    body = _body(record, GapBody)
    since = {} if body.since_utc is UNSET else {"since_utc": body.since_utc}
    details = {"games": " ".join(body.games), "count": str(body.count), **since}
    return {"what": _text(body.cause), "text": "games were not recorded", "details": _json(details)}


def _clock(record: Record) -> Columns:
    details = {"step_ns": str(_body(record, ClockBody).step_ns)}
    return {
        "what": "clock-stepped",
        "text": "UTC moved",
        "details": _json(details),
    }


def _unresolved(record: Record) -> Columns:
    body = _body(record, UnresolvedBody)
    return {"what": _text(body.rule), "text": _text(body.text), "details": "{}"}


def _throw_rejected(record: Record) -> Columns:
    body = _body(record, ThrowRejectedBody)
    persons = {"declared_by": body.declared_by, "role": body.role, "shooter": body.shooter}
    details = {"throw": str(body.throw)} | {key: text for key, text in persons.items() if text is not UNSET}
    return {"what": _text(body.rule), "text": _text(body.text), "details": _json(details)}


_EXCEPTIONAL: dict[Kind, Callable[[Record], Columns]] = {
    Kind.INCIDENT: _incident,
    Kind.GAP: _gap,
    Kind.CLOCK: _clock,
    Kind.UNRESOLVED: _unresolved,
    Kind.THROW_REJECTED: _throw_rejected,
}
"""Kinds that make the list of exceptional events."""
