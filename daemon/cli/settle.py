"""`dollyd settle`: what becomes of bets by one record."""

from __future__ import annotations

import sys
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from dollyd.client.proof.chain_rules import ChainRules, Judged, Persons
from dollyd.client.proof.reading import read
from dollyd.client.settlement.rulebooks import LoadedRulebook, load_rulebook, rulebook_of_digest
from dollyd.client.settlement.settle import Adjustment, settle_correction
from dollyd.client.settlement.settle import settle as settle_bets
from dollyd.client.settlement.spec import Answer, Bet, Choice, SettlementError
from dollyd.daemon.cli.given_keys import keys_for_verification
from dollyd.daemon.cli.options import TrustMinVersion
from dollyd.daemon.host.terminal import say, say_json, shown
from dollyd.wire.decoding import from_json
from dollyd.wire.errors import ConfigError
from dollyd.wire.judgement import Claim, Verdict, refusal
from dollyd.wire.jws import (
    Envelope,
    EnvelopeError,
    Keys,
    parse_envelope,
    strict_object,
    verify_envelope,
)
from dollyd.wire.record import Kind, Record
from dollyd.wire.trust import Trust

STANDARD_INPUT = "-"
EXIT_UNPINNED = 3
"""Settled, and nobody vouches for the record's key."""


class _BetText(msgspec.Struct, forbid_unknown_fields=True):
    """A bet as the file has it."""

    id: str
    kind: str
    selection: tuple[str, ...]
    stake: int
    state: dict[str, str | int] = {}
    choice: Choice = Choice.NONE
    working: bool = False


