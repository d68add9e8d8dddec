"""Evenings of a house as signed records, and what an independent count makes of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.support.chains import ChainMaker, signer
from tests.support.commands import BOSS, INSPECTOR, Two, two

from dollyd.wire.record import Kind, Time

RULES = ("max-relaunches", "no-winning-number", "ball-left-the-wheel")
ROLES = ("dealer", "inspector", "")
FIRST_EVENING = datetime(2026, 10, 30, 18, tzinfo=UTC)
ROUND_S = 40
SETTING = {
    "game": "roulette",
    "variant": "A",
    "rulebook": {"id": "fi-ray-2013-roulette", "digest": "b" * 64},
    "profile": {"id": "fi", "digest": "c" * 64},
}
STAKES = {"minimum": 200, "maximum": 50_000, "currency": "EUR"}
REASON = "misread"
EVIDENCE = {"game_ref": "wheel/1/1", "times": {}, "devices": [], "witnesses": []}


def utc(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z"


@dataclass
class House:
    """Tables that play until there are enough records; `truth` is counted while they play."""

    rng: Random
    chains: dict[str, ChainMaker] = field(default_factory=dict)
    results: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By table, gaming date and pocket, corrections applied."""
    voids: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """By table, gaming date, rule and role."""
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    manual: Counter[tuple[str, str]] = field(default_factory=Counter)
    ordered: dict[str, list[str]] = field(default_factory=dict)
    """Pockets by table in their order, voids skipped, corrections applied."""
    incidents: int = 0
    evenings: int = 0

    def play(self, records: int, tables: int = 3, rounds: int = 60) -> House:
        """At least so many records; `rounds` an evening."""
        night = 0
        while sum(maker.seq for maker in self.chains.values()) < records:
            for number in range(1, tables + 1):
                self._evening(f"r{number}", FIRST_EVENING + timedelta(days=night), rounds)
            night += 1
        return self

    @property
    def envelopes(self) -> list[bytes]:
        return [envelope for maker in self.chains.values() for envelope in maker.envelopes]

    @property
    def records(self) -> list[tuple[str, str, bytes]]:
        """Table, kind and envelope."""
        return [
            (entry.table, entry.kind, entry.envelope)
            for maker in self.chains.values()
            for entry in maker.entries
        ]

    def _evening(self, table: str, opened: datetime, rounds: int) -> None:
        maker = self.chains.get(table)
        if maker is None:
            maker = self.chains[table] = ChainMaker(table, f"{len(self.chains):032x}", signer())
            maker.add(
                Kind.KEY,
                body={"event": "chain-start", "jwk": signer().jwk, "reason": "new-journal"},
                header=_header(opened),
            )
        self.evenings += 1
        gaming_date = f"{opened:%Y-%m-%d}"
        maker.add(Kind.SESSION, body=_session("opened", opened, gaming_date), header=_header(opened))
        number = len(self.ordered.get(table, [])) + sum(
            count for (where, *_), count in self.voids.items() if where == table
        )
        at = opened
        for number in range(number + 1, number + 1 + rounds):  # noqa: B020  goes on from there
            at += timedelta(seconds=ROUND_S)
            self._round(maker, number, at, gaming_date)
        closed = _session("closed", opened, gaming_date) | {"closed_at": utc(at)}
        maker.add(Kind.SESSION, body=closed, header=_header(at))

    def _round(self, maker: ChainMaker, number: int, at: datetime, gaming_date: str) -> None:
        rng, table, header = self.rng, maker.table, _header(at)
        opened = {"utc": utc(at), "monotonic_ns": 1}
        maker.add(Kind.ROUND, number, {"game_ref": "wheel/1/1", "opened": opened}, header=header)
        maker.add(Kind.BETS_CLOSED, number, {"by": "wheel", "closed": opened}, header=header)
        self.ended[table, gaming_date] += 1
        dated = {"setting": SETTING, "gaming_date": gaming_date}
        if rng.random() < 0.02:
            self.incidents += 1
            incident = {"what": "ball-missing", "text": "no ball was seen", "details": {}}
            maker.add(Kind.INCIDENT, number, incident, header=header)
        if rng.random() < 0.05:
            rule, role = rng.choice(RULES), rng.choice(ROLES)
            self.voids[table, gaming_date, rule, role or "nobody"] += 1
            person = {"declared_by": "anna", "role": role} if role else {}
            void = {"rule": rule, "clause": "1", "text": "void", "stake_policy": "returned"}
            maker.add(Kind.VOID, number, void | dated | person | {"evidence": EVIDENCE}, header=header)
            return
        pocket = str(rng.randrange(37))
        manual = rng.random() < 0.01
        self.manual[table, gaming_date] += manual
        body: dict[str, Any] = dated | {
            "stakes": STAKES,
            "outcome": {"pocket": pocket},
            "mode": "manual" if manual else "auto",
            "evidence": EVIDENCE,
        }
        if manual:
            agreed = _agreed("enter", maker, number, pocket, at)
            body |= {"reason": REASON, "approvals": agreed.approvals}
        maker.add(Kind.RESULT, number, body, header=header)
        if rng.random() < 0.01:
            pocket = self._correct(maker, number, pocket, at, dated)
        self.results[table, gaming_date, pocket] += 1
        self.ordered.setdefault(table, []).append(pocket)

    def _correct(
        self, maker: ChainMaker, number: int, pocket: str, at: datetime, dated: dict[str, Any]
    ) -> str:
        right = str((int(pocket) + 1) % 37)
        agreed = _agreed("correct", maker, number, right, at)
        body = dated | {
            "id": agreed.id,
            "stakes": STAKES,
            "corrects": maker.seq,
            "element": "outcome",
            "before": {"kind": "result", "outcome": {"pocket": pocket}},
            "after": {"kind": "result", "outcome": {"pocket": right}},
            "reason": REASON,
            "approvals": agreed.approvals,
        }
        maker.add(Kind.CORRECTION, number, body, header=_header(at))
        return right


def _agreed(order: str, maker: ChainMaker, number: int, pocket: str, at: datetime) -> Two:
    """What two persons signed just before."""
    before, behind = utc(at - timedelta(seconds=20)), utc(at + timedelta(seconds=20))
    lives = {"issued": before, "expires": behind}
    place = {"table": maker.table, "chain": maker.chain, "round": number}
    return two(order, (INSPECTOR, BOSS), lives, value=[pocket], reason=REASON, **place, **lives)


def _header(at: datetime) -> dict[str, Any]:
    return {"time": Time(utc=utc(at), monotonic_ns=1, boot="b", synchronised=True, error_bound_us=10)}


def _session(event: str, opened: datetime, gaming_date: str) -> dict[str, Any]:
    return {
        "event": event,
        "by": "anna",
        "setting": SETTING,
        "gaming_date": gaming_date,
        "stakes": STAKES,
        "opened_at": utc(opened),
        "checks": {"wheel": "level"},
    }
