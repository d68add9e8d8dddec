"""The values that texts of records have, from the code that writes them; and their part of wire-format.md."""

from __future__ import annotations

from typing import get_args, get_type_hints

from dollyd.client.settlement.form import Void
from dollyd.daemon.core.decision import CORRECTED
from dollyd.daemon.core.events import TurnsBasis
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.round import Phase
from dollyd.daemon.core.rules import Rule
from dollyd.daemon.core.throw_rules import THROW_RULES
from dollyd.daemon.core.void_rules import DOUBT_RULES, VOID_RULES
from dollyd.drivers.spec import Status
from dollyd.wire.record import Kind

RULES: dict[Kind, tuple[str, tuple[Rule, ...]]] = {
    Kind.VOID: ("Rules of a void round", VOID_RULES),
    Kind.UNRESOLVED: ("Rules of an unresolved round", DOUBT_RULES),
    Kind.THROW_REJECTED: ("Rules of a rejected throw", THROW_RULES),
}
_ZERO_RULES = ("lose", "half", "prison", "both")
POLICIES: tuple[str, ...] = get_args(get_type_hints(Void)["stake_policy"])
_SAID = {
    Phase.TABLE_CLOSED: "nobody plays",
    Phase.WAITING: "between two rounds",
    Phase.BETS_OPEN: "bets are taken, nothing moves",
    Phase.SPINNING: "the draw is moving and bets are still taken",
    Phase.NO_MORE_BETS: "bets are closed, the draw has not come to its end",
    Phase.AT_REST: "it has, and the result is awaited",
    Phase.BLOCKED: "the round is unresolved, people must close it",
}
_STATUSES = {
    Status.INIT: "nothing valid was heard yet",
    Status.READY: "a valid frame was heard",
    Status.STALE: "silent for more than 3 periods",
    Status.LOST: "not connected: see `cause`",
    Status.FAULT: "it says itself that it is out of order",
    Status.WRONG_DEVICE: "not the device that is bound to this table",
}


def values(kind: Kind) -> dict[str, dict[str, tuple[str, ...]]]:
    """By class and member what a text of a record of this kind can be."""
    found: dict[str, dict[str, tuple[str, ...]]] = {
        "Setting": {"game": tuple(GAMES), "zero_rule": _ZERO_RULES},
        "Witness": {"turns_basis": tuple(TurnsBasis)},
        "SessionBody": {"event": ("opened", "resumed", "closed")},
        "ResultBody": {"mode": ("auto", "manual")},
        "VoidBody": {"stake_policy": POLICIES},
        "CorrectionBody": {"element": ("outcome", "verdict")},
        "Finding": {
            "kind": (Kind.RESULT.value, Kind.VOID.value),
            "rule": (*ids(VOID_RULES), CORRECTED),
            "stake_policy": POLICIES,
        },
        "KeyBody": {"event": ("chain-start", "rotated")},
        "SelfCheckBody": {"result": ("good", "bad", "unsealed")},
    }
    if kind in RULES:
        body = {
            Kind.VOID: "VoidBody",
            Kind.UNRESOLVED: "UnresolvedBody",
            Kind.THROW_REJECTED: "ThrowRejectedBody",
        }
        found.setdefault(body[kind], {})["rule"] = ids(RULES[kind][1])
    return found


def ids(rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """The rules by name, each once."""
    return tuple(dict.fromkeys(rule.id for rule in rules))


def told() -> str:
    """All of it in words."""
    parts = [_table("`phase` of `state`", {str(phase): _SAID[phase] for phase in Phase})]
    parts.append(_table("`status` of a device", {str(status): _STATUSES[status] for status in Status}))
    for title, rules in RULES.values():
        lines = [f"#### {title}", "", "| `rule` | meaning | what it rests on |", "|---|---|---|"]
        once = {rule.id: rule for rule in reversed(rules)}
        lines += [f"| `{name}` | {once[name].text} | {once[name].clause} |" for name in ids(rules)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _table(title: str, meanings: dict[str, str]) -> str:
    rows = [f"| `{value}` | {meaning} |" for value, meaning in meanings.items()]
    return "\n".join([f"#### {title}", "", "| value | meaning |", "|---|---|", *rows])
