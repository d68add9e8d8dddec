"""What must have been seen for the demo to be a success: one literal table of expectations.

Each is a sentence and a pure function that says what is missing, or nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import KeySet

from dollyd.client.jws import parse_envelope
from dollyd.simulators.demo.stage import Game

Record = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """The evidence."""

    games: tuple[Game, ...]
    """What the wheel says that it played."""
    received: tuple[bytes, ...]
    """Envelopes that the subscriber kept, in the order of the chain."""
    damaged: int
    journal: tuple[bytes, ...]
    keys: bytes
    """The node's public keys, a JWK set."""
    daemon_exit: int | None
    verified: str
    """What `dollyd verify` printed where it found the journal good; empty where it did not."""

    def records(self, kind: str) -> list[Record]:
        """Records of one kind, in order."""
        every = (msgspec.json.decode(parse_envelope(envelope).payload) for envelope in self.received)
        return [record for record in every if record["kind"] == kind]


@dataclass(frozen=True, slots=True)
class Finding:
    """An expectation and what is missing of it, empty where it was met."""

    expected: str
    missing: str


def judge(seen: Seen) -> list[Finding]:
    """Compare what was seen with every expectation."""
    return [Finding(expected, missing(seen)) for expected, missing in EXPECTATIONS]


# --- one function an expectation -------------------------------------------------------------------


def _both_tables(seen: Seen) -> str:
    drawn = {record["body"]["odds"]["table"] for record in seen.records("result")}
    return _lacking("result with odds table", {1, 2} - drawn)


def _relaunch(seen: Seen) -> str:
    tried_again = {r["round"] for r in seen.records("incident") if r["body"]["what"] == "relaunch"}
    if not tried_again:
        return "no incident `relaunch`"
    return "" if tried_again & _rounds(seen.records("result")) else "that round had no result"


def _device_fault(seen: Seen) -> str:
    rules = {record["body"]["rule"] for record in seen.records("void")}
    return _lacking("void by rule", {"device-fault"} - rules)


def _unresolved(seen: Seen) -> str:
    lost = _rounds(r for r in seen.records("unresolved") if r["body"]["rule"] == "device-lost")
    if not lost:
        return "no round is unresolved by rule `device-lost`"
    closed = _rounds(r for r in seen.records("void") if r["body"]["rule"] == "unrecoverable")
    return _lacking("void by rule `unrecoverable` of round", lost - closed)


def _play_went_on(seen: Seen) -> str:
    closed = [r["seq"] for r in seen.records("void") if r["body"]["rule"] == "unrecoverable"]
    back = [
        r["seq"]
        for r in seen.records("incident")
        if r["body"]["what"] == "device-back" and r["body"].get("device") == "wheel"
    ]
    if not back:
        return "no incident `device-back` of the wheel"
    later = [r["seq"] for r in seen.records("result") if closed and r["seq"] > closed[0]]
    return "" if later else "no result after the void"


def _outage(seen: Seen) -> str:
    played = {g.counter for g in seen.games if g.pocket and g.wheel_heard and not g.broker_up}
    if not played:
        return "the wheel finished no game while the broker was down"
    told = {_counter(record["body"]["evidence"]["game_ref"]) for record in seen.records("result")}
    return _lacking("result of the wheel's game", played - told)


def _truth(seen: Seen) -> str:
    """Every game finished while the wheel was heard: its result, or a record that says why there is none."""
    results = {_counter(r["body"]["evidence"]["game_ref"]): r for r in seen.records("result")}
    explained = {
        _counter(r["body"]["evidence"]["game_ref"])
        for kind in ("void", "unresolved")
        for r in seen.records(kind)
    }
    explained |= {_counter(game) for r in seen.records("gap") for game in r["body"]["games"]}
    for game in seen.games:
        result = results.get(game.counter)
        if not game.pocket or not game.wheel_heard:
            continue
        if result is None and game.counter not in explained:
            return f"the wheel's game {game.counter} ({game.pocket}) is in no record"
        if result is not None and result["body"]["outcome"]["pocket"] != game.pocket:
            said = result["body"]["outcome"]["pocket"]
            return f"game {game.counter} fell into {game.pocket}, round {result['round']} says {said}"
    return "" if results else "no game has a result"


def _same_records(seen: Seen) -> str:
    if seen.damaged:
        return f"{seen.damaged} messages were no record, or changed one that was sent before"
    if seen.received == seen.journal and seen.journal:
        return ""
    missing = len(set(seen.journal) - set(seen.received))
    return f"{len(seen.received)} received, {len(seen.journal)} in the journal, {missing} not received"


def _signatures(seen: Seen) -> str:
    keys = KeySet.import_key_set(msgspec.json.decode(seen.keys))
    with warnings.catch_warnings():
        # It warns that RFC 9864 has another name for EdDSA with Ed25519; RFC 8037's is what we sign.
        warnings.simplefilter("ignore", SecurityWarning)
        for number, envelope in enumerate(seen.received, start=1):
            try:
                jws.deserialize_json(msgspec.json.decode(envelope), keys, algorithms=["EdDSA"])
            except (JoseError, ValueError) as error:
                return f"record {number}: {error}"
    return "" if seen.received else "no record"


EXPECTATIONS: tuple[tuple[str, Callable[[Seen], str]], ...] = (
    ("results with odds table 1 and with odds table 2", _both_tables),
    ("a failed launch was told, tried again, and gave a result", _relaunch),
    ("a spin that the wheel gave up is void, by a written rule", _device_fault),
    ("a pulled cable left its round unresolved, and the rule closed it", _unresolved),
    ("the wheel came back and play went on", _play_went_on),
    ("results of games played while the broker was dead arrived", _outage),
    ("every game that the wheel finished has its number, or a record says why not", _truth),
    ("the records received are those of the journal: none lost, doubled or changed", _same_records),
    (
        "the daemon stopped in good order",
        lambda seen: "" if seen.daemon_exit == 0 else f"exit {seen.daemon_exit}",
    ),
    (
        "`dollyd verify` proves the journal offline, with the key pinned",
        lambda seen: "" if seen.verified else "no",
    ),
    ("a second library (joserfc) finds every signature right", _signatures),
)


def _rounds(records: Iterable[Record]) -> set[int]:
    return {record["round"] for record in records}


def _counter(game_ref: str) -> int:
    """The wheel's counter in e.g. `wheel/1795978376230/012#2`."""
    return int(game_ref.rsplit("/", 1)[-1].split("#", 1)[0])


def _lacking(what: str, absent: Iterable[object]) -> str:
    names = ", ".join(str(one) for one in sorted(absent, key=str))
    return f"no {what} {names}" if names else ""
