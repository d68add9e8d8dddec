"""What a record says to the person who reads the log: one line, in words. Evidence is the record itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_MS


@dataclass(frozen=True, slots=True)
class Words:
    """One line of the log. `warning`: somebody must act."""

    fields: dict[str, str | int]
    warning: bool = False


def words_of(kind: str, table: str, round_number: int, body: Mapping[str, Any]) -> Words | None:
    """The line about a record, None where it is not worth one. `body` is the record's, as JSON has it."""
    about = _ABOUT.get(kind)
    if about is None:
        return None
    told: dict[str, str | int] = {"table": table, "round": round_number, **about(body)}
    fields = {name: value for name, value in told.items() if value != ""}
    if kind == Kind.UNRESOLVED:
        return Words(fields | {"next": next_orders(table, round_number)}, warning=True)
    return Words(fields)


def next_orders(table: str, round_number: int, where: str = "") -> str:
    """What frees a table whose round is unresolved, to be typed; `where` are options that say which site."""
    order = f"dollyd table {f'{where} ' if where else ''}--table {table} --role ROLE --key FILE"
    tail = f"--round {round_number} --reason TEXT"
    return f"{order} void {tail}, or {order} enter VALUE {tail}"


def outcome_in_words(outcome: Mapping[str, Any]) -> str:
    """What came, short: `17 black`, `5, cup 3`, `joker, sector 12`, `3 + 4 = 7`; a stranger's in full."""
    if "pocket" in outcome:
        return f"{outcome['pocket']} {outcome['colour']}"
    if "cup" in outcome:
        return f"{outcome['number']}, cup {outcome['cup']}"
    if "sector" in outcome:
        return f"{outcome['symbol']}, sector {outcome['sector']}"
    if dice := [face for name, face in outcome.items() if name.startswith("die_")]:
        return f"{' + '.join(map(str, dice))} = {sum(dice)}"
    return ", ".join(f"{name} {value}" for name, value in outcome.items())


def _finding(finding: Mapping[str, Any]) -> str:
    if finding["kind"] == Kind.RESULT:
        return outcome_in_words(finding["outcome"])
    return f"void by {finding['rule']}" if "rule" in finding else "void"


def _persons(body: Mapping[str, Any]) -> str:
    return ", ".join(approval["operator"] for approval in body.get("approvals", ()))


def _result(body: Mapping[str, Any]) -> dict[str, str | int]:
    return {
        "outcome": outcome_in_words(body["outcome"]),
        "mode": body["mode"],
        "by": _persons(body),
        "why": body.get("reason", ""),
    }


def _void(body: Mapping[str, Any]) -> dict[str, str | int]:
    return {
        "outcome": "does not count",
        "rule": body["rule"],
        "why": body["text"],
        "stakes": body["stake_policy"],
        "by": body.get("declared_by", ""),
    }


def _correction(body: Mapping[str, Any]) -> dict[str, str | int]:
    return {
        "outcome": f"{_finding(body['after'])}, not {_finding(body['before'])}",
        "corrects": body["corrects"],
        "by": _persons(body),
        "why": body["reason"],
    }


def _unresolved(body: Mapping[str, Any]) -> dict[str, str | int]:
    return {"outcome": "not known, people must close the round", "rule": body["rule"], "why": body["text"]}


def _incident(body: Mapping[str, Any]) -> dict[str, str | int]:
    return {"what": body["what"], "device": body.get("device", ""), "why": body["text"]}


def _gap(body: Mapping[str, Any]) -> dict[str, str | int]:
    return {"why": body["cause"], "games": body["count"]}


def _clock(body: Mapping[str, Any]) -> dict[str, str | int]:
    told: dict[str, str | int] = {"step_ms": body["step_ns"] // NS_PER_MS, "why": body.get("cause", "")}
    if "synchronised" in body:
        told["synchronised"] = str(body["synchronised"]).lower()
    dates = {name: body.get(name, "") for name in ("gaming_date", "gaming_date_before")}
    return told | dates


_ABOUT: dict[str, Callable[[Mapping[str, Any]], dict[str, str | int]]] = {
    Kind.RESULT: _result,
    Kind.VOID: _void,
    Kind.CORRECTION: _correction,
    Kind.UNRESOLVED: _unresolved,
    Kind.INCIDENT: _incident,
    Kind.GAP: _gap,
    Kind.CLOCK: _clock,
}
TOLD = frozenset(_ABOUT)
"""Kinds that are worth a line."""
