"""Chains with decisions of real persons, and what somebody with the node's key can make of them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any, TypeAlias

from tests.support.chains import PLAYED, ChainMaker, decision, signer
from tests.support.commands import BOSS, DEALER, INSPECTOR, correction, manual, two

from dollyd.wire.record import Kind

Step: TypeAlias = tuple[Kind, int, dict[str, Any]]
"""Kind, round and body of a record to be signed."""
Malice: TypeAlias = Callable[[list[Step], Random], list[Step]]

OTHER_VALUES: tuple[Any, ...] = (
    *(0, 1, 7, 10**12, -1, True, [], {}),
    *("", "x", "result", "void", "15", "32", "green", "carried", "auto", "manual"),
)
VOID_FINDING = {"kind": "void", "rule": "declared", "stake_policy": "returned"}


def result(pocket: str) -> dict[str, Any]:
    """A finding."""
    return {"kind": "result", "outcome": {"pocket": pocket}}


def evening() -> list[Step]:
    """All that persons decide, after the key: by hand, corrected and corrected again, void for a result."""
    steps: list[Step] = [(Kind.SESSION, 0, PLAYED | {"event": "opened", "by": "d1"})]

    def seq() -> int:
        return len(steps) + 1

    def play(number: int, kind: Kind, body: dict[str, Any]) -> None:
        steps.extend([(Kind.ROUND, number, {}), (Kind.BETS_CLOSED, number, {}), (kind, number, body)])

    def correct(number: int, value: list[str] | None, nonce: str, **said: Any) -> None:
        agreed = two("correct", (INSPECTOR, BOSS), round=number, value=value, nonce=nonce * 32)
        steps.append((Kind.CORRECTION, number, correction(agreed, **said)))

    play(1, Kind.RESULT, decision())
    correct(1, ["15"], "1", corrects=seq(), before=result("32"))
    correct(1, ["17"], "2", corrects=seq(), before=result("15"), after=result("17"))
    play(2, Kind.VOID, decision())
    correct(2, ["15"], "3", corrects=seq(), before=VOID_FINDING, element="verdict")
    play(3, Kind.RESULT, manual(two("enter", (DEALER, BOSS), round=3)))
    play(4, Kind.RESULT, decision())
    after = VOID_FINDING | {"rule": "corrected"}
    correct(4, None, "4", corrects=seq(), before=result("32"), after=after, element="verdict")
    play(5, Kind.UNRESOLVED, decision())
    steps.append((Kind.VOID, 5, decision()))
    return steps


def signed(steps: list[Step], *, checkpoint: bool = True) -> ChainMaker:
    """The chain of these steps, all signed by the node and linked."""
    maker, finals = ChainMaker().begin(), 0
    for kind, number, body in steps:
        maker.add(kind, number, body)
        finals += kind in (Kind.RESULT, Kind.VOID)
    if checkpoint:
        stands = {"reason": "hourly", "seq": maker.seq, "head": maker.prev, "finals": finals}
        maker.add(Kind.CHECKPOINT, body=stands)
    return maker


# --- what a node's key can do ---------------------------------------------------------------------


def _one(steps: list[Step], rng: Random, kinds: tuple[Kind, ...]) -> int:
    return rng.choice([at for at, (kind, _, _) in enumerate(steps) if kind in kinds])


_DECIDED = (Kind.RESULT, Kind.VOID, Kind.CORRECTION)


def _member_changed(steps: list[Step], rng: Random) -> list[Step]:
    at = _one(steps, rng, (*_DECIDED, Kind.SESSION))
    body = deepcopy(steps[at][2])
    inside = body
    while True:
        name = rng.choice(list(inside))
        if not isinstance(inside[name], dict) or not inside[name] or rng.random() < 0.2:
            break
        inside = inside[name]
    if rng.random() < 0.3:
        del inside[name]
    else:
        inside[name] = rng.choice(OTHER_VALUES)
    return [*steps[:at], (*steps[at][:2], body), *steps[at + 1 :]]


def _member_of_another(steps: list[Step], rng: Random) -> list[Step]:
    at, other = _one(steps, rng, _DECIDED), _one(steps, rng, _DECIDED)
    name = rng.choice(list(steps[other][2]))
    body = steps[at][2] | {name: steps[other][2][name]}
    return [*steps[:at], (*steps[at][:2], body), *steps[at + 1 :]]


def _again(steps: list[Step], rng: Random) -> list[Step]:
    at, to = _one(steps, rng, _DECIDED), rng.randrange(len(steps) + 1)
    return [*steps[:to], steps[at], *steps[to:]]


def _left_out(steps: list[Step], rng: Random) -> list[Step]:
    at = rng.randrange(len(steps))
    return steps[:at] + steps[at + 1 :]


def _another_round(steps: list[Step], rng: Random) -> list[Step]:
    at = rng.randrange(1, len(steps))
    kind, _, body = steps[at]
    return [*steps[:at], (kind, rng.randrange(-1, 8), body), *steps[at + 1 :]]


def _outcome_extended(steps: list[Step], rng: Random) -> list[Step]:
    at = _one(steps, rng, (Kind.CORRECTION,))
    body = deepcopy(steps[at][2])
    said = {"colour": ["red", "black", "green"], "parity": ["odd", "even"], "dozen": ["1-12", "13-24"]}
    name = rng.choice(list(said))
    body["after"].setdefault("outcome", {"pocket": "15"})[name] = rng.choice(said[name])
    return [*steps[:at], (*steps[at][:2], body), *steps[at + 1 :]]


MALICE: dict[str, Malice] = {
    "member changed": _member_changed,
    "member of another": _member_of_another,
    "decision again": _again,
    "left out": _left_out,
    "another round": _another_round,
    "outcome extended": _outcome_extended,
}


def second_chain(old: ChainMaker, rng: Random) -> ChainMaker:
    """Another chain of the table, that may say it follows."""
    maker = ChainMaker(old.table, "b" * 32, signer(rng.choice([1, 3])))
    body: dict[str, Any] = {"event": "chain-start", "jwk": maker.signer.jwk, "reason": "key-lost"}
    if rng.random() < 0.8:
        named = rng.choice([old.chain, "f" * 32])
        body |= {"previous_chain": named, "previous_seq": max(0, old.seq + rng.choice([-3, -1, 0, 0, 0, 1]))}
    maker.add(Kind.KEY, body=body)
    return maker.play(1, 1)
