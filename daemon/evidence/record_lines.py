"""A record in one line for people, of whatever kind it is. Evidence is the record itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dollyd.daemon.table.record_words import words_of
from dollyd.wire.record import Kind


def line_of(record: Mapping[str, Any], *, local: bool = False) -> str:
    """Time, table, seq, kind, round and what it says. `record` is the payload; it need not be in its form."""
    try:
        said = _said(record)
    except (KeyError, TypeError, AttributeError, ValueError):
        said = "its body is not in the form of its kind"
    number = f" round {record['round']}" if record["round"] else ""
    time = _time(record["time"]["utc"], local=local)
    return f"{time}  {record['table']} {record['seq']}  {record['kind']}{number}: {said}"


def _time(utc: str, *, local: bool) -> str:
    try:
        then = datetime.fromisoformat(utc)
        return then.astimezone().isoformat(" ", "seconds") if local else f"{utc[:10]} {utc[11:19]}Z"
    except (ValueError, OverflowError):
        return utc


def _said(record: Mapping[str, Any]) -> str:
    kind, body = record["kind"], record["body"]
    if kind in _SAID:
        return _SAID[kind](body)
    words = words_of(kind, record["table"], record["round"], body)
    if words is None:
        return "of a kind that this version does not know"
    hidden = ("table", "round", "next")
    fields = [(name, value) for name, value in words.fields.items() if name not in hidden]
    dated = [("gaming date", body["gaming_date"])] if "gaming_date" in body else []
    return ", ".join(
        f"{value}" if name == "outcome" else f"{name} {value}" for name, value in [*fields, *dated]
    )


def _session(body: Mapping[str, Any]) -> str:
    setting, stakes = body["setting"], body["stakes"]
    limits = f"{stakes['minimum']} to {stakes['maximum']} minor units of {stakes['currency']}"
    return (
        f"{body['event']} by {body['by']}: {setting['game']} {setting['variant']},"
        f" rulebook {setting['rulebook']['id']}, profile {setting['profile']['id']}, {limits},"
        f" gaming date {body['gaming_date']}"
    )


def _rejected(body: Mapping[str, Any]) -> str:
    return f"throw {body['throw']} does not count, rule {body['rule']}, why {body['text']}"


def _key(body: Mapping[str, Any]) -> str:
    before = ""
    if "previous_chain" in body:
        before = f", after record {body.get('previous_seq', 'not known')} of chain {body['previous_chain']}"
    return f"{body['event']}, {body['jwk']['kid']}, {body['reason']}{before}"


def _checkpoint(body: Mapping[str, Any]) -> str:
    return f"{body['reason']}, {body['finals']} rounds ended up to record {body['seq']}"


def _self_check(body: Mapping[str, Any]) -> str:
    differs = f", {body['differing']} of {body['files']} files differ" if body["differing"] else ""
    return f"{body['result']} ({body['reason']}), version {body['version']}{differs}"


def _clock(body: Mapping[str, Any]) -> str:
    parts = [f"UTC was moved by {body['step_ns'] / 1e9:+.3f} s"] if body["step_ns"] else []
    if "synchronised" in body:
        parts.append("synchronised from here on" if body["synchronised"] else "not synchronised any more")
    return ", ".join(parts) or "looked at"


_SAID: dict[str, Callable[[Mapping[str, Any]], str]] = {
    Kind.SESSION: _session,
    Kind.ROUND: lambda body: f"bets are open, game {body['game_ref']}",
    Kind.BETS_CLOSED: lambda body: f"no more bets, by {body['by']}",
    Kind.THROW_REJECTED: _rejected,
    Kind.KEY: _key,
    Kind.CHECKPOINT: _checkpoint,
    Kind.SELF_CHECK: _self_check,
    Kind.CLOCK: _clock,
}
"""Kinds that the log says nothing of."""
