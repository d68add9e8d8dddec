"""A settlement program that knows our pages and not our code pays what ours pays, to the minor unit."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from tests.support.broker import Mosquitto
from tests.support.chains import SITE, ChainMaker, signer
from tests.support.tables import layout, roulette, rule_text
from tools.schemas.evening import EVIDENCE, SESSION, plain

from dollyd.client.settlement import BETS, Bet, LoadedRulebook, load_rulebook, settle
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.spec import Drawn
from dollyd.daemon.core.rulebook import convert
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Kind
from dollyd.wire.topics import Topics

STRANGER = Path(__file__).resolve().parents[2] / "examples" / "stranger.py"
LINES_MAX = 60
"""Of code, without the imports, as our formatter sets it."""
BOOK = load_rulebook("fi-ray-2013-roulette")
STAKE = 333


def test_it_knows_nothing_of_ours_and_is_short() -> None:
    text = STRANGER.read_text("utf-8")
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names} | {
        node.module for node in imports if isinstance(node, ast.ImportFrom)
    }
    assert not [name for name in names if name and name.startswith(("dollyd", "client", "daemon"))]
    code = [line for node in tree.body[1:] if node not in imports for line in ast.unparse(node).splitlines()]
    assert len(code) <= LINES_MAX


def played(variant: str, zero_rule: str) -> ChainMaker:
    """Every pocket once, under both tables of odds where there are two; and a void round."""
    setting = {
        "game": "roulette", "variant": variant, "zero_rule": zero_rule,
        "rulebook": {"id": BOOK.id, "digest": BOOK.digest}, "profile": {"id": "p", "digest": "2" * 64},
    }  # fmt: skip
    game, rules = GAMES["roulette"], roulette(variant)
    wheel, chain = layout(rules.layout), ChainMaker().begin()
    dated = {"setting": setting, "gaming_date": "2026-11-29", "evidence": plain(EVIDENCE)}
    for number, value in enumerate(game.values(wheel), start=1):
        outcome = game.outcome(Drawn(value, rules, wheel, (), quarters=True))
        body: dict[str, Any] = dated | {
            "stakes": {"minimum": 100, "maximum": 300, "currency": "EUR"}, "outcome": outcome, "mode": "auto",
        }  # fmt: skip
        if rules.odds_table_2:
            body["odds"] = {"table": 1 + number % 2}
        chain.add(Kind.ROUND, number)
        chain.add(Kind.RESULT, number, body)
    chain.add(Kind.ROUND, 99)
    void = {"rule": "declared", "clause": "1", "text": "void", "stake_policy": "player_choice"}
    chain.add(Kind.VOID, 99, dated | void)
    chain.add(Kind.SESSION, 0, plain(SESSION) | {"event": "closed"})
    return chain


def every_bet(book: LoadedRulebook, variant: str) -> list[Bet]:
    """One on every field of the cloth."""
    tree = convert(book.book.variants[variant], GAMES["roulette"].variant)
    return [
        Bet(f"{kind}/{'-'.join(selection)}", "roulette", kind, selection, STAKE)
        for kind, selections in BETS["roulette"].offered(tree).items()
        for selection in selections
    ]


def ours(chain: ChainMaker, bets: list[Bet]) -> dict[tuple[int, str], tuple[int, int, int]]:
    paid = {}
    for entry in chain.entries:
        if entry.kind in (Kind.RESULT, Kind.VOID):
            payload = json.loads(parse_envelope(entry.envelope).payload)
            for answer in settle(payload, bets, BOOK):
                paid[entry.round, answer.bet] = answer.returned, answer.profit, answer.invalid
    return paid


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as started:
        yield started


@contextmanager
def stranger(broker: Mosquitto, folder: Path, table: str, bets: Any) -> Iterator[subprocess.Popen[str]]:
    """The program, listening."""
    files = {
        "keys.json": json.dumps({"keys": [signer().jwk]}).encode(),
        "rulebook.toml": rule_text("rulebooks", "fi-ray-2013-roulette"),
        "bets.json": json.dumps(bets).encode(),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    words = [broker.host, str(broker.port), SITE, table, *(str(folder / name) for name in files)]
    command = [sys.executable, str(STRANGER), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
            yield process
        finally:
            process.kill()


def publish(broker: Mosquitto, table: str, entries: list[tuple[str, bytes]]) -> None:
    async def send() -> None:
        async with aiomqtt.Client(broker.host, broker.port, identifier="node") as node:
            for kind, envelope in entries:
                await node.publish(Topics(SITE).record(table, kind), envelope, qos=1)

    asyncio.run(send())


@pytest.mark.parametrize(("variant", "zero_rule"), [("B", "lose"), ("F", "half")])
def test_it_pays_what_we_pay_on_every_field_and_every_pocket(
    broker: Mosquitto, tmp_path: Path, variant: str, zero_rule: str
) -> None:
    chain, bets = played(variant, zero_rule), every_bet(BOOK, variant)
    wanted = ours(chain, bets)
    told = [{"id": bet.id, "kind": bet.kind, "selection": bet.selection, "stake": bet.stake} for bet in bets]
    rounds = {str(number): told for number, _ in wanted}
    entries = [(entry.kind, entry.envelope) for entry in chain.entries]
    again = [entry for at in range(len(entries)) for entry in entries[max(0, at - 1) : at + 1]]
    with stranger(broker, tmp_path, "r1", rounds) as process:
        publish(broker, "r1", again)  # each record comes twice
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    paid = [json.loads(line) for line in out.splitlines()]
    assert len(paid) == len(wanted)
    assert {
        (one["round"], one["bet"]): (one["returned"], one["profit"], one["invalid"]) for one in paid
    } == wanted


def spoilt(entries: list[tuple[str, bytes]]) -> dict[str, list[tuple[str, bytes]]]:
    kind, envelope = entries[2]
    forged = [*entries[:2], (kind, envelope[:-6] + b"AAAA" + envelope[-2:]), *entries[3:]]
    thief = [(one.kind, one.envelope) for one in ChainMaker(by=signer(9)).begin().play(1, 1).entries]
    return {"hole": [*entries[:2], *entries[3:]], "forged": forged, "thief": thief}


@pytest.mark.parametrize("how", ["hole", "forged", "thief"])
def test_it_pays_nothing_behind_a_hole_nor_by_a_strangers_word(
    broker: Mosquitto, tmp_path: Path, how: str
) -> None:
    entries = [(entry.kind, entry.envelope) for entry in played("A", "lose").entries][:8]
    bets = {"1": [{"id": "b", "kind": "dozen", "selection": ["1-12"], "stake": 100}]}
    with stranger(broker, tmp_path, f"r-{how}", bets) as process:
        publish(broker, f"r-{how}", spoilt(entries)[how])
        out, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert out == ""
