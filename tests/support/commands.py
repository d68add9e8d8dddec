"""People with keys, what they sign, and the trust file that knows them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from tests.support.chains import NODE, PLAYED, SITE, UTC, decision, signer

from dollyd.daemon.keys.signing import Signer
from dollyd.wire.command import COMMAND_TYP, digest, microseconds
from dollyd.wire.stamp import iso_utc
from dollyd.wire.trust import TRUST_TYP, Trust, load_trust

ROOT = signer(90)
START = "2020-01-01T00:00:00.000000000Z"
CHAIN = "a" * 32
ORDER_MEMBERS: dict[str, dict[str, Any]] = {
    "open": {"checks": {"wheel": "level"}},
    "close": {},
    "no-more-bets": {"round": 1},
    "void": {"round": 1, "reason": "a coin"},
    "confirm": {"round": 1},
    "permit": {"round": 1},
    "reject-throw": {"round": 1, "reason": "on the rail"},
    "seat": {"seats": ["1", "3"]},
    "decline": {},
    "inspected": {},
    "none-imprisoned": {},
    "enter": {"round": 1, "value": ["15"], "reason": "the sensor is dead"},
    "correct": {"round": 1, "value": ["15"], "reason": "the video"},
    "approve": {"round": 1, "value": ["15"], "proposal": "b" * 64},
}
"""What each order must say, and something that it may."""
_PLACE = ("v", "site", "table", "chain", "round", "order", "role", "nonce", "issued", "expires")
_MEMBERS = (*_PLACE, "value", "reason", "seats", "checks", "judged_by", "judged_role", "proposal")


@dataclass(frozen=True)
class Person:
    """Somebody with a key, who signs in one role unless told otherwise."""

    id: str
    role: str
    key: Signer
    roles: tuple[str, ...] = ()
    not_after: str = ""
    revoked: str = ""

    def entry(self) -> dict[str, Any]:
        """The line of the trust file."""
        entry = {"jwk": self.key.jwk, "not_before": START, "id": self.id}
        entry |= {"roles": list(self.roles or (self.role,))}
        entry |= {"not_after": self.not_after} if self.not_after else {}
        return entry | ({"revoked": self.revoked, "reason": "lost"} if self.revoked else {})

    def sign(self, members: dict[str, Any]) -> bytes:
        """The envelope over these members, whatever they are; None leaves one out."""
        return self.sign_bytes(payload(members | {"role": members.get("role", self.role)}))

    def sign_bytes(self, data: bytes, typ: str = COMMAND_TYP) -> bytes:
        """The envelope over whatever bytes."""
        return self.key.sign(data, typ)


DEALER = Person("d1", "dealer", signer(40))
BOSS = Person("p1", "pit-boss", signer(41))
INSPECTOR = Person("i1", "inspector", signer(42))
TECHNICIAN = Person("t1", "technician", signer(43))
PEOPLE = (DEALER, BOSS, INSPECTOR, TECHNICIAN)


def payload(members: dict[str, Any]) -> bytes:
    """Members in the order of a command."""
    known = {name: members[name] for name in _MEMBERS if members.get(name) is not None}
    return msgspec.json.encode(known | {k: v for k, v in members.items() if k not in _MEMBERS})


def trust(*people: Person, site: str = SITE, node: str = NODE, keys: Iterable[Signer] = (signer(),)) -> Trust:
    """A trust file with nodes' keys and people."""
    return load_trust(trust_bytes(*people, site=site, node=node, keys=keys), ROOT.kid)


def trust_bytes(
    *people: Person, site: str = SITE, node: str = NODE, keys: Iterable[Signer] = (signer(),)
) -> bytes:
    """Its exact bytes."""
    file = {"v": 1, "site": site, "version": 1, "issued": START, "root": ROOT.jwk}
    file |= {"nodes": [{"jwk": key.jwk, "not_before": START, "node": node} for key in keys]}
    file |= {"operators": [person.entry() for person in people or PEOPLE]}
    return ROOT.sign(json.dumps(file).encode(), TRUST_TYP)


def order(name: str, at: str = UTC, **changes: Any) -> dict[str, Any]:
    """The members of a command that is issued at `at`."""
    head = {"v": 1, "site": SITE, "table": "r1", "chain": CHAIN, "order": name, "nonce": "0" * 32}
    return head | {"issued": at, "expires": later(at, 30)} | ORDER_MEMBERS[name] | changes


def later(utc: str, seconds: float) -> str:
    """A time so much later."""
    return iso_utc((microseconds(utc) + int(seconds * 1_000_000)) * 1000)


@dataclass(frozen=True)
class Two:
    """A proposal and its approval."""

    first: bytes
    second: bytes
    people: tuple[Person, Person]

    @property
    def id(self) -> str:
        return digest(self.first)

    @property
    def approvals(self) -> list[dict[str, str]]:
        return [
            {"operator": person.id, "role": person.role, "command": command.decode()}
            for person, command in zip(self.people, (self.first, self.second), strict=True)
        ]


def two(
    name: str = "enter",
    by: tuple[Person, Person] = (DEALER, BOSS),
    second: dict[str, Any] | None = None,
    **first: Any,
) -> Two:
    """What two persons sign. `first` and `second` change their commands; the second one follows the first."""
    proposed = order(name, later(UTC, -20), **first)
    proposal = by[0].sign(proposed)
    same = {key: proposed.get(key) for key in ("site", "table", "chain", "round", "value")}
    approval = order("approve", later(UTC, -10), **same, nonce="1" * 32) | {"proposal": digest(proposal)}
    return Two(proposal, by[1].sign(approval | (second or {})), by)


def manual(agreed: Two | None = None, **changes: Any) -> dict[str, Any]:
    """The body of a result by hand."""
    evidence = {"game_ref": "wheel/s/1", "times": {}, "devices": [], "witnesses": []}
    body = decision(mode="manual") | PLAYED | {"outcome": {"pocket": "15"}, "evidence": evidence}
    agreed = agreed or two()
    return body | {"reason": "the sensor is dead", "approvals": agreed.approvals} | changes


def correction(agreed: Two | None = None, **changes: Any) -> dict[str, Any]:
    """The body of a correction of 32 to 15."""
    agreed = agreed or two("correct", (INSPECTOR, BOSS))
    before, after = ({"kind": "result", "outcome": {"pocket": pocket}} for pocket in ("32", "15"))
    body = {"id": agreed.id, "corrects": 3, "element": "outcome", "before": before, "after": after}
    return body | PLAYED | {"reason": "the video", "approvals": agreed.approvals} | changes