def settle(
    record: Annotated[str, typer.Option(metavar="FILE", help="The record's envelope; - for standard input.")],
    bets: Annotated[str, typer.Option(metavar="FILE", help="Bets as a JSON list; - for standard input.")],
    rulebook: Annotated[
        str, typer.Option(metavar="NAME", help="A shipped rulebook or a .toml; else the record's own.")
    ] = "",
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="JWKS", help="The keys to trust (a JWK set).")
    ] = None,
    trust: Annotated[
        Path | None, typer.Option("--trust", metavar="FILE", help="Or the site's trust file ...")
    ] = None,
    root: Annotated[str, typer.Option(metavar="KID", help="... and the root that it is signed under.")] = "",
    trust_min_version: TrustMinVersion = 0,
    unpinned: Annotated[
        bool, typer.Option("--unpinned", help="Exit 0 also where no keys were given to trust.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Settle bets by one result or void, in minor units.

    Without --keys or --trust the signature is not checked, nobody vouches for the record, and the exit code
    is 3.

    A correction is settled twice: as it was published, which is taken back, and as it counts. What one record
    shows is checked: the two persons behind a decision by hand, with --trust whose they are. Its chain is not
    known here, so a correction is not held against the round that it corrects.
    """
    trusted = keys_for_verification(keys, trust, root, trust_min_version)
    payload, judged = _payload(record, trusted)
    answers: list[Answer] = []
    adjustments: list[Adjustment] = []
    try:
        book = _rulebook(payload, rulebook)
        placed = _bets(bets, payload)
        if payload.get("kind") == Kind.CORRECTION:
            adjustments = settle_correction(payload, placed, book)
        else:
            answers = settle_bets(payload, placed, book)
    except SettlementError as error:
        raise ConfigError(
            record, "", str(error), "give a record, bets and a rulebook that fit together"
        ) from error
    if as_json:
        known = {"verified": trusted is not None, "persons": judged.persons, "unchecked": judged.unchecked}
        say_json(known | _as_dict(payload, book, answers, adjustments))
    else:
        _print(payload, judged, answers, adjustments, checked=trusted is not None)
    if trusted is None and not unpinned:
        raise typer.Exit(EXIT_UNPINNED)


def _print(
    payload: dict[str, Any],
    judged: Judged,
    answers: list[Answer],
    adjustments: list[Adjustment],
    *,
    checked: bool,
) -> None:
    unchecked = "signature NOT CHECKED (no --keys, no --trust): nobody vouches for it"
    said = "signature good" if checked else unchecked
    said += _PERSONS[judged.persons]
    say(f"table {payload.get('table')}, round {payload.get('round')}: {payload['kind']}; {said}")
    for what in judged.unchecked:
        say(f"NOT CHECKED: {what}")
    if payload["kind"] == Kind.CORRECTION:
        _print_adjustments(adjustments)
    else:
        _print_answers(answers)


_PERSONS = {
    Persons.NONE: "",
    Persons.CHECKED: "; two persons good",
    Persons.FORM: "; two persons NOT CHECKED (no --trust)",
}


def _payload(record: str, trusted: Keys | Trust | None) -> tuple[dict[str, Any], Judged]:
    """The record, and what is thought of it by the rules that one record can be judged by."""
    try:
        data = _read(record).removesuffix(b"\n")
        envelope = parse_envelope(data)
        if isinstance(trusted, Trust):
            _check_by_trust(envelope, sha256(data).hexdigest(), trusted)
        elif trusted is not None:
            verify_envelope(envelope, trusted)
        payload = strict_object(envelope.payload, "payload")
        return payload, _judged(data, trusted if isinstance(trusted, Trust) else None)
    except EnvelopeError as error:
        raise ConfigError(
            record, "", str(error), "give one envelope, and the keys of its node with --keys or --trust"
        ) from error


def _judged(data: bytes, trust: Trust | None) -> Judged:
    """Raises `EnvelopeError` where the record breaks a rule that it shows by itself."""
    found = read(data, {})
    judged = ChainRules(whole=False).take(found, trust) if not found.problem else Judged((found.problem,))
    if judged.problems:
        raise EnvelopeError("rules", judged.problems[0])
    return judged


def _check_by_trust(envelope: Envelope, digest: str, trust: Trust) -> None:
    """One record alone: of a revoked key it must be one that the revocation names. Raises `EnvelopeError`."""
    try:
        record = msgspec.json.decode(envelope.payload, type=Record)
    except msgspec.ValidationError as error:
        raise EnvelopeError("payload", str(error)) from error
    judged = trust.judge(Claim.of(record, envelope.kid, digest))
    untied = judged.until is not None and judged.until.head != digest
    verdict = Verdict.REVOKED if untied else judged.verdict
    if record.site != trust.site:
        verdict = Verdict.UNKNOWN
    if judged.key is None or verdict is not Verdict.VALID:
        raise EnvelopeError(verdict, refusal(verdict, envelope.kid))
    verify_envelope(envelope, {envelope.kid: judged.key})


def _rulebook(payload: dict[str, Any], name: str) -> LoadedRulebook:
    if name:
        return load_rulebook(name)
    try:
        return rulebook_of_digest(payload["body"]["setting"]["rulebook"]["digest"])
    except (KeyError, TypeError):
        raise SettlementError(f"a record of kind {payload.get('kind')!r} names no rulebook") from None


def _bets(file: str, payload: dict[str, Any]) -> list[Bet]:
    game = payload["body"]["setting"]["game"]
    try:
        texts = from_json(_read(file), list[_BetText])
    except msgspec.DecodeError as error:
        remedy = 'give a JSON list of {"id", "kind", "selection", "stake"}'
        raise ConfigError(file, "", str(error), remedy) from error
    return [Bet(game=game, **msgspec.structs.asdict(text)) for text in texts]


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(file, "", f"cannot be read ({error.strerror})", "name a readable file") from error


def _as_dict(
    payload: dict[str, Any],
    book: LoadedRulebook,
    answers: list[Answer],
    adjustments: list[Adjustment],
) -> dict[str, Any]:
    place = {key: payload[key] for key in ("table", "chain", "seq", "round", "kind")}
    said = {**place, "rulebook": {"id": book.id, "digest": book.digest}}
    if payload["kind"] != Kind.CORRECTION:
        return said | {"answers": [_answer_as_dict(answer) for answer in answers]}
    return said | {
        "corrects": payload["body"].get("corrects"),
        "adjustments": [
            {
                "bet": adjustment.bet,
                "reversed": _answer_as_dict(adjustment.reversed),
                "settled": _answer_as_dict(adjustment.settled),
                "difference": adjustment.difference,
            }
            for adjustment in adjustments
        ],
    }


def _answer_as_dict(answer: Answer) -> dict[str, Any]:
    return {
        "bet": answer.bet,
        "verdict": answer.verdict.value,
        "profit": answer.profit,
        "returned": answer.returned,
        "invalid": answer.invalid,
        "paid": answer.paid,
        "state": dict(answer.state),
    }


def _print_answers(answers: list[Answer]) -> None:
    table = _table("bet", "verdict", money=("profit", "returned", "invalid", "paid"))
    table.add_column("state")
    for answer in answers:
        money = (answer.profit, answer.returned, answer.invalid, answer.paid)
        table.add_row(shown(answer.bet), answer.verdict.value, *map(str, money), _state(answer))
    _show(table)
    say(f"paid {sum(answer.paid for answer in answers)}")


def _print_adjustments(adjustments: list[Adjustment]) -> None:
    table = _table("bet", "", "verdict", money=("profit", "returned", "invalid", "paid"))
    table.add_column("state")
    for adjustment in adjustments:
        bet = shown(adjustment.bet)
        for entry, sign, answer in (
            ("reversed", -1, adjustment.reversed),
            ("settled", 1, adjustment.settled),
        ):
            money = (answer.profit, answer.returned, answer.invalid, answer.paid)
            signed = (str(sign * part) for part in money)
            table.add_row(bet, entry, answer.verdict.value, *signed, _state(answer))
        table.add_row(bet, "difference", "", "", "", "", f"{adjustment.difference:+}", "")
    _show(table)
    say(f"difference {sum(adjustment.difference for adjustment in adjustments):+}")


def _table(*names: str, money: tuple[str, ...]) -> Table:
    table = Table(*names, box=None, pad_edge=False)
    for name in money:
        table.add_column(name, justify="right")
    return table


def _state(answer: Answer) -> str:
    return shown(" ".join(f"{key}={value}" for key, value in answer.state.items()))


def _show(table: Table) -> None:
    console = Console(width=110, highlight=False, markup=False, file=StringIO())
    with console.capture() as capture:
        console.print(table)
    say(*capture.get().splitlines())
